//! The last lines of the output of a running call, as a terminal would show them.
//!
//! Progress bars rewrite their line: a carriage return or a backspace moves back over text, and what follows replaces it
//! column by column. Sequences that erase the line are obeyed, other control sequences such as those for colours are left
//! out. All else is shown by [`neutralise`], so that nothing of the output reaches the terminal as a command.

use std::collections::VecDeque;

use crow_console::wrap::{char_width, width};
use crow_text::neutralise;

/// Number of lines that are kept besides the open one.
pub(super) const TAIL_LINES: usize = 3;
/// Maximum length of a line in bytes. More of a line is left out.
const LINE_BYTES: usize = 512;
/// Maximum length of a piece of output in bytes. Of a longer one only the end is read.
const CHUNK_BYTES: usize = 16 * 1024;
/// Maximum length of the parameters of a control sequence in bytes.
const PARAMETER_BYTES: usize = 32;
/// Columns between two tab stops.
const TAB: usize = 8;

/// The end of the output of a call.
#[derive(Debug, Default)]
pub(super) struct CallOutputTail {
    /// The last finished lines that are not blank.
    lines: VecDeque<String>,
    /// The open line before the cursor.
    before: String,
    /// The open line from the cursor on.
    after: String,
    sequence: SequenceState,
}

/// State of reading a control sequence, which may be split between two pieces of output.
#[derive(Debug, Default)]
enum SequenceState {
    #[default]
    Text,
    Escape,
    /// After `ESC [`, with the parameters so far.
    Control(String),
}

impl CallOutputTail {
    /// Reads more output.
    pub(super) fn push(&mut self, output: &str) {
        let mut output = output;
        if output.len() > CHUNK_BYTES {
            *self = Self::default();
            output = &output[output.ceil_char_boundary(output.len() - CHUNK_BYTES)..];
        }
        for character in output.chars() {
            self.push_char(character);
        }
    }

