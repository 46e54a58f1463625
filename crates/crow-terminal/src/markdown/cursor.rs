//! A place in a line of Markdown, where white space is counted in columns.

use std::borrow::Cow;

/// Columns from one tab stop to the next.
const TAB: usize = 4;

/// Returns whether a byte is white space within a line.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0b' | b'\x0c')
}

/// Returns whether `text` consists of white space only.
pub(super) fn is_blank(text: &str) -> bool {
    text.bytes().all(is_space)
}

/// A place in a line. A tab may be consumed in part: its other columns are then still ahead.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    column: usize,
    /// Columns of a consumed tab that are still ahead.
    spare: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { rest: line, column: 0, spare: 0 }
    }

    /// Returns the text ahead, without columns that are left of a tab.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Returns the text ahead after its white space.
    pub(super) fn trimmed(&self) -> &'a str {
        self.rest.trim_start_matches(|character: char| {
            u8::try_from(character).is_ok_and(|byte| byte.is_ascii() && is_space(byte))
        })
    }

    /// Returns the text ahead, with the columns that are left of a tab as spaces.
    pub(super) fn rest_with_spaces(&self) -> Cow<'a, str> {
        match self.spare {
            0 => Cow::Borrowed(self.rest),
            spare => Cow::Owned(format!("{}{}", " ".repeat(spare), self.rest)),
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        is_blank(self.rest)
    }

    /// Returns the number of columns of the spaces and tabs ahead, which is counted up to `most`.
    pub(super) fn indent(&self, most: usize) -> usize {
        let mut ahead = self.clone();
        ahead.skip_columns(most)
    }

    /// Consumes at most `most` columns of spaces and tabs, and returns their number.
    pub(super) fn skip_columns(&mut self, most: usize) -> usize {
        let mut skipped = 0;
        while skipped < most {
            if self.spare > 0 {
                self.spare -= 1;
            } else {
                match self.rest.as_bytes().first() {
                    Some(b' ') => {}
                    Some(b'\t') => self.spare = TAB - self.column % TAB - 1,
                    _ => break,
                }
                self.rest = &self.rest[1..];
            }
            self.column += 1;
            skipped += 1;
        }
        skipped
    }

    /// Consumes `length` bytes of text that has no tabs.
    pub(super) fn skip_bytes(&mut self, length: usize) {
        self.rest = &self.rest[length..];
        self.column += length;
        self.spare = 0;
    }
}
