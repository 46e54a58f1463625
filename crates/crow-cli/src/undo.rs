//! Front end of undo: the arguments of undo, redo, diff and restore, on the command line and after `/` in the chat, and
//! the changes that they select.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use clap::{Args, Parser};
use crow_core::{event::AgentEvent, tool::Patch};
use crow_runtime::{
    ChangedCall, RestorePoint, SessionError, SessionStore, UndoError, UndoJournal, UndoOptions,
    UndoReport, UndoTarget,
};

use crate::quoted_path::{split_words, unquoted};

/// What to undo and how: the same words as options of the command, and after `/undo` in the chat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct UndoWords {
    #[command(flatten)]
    pub target: TargetWords,
    /// Also rewind the conversation to before the undone calls
    #[arg(long)]
    pub chat: bool,
    /// Rewind only the conversation, to before the last turn or the named one, and leave all files as they are
    #[arg(long, conflicts_with_all = ["chat", "force"])]
    pub chat_only: bool,
    #[command(flatten)]
    pub how: HowWords,
    /// Undo only the changes of these files, and of what is below these folders; without another target, of the last
    /// turn that changed one of them
    #[arg(last = true, value_name = "PATH", conflicts_with_all = ["chat", "chat_only"])]
    pub paths: Vec<OsString>,
}

/// Which calls to undo [default: those of the last turn that changed files].
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[group(multiple = false)]
pub(crate) struct TargetWords {
    /// Undo this call: its id or an id prefix
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// Undo the calls of this turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub turn: Option<u32>,
    /// Undo the calls of this turn and of all later ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub back_to: Option<u32>,
    /// Undo everything that the session changed
    #[arg(long)]
    pub to_start: bool,
}

/// How files are put back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct HowWords {
    /// Change nothing; show what would happen to each path
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Also restore what others changed since, and keep a copy of that beside it
    #[arg(long)]
    pub force: bool,
}

impl UndoWords {
    /// Returns the calls to undo.
    pub(crate) fn target(&self) -> UndoTarget {
        let TargetWords { call, turn, back_to, to_start } = &self.target;
        match (call, turn, back_to) {
            (Some(call), _, _) => UndoTarget::Call(call.clone()),
            (None, Some(turn), _) => UndoTarget::Turn(*turn),
            (None, None, Some(turn)) => UndoTarget::BackTo(*turn),
            (None, None, None) if *to_start => UndoTarget::ToStart,
            (None, None, None) => UndoTarget::LastTurn,
        }
    }

    /// Returns the options of the undo.
    pub(crate) fn options(&self) -> UndoOptions {
        UndoOptions { chat: self.chat, ..self.how.into() }
    }

    /// Undoes what the words say. Paths are relative to `cwd`.
    pub(crate) fn undo(
        &self,
        journal: &mut UndoJournal,
        cwd: &Path,
    ) -> Result<UndoReport, UndoError> {
        if self.chat_only {
            return journal.rewind_conversation(&self.target(), self.how.dry_run);
        }
        if self.paths.is_empty() {
            return journal.undo(&self.target(), self.options());
        }
        let roots = journal.roots();
        let paths: Vec<_> = self.paths.iter().map(|path| absolute(path, roots, cwd)).collect();
        journal.undo_paths(&self.target(), &paths, self.options())
    }
}

impl From<HowWords> for UndoOptions {
    fn from(how: HowWords) -> Self {
        Self { force: how.force, dry_run: how.dry_run, chat: false }
    }
}

/// What follows `/undo`.
#[derive(Debug, Parser)]
#[command(name = "/undo", no_binary_name = true, disable_help_flag = true)]
struct SlashUndo {
    #[command(flatten)]
    words: UndoWords,
}

/// What follows `/redo`.
#[derive(Debug, Parser)]
#[command(name = "/redo", no_binary_name = true, disable_help_flag = true)]
struct SlashRedo {
    #[command(flatten)]
    how: HowWords,
}

