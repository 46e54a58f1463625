//! Long pastes: a few words stand for each on the line, and its text is put in their place when the line is sent.

use std::sync::{Arc, Mutex, PoisonError};

/// A paste of more lines or bytes is not shown whole.
const MOST_LINES: usize = 20;
const MOST_BYTES: usize = 2048;

/// The long pastes that stand on lines which were not sent yet. A clone knows the same ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<LongPaste>>>);

#[derive(Debug)]
struct LongPaste {
    /// What stands for it; no other one has the same.
    shown: String,
    text: String,
}

impl Pastes {
    /// Returns what is shown of a text: all of it, or words that stand for it if it is long.
    pub(super) fn shown(&self, text: String) -> String {
        let Some(size) = size_above(MOST_LINES, MOST_BYTES, &text) else { return text };
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |shown: &str| pastes.iter().any(|paste| paste.shown == shown);
        let names = std::iter::once(format!("[{size} pasted]"))
            .chain((2..).map(|number| format!("[{size} pasted, {number}]")));
        let shown = names.into_iter().find(|shown| !is_taken(shown)).unwrap_or_default();
        pastes.push(LongPaste { shown: shown.clone(), text });
        shown
    }

    /// Returns a line with the texts of its long pastes, which are forgotten then. None if it has none.
    pub(super) fn take_into(&self, line: &str) -> Option<String> {
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rest, mut whole, mut used) = (line, String::new(), Vec::new());
        // What was pasted may hold the words of another paste, and is not looked at.
        while let Some((at, paste)) = pastes
            .iter()
            .filter_map(|paste| Some((rest.find(&paste.shown)?, paste)))
            .min_by_key(|(at, _)| *at)
        {
            whole.push_str(&rest[..at]);
            whole.push_str(&paste.text);
            rest = &rest[at + paste.shown.len()..];
            used.push(paste.shown.clone());
        }
        if used.is_empty() {
            return None;
        }
        whole.push_str(rest);
        pastes.retain(|paste| !used.contains(&paste.shown));
        Some(whole)
    }
}

/// Says how long a text is that has more lines or bytes.
pub(super) fn size_above(most_lines: usize, most_bytes: usize, text: &str) -> Option<String> {
    let lines = text.lines().count();
    if lines <= most_lines && text.len() <= most_bytes {
        return None;
    }
    Some(if lines > 1 {
        format!("{lines} lines")
    } else {
        format!("{} characters", text.chars().count())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_paste_is_shown_in_a_few_words_and_sent_whole() {
        let pastes = Pastes::default();
        let short = "a\n".repeat(MOST_LINES);
        assert_eq!(pastes.shown(short.clone()), short);
        let (first, second) = ("b\n".repeat(21), "[21 lines pasted]\n".repeat(21));
        assert_eq!(pastes.shown(first.clone()), "[21 lines pasted]");
        assert_eq!(pastes.shown(second.clone()), "[21 lines pasted, 2]");
        assert_eq!(pastes.shown("é".repeat(2000)), "[2000 characters pasted]");
        assert_eq!(pastes.take_into("[22 lines pasted]"), None);
        let line = "x [21 lines pasted, 2] y [21 lines pasted] z";
        assert_eq!(pastes.take_into(line).unwrap(), format!("x {second} y {first} z"));
        assert_eq!(pastes.take_into(line), None);
        assert!(pastes.take_into("[2000 characters pasted]").is_some());
    }
}
