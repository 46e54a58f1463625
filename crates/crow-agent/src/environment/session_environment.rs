//! The environment of a session, and what its model was told of it.
//!
//! It includes facts about permissions and sandbox: without them a model learns by failing what its commands may reach
//! and write.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_context::environment::{
    CheckState, DeltaOptions, EntryGroup, Environment, EnvironmentRevision, FileInfo, JobSummary,
};
use crow_core::{
    capability::{AccessReport, Containment, NetworkReach, SandboxReport},
    context::TokenEstimator,
    event::{CheckRun, InputSource},
    file_views::{FileView, FileViews},
    history::{is_summary, is_user_input},
    ids::{CallId, MessageId},
    message::{Block, Message},
    permission::PermissionMode,
    todo::TodoList,
    tool::{AgentContext, ToolCategory, ToolRegistry},
};
use crow_runtime::{AgentError, AgentInternals, ExecutedCall};
use jiff::{Timestamp, civil::Date, tz::TimeZone};

use super::{
    probe::{ProbeFacts, ProbeState},
    seen_files::SeenFiles,
};
use crate::{
    checks::Check,
    prompt::{DATE, REPOSITORY, Surroundings},
};

/// Fewest and most tokens that a snapshot may have.
const SNAPSHOT_TOKENS: RangeInclusive<u64> = 400..=2_000;
/// The part of the context window that a snapshot may take, between these: a fiftieth.
const SNAPSHOT_SHARE: u64 = 50;
/// The tag around a snapshot at the beginning of a session.
const SNAPSHOT_TAG: &str = "environment";
/// The tag around later changes.
const UPDATE_TAG: &str = "environment_update";
/// Shortest time between two turns that the model is told, in seconds.
const IDLE_LEAST: u64 = 10 * 60;
/// A label that every snapshot has.
const DIRECTORY_LABEL: &str = "working directory";
/// The groups of which changes are told. What is missing here the model has done itself, or is told by other notices.
const TOLD_GROUPS: [EntryGroup; 5] = [
    EntryGroup::System,
    EntryGroup::ChangedFiles,
    EntryGroup::DirtyFiles,
    EntryGroup::Knowledge,
    EntryGroup::Extensions,
];

/// The environment of a session. It is in the [`resources`](AgentContext::resources) of sessions that were opened with
/// [`Surroundings`]: tools can add facts and extensions, which the model is told with the next update.
#[derive(Debug)]
pub struct SessionEnvironment(Mutex<EnvironmentTracker>);

#[derive(Debug)]
struct EnvironmentTracker {
    environment: Environment,
    surroundings: Arc<Surroundings>,
    /// The day that the environment names.
    day: Date,
    /// Most tokens of a snapshot.
    snapshot_tokens: u64,
    /// True if another branch may have been checked out since the repository was looked at.
    may_have_switched: bool,
    /// Time of the last model call of this process.
    last_call: Option<Timestamp>,
    /// The revision in the messages up to [`read_to`](Self::read_to).
    told: EnvironmentRevision,
    /// Number of messages that were read, and the id of the last one.
    read_to: Option<(usize, MessageId)>,
    files: SeenFiles,
    reads: ReadOrder,
    probe: ProbeState,
}

/// The order in which files were read last.
#[derive(Debug, Default)]
struct ReadOrder {
    /// The call that read a file last, and its number.
    reads: BTreeMap<PathBuf, (CallId, u64)>,
    count: u64,
}

impl ReadOrder {
    /// Returns the number of the last read of a file: a higher one than before if another call read it.
    fn number(&mut self, view: &FileView) -> u64 {
        match self.reads.get(&view.path) {
            Some((call_id, number)) if *call_id == view.call_id => *number,
            Some(_) | None => {
                self.count += 1;
                self.reads.insert(view.path.clone(), (view.call_id.clone(), self.count));
                self.count
            }
        }
    }
}

