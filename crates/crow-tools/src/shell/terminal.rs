//! Output in the form in which a terminal finally shows it: without escape sequences and without overwritten text.

use std::{iter::Peekable, str::Chars};

/// Removes escape sequences and control characters. Of each line, only what was printed over it last remains.
pub(super) fn strip_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut line = TerminalLine::default();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => {
                plain.push_str(&line.text);
                plain.push('\n');
                line = TerminalLine::default();
            }
            '\r' => line.is_restarted = true,
            '\u{8}' => {
                line.text.pop();
            }
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_control(&mut chars),
            '\t' => line.push(char),
            _ if char.is_control() => {}
            _ => line.push(char),
        }
    }
    plain.push_str(&line.text);
    plain
}

#[derive(Debug, Default)]
struct TerminalLine {
    text: String,
    /// True if the next character overwrites the line.
    is_restarted: bool,
}

impl TerminalLine {
    fn push(&mut self, char: char) {
        if std::mem::take(&mut self.is_restarted) {
            self.text.clear();
        }
        self.text.push(char);
    }
}

/// Skips the sequence after an escape character.
fn skip_sequence(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control(chars);
        }
        // Strings for the terminal: titles, links, pictures.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_string(chars);
        }
        // Character sets and the like: intermediate characters, then a final one.
        Some(' '..='/') => {
            while chars.next_if(|char| (' '..='/').contains(char)).is_some() {}
            chars.next_if(|char| ('0'..='~').contains(char));
        }
        Some('0'..='~') => {
            chars.next();
        }
        Some(_) | None => {}
    }
}

/// Skips the parameters and the final character of a control sequence. A line end terminates an incomplete one.
fn skip_control(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|char| (' '..='?').contains(char)).is_some() {}
    chars.next_if(|char| ('@'..='~').contains(char));
}

/// Skips to the end of a string: BEL or ESC `\`. A line end terminates an incomplete one.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(char) = chars.next_if(|char| *char != '\n') {
        match char {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        for (printed, shown) in [
            ("plain ä 漢\ttext\n", "plain ä 漢\ttext\n"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("\u{1b}(Ba\u{1b}=b\u{1b}Pq#0\u{1b}\\c", "abc"),
            ("a\u{9b}2Kb", "ab"),
            ("\u{1b}[31", ""),
            ("\u{1b}]0;never closed\nb", "\nb"),
            ("\u{7}a\0b\u{7f}", "ab"),
        ] {
            assert_eq!(strip_escapes(printed), shown, "{printed:?}");
        }
    }

    #[test]
    fn progress_is_folded_into_its_last_state() {
        for (printed, shown) in [
            ("10%\r20%\r100%\ndone\n", "100%\ndone\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("kept\r", "kept"),
            ("abc\u{8}\u{8}x", "ax"),
            ("\r\r\rx", "x"),
        ] {
            assert_eq!(strip_escapes(printed), shown, "{printed:?}");
        }
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            let plain = strip_escapes(&text);
            prop_assert!(!plain.contains(|char: char| char.is_control() && char != '\n' && char != '\t'));
            prop_assert_eq!(plain.matches('\n').count(), text.matches('\n').count());
        }
    }
}
