//! The text of the editor, with its chips and an index of its lines.
//!
//! The text is one string, cut into *segments*: a line is one segment, and a very long line several. Every operation
//! looks at single segments, so its cost does not grow with the text, except for moving bytes in memory. A segment
//! begins behind a line feed or, softly, within a line, at a word if possible; the layout begins a row there.
//!
//! A *unit* is what the cursor moves over: a grapheme cluster, a line feed, or a chip. Units do not extend over the ends
//! of segments and chips. There are no carriage returns in the text (`with_line_feeds`).

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use super::chips::{Chip, Fragment};

/// Maximum number of bytes of a segment.
pub(crate) const LONGEST_SEGMENT: usize = 8 * 1024;
/// Number of bytes at the end of a segment where a place to cut it is sought.
const CUT_RANGE: usize = 512;

/// A text with chips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptText {
    text: String,
    chips: Vec<Chip>,
    /// Starts of the segments. There is one at least, at 0.
    starts: Vec<usize>,
}

/// Smallest part of the text that the cursor moves over: a grapheme or a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit<'a> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) content: UnitContent<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitContent<'a> {
    /// A grapheme cluster.
    Cluster(&'a str),
    LineFeed,
    /// A chip, with its label.
    Chip(&'a str),
}

impl Default for PromptText {
    fn default() -> Self {
        Self { text: String::new(), chips: Vec::new(), starts: vec![0] }
    }
}

impl From<Fragment> for PromptText {
    fn from(fragment: Fragment) -> Self {
        let Fragment { text, chips } = fragment;
        let starts = segment_starts(&text, &chips, 0..text.len());
        Self { text, chips, starts }
    }
}

impl PromptText {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn chips(&self) -> &[Chip] {
        &self.chips
    }

    /// Returns a copy of a range that begins and ends between units.
    pub(crate) fn fragment(&self, range: Range<usize>) -> Fragment {
        let chips = &self.chips[self.chips_in(&range)];
        let chips = chips.iter().map(|chip| chip.moved(range.start, 0)).collect();
        Fragment { text: self.text[range].to_owned(), chips }
    }

    /// Replaces a range that begins and ends between units, and returns what was there.
    pub(crate) fn replace(&mut self, range: Range<usize>, inserted: &Fragment) -> Fragment {
        let removed = self.fragment(range.clone());
        let chips = self.chips_in(&range);
        let (first_after, added) = (chips.start + inserted.chips.len(), inserted.len());
        self.text.replace_range(range.clone(), &inserted.text);
        let moved = inserted.chips.iter().map(|chip| chip.moved(0, range.start));
        self.chips.splice(chips, moved);
        for chip in &mut self.chips[first_after..] {
            *chip = chip.moved(range.len(), added);
        }
        self.update_starts(&range, added);
        removed
    }

    /// Returns the number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.starts.len()
    }

    /// Returns the index of the segment that contains `position`. The end of a line belongs to its last segment.
    pub(crate) fn segment_at(&self, position: usize) -> usize {
        self.starts.partition_point(|start| *start <= position) - 1
    }

    /// Returns the range of a segment without the line feed at its end.
    pub(crate) fn segment(&self, index: usize) -> Range<usize> {
        let start = self.starts[index];
        let end = self.segment_end(index);
        if end > start && self.text.as_bytes()[end - 1] == b'\n' {
            start..end - 1
        } else {
            start..end
        }
    }

    /// Returns true if a segment is the last one of its line.
    pub(crate) fn ends_line(&self, index: usize) -> bool {
        self.starts.get(index + 1).is_none_or(|start| self.text.as_bytes()[start - 1] == b'\n')
    }

    /// Returns the start of the line that contains `position`.
    pub(crate) fn line_start(&self, position: usize) -> usize {
        let mut segment = self.segment_at(position);
        while segment > 0 && !self.ends_line(segment - 1) {
            segment -= 1;
        }
        self.starts[segment]
    }

    /// Returns the end of the line that contains `position`, before its line feed.
    pub(crate) fn line_end(&self, position: usize) -> usize {
        let mut segment = self.segment_at(position);
        while !self.ends_line(segment) {
            segment += 1;
        }
        self.segment(segment).end
    }

    /// Returns the unit that begins at `position`.
    pub(crate) fn unit_at(&self, position: usize) -> Option<Unit<'_>> {
        self.units(position..self.len()).next()
    }

    /// Returns the unit that ends at `position`.
    pub(crate) fn unit_before(&self, position: usize) -> Option<Unit<'_>> {
        let last = position.checked_sub(1)?;
        let chips = self.chips_before(position);
        let chip_end = chips.last().map_or(0, |chip| chip.end);
        if let Some(chip) = chips.last().filter(|chip| chip.end == position) {
            let content = UnitContent::Chip(&self.text[chip.range()]);
            return Some(Unit { start: chip.start, end: position, content });
        }
        if self.text.as_bytes()[last] == b'\n' {
            return Some(Unit { start: last, end: position, content: UnitContent::LineFeed });
        }
        let from = chip_end.max(self.starts[self.segment_at(last)]);
        let is_simple = match self.text.as_bytes()[from..position] {
            [.., before, last] => before.is_ascii() && last.is_ascii(),
            [_] | [] => false,
        };
        let text = &self.text[from..position];
        let start = if is_simple {
            last
        } else {
            position - text.graphemes(true).next_back().map_or(1, str::len)
        };
        let content = UnitContent::Cluster(&self.text[start..position]);
        Some(Unit { start, end: position, content })
    }

    /// Returns the end of the unit at `position`, or the end of the text.
    pub(crate) fn next(&self, position: usize) -> usize {
        self.unit_at(position).map_or(position, |unit| unit.end)
    }

    /// Returns the start of the unit before `position`, or the start of the text.
    pub(crate) fn previous(&self, position: usize) -> usize {
        self.unit_before(position).map_or(position, |unit| unit.start)
    }

    /// Returns the units of a range, which begins between units.
    pub(crate) fn units(&self, range: Range<usize>) -> Units<'_> {
        let chips = &self.chips[self.chips.partition_point(|chip| chip.start < range.start)..];
        Units { text: self, position: range.start, end: range.end, block_end: range.start, chips }
    }

    /// Returns `position` if it is between units, and otherwise the end of the unit that contains it.
    pub(crate) fn boundary_from(&self, position: usize) -> usize {
        let mut position = position.min(self.len());
        while !self.text.is_char_boundary(position) {
            position += 1;
        }
        let chips = self.chips_before(position);
        let last_chip_end = chips.last().map_or(0, |chip| chip.end);
        if last_chip_end >= position {
            return last_chip_end.max(position);
        }
        let segment = self.segment_at(position);
        let from = self.starts[segment].max(last_chip_end);
        let until = self.chips.get(chips.len()).map_or(self.len(), |chip| chip.start);
        let block = &self.text[from..until.min(self.segment_end(segment))];
        let mut cursor = GraphemeCursor::new(position - from, block.len(), true);
        // The block is complete, so that the cursor never asks for more text.
        match cursor.is_boundary(block, 0) {
            Ok(false) => {
                let next = cursor.next_boundary(block, 0);
                next.ok().flatten().map_or(from + block.len(), |next| from + next)
            }
            Ok(true) | Err(_) => position,
        }
    }

    /// Returns the chips that begin before `position`.
    fn chips_before(&self, position: usize) -> &[Chip] {
        &self.chips[..self.chips.partition_point(|chip| chip.start < position)]
    }

    fn chips_in(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.chips.partition_point(|chip| chip.start < range.start);
        first..self.chips.partition_point(|chip| chip.start < range.end).max(first)
    }

    /// Returns the end of a segment, behind the line feed.
    fn segment_end(&self, index: usize) -> usize {
        self.starts.get(index + 1).copied().unwrap_or(self.len())
    }

    /// Updates the index after a range was replaced by `added` bytes.
    fn update_starts(&mut self, range: &Range<usize>, added: usize) {
        let mut first = self.segment_at(range.start);
        let mut after = self.segment_at(range.end) + 1;
        for start in &mut self.starts[after..] {
            *start = *start - range.len() + added;
        }
        // The text and the starts from `after` on are new, those before `range` are unchanged. A neighbour in the same
        // line is cut again if the change is at its end, or if both have become small.
        let start = self.starts[first];
        let end = self.starts.get(after).copied().unwrap_or(self.len());
        let is_soft = |start: usize| start > 0 && self.text.as_bytes()[start - 1] != b'\n';
        if first > 0 && is_soft(start) {
            let length = end - self.starts[first - 1];
            if start == range.start || length <= LONGEST_SEGMENT {
                first -= 1;
            }
        }
        if after < self.starts.len() && is_soft(end) {
            let length = self.segment_end(after) - self.starts[first];
            if end == range.start + added || length <= LONGEST_SEGMENT {
                after += 1;
            }
        }
        let end = self.starts.get(after).copied().unwrap_or(self.len());
        let mut new = segment_starts(&self.text, &self.chips, self.starts[first]..end);
        if after < self.starts.len() {
            // The empty line at the end of the text is there already.
            new.pop_if(|start| *start == end);
        }
        self.starts.splice(first..after, new);
    }
}

