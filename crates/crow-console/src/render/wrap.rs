//! Fits text into columns, by the display width of characters.
//!
//! [`Wrapper`] wraps a stream: it buffers the current word and the spaces before it, since only the end of the word
//! decides whether both fit on the line. Spaces at a break are dropped; those at the start of an input line are kept as
//! indentation.

use unicode_width::UnicodeWidthChar as _;

use super::{ConsoleStyle, Glyphs, style::Paint};

/// Length of a word, in bytes, at which it is written before its end: characters without width would otherwise
/// accumulate.
const LONGEST_WORD: usize = 512;
/// Columns of a tab.
const TAB: usize = 4;

/// Returns the display width of a character in columns; 0 for control characters.
pub fn char_width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// Returns the display width of `text` in columns.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Shortens `text` to at most `columns` by leaving out its middle.
pub fn shorten_middle(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = glyphs.pick("…", "...");
    let room = columns.saturating_sub(width(mark));
    let tail_room = room / 2;
    let head = take_width(text.chars(), room - tail_room);
    let tail = take_width(text.chars().rev(), tail_room);
    head.into_iter().chain(mark.chars()).chain(tail.into_iter().rev()).collect()
}

/// Shortens `text` to at most `columns` by leaving out its end.
pub fn shorten_end(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = glyphs.pick("…", "...");
    let head = take_width(text.chars(), columns.saturating_sub(width(mark)));
    head.into_iter().chain(mark.chars()).collect()
}

/// Shortens `text` to at most `columns` by leaving out its beginning.
pub fn shorten_start(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = glyphs.pick("…", "...");
    let tail = take_width(text.chars().rev(), columns.saturating_sub(width(mark)));
    mark.chars().chain(tail.into_iter().rev()).collect()
}

fn take_width(characters: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut used = 0;
    let fits = |character: &char| {
        used += char_width(*character);
        used <= columns
    };
    characters.take_while(fits).collect()
}

/// Wraps a stream of text between words into lines that begin with a prefix.
///
/// Invariant: the result does not depend on where the chunks are cut.
#[derive(Debug)]
pub struct Wrapper {
    first_prefix: String,
    prefix: String,
    end: &'static str,
    room: usize,
    column: usize,
    open: bool,
    spaces: usize,
    word: String,
    word_width: usize,
}

impl Wrapper {
    /// Creates a wrapper whose lines all begin with `prefix`.
    pub fn new(style: &ConsoleStyle, paint: Paint, prefix: &str) -> Self {
        Self::hanging(style, paint, prefix, prefix)
    }

    /// Creates a wrapper whose first line begins with `first` and the others with `rest`.
    pub fn hanging(style: &ConsoleStyle, paint: Paint, first: &str, rest: &str) -> Self {
        let prefix_width = width(first).max(width(rest));
        Self {
            first_prefix: format!("{}{first}", paint.open(style)),
            prefix: format!("{}{rest}", paint.open(style)),
            end: paint.close(style),
            room: style.width.saturating_sub(prefix_width + 1).max(8),
            column: 0,
            open: false,
            spaces: 0,
            word: String::new(),
            word_width: 0,
        }
    }

    /// Appends harmless `text`. The last word stays buffered until its end.
    pub fn push(&mut self, text: &str, out: &mut String) {
        for character in text.chars() {
            match character {
                '\n' => {
                    self.write_word(out);
                    self.open_line(out);
                    self.end_line(out);
                }
                ' ' => self.space(1, out),
                '\t' => self.space(TAB, out),
                _ => self.letter(character, out),
            }
        }
    }

    /// Writes the last word and ends the last line.
    pub fn finish(&mut self, out: &mut String) {
        self.write_word(out);
        if self.open {
            self.end_line(out);
        }
    }

    fn space(&mut self, columns: usize, out: &mut String) {
        self.write_word(out);
        self.spaces = (self.spaces + columns).min(self.room);
    }

    fn letter(&mut self, character: char, out: &mut String) {
        let columns = char_width(character);
        if self.word_width + columns > self.room || self.word.len() >= LONGEST_WORD {
            self.write_word(out);
        }
        self.word.push(character);
        self.word_width += columns;
    }

