//! Renders the report of an undo, a redo or a restore.
//!
//! Order of the text: the calls concerned, a line for each path (restored ones first, then those left alone), a count
//! of ignored paths, hints, a summary in bold, and remarks on what the user can do next. Dry runs use the same text in
//! the conditional.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crow_core::tool::FileChange;
use crow_runtime::{ChangedCall, PathOutcome, RestoredPath, UndoAction, UndoReport};

use crow_console::{
    ConsoleStyle, Paint,
    words::count,
    wrap::{shorten_middle, width, wrap, wrap_hanging},
};
use crow_text::one_line;

use crate::quoted_path::path_text;

/// Maximum number of paths listed in each group.
const LISTED: usize = 50;
/// Minimum columns of a path.
const LEAST_PATH: usize = 12;

/// Form of commands in the remarks on what the user can do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandStyle {
    /// Arguments of the program, with `--session` if the session was named.
    Program(Option<String>),
    /// Slash commands of the chat.
    Chat,
}

impl CommandStyle {
    fn command(&self, name: &str) -> String {
        match self {
            Self::Program(None) => format!("crow-agent {name}"),
            Self::Program(Some(session)) => format!("crow-agent {name} --session {session}"),
            Self::Chat => format!("/{name}"),
        }
    }
}

/// Renderer of an undo report.
#[derive(Debug)]
pub(crate) struct UndoReporter<'a> {
    pub(crate) style: &'a ConsoleStyle,
    /// Working directory of the session; paths below it are shown relative to it.
    pub(crate) root: &'a Path,
    pub(crate) command_style: CommandStyle,
    /// True if the undo was forced.
    pub(crate) forced: bool,
    /// The paths that git ignores. Restored ones without a copy are only counted.
    pub(crate) ignored: &'a BTreeSet<PathBuf>,
}

/// Parts of a line about a path.
struct PathLineStyle {
    mark: &'static str,
    paint: Paint,
    name: String,
    note: String,
}