/// The units of a range.
#[derive(Debug, Clone)]
pub(crate) struct Units<'a> {
    text: &'a PromptText,
    position: usize,
    end: usize,
    /// End of the text without chips in the current segment; found anew when it is reached.
    block_end: usize,
    /// The chips from the current position on.
    chips: &'a [Chip],
}

impl<'a> Iterator for Units<'a> {
    type Item = Unit<'a>;

    fn next(&mut self) -> Option<Unit<'a>> {
        let start = self.position;
        if start >= self.end {
            return None;
        }
        let string = self.text.as_str();
        if let [chip, others @ ..] = self.chips
            && chip.start == start
        {
            (self.chips, self.position, self.block_end) = (others, chip.end, chip.end);
            return Some(Unit {
                start,
                end: chip.end,
                content: UnitContent::Chip(&string[chip.range()]),
            });
        }
        if start == self.block_end {
            let chip = self.chips.first().map_or(self.end, |chip| chip.start);
            let segment_end = self.text.segment_end(self.text.segment_at(start));
            self.block_end = segment_end.min(chip).min(self.end);
        }
        let block = &string[start..self.block_end];
        let length = match block.as_bytes() {
            [first, second, ..] if first.is_ascii() && second.is_ascii() => 1,
            _ => cluster_length(block),
        };
        self.position += length;
        let content = match &block[..length] {
            "\n" => UnitContent::LineFeed,
            cluster => UnitContent::Cluster(cluster),
        };
        Some(Unit { start, end: self.position, content })
    }
}