    fn write_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        if self.column + self.spaces + self.word_width > self.room {
            self.spaces = 0;
            if self.column > 0 {
                self.end_line(out);
            }
        }
        self.open_line(out);
        out.extend(std::iter::repeat_n(' ', self.spaces));
        out.push_str(&self.word);
        self.column += self.spaces + self.word_width;
        self.spaces = 0;
        self.word.clear();
        self.word_width = 0;
    }

    fn open_line(&mut self, out: &mut String) {
        if !self.open {
            out.push_str(&self.first_prefix);
            self.first_prefix.clone_from(&self.prefix);
            self.open = true;
        }
    }

    fn end_line(&mut self, out: &mut String) {
        out.push_str(self.end);
        out.push('\n');
        self.open = false;
        self.column = 0;
        self.spaces = 0;
    }
}

/// Wraps harmless `text` into lines that begin with `prefix`.
pub fn wrap(style: &ConsoleStyle, paint: Paint, prefix: &str, text: &str) -> String {
    let mut out = String::new();
    let mut wrapper = Wrapper::new(style, paint, prefix);
    wrapper.push(text, &mut out);
    wrapper.finish(&mut out);
    out
}

/// Wraps harmless `text` into lines, the first of which begins with `first` and the others with `rest`.
pub fn wrap_hanging(
    style: &ConsoleStyle,
    paint: Paint,
    (first, rest): (&str, &str),
    text: &str,
) -> String {
    let mut out = String::new();
    let mut wrapper = Wrapper::hanging(style, paint, first, rest);
    wrapper.push(text, &mut out);
    wrapper.finish(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrap_at(columns: usize, text: &str) -> String {
        wrap(&ConsoleStyle::plain(columns), Paint::Plain, "| ", text)
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(
            wrap_at(20, "one two three four five\n  indented"),
            "| one two three\n| four five\n|   indented\n"
        );
    }

    #[test]
    fn a_word_without_end_is_broken() {
        assert_eq!(wrap_at(20, &"x".repeat(20)), format!("| {}\n| xxx\n", "x".repeat(17)));
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(wrap_at(20, &"漢".repeat(10)), format!("| {}\n| 漢漢\n", "漢".repeat(8)));
        assert_eq!(shorten_middle("漢漢漢漢", 5, Glyphs::Unicode), "漢…漢");
    }

    #[test]
    fn an_empty_line_stays() {
        assert_eq!(wrap_at(20, "a\n\nb"), "| a\n| \n| b\n");
    }

    #[test]
    fn the_middle_of_a_long_title_is_left_out() {
        assert_eq!(
            shorten_middle("edit src/render/console.rs", 15, Glyphs::Unicode),
            "edit sr…sole.rs"
        );
        assert_eq!(
            shorten_middle("edit src/render/console.rs", 15, Glyphs::Ascii),
            "edit s...ole.rs"
        );
        assert_eq!(shorten_end("edit src/render", 8, Glyphs::Unicode), "edit sr…");
        assert_eq!(shorten_end("short", 8, Glyphs::Unicode), "short");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen(text in "[a-z漢 \n]{0,200}", columns in 20_usize..60) {
            for line in wrap_at(columns, &text).lines() {
                prop_assert!(width(line) <= columns, "{line}");
            }
        }

        #[test]
        fn the_size_of_chunks_does_not_change_the_lines(text in "[a-z漢 \t\n]{0,200}", size in 1_usize..7) {
            let style = ConsoleStyle::plain(30);
            let mut wrapper = Wrapper::new(&style, Paint::Plain, "| ");
            let mut out = String::new();
            let characters: Vec<char> = text.chars().collect();
            for chunk in characters.chunks(size) {
                wrapper.push(&chunk.iter().collect::<String>(), &mut out);
            }
            wrapper.finish(&mut out);
            prop_assert_eq!(out, wrap(&style, Paint::Plain, "| ", &text));
        }
    }
}