impl UndoReporter<'_> {
    /// Renders the report, see the module.
    pub(crate) fn text(&self, report: &UndoReport) -> String {
        let is_done = |path: &&RestoredPath| matches!(path.outcome, PathOutcome::Restored { .. });
        let affected = report.paths.iter().filter(|path| path.outcome != PathOutcome::Unchanged);
        let (done, skipped): (Vec<_>, Vec<_>) = affected.partition(is_done);
        let mut text = self.heading(report, done.len(), skipped.len());
        let (ignored, listed): (Vec<_>, Vec<_>) =
            done.iter().copied().partition(|path| self.is_counted(path));
        // 1) Paths, restored ones first.
        for paths in [&listed, &skipped] {
            let lines = paths.iter().take(LISTED).map(|path| self.line(path, report)).collect();
            text.push_str(&self.lines(lines));
            if paths.len() > LISTED {
                let all = match self.command_style {
                    CommandStyle::Program(_) => "; --output json lists all",
                    CommandStyle::Chat => "",
                };
                let more = format!("and {} more{all}", paths.len() - LISTED);
                text.push_str(&wrap(self.style, Paint::Dim, "  ", &more));
            }
        }
        text.push_str(&self.counted(&ignored));
        // 2) Hints.
        let is_forcible = |path: &&RestoredPath| {
            matches!(path.outcome, PathOutcome::Conflict { forcible: true, .. })
        };
        if !self.forced && skipped.iter().any(is_forcible) {
            let hint = "--force puts it back and keeps a copy beside it";
            text.push_str(&wrap(self.style, Paint::Dim, "  ", hint));
        }
        if self.forced && report.dry_run && !done.is_empty() {
            let hint = "copies of what others may have changed would be kept";
            text.push_str(&wrap(self.style, Paint::Dim, "  ", hint));
        }
        // 3) Summary and remarks.
        let sum = summary(report, done.len(), skipped.len());
        text.push_str(&wrap(self.style, Paint::Bold, "", &sum));
        for remark in remarks(report, done.len(), &self.command_style) {
            text.push_str(&wrap(self.style, Paint::Dim, "", &remark));
        }
        text
    }

    /// Returns true if a restored path is only counted: git ignores it, and no copy was kept whose name the user needs.
    fn is_counted(&self, path: &RestoredPath) -> bool {
        self.ignored.contains(&path.path)
            && matches!(path.outcome, PathOutcome::Restored { copy: None, .. })
    }

    fn counted(&self, paths: &[&RestoredPath]) -> String {
        let Some(first) = paths.first() else { return String::new() };
        let name = one_line(&display_path(self.root, &first.path));
        let others = match paths.len() {
            1 => String::new(),
            _ => " and others".to_owned(),
        };
        let text =
            format!("{} that git ignores: {name}{others}", count(paths.len() as u64, "path"));
        wrap(self.style, Paint::Dim, "  ", &text)
    }

    /// Renders the first line: the verb and the calls concerned. Empty for a restore and for a report without calls.
    fn heading(&self, report: &UndoReport, done: usize, skipped: usize) -> String {
        let verb = match (report.action, report.dry_run) {
            (UndoAction::Undo, false) => "undone",
            (UndoAction::Undo, true) => "would be undone",
            (UndoAction::Redo, false) => "done again",
            (UndoAction::Redo, true) => "would be done again",
            // The line of the path below says it all.
            (UndoAction::Restore, _) => return String::new(),
        };
        let (not, part) = match (done, skipped) {
            (_, 0) if report.not_chosen > 0 => ("", " in part"),
            (_, 0) => ("", ""),
            (0, _) => ("not ", ""),
            (_, _) => ("", " in part"),
        };
        let target = match report.calls.as_slice() {
            [] => return String::new(),
            [call] => one_line(&call.title),
            calls => count(calls.len() as u64, "call"),
        };
        let verb =
            if not.is_empty() { verb.into() } else { verb.replacen("would be", "would not be", 1) };
        let not = if report.dry_run { "" } else { not };
        let text = format!("{not}{verb}{part}: {target} ({})", turns(&report.calls));
        wrap_hanging(self.style, Paint::Plain, ("", "  "), &text)
    }

    fn line(&self, restored: &RestoredPath, report: &UndoReport) -> PathLineStyle {
        let dry_run = report.dry_run;
        let (mark, paint, note) = match &restored.outcome {
            PathOutcome::Restored { how, copy } => {
                let (mark, paint, word) = restoring(*how, report.action);
                let would = if dry_run { "would be " } else { "" };
                let copy_note = copy.as_ref().map(|copy| self.kept_copy(copy, dry_run));
                (mark, paint, format!("{would}{word}{}", copy_note.unwrap_or_default()))
            }
            PathOutcome::Unchanged => ("=", Paint::Dim, "already as wanted".to_owned()),
            PathOutcome::Conflict { reason, .. } => {
                ("!", Paint::Yellow, format!("{}: {}", left_alone(dry_run), one_line(reason)))
            }
            PathOutcome::NotRestorable { reason } => {
                ("!", Paint::Yellow, format!("cannot be put back: {}", one_line(reason)))
            }
            PathOutcome::Failed { error } => {
                let mark = self.style.glyphs.pick("✗", "x");
                (mark, Paint::Red, format!("failed: {}", one_line(error)))
            }
        };
        let name = one_line(&display_path(self.root, &restored.path));
        PathLineStyle { mark, paint, name, note }
    }

    /// Renders paths with their notes: on the same line if there is room, else below, once for consecutive equal notes.
    fn lines(&self, lines: Vec<PathLineStyle>) -> String {
        let style = self.style;
        let mut text = String::new();
        let mut lines = lines.into_iter().peekable();
        let mut shares = false;
        while let Some(PathLineStyle { mark, paint, name, note }) = lines.next() {
            text.push_str("  ");
            paint.write(style, mark, &mut text);
            if width(mark) + width(&name) + width(&note) + 6 <= style.width {
                let _ = write!(text, " {name}  ");
                Paint::Dim.write(style, &note, &mut text);
                text.push('\n');
                continue;
            }
            let room = style.width.saturating_sub(5).max(LEAST_PATH);
            let _ = writeln!(text, " {}", shorten_middle(&name, room, style.glyphs));
            if lines.peek().is_some_and(|next| next.note == note) {
                shares = true;
                continue;
            }
            let each = if std::mem::take(&mut shares) { "each " } else { "" };
            text.push_str(&wrap(style, Paint::Dim, "      ", &format!("{each}{note}")));
        }
        text
    }

    fn kept_copy(&self, copy: &Path, dry_run: bool) -> String {
        let verb = if dry_run { "would be" } else { "is" };
        format!("; what was there {verb} kept in {}", one_line(&display_path(self.root, copy)))
    }
}

