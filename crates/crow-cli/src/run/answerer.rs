//! Who answers questions about calls.

use std::fmt;

use async_trait::async_trait;
use crow_core::{
    capability::{Answerer, PermissionAnswer, PermissionRequest},
    tool::Subject,
};
use tokio::sync::{mpsc, oneshot};

/// How many questions may wait for their turn.
const QUESTIONS: usize = 16;

/// A question on its way to the person at the terminal.
pub(crate) struct Question {
    pub(super) answer: oneshot::Sender<PermissionAnswer>,
}

/// Passes questions on to whoever owns the terminal. What is asked has been shown by then: it is an event.
pub(super) struct TerminalAnswerer {
    questions: mpsc::Sender<Question>,
}

impl TerminalAnswerer {
    pub(super) fn new() -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(QUESTIONS);
        (Self { questions }, asked)
    }
}

impl fmt::Debug for TerminalAnswerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TerminalAnswerer")
    }
}

#[async_trait]
impl Answerer for TerminalAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        let (answer, answered) = oneshot::channel();
        let gone = || PermissionAnswer::Nobody { hint: "the terminal is gone".to_owned() };
        if self.questions.send(Question { answer }).await.is_err() {
            return gone();
        }
        answered.await.unwrap_or_else(|_| gone())
    }
}

/// Answers where nobody is there: policy decides, and says how the user can change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadlessAnswerer;

#[async_trait]
impl Answerer for HeadlessAnswerer {
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer {
        let is_edit = matches!(request.subject, Subject::Path(_));
        let mode = if is_edit && request.reason == "it changes files" {
            "accept-edits"
        } else {
            "full-auto"
        };
        let hint = format!(
            "{}, and there is no terminal to ask at; the user can permit it with --permissions {mode}",
            request.reason
        );
        PermissionAnswer::Nobody { hint }
    }
}

/// Reads an answer from what was typed, or none if it is not understood.
pub(super) fn parse_answer(line: &str) -> Option<PermissionAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once([' ', ',', ':']).unwrap_or((line, ""));
    let feedback = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(PermissionAnswer::AllowOnce),
        "n" | "no" => Some(PermissionAnswer::Deny { feedback }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_yes_no_or_no_with_a_word_for_the_model() {
        let no = |feedback: Option<&str>| {
            Some(PermissionAnswer::Deny { feedback: feedback.map(str::to_owned) })
        };
        let table = [
            ("y\n", Some(PermissionAnswer::AllowOnce)),
            ("YES", Some(PermissionAnswer::AllowOnce)),
            ("n", no(None)),
            ("no, use the other file", no(Some("use the other file"))),
            ("", None),
            ("maybe", None),
            ("yesterday", None),
        ];
        for (line, expected) in table {
            assert_eq!(parse_answer(line), expected, "{line:?}");
        }
    }
}
