//! A file as text: decoded lines that map back to the exact bytes.
//!
//! The matcher works on the *view*: the text with every line end written as one line feed and without a byte order
//! mark. Only ranges of the view are ever written, so all other bytes of the file stay untouched. The module knows
//! nothing about edits.

use std::{borrow::Cow, ops::Range};

use encoding_rs::WINDOWS_1252;

use super::error::EditError;

/// A NUL in this many leading bytes makes a file binary.
const BINARY_PROBE: usize = 8 * 1024;

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileEncoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// No UTF-8, and no multi-byte UTF-8 anywhere: decoded as Windows-1252, which maps every byte.
    SingleByte,
    /// UTF-8 with invalid bytes, each shown as U+FFFD.
    BrokenUtf8,
}

/// The end of a line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnding {
    /// The last line of a file without a final newline.
    Missing,
    Lf,
    CrLf,
    /// Only in files that contain no line feed at all.
    Cr,
}

/// One line: the ranges of its text in the view and in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DocumentLine {
    view: Range<usize>,
    bytes: Range<usize>,
    end: LineEnding,
}

/// A decoded file.
#[derive(Debug)]
pub(crate) struct FileText<'a> {
    bytes: &'a [u8],
    body_start: usize,
    encoding: FileEncoding,
    view: String,
    lines: Vec<DocumentLine>,
}