fn turns(calls: &[ChangedCall]) -> String {
    let turns = || calls.iter().map(|call| call.turn);
    let (first, last) = (turns().min().unwrap_or(0), turns().max().unwrap_or(0));
    if first == last { format!("turn {first}") } else { format!("turns {first} to {last}") }
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

fn left_alone(dry_run: bool) -> &'static str {
    if dry_run { "would be left alone" } else { "left alone" }
}

fn summary(report: &UndoReport, done: usize, skipped: usize) -> String {
    if (done, skipped) == (0, 0) && report.rewound_to.is_some() {
        let suffix = if report.dry_run { "; nothing was changed" } else { "" };
        return format!("no files put back{suffix}");
    }
    if (done, skipped) == (0, 0) {
        return "nothing to do: every path is already as wanted".to_owned();
    }
    let verb = match (report.action, report.dry_run) {
        (UndoAction::Undo | UndoAction::Restore, false) => "put back",
        (UndoAction::Undo | UndoAction::Restore, true) => "would be put back",
        (UndoAction::Redo, false) => "changed again",
        (UndoAction::Redo, true) => "would be changed again",
    };
    let mut text = format!("{} {verb}", count(done as u64, "path"));
    // Writing to a string cannot fail.
    if skipped > 0 {
        let _ = write!(text, ", {skipped} {}", left_alone(report.dry_run));
    }
    if report.dry_run {
        text.push_str("; nothing was changed");
    }
    text
}

/// Returns remarks on the conversation and on the command that reverses the action.
fn remarks(report: &UndoReport, done: usize, prompting: &CommandStyle) -> Vec<String> {
    let mut remarks = Vec::new();
    if report.not_chosen > 0 {
        let noun = if report.paths.is_empty() { "path" } else { "other path" };
        let others = count(report.not_chosen as u64, noun);
        let (keeps, its) = match report.not_chosen {
            1 => ("keeps", "its"),
            _ => ("keep", "their"),
        };
        let keeps = if report.dry_run { "would keep" } else { keeps };
        remarks.push(format!("{others} {keeps} {its} changes"));
    }
    if let Some(turn) = report.rewound_to {
        let verb = if report.dry_run { "would go" } else { "goes" };
        remarks.push(format!("the conversation {verb} back to before turn {turn}"));
    }
    if report.notified_later {
        let verb = if report.dry_run { "would be" } else { "is" };
        remarks.push(format!(
            "the agent of this session runs elsewhere: it {verb} told before its next step"
        ));
    }
    if done > 0 && !report.dry_run {
        remarks.push(match report.action {
            UndoAction::Undo if report.rewound_to.is_some() => {
                format!("{} brings the files back", prompting.command("redo"))
            }
            UndoAction::Undo => format!("{} brings it back", prompting.command("redo")),
            UndoAction::Redo | UndoAction::Restore => {
                format!("{} takes it back", prompting.command("undo"))
            }
        });
    }
    remarks
}

