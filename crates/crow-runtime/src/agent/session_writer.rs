//! The session of a running agent, to which its events and its header are written.
//!
//! An event takes one way only: secrets are removed, the history checks it, the log and the listeners get it, and the
//! history applies it. The header is what lists and other programs read instead of the log.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use crow_core::{
    event::{AgentEvent, AgentState, InputSource, NoticeAudience, NoticeLevel},
    history::History,
    ids::MessageId,
    message::Block,
    model::ModelInfo,
    settings::SessionSettings,
    tool::{AgentContext, SourceNotice},
};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::{
    AgentError, agent_session::model_switch, agent_shared::AgentShared, recorder::Recorder,
};
use crate::{
    config::RuntimeConfig,
    session::{SessionError, TreeSnapshots, title_of},
};

/// Number of recent warnings that are not repeated.
const REMEMBERED_WARNINGS: usize = 20;

/// Writes the session of a running agent: its events to log, history and listeners, and its header.
pub(crate) struct SessionWriter {
    config: Arc<RuntimeConfig>,
    shared: Arc<AgentShared>,
    context: Arc<AgentContext>,
    recorder: Arc<Recorder>,
    history: History,
    tasks: TaskTracker,
    /// The sync of the log that is under way.
    syncing: Option<JoinHandle<Result<(), SessionError>>>,
    /// Texts of the warnings that the user got already.
    warnings: VecDeque<String>,
}

/// Parts of a new [`SessionWriter`].
pub(super) struct SessionWriterParts {
    pub config: Arc<RuntimeConfig>,
    pub shared: Arc<AgentShared>,
    pub context: Arc<AgentContext>,
    pub recorder: Arc<Recorder>,
    pub history: History,
    pub tasks: TaskTracker,
}

impl SessionWriter {
    pub(super) fn new(parts: SessionWriterParts) -> Self {
        let SessionWriterParts { config, shared, context, recorder, mut history, tasks } = parts;
        history.release_outputs();
        let (syncing, warnings) = (None, VecDeque::new());
        Self { config, shared, context, recorder, history, tasks, syncing, warnings }
    }

    pub(crate) fn config(&self) -> &RuntimeConfig {
        &self.config
    }

    /// Returns the state that handles of the agent see.
    pub(crate) fn shared(&self) -> &Arc<AgentShared> {
        &self.shared
    }

