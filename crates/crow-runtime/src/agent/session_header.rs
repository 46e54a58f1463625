//! The session header of an agent, which lists and other programs read instead of the log.

use crow_core::{message::Block, settings::SessionSettings};
use serde_json::Value;

use super::{AgentError, AgentInternals};
use crate::session::{SessionError, TreeSnapshots, title_of};

impl AgentInternals {
    /// Stores a value of the embedding program in the session header. Blocks for one small write.
    pub fn set_metadata(&mut self, key: &str, value: Value) -> Result<(), AgentError> {
        self.shared.metadata().set(key, value.clone()).map_err(SessionError::from)?;
        self.context.metadata.set(key, value);
        self.save_metadata()
    }

    /// Sets the session title from the first prompt. Returns false if it has a title already.
    pub(super) fn set_title(&self, content: &[Block]) -> bool {
        let mut metadata = self.shared.metadata();
        let mut crow = metadata.crow();
        let Some(title) = title_of(content).filter(|_| crow.title.is_empty()) else { return false };
        crow.title = title;
        metadata.set_crow(&crow);
        true
    }

    /// Returns the session settings if they differ from those last recorded in the log.
    pub(super) fn settings_to_record(&self) -> Option<Box<SessionSettings>> {
        let metadata = self.shared.metadata();
        if metadata.parent_session_id.is_some() {
            // A child uses the settings of its root.
            return None;
        }
        let settings = metadata.crow().settings();
        (self.history.settings() != Some(&settings)).then(|| Box::new(settings))
    }

    /// Updates and writes the session header. Done at the end of each run, and by the driver of a child after the
    /// child's turn. Blocks for one small write.
    pub fn save_metadata(&self) -> Result<(), AgentError> {
        let now = self.config.clock.now();
        // Written under the lock, so that of two changes the later one is written last.
        let mut metadata = self.shared.metadata();
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
            (crow.initial_snapshot, crow.current_snapshot) = (initial.cloned(), current.cloned());
        }
        metadata.set_crow(&crow);
        Ok(self.recorder.save_metadata(&metadata)?)
    }
}
