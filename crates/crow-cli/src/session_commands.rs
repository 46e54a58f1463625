//! The commands of a session that the terminal program adds to those of the host: undo, redo, the changes, export, and twins of
//! commands of the command line.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_app::host::{CommandSession, SessionCommands, blocking};
use crow_console::{ConsoleStyle, prices_of};
use crow_core::event::AgentState;
use crow_runtime::{
    AgentHandle, HostCommand, HostError, SessionStore, UndoError, UndoJournal, UndoReport,
};
use tokio::time::timeout;

use crate::{
    export::{to_markdown, write},
    render::{
        CommandStyle, Destination, UndoReporter, change_table, format_patch_without, merge_by_time,
    },
    session_context::SessionContext,
    twin_commands::{self, TwinCommand},
    undo::{
        ChangesRefusal, HowWords, diff_of, irreversible_counts, slash_diff, slash_redo, slash_undo,
    },
};

const EXPORT: HostCommand =
    HostCommand::new("export", "[FILE]", "write this session to a file, as Markdown");
const CONTEXT: HostCommand = HostCommand::new(
    "context",
    "",
    "show what fills the context window; and why the cache was missed",
);

/// Commands about the changes of a session, its export, and twins of commands of the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsoleCommands {
    style: ConsoleStyle,
}

impl ConsoleCommands {
    /// Creates the commands. Their output has the width and the characters of `style`, but is plain text: editors show
    /// it, too.
    pub(crate) fn new(style: ConsoleStyle) -> Self {
        Self { style: ConsoleStyle { colour: false, live: false, ..style } }
    }

    /// Returns the commands in the order in which they are listed.
    pub(crate) fn list() -> Vec<HostCommand> {
        let own = [UNDO, REDO, DIFF, CHANGES, CONTEXT, EXPORT];
        own.into_iter().chain(TwinCommand::list()).collect()
    }
}

#[async_trait]
impl SessionCommands for ConsoleCommands {
    fn commands(&self) -> Vec<HostCommand> {
        Self::list()
    }

    async fn run(
        &self,
        session: CommandSession,
        name: &str,
        argument: &str,
    ) -> Result<String, HostError> {
        if let Some(twin) = TwinCommand::named(name) {
            return twin.answer(&session, argument, self.style).await;
        }
        let argument = argument.to_owned();
        let Some(request) = ChangesRequest::named(name) else {
            let record = session.record().await?;
            if name == CONTEXT.name {
                let prices = prices_of(&record.events, &*session.models).await;
                let context = SessionContext::new(&record, &prices);
                let context = context.map_err(twin_commands::refused)?;
                return Ok(context.to_text(&self.style).trim_end().to_owned());
            }
            let text = to_markdown(&record, &prices_of(&record.events, &*session.models).await);
            return blocking(move || write(&text, &session.handle, &argument)).await?;
        };
        if request.changes_files() {
            idle(&session.handle).await?;
        }
        let CommandSession { handle, store, .. } = session;
        let open = OpenSessionView { handle, store, style: self.style };
        blocking(move || request.answer(&open, &argument)).await?
    }
}

const UNDO: HostCommand = HostCommand::new(
    "undo",
    "[turn N|call ID|back-to N|all] [--chat|--chat-only] [--force] [--dry-run] [-- PATH...]",
    "undo the agent's last changes, or the named ones; --chat also rewinds the conversation, --chat-only leaves the files; after -- only these files and folders",
);
const REDO: HostCommand = HostCommand::new("redo", "[--force] [--dry-run]", "undo the last undo");
const DIFF: HostCommand = HostCommand::new(
    "diff",
    "[CALL|TURN|A..B] [--ignored] [-- PATH...]",
    "show changes of the session, a call or a turn; after -- only below these paths",
);
const CHANGES: HostCommand = HostCommand::new("changes", "", "list the calls that changed files");

/// Time to wait for an agent to become idle after its run has ended.
const SETTLING: Duration = Duration::from_millis(500);
/// Maximum number of lines of a diff that are shown.
const DIFF_LINES: usize = 200;

/// A command about the changes of a session.
#[derive(Debug, Clone, Copy)]
enum ChangesRequest {
    Undo,
    Redo,
    Diff,
    Changes,
}

impl ChangesRequest {
    /// Returns the command of that name.
    fn named(name: &str) -> Option<Self> {
        let commands = [
            ("undo", Self::Undo),
            ("redo", Self::Redo),
            ("diff", Self::Diff),
            ("changes", Self::Changes),
        ];
        commands.into_iter().find(|(command, _)| *command == name).map(|(_, request)| request)
    }

    /// Returns true if the command changes files; then the agent must be idle.
    fn changes_files(self) -> bool {
        matches!(self, Self::Undo | Self::Redo)
    }

    /// Runs the command and returns its output. Blocks.
    fn answer(self, view: &OpenSessionView, argument: &str) -> Result<String, HostError> {
        let outcome = match self {
            Self::Undo => view.undo(argument),
            Self::Redo => view.redo(argument),
            Self::Diff => view.diff(argument),
            Self::Changes => view.changes(),
        };
        match outcome {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(ChangesRefusal::Words(message)) => {
                Err(HostError::Refused { message, hint: String::new() })
            }
            Err(ChangesRefusal::Undo(error)) => answer_of(error),
        }
    }
}

