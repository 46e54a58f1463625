//! The question on the screen, and which lines may answer it.

use std::time::Duration;

use tokio::time::Instant;

/// How long a question must have been on the screen before words that begin are meant for it.
const SEEN: Duration = Duration::from_millis(500);

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionLine {
    /// It can be nothing but an answer.
    Plain,
    /// It may be meant for the agent as well.
    Words,
}

/// The question on the screen.
#[derive(Debug)]
pub(super) struct QuestionOnScreen {
    /// What stands before the answer.
    pub(super) prompt: String,
    /// What was typed and is not an answer.
    pub(super) before: String,
    shown: Instant,
    /// When the line that is being typed began.
    pub(super) began: Option<Instant>,
    /// Whether it was said what can be answered.
    explained: bool,
}

impl QuestionOnScreen {
    pub(super) fn new(prompt: String, before: String) -> Self {
        Self { prompt, before, shown: Instant::now(), began: None, explained: false }
    }

    /// Decides whether a line may be an answer. Who was typing when the question came did not mean it; of others what can be
    /// nothing else is taken at once.
    pub(super) fn may_answer(&self, line: QuestionLine) -> bool {
        let began = self.began.map_or(Duration::MAX, |began| began - self.shown);
        let is_meant = line == QuestionLine::Plain && self.before.is_empty();
        self.explained || began >= SEEN || is_meant
    }

    /// Keeps a line that is no answer, behind what was typed before it. Returns whether there is anything to keep.
    pub(super) fn keep(&mut self, line: &str) -> bool {
        let only_a_letter = self.before.is_empty() && line.trim().chars().count() < 2;
        let line = if only_a_letter { "" } else { line };
        let goes_on = self.began.is_some_and(|began| began - self.shown < SEEN) && !self.explained;
        if !goes_on && !self.before.is_empty() && !line.is_empty() {
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
        // What was typed before, milliseconds until the line began, what it looks like, whether it may answer.
        let table = [
            ("", 0, QuestionLine::Plain, true),
            ("", 0, QuestionLine::Words, false),
            ("", 499, QuestionLine::Words, false),
            ("", 500, QuestionLine::Words, true),
            ("please make it eas", 0, QuestionLine::Plain, false),
            ("please make it eas", 500, QuestionLine::Plain, true),
        ];
        for (before, millis, line, expected) in table {
            let mut asked = QuestionOnScreen::new("allow? ".to_owned(), before.to_owned());
            asked.began = Some(asked.shown + Duration::from_millis(millis));
            assert_eq!(asked.may_answer(line), expected, "{before:?} {millis} {line:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_answer_is_kept_behind_what_was_typed_before() {
        let mut asked = QuestionOnScreen::new("allow? ".to_owned(), "rena".to_owned());
        asked.began = Some(asked.shown);
        assert!(asked.keep("me it"));
        assert!(asked.keep("and test"));
        assert!(!asked.keep(""));
        assert_eq!(asked.before, "rename it and test");
        assert!(asked.may_answer(QuestionLine::Words), "it was said what can be answered");
    }
}
