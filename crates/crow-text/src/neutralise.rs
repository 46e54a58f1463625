//! Makes text from other sources harmless on a terminal.
//!
//! A terminal obeys control characters in the text that it prints: escape sequences move the cursor, set the title or
//! fill the clipboard; bidirectional and invisible characters make a line look like another. Each such character is
//! replaced by a visible form, so that the text after it is plain.

use crate::unseen_characters::is_unseen;

/// Returns whether a byte needs no treatment; most text consists only of such bytes.
fn is_plain_ascii(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t')
}

/// Makes a stream of text harmless, chunk by chunk.
///
/// Invariant: the result does not depend on where the chunks are cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct Neutraliser {
    last: Option<char>,
    /// True if the last character was a carriage return. Before a line feed it is dropped, otherwise shown.
    held_return: bool,
}

impl Neutraliser {
    /// Appends the harmless form of `chunk` to `out`.
    pub fn push(&mut self, chunk: &str, out: &mut String) {
        let plain = !self.held_return && chunk.bytes().all(is_plain_ascii);
        if plain {
            out.push_str(chunk);
            self.last = chunk.chars().next_back().or(self.last);
            return;
        }
        for character in chunk.chars() {
            self.push_char(character, out);
        }
    }

    /// Ends the stream: a carriage return at its end is shown.
    pub fn finish(&mut self, out: &mut String) {
        if std::mem::take(&mut self.held_return) {
            out.push('\u{240d}');
        }
        self.last = None;
    }

    fn push_char(&mut self, character: char, out: &mut String) {
        if std::mem::take(&mut self.held_return) && character != '\n' {
            out.push('\u{240d}');
        }
        match character {
            '\r' => self.held_return = true,
            '\n' | '\t' => out.push(character),
            '\0'..='\u{1f}' => out.push(control_picture(character)),
            '\u{7f}' => out.push('\u{2421}'),
            '\u{200c}' | '\u{200d}' if self.takes_joiner(character) => out.push(character),
            '\u{fe0e}' | '\u{fe0f}' if !self.follows_selector() => out.push(character),
            _ if is_unseen(character) => out.extend(character.escape_unicode()),
            _ => out.push(character),
        }
        self.last = Some(character);
    }

    /// Returns whether a joiner is legitimate here: scripts from Arabic to Burmese are misspelt without joiners, and
    /// joined emoji fall apart.
    fn takes_joiner(self, joiner: char) -> bool {
        match self.last {
            Some(last) if is_unseen(last) => last == '\u{fe0f}' && joiner == '\u{200d}',
            Some('\u{600}'..='\u{109f}') => true,
            Some('\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}') => joiner == '\u{200d}',
            _ => false,
        }
    }

    fn follows_selector(self) -> bool {
        matches!(self.last, None | Some('\u{fe00}'..='\u{fe0f}'))
    }
}

/// Returns the harmless form of `text`.
pub fn neutralise(text: &str) -> String {
    // Most texts are plain ASCII, which is harmless as it is.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut neutraliser = Neutraliser::default();
    neutraliser.push(text, &mut out);
    neutraliser.finish(&mut out);
    out
}

/// Returns the harmless form of `text` as one line: white space of any kind becomes single spaces.
pub fn one_line(text: &str) -> String {
    // Most texts are such a line already.
    let is_line = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.contains("  ");
    if is_line {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    neutralise(&line)
}

fn control_picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or('\u{fffd}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_sequences_become_visible() {
        let table = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("\u{1b}]52;c;aGk=\u{1b}\\", "␛]52;c;aGk=␛\\"),
            ("\u{1b}Pq\u{1b}\\", "␛Pq␛\\"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{8}b\u{0}c\u{7f}", "a␈b␀c␡"),
            ("one\r\ntwo", "one\ntwo"),
            ("10%\r20%\r", "10%␍20%␍"),
            ("a\u{202e}b\u{2066}c\u{2069}", "a\\u{202e}b\\u{2066}c\\u{2069}"),
            ("\u{200e}\u{200f}\u{61c}", "\\u{200e}\\u{200f}\\u{61c}"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("\u{e0041}", "\\u{e0041}"),
            ("pass\u{200d}word", "pass\\u{200d}word"),
            ("grün 漢字 é", "grün 漢字 é"),
        ];
        for (given, expected) in table {
            assert_eq!(neutralise(given), expected, "{given:?}");
        }
    }

    #[test]
    fn joined_emoji_and_scripts_that_need_joiners_stay_whole() {
        for text in [
            "👩\u{200d}💻",
            "🏳\u{fe0f}\u{200d}🌈",
            "می\u{200c}خواهم",
            "क\u{94d}\u{200d}ष",
            "⚠\u{fe0f}",
        ] {
            assert_eq!(neutralise(text), text);
        }
    }

    #[test]
    fn a_second_selector_or_joiner_in_a_row_is_shown() {
        assert_eq!(neutralise("⚠\u{fe0f}\u{fe0f}"), "⚠\u{fe0f}\\u{fe0f}");
        assert_eq!(neutralise("👩\u{200d}\u{200d}"), "👩\u{200d}\\u{200d}");
    }

    #[test]
    fn a_title_becomes_one_harmless_line() {
        assert_eq!(one_line("  rm -rf\n\t/\u{1b}[2K "), "rm -rf /␛[2K");
    }

    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            prop_oneof![
                Just("\u{1b}["),
                Just("\u{1b}]0;"),
                Just("\r"),
                Just("\n"),
                Just("\r\n"),
                Just("\u{9b}"),
                Just("\u{200d}"),
                Just("\u{fe0f}"),
                Just("👩"),
                Just("text "),
                Just("\u{202e}"),
            ]
            .prop_map(str::to_owned),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in hostile()) {
            let harmless = neutralise(&text);
            prop_assert!(harmless.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control()));
            let unseen = |c: char| is_unseen(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
            prop_assert!(!harmless.chars().any(unseen));
        }

        #[test]
        fn chunks_do_not_change_the_result(text in hostile(), size in 1_usize..5) {
            let characters: Vec<char> = text.chars().collect();
            let mut neutraliser = Neutraliser::default();
            let mut out = String::new();
            for chunk in characters.chunks(size) {
                neutraliser.push(&chunk.iter().collect::<String>(), &mut out);
            }
            neutraliser.finish(&mut out);
            prop_assert_eq!(out, neutralise(&text));
        }
    }
}