impl SessionEnvironment {
    /// Changes the environment, and returns what the function returns.
    pub fn change<T>(&self, change: impl FnOnce(&mut Environment) -> T) -> T {
        change(&mut self.lock().environment)
    }

    /// Returns the environment as it is now.
    pub fn environment(&self) -> Environment {
        self.lock().environment.clone()
    }

    /// Opens the environment of a session, or updates what may have changed since its last input. Returns the
    /// environment.
    fn on_input(agent: &AgentInternals, surroundings: &Arc<Surroundings>) -> Arc<Self> {
        let context = agent.context();
        let opened = context.resources.get::<Self>();
        let environment = opened.unwrap_or_else(|| {
            context
                .resources
                .insert(Self(Mutex::new(EnvironmentTracker::new(agent, surroundings))));
            context.resources.get::<Self>().expect("invariant: it was inserted just now")
        });
        {
            let mut tracker = environment.lock();
            let idle = idle_seconds(agent, tracker.last_call);
            tracker.environment.system_mut().idle_seconds = idle;
            tracker.on_day(day_of(agent));
            tracker.refresh(context);
            tracker.probe.on_input();
            tracker.may_have_switched = true;
        }
        environment
    }

    fn lock(&self) -> MutexGuard<'_, EnvironmentTracker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EnvironmentTracker {
    fn new(agent: &AgentInternals, surroundings: &Arc<Surroundings>) -> Self {
        let mut environment = Environment::builder().system(surroundings.system_state()).build();
        *environment.checks_mut() = check_states(&surroundings.checks);
        let (mut files, mut reads) = (SeenFiles::default(), ReadOrder::default());
        let root = surroundings.repository.as_ref().map(|(root, _)| root.clone());
        let mut probe = ProbeState::new(root);
        let context = agent.context();
        if !agent.history().is_empty() {
            // A session that was resumed: changes of its own calls are none of others.
            for (_, metadata) in agent.history().results() {
                record_changes(&mut files, &mut probe, context, &metadata.files_modified);
                for view in FileViews::in_extra(&metadata.extra) {
                    files.on_view(&view.path);
                    reads.number(&view);
                }
            }
        }
        Self {
            environment,
            surroundings: Arc::clone(surroundings),
            day: day_of(agent),
            snapshot_tokens: *SNAPSHOT_TOKENS.end(),
            may_have_switched: false,
            last_call: None,
            told: EnvironmentRevision::default(),
            read_to: None,
            files,
            reads,
            probe,
        }
    }

    /// Names another day once it has begun.
    fn on_day(&mut self, day: Date) {
        let is_named = self.environment.system().resources.contains_key(DATE);
        if is_named && std::mem::replace(&mut self.day, day) != day {
            self.environment.system_mut().resources.insert(DATE.to_owned(), day.to_string());
        }
    }

    /// Takes over what the session knows without waiting.
    fn refresh(&mut self, context: &AgentContext) {
        let share = context.model.window().map(|window| window / SNAPSHOT_SHARE);
        let (least, most) = SNAPSHOT_TOKENS.into_inner();
        self.snapshot_tokens = share.map_or(most, |share| share.clamp(least, most));
        if let Some(access) = &context.access {
            let report = access.report();
            let system = self.environment.system_mut();
            system.permissions = vec![permission_phrase(report.mode).to_owned()];
            set_command_facts(&report, &mut system.resources);
        }
        let todo: TodoList = context.todo.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.environment.task_mut().todo = todo.items().to_vec();
        if let Some(jobs) = &context.jobs {
            let running = jobs.list().into_iter().filter(|job| job.state.is_running());
            let summary = |title| JobSummary { title, end: None };
            let jobs = running.map(|job| (job.id.to_string(), summary(job.title)));
            *self.environment.jobs_mut() = jobs.collect();
        }
    }

