//! What an undo, a redo or a restore did, for people.

use std::path::Path;

use crow_core::tool::FileChange;
use crow_runtime::{ChangedCall, PathOutcome, RestoredPath, UndoAction, UndoReport};

use super::{
    ConsoleStyle,
    neutral::one_line,
    paint::Paint,
    words::count,
    wrap::{hanging, shorten_middle, width, wrapped},
};

/// How many paths of a kind are listed.
const LISTED: usize = 50;
/// The least columns of a path.
const LEAST_PATH: usize = 12;

/// How the person gives commands, so that what can be done next is said in their words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prompting {
    /// As arguments of the program; with the option that names the session, if it was named.
    Program(Option<String>),
    /// In a chat.
    Chat,
}

impl Prompting {
    fn command(&self, name: &str) -> String {
        match self {
            Self::Program(None) => format!("crow-agent {name}"),
            Self::Program(Some(session)) => format!("crow-agent {name} --session {session}"),
            Self::Chat => format!("/{name}"),
        }
    }
}

/// Writes what became of each path, a line each, and what there is to know and to do beside it.
pub(crate) fn undo_report(
    style: &ConsoleStyle,
    root: &Path,
    report: &UndoReport,
    prompting: &Prompting,
) -> String {
    let mut text = what(style, report);
    let (done, left): (Vec<_>, Vec<_>) = report
        .paths
        .iter()
        .filter(|path| path.outcome != PathOutcome::Unchanged)
        .partition(|path| matches!(path.outcome, PathOutcome::Restored { .. }));
    for paths in [&done, &left] {
        for path in paths.iter().take(LISTED) {
            text.push_str(&path_lines(style, root, path, report));
        }
        if paths.len() > LISTED {
            let more = format!("and {} more; --output json lists all", paths.len() - LISTED);
            text.push_str(&wrapped(style, Paint::Dim, "  ", &more));
        }
    }
    if left.iter().any(|path| matches!(path.outcome, PathOutcome::Conflict { .. })) {
        let hint = "--force puts it back and keeps a copy beside it";
        text.push_str(&wrapped(style, Paint::Dim, "  ", hint));
    }
    text.push_str(&wrapped(style, Paint::Bold, "", &summary(report, done.len(), left.len())));
    for remark in remarks(report, done.len(), prompting) {
        text.push_str(&wrapped(style, Paint::Dim, "", &remark));
    }
    text
}

/// Says which calls it is about.
fn what(style: &ConsoleStyle, report: &UndoReport) -> String {
    let verb = match (report.action, report.dry_run) {
        (UndoAction::Undo, false) => "undone",
        (UndoAction::Undo, true) => "would be undone",
        (UndoAction::Redo, false) => "done again",
        (UndoAction::Redo, true) => "would be done again",
        // Which path it is stands below.
        (UndoAction::Restore, _) => return String::new(),
    };
    let text = match report.calls.as_slice() {
        [] => return String::new(),
        [call] => format!("{verb}: {} ({})", one_line(&call.title), turns(&report.calls)),
        calls => format!("{verb}: {} ({})", count(calls.len() as u64, "call"), turns(calls)),
    };
    hanging(style, Paint::Plain, ("", "  "), &text)
}

fn turns(calls: &[ChangedCall]) -> String {
    let turns = || calls.iter().map(|call| call.turn);
    let (first, last) = (turns().min().unwrap_or(0), turns().max().unwrap_or(0));
    if first == last { format!("turn {first}") } else { format!("turns {first} to {last}") }
}

