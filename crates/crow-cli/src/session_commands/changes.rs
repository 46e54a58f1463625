//! The commands of a session that undo, redo and list file changes.

use std::{sync::Arc, time::Duration};

use crow_console::ConsoleStyle;
use crow_core::event::AgentState;
use crow_runtime::{
    AgentHandle, HostCommand, HostError, SessionStore, UndoError, UndoJournal, UndoReport,
};
use tokio::time::timeout;

use crate::{
    render::{
        CommandStyle, Destination, UndoReporter, change_table, format_patch_without, merge_by_time,
    },
    undo::{
        DiffRefusal, HowWords, diff_of, irreversible_counts, slash_diff, slash_redo, slash_undo,
    },
};

pub(super) const UNDO: HostCommand = HostCommand::new(
    "undo",
    "[turn N|call ID|back-to N|all] [--chat] [--force] [--dry-run] [-- PATH...]",
    "undo the agent's last changes, or the named ones; --chat also rewinds the conversation, after -- only these files and folders",
);
pub(super) const REDO: HostCommand =
    HostCommand::new("redo", "[--force] [--dry-run]", "undo the last undo");
pub(super) const DIFF: HostCommand = HostCommand::new(
    "diff",
    "[CALL|TURN|A..B] [--ignored] [-- PATH...]",
    "show changes of the session, a call or a turn; after -- only below these paths",
);
pub(super) const CHANGES: HostCommand =
    HostCommand::new("changes", "", "list the calls that changed files");

/// Time to wait for an agent to become idle after its run has ended.
const SETTLING: Duration = Duration::from_millis(500);
/// Maximum number of lines of a diff that are shown.
const DIFF_LINES: usize = 200;

/// A command about the changes of a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChangesRequest {
    Undo,
    Redo,
    Diff,
    Changes,
}

impl ChangesRequest {
    /// Returns the command of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let commands = [
            ("undo", Self::Undo),
            ("redo", Self::Redo),
            ("diff", Self::Diff),
            ("changes", Self::Changes),
        ];
        commands.into_iter().find(|(command, _)| *command == name).map(|(_, request)| request)
    }

    /// Returns true if the command changes files; then the agent must be idle.
    pub(super) fn changes_files(self) -> bool {
        matches!(self, Self::Undo | Self::Redo)
    }

    /// Runs the command and returns its output. Blocks.
    pub(super) fn answer(
        self,
        view: &OpenSessionView,
        argument: &str,
    ) -> Result<String, HostError> {
        let outcome = match self {
            Self::Undo => view.undo(argument),
            Self::Redo => view.redo(argument),
            Self::Diff => view.diff(argument),
            Self::Changes => view.changes(),
        };
        match outcome {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(NoChangesReason::Words(message)) => {
                Err(HostError::Refused { message, hint: String::new() })
            }
            Err(NoChangesReason::Undo(error)) => answer_of(error),
        }
    }
}

/// Waits until an agent whose run has ended is idle. Fails while it works.
pub(super) async fn idle(handle: &AgentHandle) -> Result<(), HostError> {
    let mut events = handle.subscribe();
    let is_at_work = || match handle.state() {
        AgentState::Processing
        | AgentState::WaitingForPermission
        | AgentState::ExecutingTool(_)
        | AgentState::WaitingForSubagent(_) => true,
        AgentState::Idle | AgentState::Done | AgentState::Error(_) => false,
    };
    let settled = async { while is_at_work() && events.next().await.is_some() {} };
    timeout(SETTLING, settled).await.map_err(|_| HostError::Refused {
        message: "the agent is working".to_owned(),
        hint: "interrupt it first".to_owned(),
    })
}

/// An open session and the style of the output.
pub(super) struct OpenSessionView {
    pub(super) handle: AgentHandle,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) style: ConsoleStyle,
}

/// Reason for which a command has no output.
enum NoChangesReason {
    /// The arguments do not parse.
    Words(String),
    Undo(UndoError),
}

impl From<UndoError> for NoChangesReason {
    fn from(error: UndoError) -> Self {
        Self::Undo(error)
    }
}