    /// Returns true if there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.open_line().is_none()
    }

    /// Returns the last lines, at most `count`, harmless and without spaces at their ends.
    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        let open = self.open_line();
        let skipped = (self.lines.len() + usize::from(open.is_some())).saturating_sub(count);
        let lines = self.lines.iter().cloned().chain(open).skip(skipped);
        lines.map(|line| neutralise(line.trim_end())).collect()
    }

    fn open_line(&self) -> Option<String> {
        let line = format!("{}{}", self.before, self.after);
        (!line.trim().is_empty()).then_some(line)
    }

    fn push_char(&mut self, character: char) {
        match std::mem::take(&mut self.sequence) {
            SequenceState::Text if character == '\u{1b}' => self.sequence = SequenceState::Escape,
            SequenceState::Text => self.put(character),
            SequenceState::Escape if character == '[' => {
                self.sequence = SequenceState::Control(String::new());
            }
            SequenceState::Escape => {
                self.write('\u{1b}');
                self.push_char(character);
            }
            SequenceState::Control(mut parameters) => match character {
                ' '..='?' if parameters.len() < PARAMETER_BYTES => {
                    parameters.push(character);
                    self.sequence = SequenceState::Control(parameters);
                }
                '@'..='~' => self.on_control(character, &parameters),
                _ => {
                    // Not a sequence: it is shown as text.
                    for character in "\u{1b}[".chars().chain(parameters.chars()) {
                        self.write(character);
                    }
                    self.push_char(character);
                }
            },
        }
    }

    fn on_control(&mut self, end: char, parameters: &str) {
        match (end, parameters) {
            ('K', "" | "0") => self.after.clear(),
            ('K', "1") => self.before = " ".repeat(width(&self.before)),
            ('K', "2") => {
                self.before = " ".repeat(width(&self.before));
                self.after.clear();
            }
            ('G', "" | "1") => self.return_to_start(),
            _ => {}
        }
    }

    fn put(&mut self, character: char) {
        match character {
            '\n' => self.end_line(),
            '\r' => self.return_to_start(),
            '\u{8}' => {
                if let Some(last) = self.before.pop() {
                    self.after.insert(0, last);
                }
            }
            '\t' => {
                for _ in 0..TAB - width(&self.before) % TAB {
                    self.write(' ');
                }
            }
            _ => self.write(character),
        }
    }

    fn end_line(&mut self) {
        let line = self.open_line();
        self.before.clear();
        self.after.clear();
        if let Some(line) = line {
            self.lines.push_back(line);
            if self.lines.len() > TAIL_LINES {
                self.lines.pop_front();
            }
        }
    }

    fn return_to_start(&mut self) {
        self.after.insert_str(0, &self.before);
        self.after.truncate(self.after.floor_char_boundary(LINE_BYTES));
        self.before.clear();
    }

    /// Writes a character over what is at the cursor.
    fn write(&mut self, character: char) {
        if self.before.len() + character.len_utf8() > LINE_BYTES {
            return;
        }
        self.before.push(character);
        let mut left = char_width(character);
        while left > 0
            && let Some(covered) = self.after.chars().next()
        {
            self.after.remove(0);
            let columns = char_width(covered);
            if columns > left {
                // Half of a wide character is left.
                self.after.insert_str(0, &" ".repeat(columns - left));
            }
            left = left.saturating_sub(columns);
            // Marks that belonged to it.
            while self.after.chars().next().is_some_and(|next| columns > 0 && char_width(next) == 0)
            {
                self.after.remove(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tail_of(pieces: &[&str]) -> Vec<String> {
        let mut tail = CallOutputTail::default();
        for piece in pieces {
            tail.push(piece);
        }
        assert_eq!(tail.is_empty(), tail.last_lines(3).is_empty());
        tail.last_lines(TAIL_LINES)
    }

    #[test]
    fn the_last_lines_that_are_not_blank_are_kept() {
        let lines: &[&str] = &["one\ntwo\n\n  \nthr", "ee\nfour\nfive"];
        assert_eq!(tail_of(lines), ["three", "four", "five"]);
        assert_eq!(tail_of(&["\n \r\n"]), [""; 0]);
    }

    #[test]
    fn a_line_is_rewritten_as_on_a_terminal() {
        let table: [(&[&str], &str); 12] = [
            (&["10%\r20%"], "20%"),
            (&["100 left\r9"], "900 left"),
            (&["one\r\n"], "one"),
            (&["one\r", "\n"], "one"),
            (&["abc\u{8}\u{8}XY"], "aXY"),
            (&["[=>  ] 10%\r\u{1b}[K[==> ] 20%"], "[==> ] 20%"),
            (&["long text\u{1b}[2K\rok"], "ok"),
            (&["漢字\rab字"], "ab字"),
            (&["漢字\ra"], "a 字"),
            (&["ab\r漢"], "漢"),
            (&["e\u{301}x\ra"], "ax"),
            (&["a\tb"], "a       b"),
        ];
        for (pieces, expected) in table {
            assert_eq!(tail_of(pieces), [expected], "{pieces:?}");
        }
    }

    #[test]
    fn colours_are_left_out_and_other_commands_are_visible() {
        let table: [(&[&str], &str); 7] = [
            (&["\u{1b}[1;31mred\u{1b}[0m"], "red"),
            (&["\u{1b}[38;2", ";1;2;3mred"], "red"),
            (&["\u{1b}]0;title\u{7}"], "␛]0;title␇"),
            (&["\u{1b}\u{1b}[mx"], "␛x"),
            (&["\u{1b}[12\u{7}"], "␛[12␇"),
            (&["a\u{202e}b"], "a\\u{202e}b"),
            (&["\u{9b}2J"], "\\u{9b}2J"),
        ];
        for (pieces, expected) in table {
            assert_eq!(tail_of(pieces), [expected], "{pieces:?}");
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut tail = CallOutputTail::default();
        for piece in ["x".repeat(100_000), "\u{301}".repeat(9_000), "\r\u{8}ab".repeat(9_000)] {
            for _ in 0..3 {
                tail.push(&piece);
                tail.push("\n");
                tail.push(&piece);
                let kept: usize = tail.lines.iter().map(String::len).sum();
                assert!(kept + tail.before.len() + tail.after.len() <= 6 * 1024);
            }
        }
    }

    proptest! {
        #[test]
        fn the_size_of_pieces_does_not_change_the_lines(
            text in "[a漢\u{301}\r\n\t\u{8}\u{1b}\\[K2m]{0,60}",
            size in 1_usize..7,
        ) {
            let characters: Vec<char> = text.chars().collect();
            let pieces: Vec<String> =
                characters.chunks(size).map(|piece| piece.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(tail_of(&pieces), tail_of(&[&text]));
        }

        #[test]
        fn no_control_character_is_shown(text in "\\PC*|[\u{0}-\u{ff}]{0,40}") {
            for line in tail_of(&[&text]) {
                prop_assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }
}
