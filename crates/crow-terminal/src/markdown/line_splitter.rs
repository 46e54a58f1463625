//! Cuts text that arrives in pieces into lines, and lines without end into parts.

use unicode_segmentation::UnicodeSegmentation as _;

/// Length in bytes up to which a line is handed out in one part. It bounds what is not known yet at any time.
const LONGEST_PART: usize = 4096;

/// A part of a line; nearly always the whole of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinePart<'a> {
    pub(super) text: &'a str,
    pub(super) begins_line: bool,
    pub(super) ends_line: bool,
}

/// Holds the text since the last part.
///
/// Invariant: the parts depend on the text only, and not on where its pieces are cut.
#[derive(Debug, Clone, Default)]
pub(super) struct LineSplitter {
    held: String,
    /// Length of the beginning of `held` that is known to hold no line end.
    searched: usize,
    is_within_line: bool,
}

impl LineSplitter {
    /// Adds text, and calls `take` with each part that is complete.
    pub(super) fn push(&mut self, text: &str, mut take: impl FnMut(LinePart<'_>)) {
        self.held.push_str(text);
        let mut start = 0;
        let mut begins_line = !self.is_within_line;
        loop {
            let rest = &self.held[start..];
            let reach = rest.len().min(LONGEST_PART + 1);
            let line_end = rest.as_bytes()[self.searched.min(reach)..reach]
                .iter()
                .position(|byte| matches!(byte, b'\n' | b'\r'))
                .map(|position| self.searched.min(reach) + position);
            let (end, next, ends_line) = match line_end {
                // The line feed that may follow belongs to the carriage return.
                Some(end) if rest.as_bytes()[end] == b'\r' && end + 1 == rest.len() => {
                    self.searched = end;
                    break;
                }
                Some(end) if rest[end..].starts_with("\r\n") => (end, end + 2, true),
                Some(end) => (end, end + 1, true),
                None if rest.len() > LONGEST_PART => {
                    let end = part_end(rest);
                    (end, end, false)
                }
                None => {
                    self.searched = rest.len();
                    break;
                }
            };
            take(LinePart { text: &rest[..end], begins_line, ends_line });
            begins_line = ends_line;
            start += next;
            self.searched = 0;
        }
        self.is_within_line = !begins_line;
        self.held.drain(..start);
    }

    /// Returns the part that would be left if the text ended here.
    pub(super) fn remainder(&self) -> Option<LinePart<'_>> {
        let text = self.held.strip_suffix('\r').unwrap_or(&self.held);
        let is_anything = !self.held.is_empty() || self.is_within_line;
        is_anything.then_some(LinePart { text, begins_line: !self.is_within_line, ends_line: true })
    }
}

/// Returns where the first part of a line ends: before the grapheme cluster that the limit may split.
fn part_end(line: &str) -> usize {
    let limit = line.floor_char_boundary(LONGEST_PART);
    let cluster = line[..limit].grapheme_indices(true).next_back();
    cluster.map(|(start, _)| start).filter(|start| *start > 0).unwrap_or(limit)
}