/// Waits until an agent whose run has ended is idle. Fails while it works.
async fn idle(handle: &AgentHandle) -> Result<(), HostError> {
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
struct OpenSessionView {
    handle: AgentHandle,
    store: Arc<dyn SessionStore>,
    style: ConsoleStyle,
}

impl OpenSessionView {
    fn undo(&self, argument: &str) -> Result<String, ChangesRefusal> {
        let words = slash_undo(argument).map_err(ChangesRefusal::Words)?;
        let mut journal = self.handle.undo_journal()?;
        let root = journal.root().to_path_buf();
        let report = words.undo(&mut journal, &root)?;
        Ok(self.report_text(&journal, &report, words.how))
    }

    fn redo(&self, argument: &str) -> Result<String, ChangesRefusal> {
        let how = slash_redo(argument).map_err(ChangesRefusal::Words)?;
        let mut journal = self.handle.undo_journal()?;
        let report = journal.redo(how.into())?;
        Ok(self.report_text(&journal, &report, how))
    }

    fn diff(&self, argument: &str) -> Result<String, ChangesRefusal> {
        let (request, shows_ignored) = slash_diff(argument).map_err(ChangesRefusal::Words)?;
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

    fn changes(&self) -> Result<String, ChangesRefusal> {
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
        let recovered = journal.recovered().iter().map(String::as_str);
        recovered.chain([reporter.text(report).as_str()]).collect::<Vec<_>>().join("\n")
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
fn refused(error: UndoError) -> HostError {
    let message = error.to_string();
    let hint = match error {
        UndoError::Session(error) => return error.into(),
        UndoError::UnknownCall { .. } => {
            "/changes lists what was changed, /diff -- PATH shows what changed there".to_owned()
        }
        UndoError::AmbiguousCall { .. }
        | UndoError::UnknownTurn { .. }
        | UndoError::TurnNotInConversation { .. }
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

#[cfg(test)]
mod tests {
    use crow_app::{
        Audience, NoDialog, ProcessEnvironment,
        config::AgentLimits,
        host::{ChoiceMemory, ConfigurationSource, HostParts, ProductHost},
    };
    use crow_core::{capability::NoAnswerer, event::AgentEvent, message::Block};
    use crow_runtime::{
        AgentHost as _, CommandOutcome, FileStore, NewSession, ObserverItem, SnapshotLimits,
        SnapshotStores, StoredRules,
    };
    use crow_testkit::scripted::{ScriptedModel, ScriptedModels, call, reply, text};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn export_writes_markdown_and_overwrites_nothing() {
        let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = project.path().canonicalize().unwrap();
        let list = json!({"path": "."});
        let model = ScriptedModel::new([
            reply([text("I look."), call("c1", "list_directory", list)]),
            reply([text("# Nothing here")]),
        ]);
        let snapshots = SnapshotStores::new(home.path().join("s"), SnapshotLimits::default(), None);
        let host = ProductHost::new(HostParts {
            environment: ProcessEnvironment::with([("HOME", home.path().to_str().unwrap())]),
            store: Arc::new(FileStore::new(home.path().join("sessions"))),
            models: Arc::new(ScriptedModels(model.clone())),
            providers: None,
            fallback: Some(model.resolved().info.reference),
            answerer: Arc::new(NoAnswerer),
            audience: Audience::Unattended,
            dialog: Arc::new(NoDialog),
            agent: None,
            model: None,
            permissions: None,
            sandbox: None,
            sandbox_paths: crow_core::permission::SandboxPaths::default(),
            network: crow_core::network::Network::default(),
            links: None,
            rules: StoredRules::default(),
            session_commands: Some(Arc::new(ConsoleCommands::new(ConsoleStyle::plain(80)))),
            user_skills: None,
            start: None,
            configuration_source: ConfigurationSource::Shipped,
            snapshots: Arc::new(snapshots),
            limits: AgentLimits::default(),
            sampling: crow_agent::SamplingChoice::default(),
            reviewer_model: None,
            choice_memory: ChoiceMemory::Disabled,
        });
        let new = NewSession { cwd: project.clone(), ..NewSession::default() };
        let handle = host.create(new).await.unwrap();
        let mut events = handle.subscribe();
        handle.send_input(vec![Block::text("look around")]).unwrap();
        let is_end = |item: &ObserverItem| match item {
            ObserverItem::Event(event) => matches!(event.event, AgentEvent::RunEnd { .. }),
            _ => false,
        };
        while !is_end(&events.next().await.expect("the run has no end")) {}
        let export = |file: &'static str| host.run_command(handle.session_id(), "export", file);
        let path = project.join("out.md");
        let message = CommandOutcome::Shown(format!("written to {}", path.display()));
        assert_eq!(export("out.md").await.unwrap(), message);
        let text = std::fs::read_to_string(path).unwrap();
        for part in [
            "# look around",
            "## User\n\nlook around",
            "## builder\n\nI look.",
            "### list_directory",
            "# Nothing here",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let again = export("out.md").await;
        assert!(again.is_err(), "{again:?}");
        assert_ne!(export("").await.unwrap(), export("").await.unwrap());
    }
}