    pub(crate) fn context(&self) -> &Arc<AgentContext> {
        &self.context
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Records an event: when this returns, a durable one is in the log and in the history.
    pub(crate) async fn emit(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        let event = self.recorder.redacted(event);
        // An event that the history rejects must not get into the log: the session could not be opened again.
        self.history.check_next(event.event())?;
        self.shared.on_event(event.event());
        if let AgentEvent::TurnStart { turn } = event.event() {
            self.context.current_turn.store(*turn, Ordering::Relaxed);
        }
        let envelope = self.recorder.record(event, &self.shared.run_token()).await?;
        let is_rewind = matches!(envelope.event, AgentEvent::Rewind { .. });
        if is_rewind && self.history.has_released_outputs() {
            return self.fold_log_again().await;
        }
        self.history.apply(&envelope)?;
        if matches!(envelope.event, AgentEvent::Compaction { .. }) {
            // The log has them.
            self.history.release_outputs();
        }
        Ok(())
    }

    /// Makes the history anew from the log, with the outputs that compactions left out.
    async fn fold_log_again(&mut self) -> Result<(), AgentError> {
        let (store, id) = (Arc::clone(&self.config.store), self.shared.id.clone());
        let read = move || {
            let mut stored = store.read(&id)?;
            stored.fold().map_err(|source| SessionError::Inconsistent { id, source })
        };
        let folded = tokio::task::spawn_blocking(read).await;
        // The task is never cancelled, so it can only have panicked.
        self.history =
            folded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        self.history.release_outputs();
        Ok(())
    }

    /// Reports an error to listeners, even if the log cannot take it.
    pub(super) async fn report_error(&mut self, error: &AgentError) {
        let provider = if let AgentError::Provider(provider) = error {
            Some(provider.as_ref().clone())
        } else {
            None
        };
        let event = AgentEvent::Error { error: error.to_string(), provider };
        if self.emit(event.clone()).await.is_err() {
            self.recorder.emit_unlogged(event, &self.shared.run_token()).await;
        }
    }

    /// Adds a notice for the model, which stays in its history.
    pub(super) async fn add_notice(&mut self, text: String) -> Result<(), AgentError> {
        self.notice(NoticeLevel::Info, NoticeAudience::Model, text).await
    }

    pub(crate) async fn inform_user(&mut self, text: String) -> Result<(), AgentError> {
        self.notice(NoticeLevel::Info, NoticeAudience::User, text).await
    }

    pub(crate) async fn warn_user(&mut self, text: String) -> Result<(), AgentError> {
        self.notice(NoticeLevel::Warning, NoticeAudience::User, text).await
    }

    /// Shows messages to the user.
    pub(crate) async fn show_notices(
        &mut self,
        notices: Vec<SourceNotice>,
    ) -> Result<(), AgentError> {
        for SourceNotice { level, text } in notices {
            self.notice(level, NoticeAudience::User, text).await?;
        }
        Ok(())
    }

    /// Warns the user, unless the same warning was given recently.
    pub(crate) async fn warn_user_once(&mut self, text: String) -> Result<(), AgentError> {
        if self.warnings.contains(&text) {
            return Ok(());
        }
        if self.warnings.len() == REMEMBERED_WARNINGS {
            self.warnings.pop_front();
        }
        self.warnings.push_back(text.clone());
        self.warn_user(text).await
    }

    async fn notice(
        &mut self,
        level: NoticeLevel,
        audience: NoticeAudience,
        text: String,
    ) -> Result<(), AgentError> {
        self.emit(AgentEvent::Notice { level, audience, text }).await
    }

    /// Adds an input to the history, with an optional preface as its context.
    pub(super) async fn add_input(
        &mut self,
        source: InputSource,
        preface: Option<String>,
        mut content: Vec<Block>,
    ) -> Result<(), AgentError> {
        // Redacted here already because the title is made from it.
        self.config.redactor.redact_blocks(&mut content);
        if matches!(source, InputSource::Prompt | InputSource::Steering) && self.set_title(&content)
        {
            // Saved at once so that a session killed in its first run has a title.
            self.save_metadata()?;
        }
        let message_id = MessageId::new(self.config.ids.next_id());
        self.emit(AgentEvent::UserInput { message_id, source, context: preface, content }).await?;
        self.sync_in_background().await
    }

    /// Sets the state of the agent. Fails without effect unless [`AgentState::may_become`] allows it; the end states
    /// are set by the runtime only.
    pub(crate) async fn set_state(&mut self, state: AgentState) -> Result<(), AgentError> {
        let from = self.state();
        if from == state {
            return Ok(());
        }
        if !from.may_become(&state) || state.is_end() {
            return Err(AgentError::IllegalState { from, to: state });
        }
        self.shared.state.send_replace(state.clone());
        self.emit(AgentEvent::StateChange { state }).await
    }

    pub(super) fn state(&self) -> AgentState {
        self.shared.state.borrow().clone()
    }

    pub(super) async fn start_round(&mut self) -> Result<(), AgentError> {
        self.set_round(self.round() + 1);
        self.emit(AgentEvent::RoundStart).await
    }

    pub(super) fn round(&self) -> u32 {
        self.recorder.round()
    }

    pub(super) fn set_round(&mut self, round: u32) {
        self.recorder.set_round(round);
    }

    /// Stores a value of the embedding program in the header. Blocks for one small write.
    pub(super) fn set_metadata(&mut self, key: &str, value: Value) -> Result<(), AgentError> {
        self.shared.metadata().set(key, value.clone()).map_err(SessionError::from)?;
        self.context.metadata.set(key, value);
        self.save_metadata()
    }

    /// Sets the title from the first prompt. Returns false if there is a title already.
    fn set_title(&self, content: &[Block]) -> bool {
        let mut metadata = self.shared.metadata();
        let mut crow = metadata.crow();
        let Some(title) = title_of(content).filter(|_| crow.title.is_empty()) else { return false };
        crow.title = title;
        metadata.set_crow(&crow);
        true
    }

    /// Returns the settings of the session if they differ from those last recorded in the log.
    pub(super) fn settings_to_record(&self) -> Option<Box<SessionSettings>> {
        let metadata = self.shared.metadata();
        if metadata.parent_session_id.is_some() {
            // A child uses the settings of its root.
            return None;
        }
        let settings = metadata.crow().settings();
        (self.history.settings() != Some(&settings)).then(|| Box::new(settings))
    }

    /// Records the switch to another model; the header names the new one.
    pub(super) async fn switch_model(&mut self, info: &ModelInfo) -> Result<(), AgentError> {
        let before = self.shared.metadata().model_ref();
        let reference = &info.reference;
        self.context.model.set(reference.clone(), info.abilities);
        if before == *reference {
            return Ok(());
        }
        self.emit(AgentEvent::Switch { change: model_switch(&before, reference) }).await?;
        {
            let mut metadata = self.shared.metadata();
            metadata.model.clone_from(&reference.model);
            metadata.provider.clone_from(&reference.provider);
        }
        self.save_metadata()
    }

    /// Records the switch to another agent, whose name later events carry.
    pub(super) async fn switch_agent(
        &mut self,
        name: &str,
        switches: Vec<String>,
    ) -> Result<(), AgentError> {
        for change in switches {
            self.emit(AgentEvent::Switch { change }).await?;
        }
        if self.shared.metadata().agent_type == name {
            return Ok(());
        }
        self.recorder.set_agent(name);
        self.context.agent_name.set(name);
        name.clone_into(&mut self.shared.metadata().agent_type);
        self.save_metadata()
    }

    /// Updates and writes the header. Blocks for one small write.
    pub(super) fn save_metadata(&self) -> Result<(), AgentError> {
        let now = self.config.clock.now();
        let saved = self.shared.header.change(|metadata| {
            metadata.updated_at = now;
            let mut crow = metadata.crow();
            crow.turns = self.history.turns();
            crow.usage = self.history.usage();
            if crow.root_id == self.shared.id {
                // All agents of a tree work on the same files.
                let TreeSnapshots { initial, current } = self.shared.tree.snapshots();
                (crow.initial_snapshot, crow.current_snapshot) = (initial, current);
                crow.spent = self.shared.tree.spent_for_header();
            } else {
                let (initial, current) = self.history.snapshots();
                (crow.initial_snapshot, crow.current_snapshot) =
                    (initial.cloned(), current.cloned());
            }
            metadata.set_crow(&crow);
            Ok(())
        });
        Ok(saved?)
    }

    /// Syncs the log to disk in the background. At most one such sync is under way; the failure of an earlier one is
    /// returned here.
    pub(super) async fn sync_in_background(&mut self) -> Result<(), AgentError> {
        if let Some(task) = self.syncing.take() {
            if !task.is_finished() {
                self.syncing = Some(task);
                return Ok(());
            }
            finish(task).await?;
        }
        self.syncing = self.recorder.sync().map(|work| self.tasks.spawn_blocking(work));
        Ok(())
    }

    /// Syncs the log to disk and waits for it.
    pub(super) async fn sync(&mut self) -> Result<(), AgentError> {
        if let Some(task) = self.syncing.take() {
            finish(task).await?;
        }
        if let Some(work) = self.recorder.sync() {
            finish(self.tasks.spawn_blocking(work)).await?;
        }
        Ok(())
    }
}

async fn finish(task: JoinHandle<Result<(), SessionError>>) -> Result<(), AgentError> {
    match task.await {
        Ok(result) => Ok(result?),
        Err(error) => Err(AgentError::Custom(Box::new(error))),
    }
}
