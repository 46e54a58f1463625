//! The question on the screen, and which lines may answer it.

use std::time::Duration;

use tokio::time::Instant;

/// How long a question must have been on the screen before words that begin are meant for it.
const SEEN: Duration = Duration::from_millis(500);

/// The question on the screen.
#[derive(Debug)]
pub(super) struct Asked {
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

impl Asked {
    pub(super) fn new(prompt: String, before: String) -> Self {
        Self { prompt, before, shown: Instant::now(), began: None, explained: false }
    }

    /// Decides whether a line may be an answer. Who was typing when the question came did not mean it; of others a bare
    /// answer is taken at once.
    pub(super) fn may_answer(&self, line: &str) -> bool {
        let began = self.began.map_or(Duration::MAX, |began| began - self.shown);
        let is_bare = !line.trim().contains(|character: char| !character.is_alphabetic());
        self.explained || began >= SEEN || (is_bare && self.before.is_empty())
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
        // What was typed before, milliseconds until the line began, the line, whether it may answer.
        let table = [
            ("", 0, "y", true),
            ("", 0, "n not that", false),
            ("", 499, "no, wait", false),
            ("", 500, "n not that", true),
            ("please make it eas", 0, "y", false),
            ("please make it eas", 500, "y", true),
        ];
        for (before, millis, line, expected) in table {
            let mut asked = Asked::new("allow? ".to_owned(), before.to_owned());
            asked.began = Some(asked.shown + Duration::from_millis(millis));
            assert_eq!(asked.may_answer(line), expected, "{before:?} {millis} {line:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_answer_is_kept_behind_what_was_typed_before() {
        let mut asked = Asked::new("allow? ".to_owned(), "rena".to_owned());
        asked.began = Some(asked.shown);
        assert!(asked.keep("me it"));
        assert!(asked.keep("and test"));
        assert!(!asked.keep(""));
        assert_eq!(asked.before, "rename it and test");
        assert!(asked.may_answer("n not that"), "it was said what can be answered");
    }
}
