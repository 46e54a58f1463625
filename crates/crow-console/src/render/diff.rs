//! Renders diffs with line numbers, signs and highlighted words.
//!
//! Three passes: [`rows_of`] makes rows of the parts of the hunks, [`mark_words`] marks the words that differ in
//! deleted and added lines, [`write_row`] writes the rows. [`CodeRow`] breaks a line that is wider than the screen and
//! cuts one that is longer than [`LONGEST_LINE`].

use std::ops::Range;

use crow_core::tool::{FileDiff, Patch};

use super::{
    ConsoleStyle,
    diff_model::{DiffLineKind, DiffPart, changed_words, diff_parts, paired_lines},
    neutralise, one_line,
    style::Paint,
    words,
    wrap::char_width,
};

/// Columns of the line number.
const NUMBER_WIDTH: usize = 5;
/// Maximum columns of one line of a file, summed over the screen lines that it takes.
const LONGEST_LINE: usize = 320;
/// Columns of a tab.
const TAB: usize = 4;

/// Row of the rendered diff.
enum DiffRow {
    /// Omitted unchanged lines.
    Gap,
    Line(TextDiffLine),
}

/// Line of the file.
struct TextDiffLine {
    kind: DiffLineKind,
    number: u64,
    text: String,
    /// The positions of the changed words in `text`. Empty if no words were compared.
    changed: Vec<Range<usize>>,
}

/// Renders a patch, at most `style.diff_lines` rows of it.
pub(super) fn diff(style: &ConsoleStyle, patch: &Patch) -> String {
    let mut out = String::new();
    let mut budget = style.diff_lines;
    let mut hidden = 0;
    for file in &patch.files {
        if patch.files.len() > 1 {
            let name = one_line(&file.path.to_string_lossy());
            Paint::Bold.write(style, &format!("  {name}"), &mut out);
            out.push('\n');
        }
        let (mut rows, omitted) = rows_of(&file.hunks, budget);
        mark_words(&mut rows);
        for row in &rows {
            write_row(style, row, &mut out);
        }
        budget = budget.saturating_sub(rows.len());
        hidden += omitted;
    }
    write_rest(style, hidden, &patch.files, &mut out);
    out
}

fn write_rest(style: &ConsoleStyle, hidden: u64, files: &[FileDiff], out: &mut String) {
    let mark = style.glyphs.pick("…", "...");
    if hidden > 0 {
        let more = words::count(hidden, "more line");
        Paint::Dim.write(style, &format!("  {mark} {more}"), out);
        out.push('\n');
    }
    if files.iter().any(|file| file.truncated) {
        Paint::Dim.write(style, &format!("  {mark} and a part too long to store"), out);
        out.push('\n');
    }
}

/// Makes at most `limit` rows of hunks; also returns the number of further lines.
fn rows_of(hunks: &str, limit: usize) -> (Vec<DiffRow>, u64) {
    let (mut rows, mut omitted) = (Vec::new(), 0);
    for part in diff_parts(hunks) {
        match part {
            DiffPart::Hunk { .. } if !rows.is_empty() && rows.len() < limit => {
                rows.push(DiffRow::Gap);
            }
            DiffPart::Hunk { .. } | DiffPart::NoLineFeed => {}
            DiffPart::Line(_) if rows.len() >= limit => omitted += 1,
            DiffPart::Line(line) => {
                let number = if line.kind == DiffLineKind::Deleted { line.old } else { line.new };
                let text = &hunks[line.text];
                let text = neutralise(text.strip_suffix('\r').unwrap_or(text));
                let changed = Vec::new();
                rows.push(DiffRow::Line(TextDiffLine { kind: line.kind, number, text, changed }));
            }
        }
    }
    (rows, omitted)
}

/// Marks the changed words of lines that replace each other.
fn mark_words(rows: &mut [DiffRow]) {
    let kind = |row: &DiffRow| match row {
        DiffRow::Gap => None,
        DiffRow::Line(line) => Some(line.kind),
    };
    let kinds: Vec<Option<DiffLineKind>> = rows.iter().map(kind).collect();
    for (old, new) in paired_lines(&kinds) {
        let Ok([DiffRow::Line(old), DiffRow::Line(new)]) = rows.get_disjoint_mut([old, new]) else {
            continue;
        };
        if let Some(words) = changed_words(&old.text, &new.text) {
            (old.changed, new.changed) = (words.old, words.new);
        }
    }
}

fn write_row(style: &ConsoleStyle, row: &DiffRow, out: &mut String) {
    match row {
        DiffRow::Gap => {
            let mark = style.glyphs.pick("⋮", ":");
            Paint::Dim.write(style, &format!("{mark:>NUMBER_WIDTH$}"), out);
            out.push('\n');
        }
        DiffRow::Line(line) => write_line(style, line, out),
    }
}