    /// Takes over the files that were seen, and what others did to them and to the repository. Reads files: blocks.
    fn scan_files(&mut self, context: &AgentContext) {
        if std::mem::take(&mut self.may_have_switched) {
            let repository = self.surroundings.current_repository();
            self.environment.system_mut().resources.insert(REPOSITORY.to_owned(), repository);
        }
        let mut views = context.file_views.to_vec();
        let changed: BTreeMap<PathBuf, _> = self.files.scan(views.clone()).into_iter().collect();
        // Of files read since the last scan, the order is that of their paths.
        views.sort_by(|one, other| one.path.cmp(&other.path));
        let cwd = context.workspace.cwd();
        let dirty = self
            .probe
            .dirty_files()
            .iter()
            .map(|path| (path.clone(), FileInfo { dirty: true, ..FileInfo::default() }));
        let mut files: BTreeMap<String, FileInfo> = dirty.collect();
        for view in views {
            let number = self.reads.number(&view);
            let file = files.entry(relative(&view.path, cwd)).or_default();
            file.hash = Some(view.hash.to_string());
            file.lines = view.lines;
            file.last_read = number;
            file.foreign_change = changed.get(&view.path).copied();
        }
        self.environment.workspace_mut().files = files;
    }

    fn snapshot(&self) -> String {
        self.environment.to_context(self.snapshot_tokens, &counter())
    }

    /// Reads what the conversation tells, and returns the text that the model must be told now.
    fn next_text(&mut self, messages: &[Arc<Message>]) -> Option<String> {
        // 1) The messages since the last time; all of them if the conversation was replaced.
        let known = self.read_to.as_ref().filter(|(count, last)| {
            count.checked_sub(1).and_then(|at| messages.get(at)).is_some_and(|at| at.id() == last)
        });
        let start = known.map_or(0, |(count, _)| *count);
        if start == 0 {
            self.told = EnvironmentRevision::default();
        }
        for text in messages[start..].iter().filter_map(|message| environment_text(message)) {
            self.told.apply_text(text);
        }
        self.read_to = end_of(messages);
        // 2) A summary replaced a part of the conversation, with the updates in it.
        if start == 0 && lacks_snapshot(messages) {
            return Some(self.snapshot());
        }
        // 3) What changed.
        let options = DeltaOptions { groups: TOLD_GROUPS.to_vec(), ..DeltaOptions::default() };
        let delta = self.environment.delta_since(&self.told, &options, &counter())?;
        Some(delta.text)
    }

    /// Records that a text was added to the conversation, whose last message it is. It is not read back: secrets in it
    /// were removed, and what differs from the state would be told again and again.
    fn on_reported(&mut self, text: &str, messages: &[Arc<Message>]) {
        self.told.apply_text(text);
        self.read_to = end_of(messages);
    }
}

/// Returns the mark up to which these messages were read.
fn end_of(messages: &[Arc<Message>]) -> Option<(usize, MessageId)> {
    messages.last().map(|last| (messages.len(), last.id().clone()))
}

/// Adds the next input to a session. Before it stands what the model must be told of the environment: a snapshot with
/// the first input, and with later ones what changed since. `named_files` is told as well. Without surroundings the input
/// is added alone.
pub(crate) async fn add_input(
    agent: &mut AgentInternals,
    surroundings: &Arc<Surroundings>,
    source: InputSource,
    content: Vec<Block>,
    named_files: Option<String>,
) -> Result<(), AgentError> {
    if surroundings.is_empty() {
        return agent.add_input(source, named_files, content).await;
    }
    let named_files = named_files.unwrap_or_default();
    let environment = SessionEnvironment::on_input(agent, surroundings);
    let messages = agent.history().messages();
    // While calls are open, there was an input.
    let is_first = messages.is_ok_and(|all| !all.iter().any(|message| is_user_input(message)));
    if is_first {
        let text = environment.lock().snapshot();
        let preface = format!("{}\n{named_files}", wrap(SNAPSHOT_TAG, &text));
        return agent.add_input(source, Some(preface), content).await;
    }
    let text = next_text(agent, &environment).await;
    let update = text.as_ref().map(|text| format!("{}\n", wrap(UPDATE_TAG, text)));
    let preface = update.unwrap_or_default() + &named_files;
    let preface = (!preface.is_empty()).then_some(preface);
    agent.add_input(source, preface, content).await?;
    if let (Some(text), Ok(messages)) = (text, agent.history().messages()) {
        environment.lock().on_reported(&text, messages);
    }
    Ok(())
}