/// Parses the argument of `/undo` in a chat: `turn 3` or `3`, `call ID`, `back-to 3`, `all`, the flags of the command,
/// and paths after `--`. The error is one line.
pub(crate) fn slash_undo(argument: &str) -> Result<UndoWords, String> {
    let argument = argument.trim_start();
    let is_turn =
        argument.split_whitespace().next().is_some_and(|word| word.parse::<u32>().is_ok());
    let turn = if is_turn { "turn " } else { "" };
    Ok(parse::<SlashUndo>(&format!("{turn}{argument}"))?.words)
}

/// Parses the argument of `/redo` in a chat: the flags of the command. The error is one line.
pub(crate) fn slash_redo(argument: &str) -> Result<HowWords, String> {
    Ok(parse::<SlashRedo>(argument)?.how)
}

/// Parses the argument of `/diff` in a chat: a call, a turn or a range, `--ignored`, and paths after `--`. Returns the
/// request, and true if files that git ignores are to be shown too.
pub(crate) fn slash_diff(argument: &str) -> Result<(DiffRequest, bool), String> {
    let mut words = split_words(argument).into_iter();
    let before: Vec<_> = words.by_ref().take_while(|word| word != "--").collect();
    let (flags, what): (Vec<_>, Vec<_>) = before.into_iter().partition(|word| word == "--ignored");
    let mut what = what.into_iter();
    let request = DiffRequest { selector: what.next(), paths: words.collect() };
    match what.next() {
        Some(word) => Err(format!("unexpected argument '{}' found", word.display())),
        None => Ok((request, !flags.is_empty())),
    }
}

/// Parses the words of a chat command with clap, whose flags may be written without dashes. Words after `--` are paths,
/// and are left as they are. The error is clap's first line.
fn parse<T: Parser>(argument: &str) -> Result<T, String> {
    let mut words = split_words(argument);
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for word in words.iter_mut().take(end) {
        let flag = match word.to_str() {
            Some("all" | "to-start") => "--to-start",
            Some("turn") => "--turn",
            Some("call") => "--call",
            Some("back-to") => "--back-to",
            Some(_) | None => continue,
        };
        *word = flag.into();
    }
    T::try_parse_from(words).map_err(|error| {
        let message = error.to_string();
        let first_line = message.lines().next().unwrap_or_default();
        first_line.strip_prefix("error: ").unwrap_or(first_line).to_owned()
    })
}

/// The changes that `diff` shows; without paths all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DiffRequest {
    /// Call, turn or range; a path if it names no call.
    pub selector: Option<OsString>,
    pub paths: Vec<OsString>,
}

/// Range between two points of a session, as `diff` takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    pub from: RestorePoint,
    pub to: RestorePoint,
}

impl Span {
    /// The whole session.
    const WHOLE: Self = Self { from: RestorePoint::Start, to: RestorePoint::End };

    /// Fails if the span ends before it begins. Looks calls up in `calls`, which are in order. A point that is not
    /// found there is not checked.
    pub(crate) fn check(&self, calls: &[ChangedCall]) -> Result<(), String> {
        let begin = position(&self.from, calls);
        let end = position(&self.to, calls);
        match (begin, end) {
            (Some(begin), Some(end)) if begin > end => Err(format!(
                "this range is backwards: {} comes after {}; the earlier one goes first",
                point_name(&self.from),
                point_name(&self.to)
            )),
            _ => Ok(()),
        }
    }
}

impl FromStr for Span {
    type Err = String;

    /// Parses `CALL`, the number of a turn, or `A..B`: from before A to after B. An open end is the session's.
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        if from.is_empty() && to.is_empty() && !text.contains("..") {
            return Err("name a call, a turn, or A..B".to_owned());
        }
        let from = if from.is_empty() { RestorePoint::Start } else { before(from)? };
        let to = if to.is_empty() { RestorePoint::End } else { after(to)? };
        Ok(Self { from, to })
    }
}

/// A path and a point of a session, as `restore` takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathAt {
    pub path: PathBuf,
    pub at: RestorePoint,
}