impl<'a> FileText<'a> {
    /// Decodes a file; refuses one that cannot be written back byte for byte.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, EditError> {
        let (encoding, body_start) = detect(bytes)?;
        let body = &bytes[body_start..];
        let mut document = Self {
            bytes,
            body_start,
            encoding,
            view: String::with_capacity(body.len()),
            lines: Vec::new(),
        };
        // Line ends are found in the raw units, so that every line knows its bytes.
        if encoding.is_wide() {
            document.read_wide(&encoding.units(body)?)?;
        } else {
            document.read_narrow(body);
        }
        Ok(document)
    }

    fn read_narrow(&mut self, body: &[u8]) {
        for (range, end) in split_lines(body) {
            let raw = &body[range.clone()];
            let text = self.encoding.narrow_text(raw);
            let start = self.body_start + range.start;
            self.push_line(&text, start..start + raw.len(), end);
        }
    }

    fn read_wide(&mut self, units: &[u16]) -> Result<(), EditError> {
        if units.contains(&0) {
            return Err(EditError::Binary);
        }
        for (range, end) in split_lines(units) {
            let text =
                String::from_utf16(&units[range.clone()]).map_err(|_| EditError::BrokenUtf16)?;
            let bytes = self.body_start + range.start * 2..self.body_start + range.end * 2;
            self.push_line(&text, bytes, end);
        }
        Ok(())
    }

    fn push_line(&mut self, text: &str, bytes: Range<usize>, end: LineEnding) {
        let start = self.view.len();
        self.view.push_str(text);
        self.lines.push(DocumentLine { view: start..self.view.len(), bytes, end });
        if end != LineEnding::Missing {
            self.view.push('\n');
        }
    }

    /// Returns the text of the file with line feeds only.
    pub(crate) fn view(&self) -> &str {
        &self.view
    }

    /// Returns true if the file holds no text at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// Returns true if some bytes of the file have no exact character in the view.
    pub(crate) fn is_lossy(&self) -> bool {
        self.encoding == FileEncoding::BrokenUtf8
    }

    /// Returns true if the meaning of bytes above ASCII is a guess.
    pub(crate) fn is_guessed(&self) -> bool {
        self.encoding == FileEncoding::SingleByte
    }

    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Returns the lines of the view without their ends.
    pub(crate) fn line_texts(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| self.slice(&line.view))
    }

    /// Returns the range of a line (counted from 0) in the view; empty behind the last line.
    pub(crate) fn line_range(&self, index: usize) -> Range<usize> {
        self.lines.get(index).map_or(self.view.len()..self.view.len(), |line| line.view.clone())
    }

    /// Returns the text of a line, counted from 0.
    pub(crate) fn line_text(&self, index: usize) -> &str {
        self.slice(&self.line_range(index))
    }

    /// Returns the part of the view in `range`, which must lie in the view, between characters.
    pub(crate) fn slice(&self, range: &Range<usize>) -> &str {
        &self.view[range.clone()]
    }

    /// Returns the line (counted from 0) that contains an offset of the view.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.lines.partition_point(|line| line.view.start <= offset).saturating_sub(1)
    }

    /// Returns the line (counted from 0) that contains a byte of the file.
    pub(crate) fn line_at_byte(&self, offset: usize) -> usize {
        self.lines.partition_point(|line| line.bytes.start <= offset).saturating_sub(1)
    }

    /// Returns the line end for a line or its replacement: its own, or that of the nearest line above that has one.
    pub(crate) fn line_end(&self, index: usize) -> LineEnding {
        let upto = self.lines.get(..=index).unwrap_or(&self.lines);
        let own = upto.iter().rev().map(|line| line.end).find(|end| *end != LineEnding::Missing);
        own.unwrap_or(LineEnding::Lf)
    }

    /// Returns the one line end of the whole file, or `None` if it mixes them.
    pub(crate) fn uniform_line_end(&self) -> Option<LineEnding> {
        let mut ends =
            self.lines.iter().map(|line| line.end).filter(|end| *end != LineEnding::Missing);
        let first = ends.next().unwrap_or(LineEnding::Lf);
        ends.all(|end| end == first).then_some(first)
    }

    /// Converts text of the model to the line ends of the view.
    pub(crate) fn to_view(&self, text: &str) -> String {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
        if self.lines.iter().any(|line| line.end == LineEnding::Cr) {
            text.replace('\r', "\n")
        } else {
            text
        }
    }

    /// Returns the bytes of the file for a range of the view.
    pub(crate) fn bytes(&self, range: &Range<usize>) -> &'a [u8] {
        &self.bytes[self.byte_range(range)]
    }

    /// Returns the bytes in a byte range of the file.
    pub(crate) fn raw(&self, range: &Range<usize>) -> &'a [u8] {
        &self.bytes[range.clone()]
    }

    /// Returns the byte range of the file for a range of the view.
    pub(crate) fn byte_range(&self, range: &Range<usize>) -> Range<usize> {
        self.byte_offset(range.start)..self.byte_offset(range.end)
    }

    fn byte_offset(&self, offset: usize) -> usize {
        let Some(line) = self.lines.get(self.line_at(offset)) else { return self.body_start };
        let inside = offset.saturating_sub(line.view.start);
        // The offset is after the line's end.
        if inside > line.view.len() {
            return line.bytes.end + line.end.as_str().len() * self.encoding.width();
        }
        line.bytes.start + self.encoded_len(line, inside)
    }

    /// Returns the length in the file of the first `inside` bytes of a line's view.
    fn encoded_len(&self, line: &DocumentLine, inside: usize) -> usize {
        let prefix = &self.view[line.view.start..line.view.start + inside];
        match self.encoding {
            FileEncoding::Utf8 => inside,
            FileEncoding::SingleByte => prefix.chars().count(),
            FileEncoding::Utf16Le | FileEncoding::Utf16Be => prefix.encode_utf16().count() * 2,
            FileEncoding::BrokenUtf8 => broken_len(&self.bytes[line.bytes.clone()], inside),
        }
    }

    /// Encodes text for the file. In a file whose encoding is a guess, only characters that occur in `known` (text of
    /// the file that the model quoted) can be written; the error is the first other one.
    pub(crate) fn encode(&self, text: &str, known: &str) -> Result<Vec<u8>, char> {
        match self.encoding {
            FileEncoding::Utf8 => Ok(text.as_bytes().to_vec()),
            FileEncoding::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            FileEncoding::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            FileEncoding::SingleByte => {
                refuse_unknown(text, known)?;
                Ok(WINDOWS_1252.encode(text).0.into_owned())
            }
            FileEncoding::BrokenUtf8 => {
                refuse_unknown(text, known)?;
                if text.contains('\u{fffd}') {
                    Err('\u{fffd}')
                } else {
                    Ok(text.as_bytes().to_vec())
                }
            }
        }
    }

    /// Returns the first line (counted from 1) whose bytes are not UTF-8.
    pub(crate) fn first_foreign_line(&self) -> usize {
        let foreign =
            |line: &DocumentLine| std::str::from_utf8(&self.bytes[line.bytes.clone()]).is_err();
        self.lines.iter().position(foreign).map_or(1, |index| index + 1)
    }

    /// Returns the line (counted from 1) of the first difference to `other`.
    pub(crate) fn first_difference(&self, other: &Self) -> usize {
        let ends = |document: &Self, index: usize| document.lines.get(index).map(|line| line.end);
        let same = self
            .line_texts()
            .zip(other.line_texts())
            .enumerate()
            .take_while(|(index, (mine, theirs))| {
                mine == theirs && ends(self, *index) == ends(other, *index)
            })
            .count();
        (same + 1).min(self.line_count()).max(1)
    }
}