/// Tells the model what changed in its environment since it was told last, if the session has one.
pub(crate) async fn report_changes(agent: &mut AgentInternals) -> Result<(), AgentError> {
    let Some(environment) = agent.context().resources.get::<SessionEnvironment>() else {
        return Ok(());
    };
    let text = next_text(agent, &environment).await;
    environment.lock().last_call = Some(agent.config().clock.now());
    let Some(text) = text else { return Ok(()) };
    agent.add_notice(wrap(UPDATE_TAG, &text)).await?;
    if let Ok(messages) = agent.history().messages() {
        environment.lock().on_reported(&text, messages);
    }
    Ok(())
}

/// Brings the environment up to date, and returns the text that the model must be told now, if any.
async fn next_text(
    agent: &mut AgentInternals,
    environment: &Arc<SessionEnvironment>,
) -> Option<String> {
    let context = Arc::clone(agent.context());
    // 1) Gather. Looking at files blocks, so it is done elsewhere.
    let gathered = {
        let environment = Arc::clone(environment);
        tokio::task::spawn_blocking(move || {
            let mut tracker = environment.lock();
            tracker.refresh(&context);
            tracker.scan_files(&context);
        })
    };
    if let Err(error) = gathered.await {
        tracing::warn!(%error, "the environment could not be brought up to date");
        return None;
    }
    // 2) Compare with the conversation. The model is not called while calls are open.
    let messages = agent.history().messages().ok()?;
    environment.lock().next_text(messages)
}

/// Records what calls of the agent did to files.
pub(crate) fn record_calls(agent: &AgentInternals, tools: &ToolRegistry, calls: &[ExecutedCall]) {
    let context = agent.context();
    let Some(environment) = context.resources.get::<SessionEnvironment>() else { return };
    let mut tracker = environment.lock();
    for call in calls {
        let metadata = &call.result.metadata;
        let EnvironmentTracker { files, probe, .. } = &mut *tracker;
        record_changes(files, probe, context, &metadata.files_modified);
        // Without snapshots nobody knows what a command changed, and of very many files not all are listed.
        let is_command =
            tools.get(&call.name).is_some_and(|tool| tool.category() == ToolCategory::Execute);
        let is_cut = metadata
            .changes
            .is_some_and(|counts| counts.paths() > metadata.files_modified.len() as u64);
        if is_cut || (is_command && context.snapshots.is_none()) {
            files.on_unknown_changes();
        }
    }
}

/// Records the outcomes of checks.
pub(crate) fn record_checks(agent: &AgentInternals, checks: &[CheckRun]) {
    let Some(environment) = agent.context().resources.get::<SessionEnvironment>() else { return };
    let mut tracker = environment.lock();
    for run in checks {
        if let Some(check) = tracker.environment.checks_mut().get_mut(&run.name) {
            let failed = || run.error.clone().unwrap_or_else(|| "failed".to_owned());
            check.outcome = Some(if run.passed() { "passed".to_owned() } else { failed() });
        }
    }
}

