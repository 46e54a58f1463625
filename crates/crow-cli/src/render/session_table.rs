//! The table of sessions.

use jiff::Timestamp;

use crow_console::{
    ConsoleStyle, Paint,
    wrap::{shorten_end, shorten_middle, width},
};
use crow_text::one_line;

/// Minimum characters of a shortened id.
const LEAST_ID: usize = 8;
/// Separator of columns.
const GAP: &str = "  ";
/// Minimum columns of title, model and folder. A model or folder that gets fewer is left out.
const LEAST: [usize; 3] = [16, 12, 12];
/// Number of table columns.
const COLUMNS: usize = 6;

/// Row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRow {
    /// Complete session id.
    pub id: String,
    /// Time of the last activity.
    pub updated: Timestamp,
    /// Title of the session.
    pub title: String,
    /// Tokens and cost; empty if unknown.
    pub usage: String,
    /// The provider and model, as `provider/model`.
    pub model: String,
    /// The working directory in display form, with `~` for the home directory.
    pub cwd: String,
}

/// Renders the table with a heading, cut to the width. Ids are shortened to the length at which they differ.
pub(crate) fn session_table(style: &ConsoleStyle, rows: &[SessionRow], now: Timestamp) -> String {
    let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
    let id_width = unique_prefix_length(&ids);
    let heading = ["ID", "UPDATED", "TITLE", "USED", "MODEL", "FOLDER"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let id = row.id.chars().take(id_width).collect::<String>();
        let texts = [&id, &ago(row.updated, now), &row.title, &row.usage, &row.model, &row.cwd];
        texts.map(|text| one_line(text))
    });
    let table: Vec<[String; COLUMNS]> = std::iter::once(heading).chain(cells).collect();
    let widths = fit(natural_widths(&table), style.width);
    let mut out = String::new();
    for (number, row) in table.iter().enumerate() {
        let paint = if number == 0 { Paint::Bold } else { Paint::Plain };
        paint.write(style, &table_row(style, row, widths), &mut out);
        out.push('\n');
    }
    out
}

fn table_row(style: &ConsoleStyle, row: &[String; COLUMNS], widths: [usize; COLUMNS]) -> String {
    let mut line = String::new();
    for (index, (cell, columns)) in row.iter().zip(widths).enumerate() {
        if columns == 0 {
            continue;
        }
        let is_title = index == 2;
        let cell = if is_title {
            shorten_end(cell, columns, style.glyphs)
        } else {
            shorten_middle(cell, columns, style.glyphs)
        };
        let padding = columns.saturating_sub(width(&cell));
        if index > 0 {
            line.push_str(GAP);
        }
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.trim_end().to_owned()
}

fn natural_widths(table: &[[String; COLUMNS]]) -> [usize; COLUMNS] {
    let mut widths = [0; COLUMNS];
    for row in table {
        for (columns, cell) in widths.iter_mut().zip(row) {
            *columns = width(cell).max(*columns);
        }
    }
    widths
}

/// Returns the column widths of rows that fit into `max_width` columns. Shrinks the folder, then the model, then the
/// title to their minimum; if that is not enough, drops the model, then the folder, then the usage. Columns that remain
/// free go to the title, the model and the folder, in this order. The id is never cut.
fn fit(
    [id, updated, title, used, model, folder]: [usize; COLUMNS],
    max_width: usize,
) -> [usize; COLUMNS] {
    let [least_title, least_model, least_folder] = LEAST;
    let mut widths = [id, updated, title, used, model, folder];
    // 1) Shrink and drop columns, one stage after another, until the row fits.
    let stages = [
        [title, used, model, least_folder.min(folder)],
        [title, used, least_model.min(model), least_folder.min(folder)],
        [least_title.min(title), used, least_model.min(model), least_folder.min(folder)],
        [least_title.min(title), used, 0, least_folder.min(folder)],
        [least_title.min(title), used, 0, 0],
        [least_title.min(title), 0, 0, 0],
    ];
    for [title, used, model, folder] in stages {
        if total(widths) <= max_width {
            break;
        }
        widths = [id, updated, title, used, model, folder];
    }
    // 2) Give free columns back to title, model and folder.
    let spare = max_width.saturating_sub(total(widths));
    let [_, _, given_title, given_used, given_model, given_folder] = widths;
    let title_gain = spare.min(title.saturating_sub(given_title));
    let more = spare - title_gain;
    let model_gain = if given_model == 0 { 0 } else { more.min(model - given_model) };
    let more = more - model_gain;
    let folder_gain = if given_folder == 0 { 0 } else { more.min(folder - given_folder) };
    [
        id,
        updated,
        given_title + title_gain,
        given_used,
        given_model + model_gain,
        given_folder + folder_gain,
    ]
}

fn total(widths: [usize; COLUMNS]) -> usize {
    let shown = widths.iter().filter(|columns| **columns > 0).count();
    widths.iter().sum::<usize>() + GAP.len() * shown.saturating_sub(1)
}

/// Returns the length to which ids can be shortened without ambiguity, at least [`LEAST_ID`].
pub(super) fn unique_prefix_length(ids: &[&str]) -> usize {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let shared = |(left, right): (&&str, &&str)| {
        left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count()
    };
    let longest = ids.iter().zip(ids.iter().skip(1)).map(shared).max().unwrap_or(0);
    LEAST_ID.max(longest + 1)
}

/// Formats an age: `just now`, `5 min ago`, `3 h ago`, `2 d ago`, or the date after 30 days.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    match seconds {
        ..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => then.strftime("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<SessionRow> {
        let row = |id: &str, updated: i64, title: &str| SessionRow {
            id: id.into(),
            updated: Timestamp::from_second(1_700_000_000 - updated).unwrap(),
            title: title.into(),
            usage: "12.3k $0.0420".into(),
            model: "anthropic/claude-sonnet-4-5".into(),
            cwd: "~/projects/somewhere/deep/crow".into(),
        };
        vec![
            row("018f2b6e-1111-7000-8000-000000000001", 20, "Fix the parser"),
            row(
                "018f2b6e-2222-7000-8000-000000000002",
                3700,
                "Rename everything that is called a manager\nnow",
            ),
            row("01900000-3333-7000-8000-000000000003", 90_000, "\u{1b}[2J漢字 and more words"),
            row("01900001-4444-7000-8000-000000000004", 9_000_000, ""),
        ]
    }

    fn table(columns: usize) -> String {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        session_table(&ConsoleStyle::plain(columns), &rows(), now)
    }

    #[test]
    fn a_wide_screen_shows_all_columns() {
        insta::assert_snapshot!(table(140));
    }

    #[test]
    fn a_narrow_screen_shows_what_tells_sessions_apart() {
        insta::assert_snapshot!(table(80));
        insta::assert_snapshot!(table(40));
    }

    #[test]
    fn no_row_is_wider_than_the_screen() {
        for columns in 40..150 {
            for line in table(columns).lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn no_sessions_give_the_heading_alone() {
        assert_eq!(
            session_table(&ConsoleStyle::plain(80), &[], Timestamp::UNIX_EPOCH).lines().count(),
            1
        );
    }
}