fn write_line(style: &ConsoleStyle, line: &TextDiffLine, out: &mut String) {
    let (sign, plain, strong) = match line.kind {
        DiffLineKind::Context => (' ', Paint::Plain, Paint::Plain),
        DiffLineKind::Deleted => ('-', Paint::Red, Paint::RedWord),
        DiffLineKind::Added => ('+', Paint::Green, Paint::GreenWord),
    };
    let number = line.number;
    Paint::Dim.write(style, &format!("{number:>NUMBER_WIDTH$} "), out);
    let mut row = CodeRow::new(style, sign, plain, out);
    let mut end = 0;
    for changed in &line.changed {
        row.push(plain, &line.text[end..changed.start]);
        row.push(strong, &line.text[changed.clone()]);
        end = changed.end;
    }
    row.push(plain, &line.text[end..]);
    row.finish();
}

/// Writer of one line of a file, over as many screen lines as it needs.
struct CodeRow<'a> {
    style: &'a ConsoleStyle,
    out: &'a mut String,
    /// Paint of the buffered text, and the text.
    paint: Paint,
    text: String,
    room: usize,
    column: usize,
    /// Columns of the line of the file so far, and number of characters cut off.
    total: usize,
    omitted: u64,
}

impl<'a> CodeRow<'a> {
    fn new(style: &'a ConsoleStyle, sign: char, paint: Paint, out: &'a mut String) -> Self {
        let room = style.width.saturating_sub(NUMBER_WIDTH + 3).max(8);
        let text = format!("{sign} ");
        Self { style, out, paint, text, room, column: 0, total: 0, omitted: 0 }
    }

    fn push(&mut self, paint: Paint, text: &str) {
        if paint != self.paint {
            self.write_text();
            self.paint = paint;
        }
        for character in text.chars() {
            if character == '\t' {
                for _ in 0..TAB - self.total % TAB {
                    self.push_char(' ', 1);
                }
            } else {
                self.push_char(character, char_width(character));
            }
        }
    }

    fn push_char(&mut self, character: char, columns: usize) {
        if self.total + columns > LONGEST_LINE {
            self.omitted += 1;
            return;
        }
        if self.column + columns > self.room {
            self.write_text();
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', NUMBER_WIDTH + 3));
            self.column = 0;
        }
        self.text.push(character);
        self.column += columns;
        self.total += columns;
    }

    fn write_text(&mut self) {
        self.paint.write(self.style, &self.text, self.out);
        self.text.clear();
    }

    fn finish(mut self) {
        self.write_text();
        if self.omitted > 0 {
            let mark = self.style.glyphs.pick("…", "...");
            let more = words::count(self.omitted, "more character");
            Paint::Dim.write(self.style, &format!(" {mark} {more}"), self.out);
        }
        self.out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use crow_testkit::sample::with_readable_escapes;

    use super::*;
    use crate::render::Glyphs;

    fn patch(hunks: &str) -> Patch {
        let file = FileDiff {
            path: "src/a.rs".into(),
            additions: 0,
            deletions: 0,
            hunks: hunks.into(),
            truncated: false,
            ..FileDiff::without_lines("")
        };
        Patch { files: vec![file] }
    }

    const HUNKS: &str = "@@ -10,3 +10,4 @@ fn main()\n fn main() {\n-\tlet name = \"crow\";\n+\tlet title = \"crow\";\n+\tprint(title);\n }\n@@ -40 +41 @@\n-let x = compute(a, b);\n+let x = compute(a, c);\n\\ No newline at end of file\n";

    #[test]
    fn a_change_shows_numbers_signs_and_gaps() {
        insta::assert_snapshot!(diff(&ConsoleStyle::plain(80), &patch(HUNKS)));
    }

    #[test]
    fn changed_words_are_marked_in_colour() {
        let style = ConsoleStyle { colour: true, ..ConsoleStyle::plain(80) };
        insta::assert_snapshot!(with_readable_escapes(&diff(&style, &patch(HUNKS))));
    }

    #[test]
    fn a_long_change_is_cut_with_a_count() {
        let lines: Vec<_> = (0..100).map(|number| format!("+line {number}\n")).collect();
        let hunks = lines.concat();
        let style =
            ConsoleStyle { diff_lines: 3, glyphs: Glyphs::Ascii, ..ConsoleStyle::plain(80) };
        insta::assert_snapshot!(diff(&style, &patch(&hunks)));
    }

    #[test]
    fn a_long_line_goes_on_below_itself_and_ends_at_a_bound() {
        let text = diff(&ConsoleStyle::plain(40), &patch(&format!("+{}\n", "abcdefgh".repeat(60))));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn control_characters_of_a_file_are_made_visible() {
        let text = diff(&ConsoleStyle::plain(40), &patch("+\u{1b}[2Jx\u{202e}\n"));
        assert_eq!(text, "    1 + ␛[2Jx\\u{202e}\n");
    }

    #[test]
    fn several_files_are_named() {
        let mut both = patch("+a\n");
        both.files.push(FileDiff {
            path: "b\u{1b}.rs".into(),
            truncated: true,
            ..both.files[0].clone()
        });
        insta::assert_snapshot!(diff(&ConsoleStyle::plain(40), &both));
    }
}