impl From<DiffRefusal> for NoChangesReason {
    fn from(refusal: DiffRefusal) -> Self {
        match refusal {
            DiffRefusal::Words(message) => Self::Words(message),
            DiffRefusal::Undo(error) => Self::Undo(error),
        }
    }
}

impl OpenSessionView {
    fn undo(&self, argument: &str) -> Result<String, NoChangesReason> {
        let words = slash_undo(argument).map_err(NoChangesReason::Words)?;
        let mut journal = self.handle.undo_journal()?;
        let root = journal.root().to_path_buf();
        let report = words.undo(&mut journal, &root)?;
        Ok(self.report_text(&journal, &report, words.how))
    }

    fn redo(&self, argument: &str) -> Result<String, NoChangesReason> {
        let how = slash_redo(argument).map_err(NoChangesReason::Words)?;
        let mut journal = self.handle.undo_journal()?;
        let report = journal.redo(how.into())?;
        Ok(self.report_text(&journal, &report, how))
    }

    fn diff(&self, argument: &str) -> Result<String, NoChangesReason> {
        let (request, shows_ignored) = slash_diff(argument).map_err(NoChangesReason::Words)?;
        let journal = self.handle.undo_journal()?;
        let patch = diff_of(&journal, &request, journal.root())?;
        if patch.files.is_empty() {
            return Ok("nothing changed".to_owned());
        }
        let files = patch.files.iter().filter(|_| !shows_ignored);
        let ignored = journal.ignored(files.map(|file| file.path.as_path()));
        let text =
            format_patch_without(&ignored, &self.style, journal.root(), patch, Destination::Reader);
        let mut lines: Vec<_> = text.lines().collect();
        let more = lines.len().saturating_sub(DIFF_LINES);
        lines.truncate(DIFF_LINES);
        let id = self.handle.session_id();
        let rest = format!("and {more} more lines: crow-agent diff --session {id}");
        lines.extend((more > 0).then_some(rest.as_str()));
        Ok(lines.join("\n"))
    }

    fn changes(&self) -> Result<String, NoChangesReason> {
        let journal = self.handle.undo_journal()?;
        let all = merge_by_time(journal.calls(), journal.records());
        if all.is_empty() {
            return Ok("no call of this session changed files".to_owned());
        }
        let lost =
            irreversible_counts(self.store.as_ref(), journal.calls()).map_err(UndoError::from)?;
        Ok(change_table(&self.style, &all, &lost))
    }

    fn report_text(&self, journal: &UndoJournal, report: &UndoReport, how: HowWords) -> String {
        let reporter = UndoReporter {
            style: &self.style,
            root: journal.root(),
            command_style: CommandStyle::Chat,
            forced: how.force,
            ignored: &journal.ignored(report.paths.iter().map(|path| path.path.as_path())),
        };
        reporter.text(report)
    }
}

/// Returns errors that mean "nothing to do" as normal output, all others as refusals.
fn answer_of(error: UndoError) -> Result<String, HostError> {
    if matches!(
        error,
        UndoError::Nothing { .. } | UndoError::NotCaptured(_) | UndoError::UndoneAlready
    ) {
        return Ok(error.to_string());
    }
    Err(refused(error))
}

/// Converts an undo error into a refusal whose hint names chat commands.
pub(super) fn refused(error: UndoError) -> HostError {
    let message = error.to_string();
    let hint = match error {
        UndoError::Session(error) => return error.into(),
        UndoError::UnknownCall { .. } => {
            "/changes lists what was changed, /diff -- PATH shows what changed there".to_owned()
        }
        UndoError::AmbiguousCall { .. }
        | UndoError::UnknownTurn { .. }
        | UndoError::UnknownPath { .. }
        | UndoError::NothingAtPath { .. } => "/changes lists what was changed".to_owned(),
        UndoError::ChatNeedsAll { turn } => format!("/undo back-to {turn} --chat undoes them all"),
        UndoError::Unavailable
        | UndoError::Snapshots(_)
        | UndoError::ChatInUse { .. }
        | UndoError::Nothing { .. }
        | UndoError::NotCaptured(_)
        | UndoError::UndoneAlready
        | UndoError::ChatNeedsAllPaths
        | _ => String::new(),
    };
    HostError::Refused { message, hint }
}
