//! The table of calls that changed files, with the undos between them (`sessions show --changes`).

use std::{collections::BTreeMap, fmt::Write as _};

use crow_core::ids::CallId;
use crow_runtime::{ChangedCall, UndoAction, UndoRecord};

use crow_console::{
    ConsoleStyle, Paint,
    words::count,
    wrap::{shorten_end, shorten_middle, width, wrap_hanging},
};
use crow_text::one_line;

use super::session_table::unique_prefix_length;

const GAP: &str = "  ";
const HEADING: [&str; COLUMNS] = ["TURN", "CALL", "TOOL", "FILES", "+/-", "TITLE"];
const COLUMNS: usize = 6;
/// Minimum columns of the title. If it gets fewer, the columns in [`LEFT_OUT`] are dropped one after another.
const LEAST_TITLE: usize = 16;
/// Indices of the columns that can be dropped, the least important first: tool, lines, files.
const LEFT_OUT: [usize; 3] = [2, 4, 3];
/// Maximum columns of a call id.
const LONGEST_ID: usize = 40;

/// Entry of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangeLine<'a> {
    Call(&'a ChangedCall),
    Undo(&'a UndoRecord),
}

/// Merges calls and undo records by time.
pub(crate) fn merge_by_time<'a>(
    calls: &'a [ChangedCall],
    records: &'a [UndoRecord],
) -> Vec<ChangeLine<'a>> {
    let calls = calls.iter().map(|call| (call.time, ChangeLine::Call(call)));
    let records = records.iter().map(|record| (record.time, ChangeLine::Undo(record)));
    let mut entries: Vec<_> = calls.chain(records).collect();
    entries.sort_by_key(|(time, _)| *time);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Renders the table with a heading. Ids are shortened to the length at which they differ. `irreversible` maps the
/// `seq` of a call to the number of its changes that cannot be undone.
pub(crate) fn change_table(
    style: &ConsoleStyle,
    entries: &[ChangeLine<'_>],
    irreversible: &BTreeMap<u64, usize>,
) -> String {
    // 1) Cells: all ids get the same length, at which they differ.
    let ids: Vec<&str> = entries.iter().filter_map(id).collect();
    let id_width = unique_prefix_length(&ids).min(LONGEST_ID);
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| match entry {
            ChangeLine::Call(call) => {
                ChangeTableRow::Call(cells(call, id_width), marks(call, irreversible))
            }
            ChangeLine::Undo(record) => ChangeTableRow::Undo(undo_text(record, id_width)),
        })
        .collect();
    // 2) Columns, then lines; marks of a call follow on a line of their own.
    let widths = fit(style, &rows);
    let mut out = String::new();
    Paint::Bold.write(style, &line(style, &HEADING.map(str::to_owned), widths), &mut out);
    out.push('\n');
    for row in &rows {
        match row {
            ChangeTableRow::Call(cells, marks) => {
                out.push_str(&line(style, cells, widths));
                out.push('\n');
                if !marks.is_empty() {
                    out.push_str(&wrap_hanging(style, Paint::Yellow, ("      ", "      "), marks));
                }
            }
            ChangeTableRow::Undo(text) => {
                let mark = style.glyphs.pick("↶ ", "< ");
                out.push_str(&wrap_hanging(style, Paint::Dim, (mark, "  "), text));
            }
        }
    }
    out
}

enum ChangeTableRow {
    Call([String; COLUMNS], String),
    Undo(String),
}

fn id<'a>(entry: &ChangeLine<'a>) -> Option<&'a str> {
    match entry {
        ChangeLine::Call(call) => Some(call.call_id.as_str()),
        ChangeLine::Undo(_) => None,
    }
}

fn short(id: &CallId, columns: usize) -> String {
    one_line(&id.as_str().chars().take(columns).collect::<String>())
}

fn cells(call: &ChangedCall, id_width: usize) -> [String; COLUMNS] {
    [
        call.turn.to_string(),
        short(&call.call_id, id_width),
        one_line(&call.tool),
        call.changes.paths().to_string(),
        format!("+{} -{}", call.changes.additions, call.changes.deletions),
        one_line(&call.title),
    ]
}

fn marks(call: &ChangedCall, irreversible: &BTreeMap<u64, usize>) -> String {
    let irreversible = irreversible.get(&call.seq).copied().unwrap_or(0);
    let marks = [
        (call.undone, "undone".to_owned()),
        (call.cut_off, "cut off: others may have made some of it".to_owned()),
        (call.shared && !call.cut_off, "shared: others may have made some of it".to_owned()),
        (irreversible > 0, format!("{irreversible} cannot be undone")),
    ];
    let texts: Vec<_> =
        marks.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect();
    texts.join(", ")
}