/// Returns a path for display: relative to `root` if it is below it.
pub(super) fn display_path(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty());
    path_text(below.unwrap_or(path)).into_owned()
}

#[cfg(test)]
mod tests {
    use crow_console::Glyphs;
    use crow_core::{
        ids::{CallId, SessionId, SnapshotId},
        tool::ChangeCounts,
    };
    use jiff::Timestamp;

    use super::*;

    fn call(turn: u32, title: &str) -> ChangedCall {
        ChangedCall {
            seq: 1,
            started: 1,
            session_id: SessionId::new("s"),
            agent: "builder".into(),
            call_id: CallId::new("c1"),
            tool: "bash".into(),
            title: title.into(),
            time: Timestamp::UNIX_EPOCH,
            turn,
            before: SnapshotId::new("before"),
            after: None,
            changes: ChangeCounts::default(),
            files: Vec::new(),
            shared: false,
            cut_off: false,
            undone: true,
        }
    }

    fn report(paths: Vec<(&str, PathOutcome)>) -> UndoReport {
        let path =
            |(path, outcome): (&str, PathOutcome)| RestoredPath { path: path.into(), outcome };
        UndoReport {
            action: UndoAction::Undo,
            calls: vec![call(2, "make a mess"), call(3, "make it worse")],
            paths: paths.into_iter().map(path).collect(),
            not_chosen: 0,
            rewound_to: None,
            notified_later: false,
            dry_run: false,
        }
    }

    fn restored(how: FileChange) -> PathOutcome {
        PathOutcome::Restored { how, copy: None }
    }

    fn mixed() -> UndoReport {
        let conflict =
            |reason: &str| PathOutcome::Conflict { reason: reason.into(), forcible: true };
        let long =
            "bash `make` was cut off, so it is unclear whether it or something else changed this";
        report(vec![
            ("/p/a.rs", restored(FileChange::Created)),
            ("/p/b \u{1b}[2J.rs", restored(FileChange::Deleted)),
            (
                "/p/c.rs",
                PathOutcome::Restored {
                    how: FileChange::Modified,
                    copy: Some("/p/c.rs.before-undo".into()),
                },
            ),
            ("/p/d.rs", PathOutcome::Unchanged),
            ("/p/e.rs", conflict("it was changed since")),
            ("/p/f.rs", conflict(long)),
            ("/p/g.rs", conflict(long)),
            ("/elsewhere/h", PathOutcome::NotRestorable { reason: "the file is too large".into() }),
            ("/p/i", PathOutcome::Failed { error: "permission denied\nmore".into() }),
        ])
    }

    fn text(style: &ConsoleStyle, report: &UndoReport) -> String {
        let prompting = CommandStyle::Program(None);
        let (root, ignored) = (Path::new("/p"), &BTreeSet::new());
        UndoReporter { style, root, command_style: prompting, forced: false, ignored }.text(report)
    }

    #[test]
    fn paths_that_git_ignores_are_counted_unless_something_is_to_be_known_of_them() {
        let paths = ["/p/c/a.pyc", "/p/c/b.pyc", "/p/c/c.pyc", "/p/a.py"];
        let mut all: Vec<_> =
            paths.iter().map(|path| (*path, restored(FileChange::Deleted))).collect();
        all.push((
            "/p/c/d.pyc",
            PathOutcome::Conflict { reason: "it was changed since".into(), forcible: true },
        ));
        let ignored = &["a", "b", "c", "d"].map(|name| format!("/p/c/{name}.pyc").into()).into();
        let (style, prompting) = (&ConsoleStyle::plain(80), CommandStyle::Chat);
        let reporter = UndoReporter {
            style,
            root: Path::new("/p"),
            command_style: prompting,
            forced: false,
            ignored,
        };
        insta::assert_snapshot!(reporter.text(&report(all)));
    }

    #[test]
    fn each_path_gets_a_line_and_a_reason() {
        insta::assert_snapshot!(text(&ConsoleStyle::plain(80), &mixed()));
    }