/// Returns the length of the cluster at the start of a text that is not empty.
fn cluster_length(text: &str) -> usize {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(first), Some(second)) if is_separate(first) && is_separate(second) => {
            first.len_utf8()
        }
        (_, Some(_)) => text.graphemes(true).next().map_or(text.len(), str::len),
        (_, None) => text.len(),
    }
}

/// Returns true for characters of which no two are in one cluster: most of those that people type. Clusters of others
/// are found by the rules of Unicode, which take more time.
fn is_separate(character: char) -> bool {
    matches!(character,
        '\0'..='\u{7f}'
        // Latin, Greek and Cyrillic letters.
        | '\u{c0}'..='\u{2ff}' | '\u{388}'..='\u{481}'
        // Hiragana, katakana, ideographs and Hangul syllables.
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Returns the starts of segments in a range that begins a segment and ends before one or at the end of the text.
fn segment_starts(text: &str, chips: &[Chip], range: Range<usize>) -> Vec<usize> {
    let mut starts = vec![range.start];
    let mut start = range.start;
    loop {
        let feed = text[start..range.end].find('\n').map(|length| start + length);
        let line_end = feed.unwrap_or(range.end);
        while line_end - start > LONGEST_SEGMENT {
            start = cut(text, chips, start);
            starts.push(start);
        }
        let Some(feed) = feed else { return starts };
        start = feed + 1;
        if start < range.end || start == text.len() {
            starts.push(start);
        }
    }
}

/// Returns a place to end a segment that begins at `start`: behind a blank or between ASCII characters, which are found
/// quickly and never in one cluster, or else between any clusters.
fn cut(text: &str, chips: &[Chip], start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut limit = start + LONGEST_SEGMENT;
    let chip = &chips[..chips.partition_point(|chip| chip.start < limit)].last();
    if let Some(chip) = chip.filter(|chip| chip.end > limit && chip.start > start) {
        return chip.start;
    }
    let from = chip.map_or(0, |chip| chip.end).max(limit - CUT_RANGE).max(start) + 1;
    let is_between =
        |at: &usize, kind: fn(&u8) -> bool| kind(&bytes[at - 1]) && bytes[*at].is_ascii_graphic();
    let behind_blank = |at: &usize| is_between(at, |byte| *byte == b' ');
    let within_word = |at: &usize| is_between(at, u8::is_ascii_graphic);
    let candidates = || (from..limit).rev();
    if let Some(at) = candidates().find(behind_blank).or_else(|| candidates().find(within_word)) {
        return at;
    }
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    let from = chip.map_or(start, |chip| chip.end.max(start));
    let last = text[from..limit].grapheme_indices(true).next_back().map_or(0, |(at, _)| from + at);
    if last > start { last } else { limit }
}