impl PathAt {
    /// Parses `PATH@CALL`, `PATH@TURN` (after it), either with `^` (before it), or `PATH@start`. Splits at the last
    /// `@`. The path may be any bytes valid in a file name, or be quoted as git does.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        let missing_point =
            || "give a point in time: PATH@CALL, PATH@TURN or PATH@start".to_owned();
        let bytes = text.as_bytes();
        let split = bytes.iter().rposition(|byte| *byte == b'@').ok_or_else(missing_point)?;
        let (path, at) = bytes.split_at(split);
        let at = at.get(1..).and_then(|at| std::str::from_utf8(at).ok()).unwrap_or_default();
        if path.is_empty() || at.is_empty() {
            return Err(missing_point());
        }
        let at = match at.strip_suffix('^') {
            _ if at == "start" => RestorePoint::Start,
            Some(at) => before(at)?,
            None => after(at)?,
        };
        Ok(Self { path: OsStr::from_bytes(path).into(), at })
    }
}

/// Returns the turn of a point and its index among the calls, for comparison. `None` if its call is not in `calls`.
fn position(point: &RestorePoint, calls: &[ChangedCall]) -> Option<(u32, usize)> {
    let of_call = |id: &str| {
        let exact = calls.iter().rposition(|call| call.call_id.as_str() == id);
        let index = exact
            .or_else(|| calls.iter().position(|call| call.call_id.as_str().starts_with(id)))?;
        Some((calls.get(index)?.turn, index))
    };
    match point {
        RestorePoint::Start => Some((0, 0)),
        RestorePoint::End => Some((u32::MAX, usize::MAX)),
        RestorePoint::BeforeTurn(turn) => Some((*turn, 0)),
        RestorePoint::AfterTurn(turn) => Some((*turn, usize::MAX)),
        RestorePoint::BeforeCall(id) | RestorePoint::AfterCall(id) => of_call(id),
    }
}

/// Returns the words for a point in a message.
fn point_name(point: &RestorePoint) -> String {
    match point {
        RestorePoint::Start => "the start".to_owned(),
        RestorePoint::End => "the end".to_owned(),
        RestorePoint::BeforeTurn(turn) | RestorePoint::AfterTurn(turn) => format!("turn {turn}"),
        RestorePoint::BeforeCall(id) | RestorePoint::AfterCall(id) => format!("call {id}"),
    }
}

fn before(text: &str) -> Result<RestorePoint, String> {
    Ok(match turn(text)? {
        Some(turn) => RestorePoint::BeforeTurn(turn),
        None => RestorePoint::BeforeCall(text.to_owned()),
    })
}

fn after(text: &str) -> Result<RestorePoint, String> {
    Ok(match turn(text)? {
        Some(turn) => RestorePoint::AfterTurn(turn),
        None => RestorePoint::AfterCall(text.to_owned()),
    })
}

/// Parses the number of a turn. Returns `None` for anything else, which is the id of a call.
fn turn(text: &str) -> Result<Option<u32>, String> {
    if text.is_empty() || text.contains("..") {
        return Err("name a call or a turn".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("there is no turn {text}"))
}

/// Reason for which changes are neither shown nor undone.
#[derive(Debug)]
pub(crate) enum ChangesRefusal {
    /// The arguments do not parse, or name no point or range of a session.
    Words(String),
    Undo(UndoError),
}

impl From<UndoError> for ChangesRefusal {
    fn from(error: UndoError) -> Self {
        Self::Undo(error)
    }
}

impl ChangesRefusal {
    /// Returns true if the argument names no known point, and so may name a path.
    fn may_be_path(&self) -> bool {
        matches!(self, Self::Words(_) | Self::Undo(UndoError::UnknownCall { .. }))
    }
}

/// Returns the requested changes. Paths are relative to `cwd`. An argument that names no call is taken as a path if
/// something changed there.
pub(crate) fn diff_of(
    journal: &UndoJournal,
    request: &DiffRequest,
    cwd: &Path,
) -> Result<Patch, ChangesRefusal> {
    let retain_below = |paths: &[OsString], mut patch: Patch| {
        let paths: Vec<_> = paths.iter().map(|path| absolute(path, journal.roots(), cwd)).collect();
        patch.files.retain(|file| paths.iter().any(|path| file.path.starts_with(path)));
        patch
    };
    let DiffRequest { selector: what, paths } = request;
    let span_patch = what.as_deref().map_or(Ok(Span::WHOLE), span).and_then(|span| {
        let patch = journal.diff(&span.from, &span.to)?;
        span.check(journal.calls()).map_err(ChangesRefusal::Words)?;
        Ok(patch)
    });
    match (span_patch, what) {
        (Ok(patch), _) if paths.is_empty() => Ok(patch),
        (Ok(patch), _) => Ok(retain_below(paths, patch)),
        (Err(refusal), Some(what)) if paths.is_empty() && refusal.may_be_path() => {
            let patch_of_session = journal.diff(&RestorePoint::Start, &RestorePoint::End)?;
            let patch = retain_below(std::slice::from_ref(what), patch_of_session);
            if patch.files.is_empty() { Err(refusal) } else { Ok(patch) }
        }
        (Err(refusal), _) => Err(refusal),
    }
}

fn span(argument: &OsStr) -> Result<Span, ChangesRefusal> {
    argument.to_string_lossy().parse().map_err(ChangesRefusal::Words)
}

/// Makes a path absolute and resolves `.` and `..` without reading the disk, since the file may be gone. If the current
/// directory is in none of the session's folders, the path is relative to the first of them.
pub(crate) fn absolute(path: &OsStr, roots: &[PathBuf], cwd: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    let is_inside = roots.iter().any(|root| cwd.starts_with(root));
    let base = roots.first().filter(|_| !is_inside).map_or(cwd, PathBuf::as_path);
    for part in base.join(unquoted(path)).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => result.push(part),
        }
    }
    result
}

