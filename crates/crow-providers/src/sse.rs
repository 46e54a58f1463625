//! Incremental parser of server-sent events, and repair of the JSON in them.
//!
//! The bytes may be split anywhere, even within a character or a line end. `line` has the incomplete last line; `name`
//! and `data` collect the fields of the current event until an empty line dispatches it.

use std::borrow::Cow;

use crow_core::model::{ProviderError, ProviderErrorKind};

/// Maximum bytes of a line and of the data of its event together. A whole reply may be one event.
const MAX_EVENT: usize = 32 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Receiver of an event: of its name, which may be empty, and its data.
pub(crate) type EventSink<'a> = dyn FnMut(&str, &str) -> Result<(), ProviderError> + 'a;

/// An incremental parser of an event stream.
#[derive(Debug)]
pub(crate) struct EventReader {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// True after a carriage return: a line feed that follows belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
    name: String,
    data: String,
    has_data: bool,
    limit: usize,
}

impl EventReader {
    /// Creates a parser for one stream.
    pub(crate) fn new() -> Self {
        Self::with_limit(MAX_EVENT)
    }

    fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            name: String::new(),
            data: String::new(),
            has_data: false,
            limit,
        }
    }

    /// Parses bytes and passes each event that they complete to `sink`.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let mut rest = bytes;
        while let Some((first, tail)) = rest.split_first() {
            // The second half of a CR LF, whose first half has ended the line.
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = tail;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let Some((head, [end, tail @ ..])) = end.and_then(|end| rest.split_at_checked(end))
            else {
                // No line end: the rest waits for the next bytes.
                self.check_size(rest.len())?;
                self.line.extend_from_slice(rest);
                return Ok(());
            };
            self.after_return = *end == b'\r';
            self.end_line(head, sink)?;
            rest = tail;
        }
        Ok(())
    }

    /// Handles the end of the stream. Some servers omit the last line ends, so an incomplete event is dispatched.
    pub(crate) fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        if !self.line.is_empty() {
            self.end_line(&[], sink)?;
        }
        self.dispatch(sink)
    }

    /// Completes a line, which consists of the stored beginning and `tail`.
    fn end_line(&mut self, tail: &[u8], sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        self.check_size(tail.len())?;
        if self.line.is_empty() {
            return self.on_line(tail, sink);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(tail);
        let outcome = self.on_line(&line, sink);
        line.clear();
        self.line = line;
        outcome
    }

    fn on_line(&mut self, line: &[u8], sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let is_first = std::mem::take(&mut self.is_first_line);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        if line.is_empty() {
            return self.dispatch(sink);
        }
        // An invalid byte spoils one character and not the reply.
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            // Comments, ids and reconnection times do not matter for a reply.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let outcome = if self.has_data { sink(&self.name, &self.data) } else { Ok(()) };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        outcome
    }

    fn check_size(&self, more: usize) -> Result<(), ProviderError> {
        if self.line.len() + self.data.len() + more > self.limit {
            let limit = self.limit;
            return Err(decode_error(&format!("an event has more than {limit} bytes")));
        }
        Ok(())
    }
}

fn decode_error(message: &str) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Decode, message)
}

/// Returns the JSON with U+FFFD in place of each unpaired half of a surrogate pair. Some servers split a character
/// where a token ends; no parser accepts such a text, although the rest of it is right.
pub(crate) fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let mut readable = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        readable.push_str(before);
        let length = match (utf16_unit(escape), escape.get(6..).and_then(utf16_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                readable.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            // A backslash and what it escapes, such as another backslash.
            (_, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (unchanged, tail) = escape.split_at_checked(length).unwrap_or((escape, ""));
        readable.push_str(unchanged);
        rest = tail;
    }
    readable.push_str(rest);
    Cow::Owned(readable)
}

/// Returns the number of an escape such as `\ud83d` at the beginning of a text.
fn utf16_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut reader = EventReader::new();
        let mut sink = |name: &str, data: &str| {
            events.push((name.to_owned(), data.to_owned()));
            Ok(())
        };
        for piece in pieces {
            reader.feed(piece, &mut sink).unwrap();
        }
        reader.finish(&mut sink).unwrap();
        events
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn fields_are_read_as_the_specification_says() {
        for (stream, expected) in [
            ("data: a\n\n", vec![event("", "a")]),
            ("event: x\ndata: a\n\n", vec![event("x", "a")]),
            ("data:a\n\n", vec![event("", "a")]),
            ("data:  a\n\n", vec![event("", " a")]),
            ("data: a\ndata: b\n\n", vec![event("", "a\nb")]),
            ("data\n\n", vec![event("", "")]),
            (": comment\n\ndata: a\n\n", vec![event("", "a")]),
            ("event: x\n\ndata: a\n\n", vec![event("", "a")]),
            ("id: 1\nretry: 5\nnovel: z\ndata: a\n\n", vec![event("", "a")]),
            ("data: a\r\n\r\ndata: b\r\r", vec![event("", "a"), event("", "b")]),
            ("\u{feff}data: a\n\n", vec![event("", "a")]),
            ("data: a\n\n\n\ndata: b", vec![event("", "a"), event("", "b")]),
            ("", vec![]),
        ] {
            assert_eq!(read(&[stream.as_bytes()]), expected, "{stream:?}");
        }
    }

    #[test]
    fn a_stream_may_be_cut_anywhere() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = "\u{feff}: hi\nevent: é\ndata: grün 🐦\ndata: zwei\n\ndata: x\n\n"
                .replace('\n', end);
            let bytes = stream.as_bytes();
            let events = read(&[bytes]);
            assert_eq!(events, [event("é", "grün 🐦\nzwei"), event("", "x")]);
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(read(&pieces), events, "{end:?} at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn a_line_or_an_event_beyond_the_limit_is_an_error() {
        for piece in ["data: aaaaaaaaaaaa", "data: aaaa\n"] {
            let mut reader = EventReader::with_limit(64);
            let outcome =
                (0..64).try_for_each(|_| reader.feed(piece.as_bytes(), &mut |_, _| Ok(())));
            assert_eq!(outcome.unwrap_err().kind, ProviderErrorKind::Decode, "{piece}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_become_replacement_characters() {
        assert_eq!(read(&[b"data: a\xffb\n\n"]), [event("", "a\u{fffd}b")]);
    }

    #[test]
    fn only_unpaired_surrogates_are_replaced() {
        for (json, expected) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\udc26""#, r#""\ud83d\udc26""#),
            (r#""\uD83D\uDC26 \u00e4\n""#, r#""\uD83D\uDC26 \u00e4\n""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\udc26""#, r#""\ufffd""#),
            (r#""\ud83d\ud83d\udc26""#, r#""\ufffd\ud83d\udc26""#),
            (r#""\ud83dx\udc26""#, r#""\ufffdx\ufffd""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud8é""#, r#""\ud8é""#),
            (r#""\ud8"#, r#""\ud8"#),
            (r"\ud83d\", r"\ufffd\"),
            (r"\ud83d\é", r"\ufffd\é"),
        ] {
            assert_eq!(without_lone_surrogates(json), expected, "{json}");
        }
    }
}