impl FileEncoding {
    fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be)
    }

    fn width(self) -> usize {
        if self.is_wide() { 2 } else { 1 }
    }

    fn units(self, body: &[u8]) -> Result<Vec<u16>, EditError> {
        let (pairs, rest) = body.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(EditError::BrokenUtf16);
        }
        let unit = if self == Self::Utf16Be { u16::from_be_bytes } else { u16::from_le_bytes };
        Ok(pairs.iter().map(|pair| unit(*pair)).collect())
    }

    fn narrow_text(self, raw: &[u8]) -> Cow<'_, str> {
        if self == Self::SingleByte {
            WINDOWS_1252.decode_without_bom_handling(raw).0
        } else {
            String::from_utf8_lossy(raw)
        }
    }
}

impl LineEnding {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "",
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// Detects the encoding of a file and the length of its byte order mark.
fn detect(bytes: &[u8]) -> Result<(FileEncoding, usize), EditError> {
    match bytes {
        [0xFF, 0xFE, ..] => return Ok((FileEncoding::Utf16Le, 2)),
        [0xFE, 0xFF, ..] => return Ok((FileEncoding::Utf16Be, 2)),
        _ => {}
    }
    if bytes.iter().take(BINARY_PROBE).any(|byte| *byte == 0) {
        return Err(EditError::Binary);
    }
    let mark = if bytes.starts_with(&[0xEF, 0xBB, 0xBF]) { 3 } else { 0 };
    let body = &bytes[mark..];
    if std::str::from_utf8(body).is_ok() {
        return Ok((FileEncoding::Utf8, mark));
    }
    // With valid multi-byte sequences it is UTF-8 with some broken bytes, without any a single-byte encoding.
    let has_real_utf8 = body.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
    let encoding =
        if mark > 0 || has_real_utf8 { FileEncoding::BrokenUtf8 } else { FileEncoding::SingleByte };
    Ok((encoding, mark))
}

/// Splits at line feeds, or at carriage returns if there is no line feed.
fn split_lines<CodeUnit: Copy + PartialEq + From<u8>>(
    units: &[CodeUnit],
) -> Vec<(Range<usize>, LineEnding)> {
    let (feed, carriage) = (CodeUnit::from(b'\n'), CodeUnit::from(b'\r'));
    let (stop, end) =
        if units.contains(&feed) { (feed, LineEnding::Lf) } else { (carriage, LineEnding::Cr) };
    let mut lines = Vec::new();
    let mut start = 0;
    for piece in units.split_inclusive(|unit| *unit == stop) {
        let next = start + piece.len();
        lines.push(match piece {
            [.., before, last] if *last == feed && *before == carriage => {
                (start..next - 2, LineEnding::CrLf)
            }
            [.., last] if *last == stop => (start..next - 1, end),
            _ => (start..next, LineEnding::Missing),
        });
        start = next;
    }
    lines
}

/// Returns the length in the raw bytes of the first `inside` bytes of their lossy text.
fn broken_len(raw: &[u8], inside: usize) -> usize {
    let (mut shown, mut read) = (0, 0);
    for chunk in raw.utf8_chunks() {
        if inside <= shown + chunk.valid().len() {
            return read + inside - shown;
        }
        shown += chunk.valid().len() + '\u{fffd}'.len_utf8();
        read += chunk.valid().len() + chunk.invalid().len();
    }
    read
}

fn refuse_unknown(text: &str, known: &str) -> Result<(), char> {
    match text.chars().find(|char| !char.is_ascii() && !known.contains(*char)) {
        Some(unknown) => Err(unknown),
        None => Ok(()),
    }
}