fn undo_text(record: &UndoRecord, id_width: usize) -> String {
    let verb = match record.action {
        UndoAction::Undo => "undone",
        UndoAction::Redo => "done again",
        UndoAction::Restore => "a path was restored",
    };
    let ids: Vec<_> = record.calls.iter().map(|call| short(&call.call_id, id_width)).collect();
    let mut text = verb.to_owned();
    // Writing to a string cannot fail.
    match ids.len() {
        0 => {}
        1..=4 => drop(write!(text, ": {}", ids.join(", "))),
        more => drop(write!(text, ": {}", count(more as u64, "call"))),
    }
    if record.last_kept.is_some() {
        text.push_str(", and the conversation went back");
    }
    text
}

/// Returns the column widths: natural, minus dropped columns (width 0), with the title cut to the remaining room.
fn fit(style: &ConsoleStyle, rows: &[ChangeTableRow]) -> [usize; COLUMNS] {
    let mut widths = HEADING.map(str::len);
    for row in rows {
        let ChangeTableRow::Call(cells, _) = row else { continue };
        for (columns, cell) in widths.iter_mut().zip(cells) {
            *columns = width(cell).max(*columns);
        }
    }
    let before = |widths: &[usize; COLUMNS]| {
        let others = widths.iter().take(COLUMNS - 1).filter(|columns| **columns > 0);
        others.map(|columns| columns + GAP.len()).sum::<usize>()
    };
    for left_out in LEFT_OUT {
        if before(&widths) + LEAST_TITLE <= style.width {
            break;
        }
        if let Some(columns) = widths.get_mut(left_out) {
            *columns = 0;
        }
    }
    let room = style.width.saturating_sub(before(&widths)).max(8);
    if let Some(title) = widths.last_mut() {
        *title = (*title).min(room);
    }
    widths
}

fn line(style: &ConsoleStyle, cells: &[String; COLUMNS], widths: [usize; COLUMNS]) -> String {
    let mut line = String::new();
    for (index, (cell, columns)) in cells.iter().zip(widths).enumerate() {
        if columns == 0 {
            continue;
        }
        let cell = match index {
            5 => shorten_end(cell, columns, style.glyphs),
            _ => shorten_middle(cell, columns, style.glyphs),
        };
        if !line.is_empty() {
            line.push_str(GAP);
        }
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&cell))));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use crow_core::{
        ids::{SessionId, SnapshotId, UndoId},
        tool::ChangeCounts,
    };
    use crow_runtime::CallKey;
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn call(seq: u64, title: &str) -> ChangedCall {
        ChangedCall {
            seq,
            started: seq,
            session_id: SessionId::new("s"),
            agent: "builder".into(),
            call_id: CallId::new(format!("toolu_0{seq}abcdef")),
            tool: "bash".into(),
            title: title.into(),
            time: at(i64::try_from(seq).unwrap()),
            turn: 1,
            before: SnapshotId::new("before"),
            after: Some(SnapshotId::new("after")),
            changes: ChangeCounts {
                created: 12,
                deleted: 0,
                modified: 3,
                additions: 1200,
                deletions: 7,
            },
            files: Vec::new(),
            shared: false,
            cut_off: false,
            undone: false,
        }
    }

    fn table(columns: usize) -> String {
        let mut calls = vec![
            call(1, "rm -rf \u{1b}[2J src && find . -name '*.md'"),
            call(3, "漢字 make"),
            call(5, "x"),
        ];
        calls[0].undone = true;
        calls[1].shared = true;
        calls[2].after = None;
        calls[2].cut_off = true;
        let key = CallKey { seq: 1, call_id: calls[0].call_id.clone() };
        let record = |id: &str, second: i64, action, calls: Vec<CallKey>| UndoRecord {
            id: UndoId::new(id),
            time: at(second),
            action,
            calls,
            reverses: None,
            before: SnapshotId::new("before"),
            after: SnapshotId::new("after"),
            notice: None,
            last_kept: (action == UndoAction::Undo).then_some(3),
            last_seen: None,
            exceptions: Vec::new(),
            left: Vec::new(),
            copies: Vec::new(),
            intent: None,
            continues: None,
            stays: None,
        };
        let records = [
            record("u1", 4, UndoAction::Undo, vec![key.clone()]),
            record("u2", 6, UndoAction::Restore, Vec::new()),
            record("u3", 7, UndoAction::Redo, vec![key; 5]),
        ];
        let irreversible = BTreeMap::from([(3, 2)]);
        change_table(&ConsoleStyle::plain(columns), &merge_by_time(&calls, &records), &irreversible)
    }

    #[test]
    fn calls_and_undos_stand_in_the_order_in_which_they_happened() {
        insta::assert_snapshot!(table(100));
    }

    #[test]
    fn a_narrow_screen_shows_what_names_a_call() {
        insta::assert_snapshot!(table(40));
        for columns in 40..120 {
            for line in table(columns).lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
    }
}