/// Returns, by the sequence number of the call, the number of its changes that cannot be undone, read from the logs.
pub(crate) fn irreversible_counts(
    store: &dyn SessionStore,
    calls: &[ChangedCall],
) -> Result<BTreeMap<u64, usize>, SessionError> {
    let mut lost = BTreeMap::new();
    let mut sessions: Vec<_> = calls.iter().map(|call| &call.session_id).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        for envelope in store.read(session)?.events {
            let AgentEvent::CallEnd { call_id, result, .. } = &envelope.event else { continue };
            let end_seq = envelope.seq.unwrap_or(u64::MAX);
            // Ids come from models and may repeat: the result belongs to the last call with this id that began before
            // it.
            let is_candidate = |call: &&ChangedCall| {
                call.session_id == *session && call.call_id == *call_id && call.seq < end_seq
            };
            if let Some(call) = calls.iter().filter(is_candidate).max_by_key(|call| call.seq) {
                lost.insert(call.seq, result.metadata.not_restorable.len());
            }
        }
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> String {
        id.to_owned()
    }

    #[test]
    fn slash_undo_takes_the_words_of_the_command() {
        let undo = |target, options| Some((target, options));
        let none = UndoOptions::default();
        let table = [
            ("", undo(UndoTarget::LastTurn, none)),
            ("turn 3", undo(UndoTarget::Turn(3), none)),
            ("--turn 3", undo(UndoTarget::Turn(3), none)),
            ("call c1", undo(UndoTarget::Call(call("c1")), none)),
            ("back-to 2", undo(UndoTarget::BackTo(2), none)),
            ("all", undo(UndoTarget::ToStart, none)),
            ("all --chat", undo(UndoTarget::ToStart, UndoOptions { chat: true, ..none })),
            (
                "--force -n",
                undo(UndoTarget::LastTurn, UndoOptions { force: true, dry_run: true, ..none }),
            ),
            ("3", undo(UndoTarget::Turn(3), none)),
            ("turn", None),
            ("turn x", None),
            ("turn 0", None),
            ("back-to 0", None),
            ("turn 1 call c1", None),
            ("everything", None),
            ("--help", None),
        ];
        for (argument, expected) in table {
            let words = slash_undo(argument).ok();
            let parsed = words.map(|words| (words.target(), words.options()));
            assert_eq!(parsed, expected, "{argument:?}");
        }
    }

    #[test]
    fn a_rewind_of_the_conversation_alone_takes_no_files_and_no_force() {
        let words = slash_undo("back-to 2 --chat-only").unwrap();
        assert!(words.chat_only && words.target() == UndoTarget::BackTo(2));
        for refused in ["--chat --chat-only", "--chat-only --force", "--chat-only -- a"] {
            assert!(slash_undo(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_number_alone_is_a_turn() {
        for (argument, turn) in
            [("2", Some(2)), ("2 --force", Some(2)), ("turn 2", Some(2)), ("", None)]
        {
            assert_eq!(slash_undo(argument).unwrap().target.turn, turn, "{argument:?}");
        }
        assert!(slash_undo("0").is_err() && slash_undo("2 3").is_err());
    }

    #[test]
    fn slash_undo_may_name_paths() {
        let table = [
            ("-- src", UndoTarget::LastTurn, &["src"][..]),
            ("turn 2 -- \"a b\" --force", UndoTarget::Turn(2), &["a b", "--force"]),
            ("all -- all turn", UndoTarget::ToStart, &["all", "turn"]),
            ("--", UndoTarget::LastTurn, &[]),
        ];
        for (argument, target, paths) in table {
            let words = slash_undo(argument).unwrap();
            assert_eq!(
                (words.target(), words.paths),
                (target, paths.iter().map(Into::into).collect::<Vec<OsString>>()),
                "{argument:?}"
            );
        }
        assert!(slash_undo("--chat -- src").is_err());
    }

    #[test]
    fn slash_diff_may_name_paths() {
        let request = |what: Option<&str>, paths: &[&str]| DiffRequest {
            selector: what.map(Into::into),
            paths: paths.iter().map(Into::into).collect(),
        };
        let table = [
            ("", request(None, &[]), false),
            ("c1", request(Some("c1"), &[]), false),
            ("c1 --ignored", request(Some("c1"), &[]), true),
            ("--ignored 1..2 -- a b", request(Some("1..2"), &["a", "b"]), true),
            ("-- \"a b\" --ignored", request(None, &["a b", "--ignored"]), false),
            ("--", request(None, &[]), false),
        ];
        for (argument, request, ignored) in table {
            assert_eq!(slash_diff(argument), Ok((request, ignored)), "{argument:?}");
        }
        assert!(slash_diff("c1 c2").is_err());
    }

    #[test]
    fn a_parse_error_is_one_line() {
        let error = slash_undo("everything").unwrap_err();
        assert_eq!(error, "unexpected argument 'everything' found");
    }

    #[test]
    fn a_span_is_a_call_a_turn_or_a_range_of_them() {
        use RestorePoint::{AfterCall, AfterTurn, BeforeCall, BeforeTurn, End, Start};
        let table = [
            ("toolu_1", Some((BeforeCall(call("toolu_1")), AfterCall(call("toolu_1"))))),
            ("3", Some((BeforeTurn(3), AfterTurn(3)))),
            ("1..3", Some((BeforeTurn(1), AfterTurn(3)))),
            ("c1..3", Some((BeforeCall(call("c1")), AfterTurn(3)))),
            ("c1..", Some((BeforeCall(call("c1")), End))),
            ("..c1", Some((Start, AfterCall(call("c1"))))),
            ("..", Some((Start, End))),
            ("", None),
            ("1..2..3", None),
            ("99999999999", None),
        ];
        for (text, expected) in table {
            let span = text.parse::<Span>().ok().map(|span| (span.from, span.to));
            assert_eq!(span, expected, "{text:?}");
        }
    }

    #[test]
    fn a_path_may_contain_an_at_sign() {
        use RestorePoint::{AfterCall, AfterTurn, BeforeCall, BeforeTurn, Start};
        let table = [
            ("src/a.rs@c1", Some(("src/a.rs", AfterCall(call("c1"))))),
            ("src/a.rs@c1^", Some(("src/a.rs", BeforeCall(call("c1"))))),
            ("src/a.rs@2", Some(("src/a.rs", AfterTurn(2)))),
            ("src/a.rs@2^", Some(("src/a.rs", BeforeTurn(2)))),
            ("src/a.rs@start", Some(("src/a.rs", Start))),
            ("me@home/x@start", Some(("me@home/x", Start))),
            ("a.rs", None),
            ("@c1", None),
            ("a.rs@", None),
            ("a.rs@^", None),
        ];
        for (text, expected) in table {
            let parsed = PathAt::parse(text.as_ref()).ok();
            let expected = expected.map(|(path, at)| PathAt { path: path.into(), at });
            assert_eq!(parsed, expected, "{text:?}");
        }
    }
}
