//! Lines in columns: texts of others in a visible form, and lines that are cut, wrapped or padded.
//!
//! Widths are those of grapheme clusters, so that a cluster is never divided. No line of these functions is wider than
//! the columns that it is made for.

use std::{borrow::Cow, ops::Range};

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
    visible_characters::cluster_form,
};

/// Columns of a tab.
const TAB: usize = 4;
/// Mark of text that was cut off.
const CUT: &str = "…";
/// Maximum length of a title or label in bytes.
const LONGEST_TITLE: usize = 1000;

/// Returns true if a text is visible as it is: printable ASCII.
fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns one line of a text of others in its visible form: without control characters, and with spaces for tabs.
pub(crate) fn visible_text(text: &str) -> Cow<'_, str> {
    if is_visible(text) {
        return Cow::Borrowed(text);
    }
    let plain = TextLook::default();
    Cow::Owned(visible_line(&crow_text::neutralise(text), &[], &plain, &plain).text())
}

/// Returns a title or label of others in its visible form.
pub(crate) fn visible_title(text: &str) -> String {
    let title = crow_text::one_line(&crow_text::shorten(text, LONGEST_TITLE));
    visible_text(&title).into_owned()
}

/// Returns one line of a neutralised text in its visible form. Clusters that begin within a range of `marked` have the
/// second look; the ranges are in bytes and ascending.
pub(crate) fn visible_line(
    neutralised: &str,
    marked: &[Range<usize>],
    look: &TextLook,
    marked_look: &TextLook,
) -> StyledLine {
    let mut line = StyledLine::default();
    if marked.is_empty() && is_visible(neutralised) {
        line.push(neutralised, look.clone());
        return line;
    }
    let (mut column, mut marks) = (0, marked.iter().peekable());
    for (start, cluster) in neutralised.grapheme_indices(true) {
        let end = start + cluster.len();
        while marks.next_if(|mark| mark.end <= start).is_some() {}
        let is_marked = marks.peek().is_some_and(|mark| mark.start < end);
        let form: Cow<'_, str> = match cluster {
            "\t" => " ".repeat(TAB - column % TAB).into(),
            "\n" => " ".into(),
            _ => cluster_form(cluster).text,
        };
        column += form.width();
        line.push(form, if is_marked { marked_look.clone() } else { look.clone() });
    }
    line
}

/// A grapheme cluster of a line.
#[derive(Debug, Clone, Copy)]
struct LineCluster {
    start: usize,
    end: usize,
    width: usize,
    /// The number of the span that it begins in, whose look it has.
    span: usize,
}

/// A line as clusters.
#[derive(Debug)]
struct ClusteredLine<'a> {
    line: &'a StyledLine,
    text: String,
    clusters: Vec<LineCluster>,
}

impl<'a> ClusteredLine<'a> {
    fn new(line: &'a StyledLine) -> Self {
        let text = line.text();
        let mut clusters = Vec::with_capacity(text.len());
        let (mut span, mut span_end) = (0, line.spans().first().map_or(0, |span| span.text.len()));
        let mut push = |start: usize, cluster: &str| {
            while start >= span_end {
                span += 1;
                span_end += line.spans()[span].text.len();
            }
            let end = start + cluster.len();
            clusters.push(LineCluster { start, end, width: cluster.width(), span });
        };
        if is_visible(&text) {
            (0..text.len()).for_each(|start| push(start, &text[start..=start]));
        } else {
            text.grapheme_indices(true).for_each(|(start, cluster)| push(start, cluster));
        }
        Self { line, text, clusters }
    }

    /// Appends clusters to another line.
    fn write(&self, clusters: Range<usize>, output: &mut StyledLine) {
        for run in self.clusters[clusters].chunk_by(|one, next| one.span == next.span) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let look = &self.line.spans()[first.span].look;
            output.push(&self.text[first.start..last.end], look.clone());
        }
    }

    /// Returns the end of the clusters from `start` on that fit a number of columns.
    fn fitting(&self, start: usize, columns: usize) -> usize {
        let mut used = 0;
        let is_beyond = |cluster: &LineCluster| {
            used += cluster.width;
            used > columns
        };
        let length = self.clusters[start..].iter().position(is_beyond);
        length.map_or(self.clusters.len(), |length| start + length)
    }

    /// Returns where a row that could end at `end` is to end: behind a space in its second half, if there is one.
    fn word_end(&self, start: usize, end: usize) -> usize {
        let is_space = |cluster: usize| {
            &self.text[self.clusters[cluster].start..self.clusters[cluster].end] == " "
        };
        if end == self.clusters.len() || is_space(end) {
            return end;
        }
        let half = start + (end - start) / 2;
        (half..end).rev().find(|cluster| is_space(*cluster)).map_or(end, |space| space + 1)
    }
}

