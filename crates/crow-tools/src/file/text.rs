//! The text of a file and its encoding, and diffs between two contents.

use std::{borrow::Cow, path::Path};

use content_inspector::{ContentType, inspect};
use crow_core::tool::FileDiff;
use encoding_rs::{UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Number of leading bytes in which a NUL makes a file binary, as in the edit matcher.
const BINARY_PROBE: usize = 8 * 1024;

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    /// Without a byte order mark: nearly all files.
    Utf8,
    /// With a byte order mark.
    Utf8Marked,
    /// With a byte order mark.
    Utf16Le,
    /// With a byte order mark.
    Utf16Be,
    /// Not UTF-8 anywhere: read as Windows-1252, of which Latin-1 is a part.
    Windows1252,
    /// UTF-8 with invalid bytes, which are shown as U+FFFD.
    BrokenUtf8,
}

impl TextEncoding {
    /// Returns a description of the encoding, unless it is UTF-8.
    pub(crate) fn label(self) -> Option<&'static str> {
        match self {
            Self::Utf8 | Self::Utf8Marked => None,
            Self::Utf16Le => Some("UTF-16LE"),
            Self::Utf16Be => Some("UTF-16BE"),
            Self::Windows1252 => Some("not UTF-8, read as Windows-1252/Latin-1"),
            Self::BrokenUtf8 => Some("broken UTF-8, bad bytes shown as \u{fffd}"),
        }
    }

    /// Encodes text. Returns `None` if a character does not exist in the encoding, or the encoding is broken.
    pub(crate) fn encode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(text.as_bytes().to_vec()),
            Self::Utf8Marked => Some(format!("\u{feff}{text}").into_bytes()),
            Self::Utf16Le => Some(wide(text, u16::to_le_bytes)),
            Self::Utf16Be => Some(wide(text, u16::to_be_bytes)),
            Self::Windows1252 => {
                let (bytes, _, failed) = WINDOWS_1252.encode(text);
                (!failed).then(|| bytes.into_owned())
            }
            Self::BrokenUtf8 => None,
        }
    }
}

fn wide(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(to_bytes).collect()
}

/// A decoded file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodedText<'a> {
    /// Text without byte order mark, with its own line ends.
    pub(crate) content: Cow<'a, str>,
    /// Encoding of the file.
    pub(crate) encoding: TextEncoding,
}

impl<'a> DecodedText<'a> {
    /// Decodes a file. Returns `None` if it is binary.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let kind = inspect(bytes);
        let is_wide = matches!(kind, ContentType::UTF_16LE | ContentType::UTF_16BE);
        if !is_wide && bytes.iter().take(BINARY_PROBE).any(|byte| *byte == 0) {
            return None;
        }
        match kind {
            ContentType::BINARY | ContentType::UTF_32LE | ContentType::UTF_32BE => None,
            ContentType::UTF_16LE => Self::wide(UTF_16LE, TextEncoding::Utf16Le, bytes),
            ContentType::UTF_16BE => Self::wide(UTF_16BE, TextEncoding::Utf16Be, bytes),
            ContentType::UTF_8_BOM => Some(Self::narrow(&bytes[3..], TextEncoding::Utf8Marked)),
            ContentType::UTF_8 => Some(Self::narrow(bytes, TextEncoding::Utf8)),
        }
    }

    fn wide(
        codec: &'static encoding_rs::Encoding,
        encoding: TextEncoding,
        bytes: &'a [u8],
    ) -> Option<Self> {
        let (content, broken) = codec.decode_without_bom_handling(&bytes[2..]);
        (!broken).then_some(Self { content, encoding })
    }

    fn narrow(body: &'a [u8], encoding: TextEncoding) -> Self {
        if let Ok(text) = std::str::from_utf8(body) {
            return Self { content: Cow::Borrowed(text), encoding };
        }
        // Latin-1 text hardly ever forms valid multi-byte UTF-8, so one such character means damaged UTF-8.
        let is_utf8 = body.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
        if is_utf8 || encoding == TextEncoding::Utf8Marked {
            Self { content: String::from_utf8_lossy(body), encoding: TextEncoding::BrokenUtf8 }
        } else {
            let (content, _) = WINDOWS_1252.decode_without_bom_handling(body);
            Self { content, encoding: TextEncoding::Windows1252 }
        }
    }

    /// Returns the lines without their ends. Only a file without any line feed is split at carriage returns.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        let stop = if self.content.contains('\n') { '\n' } else { '\r' };
        self.content.split_terminator(stop).map(|line| line.strip_suffix('\r').unwrap_or(line))
    }

    /// Returns true if every line ends in carriage return and line feed.
    pub(crate) fn is_crlf(&self) -> bool {
        let feeds = self.content.matches('\n').count();
        feeds > 0 && feeds == self.content.matches("\r\n").count()
    }
}

/// Compares two contents of a file. For a binary one the diff has no lines.
pub(crate) fn file_diff(path: &Path, old: &[u8], new: &[u8]) -> FileDiff {
    match (DecodedText::decode(old), DecodedText::decode(new)) {
        (Some(old), Some(new)) => {
            FileDiff::of_text(path, old.content.as_ref(), new.content.as_ref())
        }
        _ => FileDiff::without_lines(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_recognised_and_written_back_byte_for_byte() {
        let cases: [(&[u8], &str, TextEncoding); 6] = [
            (b"a\xc3\xa4\r\n", "a\u{e4}\r\n", TextEncoding::Utf8),
            (b"\xef\xbb\xbfa", "a", TextEncoding::Utf8Marked),
            (b"\xff\xfea\0\n\0", "a\n", TextEncoding::Utf16Le),
            (b"\xfe\xff\0a\0\n", "a\n", TextEncoding::Utf16Be),
            (b"caf\xe9", "caf\u{e9}", TextEncoding::Windows1252),
            (b"", "", TextEncoding::Utf8),
        ];
        for (bytes, content, encoding) in cases {
            let text = DecodedText::decode(bytes).unwrap();
            assert_eq!((text.content.as_ref(), text.encoding), (content, encoding));
            assert_eq!(encoding.encode(content).unwrap(), bytes);
        }
    }

    #[test]
    fn damaged_utf8_is_shown_and_never_written_back() {
        let text = DecodedText::decode(b"\xc3\xa4 \xff").unwrap();
        assert_eq!(text.content, "\u{e4} \u{fffd}");
        assert_eq!(text.encoding.encode("x"), None);
    }

    #[test]
    fn a_nul_and_odd_utf16_are_binary() {
        assert_eq!(DecodedText::decode(b"a\0b"), None);
        assert_eq!(DecodedText::decode(&[[b'a'; 5000].as_slice(), b"\0"].concat()), None);
        assert_eq!(DecodedText::decode(b"\xff\xfea"), None);
    }

    #[test]
    fn lines_lose_their_ends_whatever_these_are() {
        for (content, lines) in [
            ("a\nb\n", vec!["a", "b"]),
            ("a\r\nb", vec!["a", "b"]),
            ("a\rb\r", vec!["a", "b"]),
            ("\n\n", vec!["", ""]),
            ("", vec![]),
        ] {
            assert_eq!(
                DecodedText::decode(content.as_bytes()).unwrap().lines().collect::<Vec<_>>(),
                lines
            );
        }
    }

    #[test]
    fn a_binary_content_has_no_hunks() {
        let difference = file_diff(Path::new("/p/a"), b"a\0", b"b");
        assert!(difference.truncated && difference.hunks.is_empty());
    }
}
