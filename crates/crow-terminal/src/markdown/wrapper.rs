//! Fits styled text into lines by display width.
//!
//! The current word and the spaces before it are held back, since only the end of the word decides whether both fit on
//! the line. Spaces at a break are dropped. Wide characters are words of their own, so that text in Chinese, Japanese and
//! Korean breaks anywhere. Everything that is held is bounded, also for text without spaces or without width.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::styled_text::{StyledLine, TextLook};

/// Length of a word in bytes at which it is written before its end: characters without width would otherwise accumulate.
const LONGEST_WORD: usize = 512;
/// Length of a line in bytes at which it ends, whatever its width.
const LONGEST_LINE: usize = 8192;
/// Characters that do not begin a line.
const CLOSING: &str = "、。，．！？：；）］｝」』】》〉〕”’";
/// Characters that do not end a line.
const OPENING: &str = "（［｛「『【《〈〔";

/// Styled text with its width. It is emptied and filled again rather than replaced, once for each word.
#[derive(Debug, Clone, Default)]
struct MeasuredText {
    text: String,
    /// The looks, and where in the text each ends.
    looks: Vec<(usize, TextLook)>,
    columns: usize,
}

impl MeasuredText {
    fn push(&mut self, text: &str, columns: usize, look: &TextLook) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        self.columns += columns;
        match self.looks.last_mut() {
            Some((end, last)) if last == look => *end = self.text.len(),
            _ => self.looks.push((self.text.len(), look.clone())),
        }
    }

    fn append(&mut self, other: &Self) {
        let columns = self.columns + other.columns;
        for (text, look) in other.spans() {
            self.push(text, 0, look);
        }
        self.columns = columns;
    }

    fn spans(&self) -> impl Iterator<Item = (&str, &TextLook)> {
        let mut start = 0;
        self.looks.iter().map(move |(end, look)| {
            let text = &self.text[start..*end];
            start = *end;
            (text, look)
        })
    }

    fn clear(&mut self) {
        self.text.clear();
        self.looks.clear();
        self.columns = 0;
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// Fits text into lines of at most `room` columns.
///
/// Invariant: the result does not depend on where the text is cut, other than within a grapheme cluster.
#[derive(Debug, Clone)]
pub(super) struct LineWrapper {
    room: usize,
    line: MeasuredText,
    spaces: MeasuredText,
    word: MeasuredText,
    /// True if the word ends with a wide character, after which a line may break.
    may_break: bool,
    /// True if the current line has been filled to the last column.
    is_exact: bool,
    lines: Vec<StyledLine>,
}

impl LineWrapper {
    /// Creates a wrapper for lines of at least two columns.
    pub(super) fn new(room: usize) -> Self {
        Self {
            room: room.max(2),
            line: MeasuredText::default(),
            spaces: MeasuredText::default(),
            word: MeasuredText::default(),
            may_break: false,
            is_exact: false,
            lines: Vec::new(),
        }
    }

    /// Changes the room, also for the line that is not complete yet.
    pub(super) fn set_room(&mut self, room: usize) {
        if room.max(2) == self.room {
            return;
        }
        let mut changed = Self::new(room);
        changed.lines = std::mem::take(&mut self.lines);
        for part in [&self.line, &self.spaces, &self.word] {
            for (text, look) in part.spans() {
                if self.is_exact {
                    changed.push_exact(text, look);
                } else {
                    changed.push(text, look);
                }
            }
        }
        *self = changed;
    }

    /// Adds text that is wrapped between words.
    pub(super) fn push(&mut self, text: &str, look: &TextLook) {
        if text.is_ascii() {
            self.push_ascii(text, look);
            return;
        }
        for cluster in text.graphemes(true) {
            if cluster == " " {
                self.space(look);
                continue;
            }
            let columns = cluster.width();
            if columns > self.room {
                for character in cluster.chars() {
                    let columns = character.width().unwrap_or(0);
                    self.letter(character.encode_utf8(&mut [0; 4]), columns, look);
                }
                continue;
            }
            // A line may break on both sides of a wide character, unless a bracket or a full stop would be torn off.
            let is_wide = columns > 1;
            let follows_opening = self.word.text.ends_with(|last| OPENING.contains(last));
            if (is_wide || self.may_break) && !CLOSING.contains(cluster) && !follows_opening {
                self.write_word();
            }
            self.letter(cluster, columns, look);
            self.may_break = is_wide && !OPENING.contains(cluster);
        }
    }

    fn push_ascii(&mut self, text: &str, look: &TextLook) {
        for part in text.split_inclusive(' ') {
            let word = part.strip_suffix(' ').unwrap_or(part);
            if self.may_break && !word.is_empty() {
                self.write_word();
            }
            if self.word.columns + word.len() <= self.room && word.len() < LONGEST_WORD {
                self.word.push(word, word.len(), look);
            } else {
                for index in 0..word.len() {
                    self.letter(&word[index..=index], 1, look);
                }
            }
            if word.len() < part.len() {
                self.space(look);
            }
        }
    }

    /// Adds text that is wrapped at the last column, wherever that is.
    pub(super) fn push_exact(&mut self, text: &str, look: &TextLook) {
        self.is_exact = true;
        let mut rest = text;
        if text.is_ascii() {
            while self.line.columns + rest.len() > self.room {
                let (now, later) = rest.split_at(self.room.saturating_sub(self.line.columns));
                self.line.push(now, now.len(), look);
                self.end_line();
                rest = later;
            }
            self.line.push(rest, rest.len(), look);
            return;
        }
        for cluster in text.graphemes(true) {
            let columns = cluster.width();
            if columns > self.room {
                for character in cluster.chars() {
                    let columns = character.width().unwrap_or(0);
                    self.place(character.encode_utf8(&mut [0; 4]), columns, look);
                }
            } else {
                self.place(cluster, columns, look);
            }
        }
    }

    fn place(&mut self, text: &str, columns: usize, look: &TextLook) {
        if self.line.columns + columns > self.room || self.line.text.len() > LONGEST_LINE {
            self.end_line();
        }
        self.line.push(text, columns, look);
    }

    /// Ends the line, also if it is empty.
    pub(super) fn break_line(&mut self) {
        self.write_word();
        self.spaces.clear();
        self.end_line();
    }

    /// Ends the last line unless it is empty.
    pub(super) fn finish(&mut self) {
        self.write_word();
        self.spaces.clear();
        if !self.line.is_empty() {
            self.end_line();
        }
    }

    /// Returns the lines that are complete since the last call.
    pub(super) fn take_lines(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.lines)
    }

    /// Returns the columns of the widest line, when the last one is ended.
    pub(super) fn widest(mut self) -> usize {
        self.finish();
        self.lines.iter().map(StyledLine::width).max().unwrap_or_default()
    }

    fn space(&mut self, look: &TextLook) {
        self.write_word();
        if self.spaces.columns < self.room {
            self.spaces.push(" ", 1, look);
        }
    }

    fn letter(&mut self, text: &str, columns: usize, look: &TextLook) {
        if self.word.columns + columns > self.room || self.word.text.len() >= LONGEST_WORD {
            self.write_word();
        }
        self.word.push(text, columns, look);
    }

    fn write_word(&mut self) {
        self.may_break = false;
        if self.word.is_empty() {
            return;
        }
        let fits = self.line.columns + self.spaces.columns + self.word.columns <= self.room
            && self.line.text.len() <= LONGEST_LINE;
        if fits {
            self.line.append(&self.spaces);
        } else if !self.line.is_empty() {
            self.end_line();
        }
        self.line.append(&self.word);
        self.spaces.clear();
        self.word.clear();
    }

    fn end_line(&mut self) {
        let mut line = StyledLine::default();
        for (text, look) in self.line.spans() {
            line.push(text, look.clone());
        }
        self.lines.push(line);
        self.line.clear();
    }
}
