//! Giving a session the instructions that count, when they are due.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    file_views::FileViews,
};
use crow_runtime::{AgentError, AgentInternals, ExecutedCall};
use tokio_util::sync::CancellationToken;

use super::{
    file::{InstructionFlaw, NAMES},
    search::{InstructionSearch, InstructionSources},
    update::{InstructionUpdate, MOST_BYTES},
};

/// Time after which the files are looked at again before a model call.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// Most folders that are remembered.
const MOST_FOLDERS: usize = 1_024;
/// A call that changed more files than this is about none of them.
const MOST_CHANGED: usize = 4;

/// Gives the model the instructions of folders in which it begins to work, and of files that change.
#[derive(Debug)]
pub(crate) struct InstructionTracker<'a> {
    sources: Option<&'a InstructionSources>,
    /// Files that the calls of the last step read or changed.
    touched: BTreeSet<PathBuf>,
}

/// State of a session, shared by its turns.
#[derive(Debug, Default)]
struct InstructionState {
    checked_at: Option<Duration>,
    /// Folders of files that calls read or changed.
    folders: BTreeSet<PathBuf>,
    /// Flaws that the user knows.
    reported: BTreeSet<InstructionFlaw>,
}

type SharedState = Mutex<InstructionState>;

impl<'a> InstructionTracker<'a> {
    /// Begins a turn. Without sources it does nothing.
    pub(crate) fn new(sources: Option<&'a InstructionSources>) -> Self {
        Self { sources, touched: BTreeSet::new() }
    }

    /// Takes note of the files that calls read or changed.
    pub(crate) fn on_calls(&mut self, executed: &[ExecutedCall]) {
        if self.sources.is_none() {
            return;
        }
        for call in executed {
            let metadata = &call.result.metadata;
            let views = FileViews::in_extra(&metadata.extra);
            self.touched.extend(views.into_iter().map(|view| view.path));
            if metadata.files_modified.len() <= MOST_CHANGED {
                self.touched.extend(metadata.files_modified.iter().cloned());
            }
        }
    }

    /// Gives what is due before a model call. `window` is that of the model, in tokens.
    pub(crate) async fn before_call(
        &mut self,
        agent: &mut AgentInternals,
        window: Option<u64>,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        let Some(sources) = self.sources else { return Ok(()) };
        let state = state_of(agent);
        let has_news = lock(&state).add_touched(std::mem::take(&mut self.touched));
        if has_news || lock(&state).is_due(agent.config().clock.monotonic()) {
            give_instructions(agent, sources, window, cancel).await?;
        }
        Ok(())
    }

    /// Gives again what a compaction left out of the conversation.
    pub(crate) async fn after_compaction(
        &mut self,
        agent: &mut AgentInternals,
        window: Option<u64>,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        let Some(sources) = self.sources else { return Ok(()) };
        give_instructions(agent, sources, window, cancel).await
    }
}

impl InstructionState {
    /// Adds the folders of files. Returns true if one of them is new, or instructions themselves were read or changed.
    fn add_touched(&mut self, files: BTreeSet<PathBuf>) -> bool {
        let mut has_news = false;
        for file in files {
            let is_named =
                file.file_name().is_some_and(|name| NAMES.iter().any(|own| name == *own));
            let folder = file.parent().filter(|_| self.folders.len() < MOST_FOLDERS);
            let is_new = folder.is_some_and(|folder| self.folders.insert(folder.to_path_buf()));
            has_news |= is_named || is_new;
        }
        has_news
    }

    fn is_due(&self, now: Duration) -> bool {
        self.checked_at.is_none_or(|at| now.saturating_sub(at) >= CHECK_EVERY)
    }
}

/// Reads the files, and adds to the conversation what it does not have. `window` is that of the model, in tokens.
pub(crate) async fn give_instructions(
    agent: &mut AgentInternals,
    sources: &InstructionSources,
    window: Option<u64>,
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    let state = state_of(agent);
    let folders = {
        let mut state = lock(&state);
        state.checked_at = Some(agent.config().clock.monotonic());
        state.folders.clone()
    };
    // 1) Read, off the executor: a file system may hang.
    let context = agent.context();
    let (workspace, places) = (context.workspace.clone(), context.sandbox_paths.get());
    let mut known_folders = BTreeSet::new();
    for known in agent.history().instructions() {
        known_folders.extend(known.file.path.parent().map(Path::to_path_buf));
    }
    let sources = sources.clone();
    let search = tokio::task::spawn_blocking(move || {
        let mut search = InstructionSearch::new(&sources, &workspace);
        search.add_known(known_folders);
        for folder in &folders {
            search.add_folders(folder);
        }
        search.run(&places)
    });
    let Some(found) = cancel.run_until_cancelled(search).await else { return Ok(()) };
    let found = found.map_err(|error| AgentError::Custom(Box::new(error)))?;
    // 2) Tell the user what cannot be used. One agent of a tree does, the others find the same.
    if agent.context().session_id == agent.context().root_id {
        for flaw in found.flaws.iter().filter(|flaw| flaw.is_worth_a_warning()) {
            if lock(&state).reported.insert(flaw.clone()) {
                let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
                let text = format!("instructions: {flaw}");
                agent.emit(AgentEvent::Notice { level, audience, text }).await?;
            }
        }
    }
    // 3) Give the model what is new or changed.
    let update = InstructionUpdate::new(&found, &agent.history().instructions(), limit(window));
    if let Some(InstructionUpdate { files, text }) = update {
        tracing::debug!(files = files.len(), bytes = text.len(), "instructions given");
        agent.emit(AgentEvent::Instructions { files, text }).await?;
    }
    Ok(())
}

/// Returns the most bytes of instructions for a window: an eighth of it, at four bytes for a token.
fn limit(window: Option<u64>) -> u64 {
    window.map_or(MOST_BYTES, |tokens| MOST_BYTES.min(tokens / 2))
}

fn state_of(agent: &AgentInternals) -> Arc<SharedState> {
    let resources = &agent.context().resources;
    resources.get::<SharedState>().unwrap_or_else(|| {
        resources.insert(SharedState::default());
        resources.get().expect("invariant: the state was inserted just now and is never removed")
    })
}

fn lock(state: &SharedState) -> MutexGuard<'_, InstructionState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