    #[test]
    fn a_dry_run_says_what_would_be() {
        let report =
            UndoReport { dry_run: true, notified_later: true, rewound_to: Some(2), ..mixed() };
        insta::assert_snapshot!(text(&ConsoleStyle::plain(80), &report));
    }

    #[test]
    fn the_heading_says_if_nothing_of_the_calls_is_undone() {
        let paths = || {
            vec![(
                "/p/a",
                PathOutcome::Conflict { reason: "it was changed".into(), forcible: true },
            )]
        };
        let first = |report: &UndoReport| {
            text(&ConsoleStyle::plain(80), report).lines().next().map(str::to_owned)
        };
        let table = [
            (UndoAction::Undo, true, "would not be undone: 2 calls (turns 2 to 3)"),
            (UndoAction::Undo, false, "not undone: 2 calls (turns 2 to 3)"),
            (UndoAction::Redo, true, "would not be done again: 2 calls (turns 2 to 3)"),
            (UndoAction::Redo, false, "not done again: 2 calls (turns 2 to 3)"),
        ];
        for (action, dry_run, expected) in table {
            let report = UndoReport { action, dry_run, ..report(paths()) };
            assert_eq!(first(&report).as_deref(), Some(expected));
        }
    }

    #[test]
    fn an_undo_of_chosen_paths_says_how_many_others_keep_their_changes() {
        let paths = || vec![("/p/a", restored(FileChange::Modified))];
        let table = [
            (false, 1, "undone in part: 2 calls", "1 other path keeps its changes"),
            (false, 2, "undone in part: 2 calls", "2 other paths keep their changes"),
            (true, 1, "would be undone in part: 2 calls", "1 other path would keep its changes"),
        ];
        for (dry_run, not_chosen, heading, remark) in table {
            let report = UndoReport { dry_run, not_chosen, ..report(paths()) };
            let text = text(&ConsoleStyle::plain(80), &report);
            assert!(text.starts_with(heading), "{text}");
            assert!(text.lines().any(|line| line == remark), "{text}");
        }
    }

    #[test]
    fn a_narrow_screen_without_unicode_is_enough() {
        let style = ConsoleStyle { glyphs: Glyphs::Ascii, ..ConsoleStyle::plain(40) };
        let text = text(&style, &mixed());
        assert!(text.lines().all(|line| width(line) <= 40), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_thousand_paths_take_fifty_lines() {
        let names: Vec<_> = (0..1000).map(|number| format!("/p/{number:04}")).collect();
        let paths = names.iter().map(|name| (name.as_str(), restored(FileChange::Created)));
        let text = text(&ConsoleStyle::plain(80), &report(paths.collect()));
        assert_eq!(text.lines().count(), LISTED + 4, "{text}");
        assert!(text.contains("  and 950 more; --output json lists all\n"), "{text}");
        assert!(text.contains("1000 paths put back\n"), "{text}");
    }

    #[test]
    fn the_next_command_is_named_in_the_form_of_the_interface() {
        let table = [
            (CommandStyle::Program(None), "crow-agent redo brings it back"),
            (
                CommandStyle::Program(Some("abc".into())),
                "crow-agent redo --session abc brings it back",
            ),
            (CommandStyle::Chat, "/redo brings it back"),
        ];
        for (prompting, expected) in table {
            let style = ConsoleStyle::plain(80);
            let report = report(vec![("/p/a", restored(FileChange::Modified))]);
            let reporter = UndoReporter {
                style: &style,
                root: Path::new("/p"),
                command_style: prompting,
                forced: false,
                ignored: &BTreeSet::new(),
            };
            assert_eq!(reporter.text(&report).lines().last(), Some(expected));
        }
        let nothing =
            text(&ConsoleStyle::plain(80), &report(vec![("/p/a", PathOutcome::Unchanged)]));
        assert!(nothing.ends_with("every path is already as wanted\n"), "{nothing}");
    }
}