/// Waits for a model call, and meanwhile finds out what takes longer: the files that git reports as changed, and the
/// versions of the tools that the project uses.
pub(crate) async fn call_model_beside_probe<T>(
    context: &Arc<AgentContext>,
    call: impl Future<Output = T>,
) -> T {
    let environment = context.resources.get::<SessionEnvironment>();
    let probe = environment.as_ref().and_then(|environment| environment.lock().probe.next(context));
    let (Some(environment), Some(probe)) = (environment, probe) else { return call.await };
    let mut call = std::pin::pin!(call);
    let facts: ProbeFacts = tokio::select! {
        biased;
        // A probe that is not done by then is ended and begun again beside the next call.
        result = &mut call => return result,
        facts = probe => facts,
    };
    {
        let mut tracker = environment.lock();
        let EnvironmentTracker { environment, probe, .. } = &mut *tracker;
        probe.on_facts(facts, environment.system_mut());
    }
    call.await
}

/// Returns the text of a snapshot or an update in a message.
fn environment_text(message: &Message) -> Option<&str> {
    let Message::User(user) = message else { return None };
    let Some(Block::Text { text }) = user.content.first() else { return None };
    // Updates between inputs come in reminders.
    let text = text.strip_prefix("<system-reminder>\n").unwrap_or(text);
    [SNAPSHOT_TAG, UPDATE_TAG].into_iter().find_map(|tag| {
        let inside = text.strip_prefix(&format!("<{tag}>\n"))?;
        inside.split_once(&format!("</{tag}>")).map(|(inside, _)| inside)
    })
}

/// Returns true if the conversation has a summary and no snapshot after it.
fn lacks_snapshot(messages: &[Arc<Message>]) -> bool {
    let Some(summary) = messages.iter().rposition(|message| is_summary(message)) else {
        return false;
    };
    let mut later = messages[summary..].iter().filter_map(|message| environment_text(message));
    !later.any(|text| EnvironmentRevision::from_texts([text]).value(DIRECTORY_LABEL).is_some())
}

fn wrap(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{text}</{tag}>")
}

fn counter() -> TokenEstimator {
    TokenEstimator::new("", &[])
}

/// Returns the seconds since the last model call or the end of the last run, if they are worth telling.
fn idle_seconds(agent: &AgentInternals, last_call: Option<Timestamp>) -> Option<u64> {
    if agent.history().is_empty() {
        return None;
    }
    let last = last_call.unwrap_or_default().max(agent.metadata().updated_at);
    let idle = agent.config().clock.now().duration_since(last).as_secs();
    u64::try_from(idle).ok().filter(|seconds| *seconds >= IDLE_LEAST)
}

/// Returns the day by the clock of the agent, in the time zone of the system.
fn day_of(agent: &AgentInternals) -> Date {
    agent.config().clock.now().to_zoned(TimeZone::system()).date()
}

fn record_changes(
    files: &mut SeenFiles,
    probe: &mut ProbeState,
    context: &AgentContext,
    paths: &[PathBuf],
) {
    let cwd = context.workspace.cwd();
    for path in paths {
        let path = cwd.join(path);
        files.on_own_change(&path);
        probe.on_own_change(&relative(&path, cwd));
    }
}

fn check_states(checks: &[Check]) -> BTreeMap<String, CheckState> {
    let state = |command: &str| CheckState { command: command.to_owned(), outcome: None };
    checks.iter().map(|check| (check.name.clone(), state(&check.command))).collect()
}

/// Returns a path as it is shown: relative to the working directory if it is in it.
fn relative(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}

/// Names of the facts.
const NETWORK: &str = "network of commands";
const WRITABLE: &str = "commands may write";
const GAPS: &str = "sandbox";
/// Most places that are named.
const PLACES: usize = 6;

/// Describes what happens to calls.
fn permission_phrase(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Ask => {
            "mode ask: reads in the working directories pass, everything else is asked about"
        }
        PermissionMode::AcceptEdits => {
            "mode accept-edits: reads and file changes in the working directories pass, everything else is asked about"
        }
        PermissionMode::ReadOnly => "mode read-only: reads pass, all changes are refused",
        PermissionMode::FullAuto => {
            "mode full-auto: everything passes that the sandbox lets commands do, the rest is asked about"
        }
    }
}