/// Returns a line in at most this number of columns. One that is cut ends with `…`.
pub(crate) fn clipped_line(line: &StyledLine, columns: usize) -> StyledLine {
    if line.width() <= columns {
        return line.clone();
    }
    let mut clipped = StyledLine::default();
    let clusters = ClusteredLine::new(line);
    let end = clusters.fitting(0, columns.saturating_sub(CUT.width()));
    clusters.write(0..end, &mut clipped);
    if columns > 0 {
        clipped.push(CUT, TextRole::Dim);
    }
    clipped
}

/// Returns a text in at most this number of columns. One that is cut ends with `…`.
pub(crate) fn clipped_text(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut line = StyledLine::default();
    line.push(text, TextRole::Plain);
    Cow::Owned(clipped_line(&line, columns).text())
}

/// Returns the end of a text that fits this number of columns.
pub(crate) fn fitting_end(text: &str, columns: usize) -> &str {
    let mut room = columns;
    let fits = |(_, cluster): &(usize, &str)| {
        let width = cluster.width();
        let fits = width <= room;
        room = if fits { room - width } else { 0 };
        fits
    };
    let first = text.grapheme_indices(true).rev().take_while(fits).last();
    first.map_or("", |(start, _)| &text[start..])
}

/// Returns a text in at most this number of columns. One that is cut begins with `…`.
pub(crate) fn clipped_start(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mark = if columns > 0 { CUT } else { "" };
    Cow::Owned(format!("{mark}{}", fitting_end(text, columns.saturating_sub(CUT.width()))))
}

/// Returns a line in rows of at most this number of columns, but one at least, with breaks between words where that is
/// possible. Rows after the first one are indented if there is room. Nothing is left out but a cluster that is wider than
/// a whole row, for which `…` stands.
pub(crate) fn wrapped_rows(line: &StyledLine, columns: usize, indent: usize) -> Vec<StyledLine> {
    let columns = columns.max(1);
    if line.width() <= columns {
        return vec![line.clone()];
    }
    let clusters = ClusteredLine::new(line);
    let (mut rows, mut start) = (Vec::new(), 0);
    while let Some(first) = clusters.clusters.get(start) {
        let indent = if start > 0 && indent + first.width <= columns { indent } else { 0 };
        let mut row = StyledLine::default();
        row.push(" ".repeat(indent), TextRole::Plain);
        let end = clusters.fitting(start, columns - indent);
        if end == start {
            row.push(CUT, TextRole::Dim);
            start += 1;
        } else {
            let end = clusters.word_end(start, end);
            clusters.write(start..end, &mut row);
            start = end;
        }
        rows.push(row);
    }
    rows
}

/// Appends spaces up to this number of columns.
pub(crate) fn pad(line: &mut StyledLine, columns: usize) {
    line.push(" ".repeat(columns.saturating_sub(line.width())), TextRole::Plain);
}

/// Returns a row with one text at the left and another one at the right, which has precedence.
pub(crate) fn spread_row(left: &StyledLine, right: &StyledLine, columns: usize) -> StyledLine {
    if right.width() + 2 > columns {
        return clipped_line(if left.width() == 0 { right } else { left }, columns);
    }
    if right.width() == 0 {
        return clipped_line(left, columns);
    }
    let mut row = clipped_line(left, columns - right.width() - 2);
    pad(&mut row, columns - right.width());
    row.append(right);
    row
}