fn path_lines(
    style: &ConsoleStyle,
    root: &Path,
    restored: &RestoredPath,
    report: &UndoReport,
) -> String {
    let (glyphs, dry_run) = (style.glyphs, report.dry_run);
    let (mark, paint, note) = match &restored.outcome {
        PathOutcome::Restored { how, copy } => {
            let (mark, paint, word) = restoring(*how, report.action);
            let would = if dry_run { "would be " } else { "" };
            let kept = copy.as_ref().map(|copy| kept_copy(root, copy, dry_run));
            (mark, paint, format!("{would}{word}{}", kept.unwrap_or_default()))
        }
        PathOutcome::Unchanged => ("=", Paint::Dim, "as wanted already".to_owned()),
        PathOutcome::Conflict { reason } => {
            ("!", Paint::Yellow, format!("{}: {}", left_alone(dry_run), one_line(reason)))
        }
        PathOutcome::NotRestorable { reason } => {
            ("!", Paint::Yellow, format!("cannot be put back: {}", one_line(reason)))
        }
        PathOutcome::Failed { error } => {
            (glyphs.pick("✗", "x"), Paint::Red, format!("failed: {}", one_line(error)))
        }
    };
    let name = one_line(&shown(root, &restored.path));
    let mut text = String::from("  ");
    paint.write(style, mark, &mut text);
    if width(mark) + width(&name) + width(&note) + 6 <= style.width {
        text.push_str(&format!(" {name}  "));
        Paint::Dim.write(style, &note, &mut text);
        text.push('\n');
        return text;
    }
    let whole = style.width.saturating_sub(5).max(LEAST_PATH);
    text.push_str(&format!(" {}\n", shorten_middle(&name, whole, glyphs)));
    text + &wrapped(style, Paint::Dim, "      ", &note)
}

fn restoring(how: FileChange, action: UndoAction) -> (&'static str, Paint, &'static str) {
    match (how, action) {
        (FileChange::Created, UndoAction::Undo | UndoAction::Restore) => {
            ("+", Paint::Green, "brought back")
        }
        (FileChange::Created, UndoAction::Redo) => ("+", Paint::Green, "made again"),
        (FileChange::Deleted, _) => ("-", Paint::Red, "removed"),
        (FileChange::Modified, UndoAction::Undo | UndoAction::Restore) => {
            ("~", Paint::Cyan, "changed back")
        }
        (FileChange::Modified, UndoAction::Redo) => ("~", Paint::Cyan, "changed again"),
    }
}

fn kept_copy(root: &Path, copy: &Path, dry_run: bool) -> String {
    let verb = if dry_run { "would be" } else { "is" };
    format!("; what was there {verb} kept in {}", one_line(&shown(root, copy)))
}

fn left_alone(dry_run: bool) -> &'static str {
    if dry_run { "would be left alone" } else { "left alone" }
}

fn summary(report: &UndoReport, done: usize, left: usize) -> String {
    if (done, left) == (0, 0) {
        return "nothing is to be done: every path is as wanted already".to_owned();
    }
    let verb = match (report.action, report.dry_run) {
        (UndoAction::Undo | UndoAction::Restore, false) => "put back",
        (UndoAction::Undo | UndoAction::Restore, true) => "would be put back",
        (UndoAction::Redo, false) => "changed again",
        (UndoAction::Redo, true) => "would be changed again",
    };
    let mut text = format!("{} {verb}", count(done as u64, "path"));
    if left > 0 {
        text.push_str(&format!(", {left} {}", left_alone(report.dry_run)));
    }
    if report.dry_run {
        text.push_str("; nothing was changed");
    }
    text
}

/// What there is to know and to do beside the files.
fn remarks(report: &UndoReport, done: usize, prompting: &Prompting) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(turn) = report.rewound_to {
        let goes = if report.dry_run { "would go" } else { "goes" };
        remarks.push(format!("the conversation {goes} on from before turn {turn}"));
    }
    if report.told_later {
        let is = if report.dry_run { "would be" } else { "is" };
        remarks.push(format!(
            "the agent of this session runs elsewhere: it {is} told before its next step"
        ));
    }
    if done > 0 && !report.dry_run {
        remarks.push(match report.action {
            UndoAction::Undo => format!("{} brings it back", prompting.command("redo")),
            UndoAction::Redo | UndoAction::Restore => {
                format!("{} takes it back", prompting.command("undo"))
            }
        });
    }
    remarks
}

/// Paths below the folder of the session are shown from there.
pub(super) fn shown(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty());
    below.unwrap_or(path).to_string_lossy().into_owned()
}