/// Writes the facts about commands into the resources, and removes those that no longer hold.
fn set_command_facts(access: &AccessReport, resources: &mut BTreeMap<String, String>) {
    let mut set = |name: &str, value: Option<String>| match value {
        Some(value) => drop(resources.insert(name.to_owned(), value)),
        None => drop(resources.remove(name)),
    };
    // A sandbox that cannot be set up confines nothing.
    let sandbox =
        access.sandbox.as_ref().filter(|sandbox| sandbox.containment != Some(Containment::None));
    let Some(sandbox) = sandbox else {
        set(NETWORK, Some("not restricted".to_owned()));
        set(WRITABLE, Some("whatever the user may write: there is no sandbox".to_owned()));
        set(GAPS, None);
        return;
    };
    let network = match &sandbox.network {
        NetworkReach::Loopback => "only localhost; downloads fail".to_owned(),
        NetworkReach::Hosts(hosts) => format!("localhost, and by the configured proxy {hosts}"),
        NetworkReach::Unrestricted => "not restricted".to_owned(),
    };
    set(NETWORK, Some(network));
    set(WRITABLE, Some(writable_places(access.mode, sandbox)));
    set(
        GAPS,
        match &sandbox.containment {
            Some(Containment::Partial { gaps }) => {
                Some(format!("some layers are missing: {}", gaps.join(", ")))
            }
            Some(Containment::Full | Containment::None) | None => None,
        },
    );
}

fn writable_places(mode: PermissionMode, sandbox: &SandboxReport) -> String {
    if mode == PermissionMode::ReadOnly {
        return "only their temporary directory".to_owned();
    }
    let shown = |path: &PathBuf| path.display().to_string();
    let mut places =
        vec!["the working directories".to_owned(), "their temporary directory".to_owned()];
    places.extend(sandbox.writable.iter().take(PLACES).map(shown));
    let rest = sandbox.writable.len().saturating_sub(PLACES);
    if rest > 0 {
        places.push(format!("{rest} more"));
    }
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(access: &AccessReport) -> Vec<String> {
        let mut resources = BTreeMap::from([(GAPS.to_owned(), "old".to_owned())]);
        set_command_facts(access, &mut resources);
        resources.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    fn in_sandbox(mode: PermissionMode, containment: Option<Containment>) -> AccessReport {
        let sandbox = SandboxReport {
            network: NetworkReach::Hosts("crates.io".to_owned()),
            writable: (0..8).map(|number| format!("/cache/{number}").into()).collect(),
            containment,
        };
        AccessReport { mode, sandbox: Some(sandbox) }
    }

    #[test]
    fn the_facts_follow_sandbox_and_mode() {
        let unconfined = [
            "commands may write: whatever the user may write: there is no sandbox",
            "network of commands: not restricted",
        ];
        assert_eq!(facts(&AccessReport { mode: PermissionMode::Ask, sandbox: None }), unconfined);
        let missing = in_sandbox(PermissionMode::Ask, Some(Containment::None));
        assert_eq!(facts(&missing), unconfined);
        let network = "network of commands: localhost, and by the configured proxy crates.io";
        let places = "commands may write: the working directories, their temporary directory, /cache/0, /cache/1, /cache/2, /cache/3, /cache/4, /cache/5, 2 more";
        for containment in [None, Some(Containment::Full)] {
            let confined = in_sandbox(PermissionMode::Ask, containment);
            assert_eq!(facts(&confined), [places, network]);
        }
        let gaps = Containment::Partial { gaps: vec!["no seccomp".to_owned()] };
        let partial = in_sandbox(PermissionMode::ReadOnly, Some(gaps));
        let only_temp = "commands may write: only their temporary directory";
        let layers = "sandbox: some layers are missing: no seccomp";
        assert_eq!(facts(&partial), [only_temp, network, layers]);
    }
}