/// Returns a line with emphasis on these ranges, which are in bytes of its text.
pub(crate) fn emphasized(line: &StyledLine, ranges: &[(Range<usize>, Emphasis)]) -> StyledLine {
    let mut result = StyledLine::default();
    let mut start = 0;
    for span in line.spans() {
        let end = start + span.text.len();
        let mut at = start;
        for (range, emphasis) in ranges {
            let (first, last) = (range.start.max(at), range.end.min(end));
            if first >= last {
                continue;
            }
            result.push(&span.text[at - start..first - start], span.look.clone());
            let look =
                TextLook { emphasis: span.look.emphasis.with(*emphasis), ..span.look.clone() };
            result.push(&span.text[first - start..last - start], look);
            at = last;
        }
        result.push(&span.text[at - start..], span.look.clone());
        start = end;
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> StyledLine {
        visible_line(
            &crow_text::neutralise(text),
            &[],
            &TextRole::Plain.into(),
            &TextRole::Plain.into(),
        )
    }

    fn texts(rows: &[StyledLine]) -> Vec<String> {
        rows.iter().map(StyledLine::text).collect()
    }

    #[test]
    fn texts_of_others_are_made_visible() {
        let table = [
            ("a\tb", "a   b"),
            ("\tb", "    b"),
            ("漢\tb", "漢  b"),
            ("\u{1b}[31mred", "␛[31mred"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("e\u{301}", "e\u{301}"),
            ("\u{301}x", "<U+0301>x"),
            ("👩\u{200d}💻", "👩\u{200d}💻"),
        ];
        for (text, expected) in table {
            assert_eq!(visible_text(text), expected, "{text:?}");
        }
        let marks = format!("a{}", "\u{301}".repeat(1000));
        assert!(visible_text(&marks).chars().count() < 40);
        assert_eq!(visible_title(" one\n\ttwo "), "one two");
    }

    #[test]
    fn a_mark_covers_whole_clusters() {
        let (plain, marked) = (TextLook::from(TextRole::Plain), TextLook::from(TextRole::Accent));
        let shown = visible_line("ae\u{301}b\tc", &[2..4, 5..6], &plain, &marked);
        let spans: Vec<_> =
            shown.spans().iter().map(|span| (span.text.as_str(), span.look.role)).collect();
        assert_eq!(
            spans,
            [
                ("a", TextRole::Plain),
                ("e\u{301}", TextRole::Accent),
                ("b", TextRole::Plain),
                (" ", TextRole::Accent),
                ("c", TextRole::Plain),
            ]
        );
    }

    #[test]
    fn rows_after_the_first_one_are_indented() {
        assert_eq!(texts(&wrapped_rows(&line("abcdefgh"), 4, 1)), ["abcd", " efg", " h"]);
        assert_eq!(texts(&wrapped_rows(&line("abcd"), 4, 1)), ["abcd"]);
        assert_eq!(texts(&wrapped_rows(&line("漢字漢"), 3, 0)), ["漢", "字", "漢"]);
        assert_eq!(texts(&wrapped_rows(&line("漢a"), 1, 3)), ["…", "a"]);
        assert_eq!(texts(&wrapped_rows(&line(""), 4, 1)), [""]);
    }

    #[test]
    fn rows_end_between_words_in_their_second_half() {
        let table: [(&str, &[&str]); 5] = [
            ("one two three four", &["one two ", "three four"]),
            ("one two  three", &["one two  ", "three"]),
            ("a bcdefghijklm", &["a bcdefghi", "jklm"]),
            ("abcdefghij klm", &["abcdefghij", " klm"]),
            ("abcdefghi jklm", &["abcdefghi ", "jklm"]),
        ];
        for (text, expected) in table {
            assert_eq!(texts(&wrapped_rows(&line(text), 10, 0)), expected, "{text}");
        }
    }

    #[test]
    fn the_right_text_is_kept_when_there_is_little_room() {
        assert_eq!(spread_row(&line("left"), &line("right"), 12).text(), "left   right");
        assert_eq!(spread_row(&line("left"), &line("right"), 10).text(), "le…  right");
        assert_eq!(spread_row(&line("left"), &line("right"), 6).text(), "left");
        assert_eq!(spread_row(&line(""), &line("right"), 4).text(), "rig…");
    }

    #[test]
    fn emphasis_divides_spans() {
        let mut text = StyledLine::default();
        text.push("abc", TextRole::Plain);
        text.push("def", TextRole::Accent);
        let shown = emphasized(&text, &[(1..4, Emphasis::BOLD), (5..6, Emphasis::REVERSE)]);
        let spans: Vec<_> =
            shown.spans().iter().map(|span| (span.text.as_str(), span.look.emphasis)).collect();
        assert_eq!(
            spans,
            [
                ("a", Emphasis::NONE),
                ("bc", Emphasis::BOLD),
                ("d", Emphasis::BOLD),
                ("e", Emphasis::NONE),
                ("f", Emphasis::REVERSE),
            ]
        );
    }

    #[test]
    fn the_end_of_a_text_fits() {
        let table = [("abcdef", 3, "def"), ("漢字", 3, "字"), ("ab", 5, "ab"), ("ab", 0, "")];
        for (text, columns, expected) in table {
            assert_eq!(fitting_end(text, columns), expected, "{text} {columns}");
        }
    }

    proptest! {
        #[test]
        fn no_row_is_wider_than_its_columns(text in "\\PC{0,60}|[a-c漢\u{301}\u{fe0f}\u{200d}👩☺\t]{0,60}", columns in 1_usize..20, indent in 0_usize..20) {
            let line = line(&text);
            prop_assert!(clipped_line(&line, columns).width() <= columns);
            let rows = wrapped_rows(&line, columns, indent);
            for row in &rows {
                prop_assert!(row.width() <= columns, "{row:?}");
            }
            let fits = text.graphemes(true).all(|cluster| cluster.width() <= columns);
            if fits && indent == 0 {
                prop_assert_eq!(texts(&rows).concat(), line.text());
            }
        }
    }
}
