//! Long pastes: a placeholder stands on the line, and is replaced by the text when the line is sent.

use std::sync::{Arc, Mutex, PoisonError};

/// Bounds above which a paste is shown as a placeholder.
const MOST_LINES: usize = 20;
const MOST_BYTES: usize = 2048;

/// Long pastes on lines that were not sent yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<LongPaste>>>);

#[derive(Debug)]
struct LongPaste {
    /// Placeholder; unique among the stored pastes.
    shown: String,
    text: String,
}

impl Pastes {
    /// Returns the text, or a placeholder for it if it is long.
    pub(super) fn shown(&self, text: String) -> String {
        let Some(size) = size_if_longer(MOST_LINES, MOST_BYTES, &text) else { return text };
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |shown: &str| pastes.iter().any(|paste| paste.shown == shown);
        let mut shown = format!("[{size} pasted]");
        let mut number = 1;
        while is_taken(&shown) {
            number += 1;
            shown = format!("[{size} pasted, {number}]");
        }
        pastes.push(LongPaste { shown: shown.clone(), text });
        shown
    }

    /// Replaces the placeholders in a line by their texts, and forgets these pastes. Returns `None` if the line has
    /// none.
    pub(super) fn take_into(&self, line: &str) -> Option<String> {
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rest, mut expanded, mut used) = (line, String::new(), Vec::new());
        // Inserted text is not searched: it may contain the placeholder of another paste.
        while let Some((before, after, paste)) = pastes
            .iter()
            .filter_map(|paste| {
                let (before, after) = rest.split_once(&paste.shown)?;
                Some((before, after, paste))
            })
            .min_by_key(|(before, _, _)| before.len())
        {
            expanded.push_str(before);
            expanded.push_str(&paste.text);
            rest = after;
            used.push(paste.shown.clone());
        }
        if used.is_empty() {
            return None;
        }
        expanded.push_str(rest);
        pastes.retain(|paste| !used.contains(&paste.shown));
        Some(expanded)
    }
}

/// Describes the size of a text that exceeds one of the bounds; `None` for others.
pub(super) fn size_if_longer(most_lines: usize, most_bytes: usize, text: &str) -> Option<String> {
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
    fn a_long_paste_is_shown_as_a_placeholder_and_sent_in_full() {
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
