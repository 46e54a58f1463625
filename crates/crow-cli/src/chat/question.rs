//! The question on the screen, and the rule which entered lines may answer it.
//!
//! A question can appear while the user types words for the agent. Such words must not answer it, so a line counts as
//! an answer only if it was started some time after the question appeared, or cannot be anything else.

use std::time::Duration;

use tokio::time::Instant;

/// Time a question must be visible before a line that is started then counts as meant for it.
const SEEN: Duration = Duration::from_millis(500);

/// Kind of an entered line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionLine {
    /// It can only be an answer.
    Plain,
    /// It may be meant for the agent.
    Words,
}

/// The question on the screen.
#[derive(Debug)]
pub(super) struct QuestionOnScreen {
    /// Text before the answer on the input line.
    pub(super) prompt: String,
    /// Text typed before the question, or entered and not taken as an answer.
    pub(super) before: String,
    shown: Instant,
    /// Time at which the current line was started; `None` while it is empty.
    pub(super) began: Option<Instant>,
    /// True once the possible answers were explained.
    explained: bool,
}

impl QuestionOnScreen {
    pub(super) fn new(prompt: String, before: String) -> Self {
        Self { prompt, before, shown: Instant::now(), began: None, explained: false }
    }

    /// Returns true if a line may be taken as an answer. Text that was being typed when the question appeared was not
    /// meant for it; a plain answer with nothing typed before is accepted at once.
    pub(super) fn may_answer(&self, line: QuestionLine) -> bool {
        let began = self.began.map_or(Duration::MAX, |began| began - self.shown);
        let is_meant = line == QuestionLine::Plain && self.before.is_empty();
        self.explained || began >= SEEN || is_meant
    }

    /// Appends a line that is no answer to `before`. Returns true if there was text to keep; a single letter is
    /// dropped.
    pub(super) fn keep(&mut self, line: &str) -> bool {
        let only_a_letter = self.before.is_empty() && line.trim().chars().count() < 2;
        let line = if only_a_letter { "" } else { line };
        let continues_line =
            self.began.is_some_and(|began| began - self.shown < SEEN) && !self.explained;
        if !continues_line && !self.before.is_empty() && !line.is_empty() {
            self.before.push(' ');
        }
        self.before.push_str(line);
        self.began = None;
        self.explained = true;
        !line.trim().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_began_before_the_question_was_seen_answers_only_if_nothing_else_was_typed() {
        // Text typed before the question, milliseconds until the line was started, its kind, whether it may answer.
        let table = [
            ("", 0, QuestionLine::Plain, true),
            ("", 0, QuestionLine::Words, false),
            ("", 499, QuestionLine::Words, false),
            ("", 500, QuestionLine::Words, true),
            ("please make it eas", 0, QuestionLine::Plain, false),
            ("please make it eas", 500, QuestionLine::Plain, true),
        ];
        for (before, millis, line, expected) in table {
            let mut question = QuestionOnScreen::new("allow? ".to_owned(), before.to_owned());
            question.began = Some(question.shown + Duration::from_millis(millis));
            assert_eq!(question.may_answer(line), expected, "{before:?} {millis} {line:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_answer_is_appended_to_the_text_before() {
        let mut question = QuestionOnScreen::new("allow? ".to_owned(), "rena".to_owned());
        question.began = Some(question.shown);
        assert!(question.keep("me it"));
        assert!(question.keep("and test"));
        assert!(!question.keep(""));
        assert_eq!(question.before, "rename it and test");
        assert!(question.may_answer(QuestionLine::Words), "it was said what can be answered");
    }
}
