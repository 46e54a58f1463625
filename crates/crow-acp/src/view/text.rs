//! Text of others as it can be shown: without control characters, within bounds.
//!
//! Editors show what they get. So what cannot be seen comes out as visible signs, by the functions that the terminal uses.

use crow_text::{exact, neutralise};

/// The longest title.
const TITLE_CHARS: usize = 300;

/// Removes what a terminal would obey and nobody can read: control characters but line feeds and tabs, and escape
/// sequences with all that belongs to them. Other characters that cannot be seen become visible signs.
pub(super) fn plain(text: &str) -> String {
    let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    if !text.contains(is_control) {
        return neutralise(text);
    }
    let mut shown = Harmless::default().push(text);
    shown.retain(|char| !is_control(char));
    neutralise(&shown)
}

/// Removes escape sequences and control characters from a text that comes in pieces. Those that move within a line stay.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Harmless(Within);

/// What the next character belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    /// An escape character came.
    Escape,
    /// A control sequence, up to its final character.
    Control,
    /// A string that the terminal is told, up to its end.
    String,
    /// An escape character came in a string.
    StringEscape,
}

impl Harmless {
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for char in text.chars() {
            let is_shown = self.0 == Within::Text;
            self.0 = self.next(char);
            let is_line = matches!(char, '\n' | '\t' | '\r' | '\u{8}');
            // The end of a line ends what was begun in it, as far as anybody can tell.
            if (is_shown && self.0 == Within::Text && !char.is_control())
                || (is_line && self.0 == Within::Text)
            {
                shown.push(char);
            }
        }
        shown
    }

    fn next(self, char: char) -> Within {
        match self.0 {
            _ if char == '\n' => Within::Text,
            Within::Text => match char {
                '\u{1b}' => Within::Escape,
                '\u{9b}' => Within::Control,
                '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => Within::String,
                _ => Within::Text,
            },
            Within::Escape => match char {
                '[' => Within::Control,
                ']' | 'P' | 'X' | '^' | '_' => Within::String,
                ' '..='/' | '\u{1b}' => Within::Escape,
                _ => Within::Text,
            },
            Within::Control => match char {
                '@'..='~' | '\r' | '\u{8}' => Within::Text,
                '\u{1b}' => Within::Escape,
                _ => Within::Control,
            },
            Within::String => match char {
                '\u{7}' | '\u{9c}' => Within::Text,
                '\u{1b}' => Within::StringEscape,
                _ => Within::String,
            },
            Within::StringEscape => Within::Text,
        }
    }
}

/// Makes one line of it: its first one that says something, with a mark if there are more. Nothing is left out of the
/// line, and what cannot be seen becomes visible signs: it may be a command that is asked about.
pub(super) fn title(text: &str) -> String {
    let text = exact(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().replace('\t', " ");
    let mut shown: String = first.chars().take(TITLE_CHARS).collect();
    if shown.len() < first.len() || lines.next().is_some() {
        shown.push_str(" …");
    }
    shown
}

/// Returns the beginning of a text, at most so many bytes long.
pub(super) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// Returns the end of a text, at most so many bytes long.
pub(super) fn tail(text: &str, most: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(most))..).unwrap_or(text)
}

/// Returns the text, or its beginning and its end with a line between them that says how much is left out.
pub(super) fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (first, last) = (head(text, most / 2), tail(text, most / 2));
    let left_out = text.len() - first.len() - last.len();
    format!("{first}\n[{left_out} bytes left out]\n{last}")
}

/// Keeps the end of a text that grows.
pub(super) fn keep_tail(text: &mut String, most: usize) {
    if text.len() > most {
        let kept = tail(text, most / 2).to_owned();
        *text = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\u{1b}[31mred\u{1b}[0m \u{1b}]52;c;aGk=\u{7}é\r\u{1b}(Bx\u{1b}]0;t\u{1b}\\\ty\u{1b}]open\nend\u{9b}2J\0\u{7f}!";

    #[test]
    fn what_a_terminal_would_obey_is_removed() {
        assert_eq!(plain(OUTPUT), "red éx\ty\nend!");
        assert_eq!(Harmless::default().push(OUTPUT), "red é\rx\ty\nend!");
        assert_eq!(plain("a\u{1b}[31"), "a");
    }

    #[test]
    fn what_cannot_be_seen_becomes_visible_signs() {
        assert_eq!(
            title("rm\u{202e}x \u{2066}\u{200b}y\u{1b}[8m\u{7}"),
            "rm\\u{202e}x \\u{2066}\\u{200b}y␛[8m␇"
        );
        assert_eq!(plain("\u{1b}[1ma\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn it_does_not_matter_where_output_is_cut() {
        let whole = Harmless::default().push(OUTPUT);
        for (at, _) in OUTPUT.char_indices() {
            let (first, last) = OUTPUT.split_at(at);
            let mut harmless = Harmless::default();
            assert_eq!(harmless.push(first) + &harmless.push(last), whole, "{at}");
        }
    }

    #[test]
    fn a_title_is_one_line_of_bounded_length() {
        assert_eq!(title("\n  a\tb \n"), "a b");
        assert_eq!(title("a\nb"), "a …");
        assert_eq!(title(&"é".repeat(1000)).chars().count(), TITLE_CHARS + 2);
        assert_eq!(title(" \n"), "");
    }

    #[test]
    fn a_bounded_text_has_its_beginning_and_its_end() {
        let text = bounded(&format!("a{}b", "é".repeat(1000)), 100);
        assert!(text.starts_with("aé") && text.ends_with("éb") && text.len() < 150, "{text}");
        assert_eq!(bounded("short", 100), "short");
    }
}
