//! Text from a stream of bytes that is cut anywhere.

/// Decodes UTF-8 in chunks. The text of all chunks together is that of [`String::from_utf8_lossy`] for all bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Utf8Stream {
    /// The start of a character whose end has not come yet: at most three bytes.
    incomplete: Vec<u8>,
}

impl Utf8Stream {
    /// Returns the text of a chunk, with U+FFFD for bytes that are no UTF-8, and without an incomplete character at its end.
    pub(super) fn push(&mut self, chunk: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.incomplete);
        bytes.extend_from_slice(chunk);
        let mut rest = bytes.as_slice();
        let mut text = String::new();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            text.push_str(std::str::from_utf8(valid).expect("invariant: valid up to here"));
            let Some(length) = error.error_len() else {
                self.incomplete = after.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &after[length..];
        }
    }

    /// Ends the stream: returns U+FFFD if it ends within a character.
    pub(super) fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.incomplete).is_empty() { "" } else { "\u{fffd}" }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_incomplete_character_waits_for_its_end() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(b"a\xe6\xbc"), "a");
        assert_eq!(stream.push(b""), "");
        assert_eq!(stream.push(b"\xa2b\xff\xf0"), "漢b\u{fffd}");
        assert_eq!(stream.push(b"c\xe6"), "\u{fffd}c");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream.finish(), "");
    }

    proptest! {
        #[test]
        fn the_text_does_not_depend_on_the_cuts(chunks in super::super::tests::any_chunks()) {
            let mut stream = Utf8Stream::default();
            let mut text: String = chunks.iter().map(|chunk| stream.push(chunk)).collect();
            text.push_str(stream.finish());
            let bytes = chunks.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
