//! Telling the model what the user undid.

use std::sync::Arc;

use crow_core::event::AgentEvent;

use super::{AgentError, AgentInternals};
use crate::session::ToolState;

impl AgentInternals {
    /// Records what was undone since, so that the model reads of it. Between runs the conversation goes back, too, if
    /// that was asked for.
    pub(super) async fn tell_undone(&mut self, between_runs: bool) -> Result<(), AgentError> {
        if self.shared.id != *self.shared.tree.root.id() {
            return Ok(());
        }
        let records = self.config.store.undos(&self.shared.id)?;
        for record in records {
            if self.history.knows_undo(&record.id) {
                continue;
            }
            let undo_id = record.id;
            if let Some(last_kept) = record.last_kept {
                if between_runs && self.history.open_reply().is_none() {
                    self.rewind(AgentEvent::Rewind { undo_id, last_kept }).await?;
                }
            } else if let Some(text) = record.notice {
                self.emit(AgentEvent::FilesRestored { undo_id, text }).await?;
            }
        }
        Ok(())
    }

    /// Goes back. What the provider's encoder and the tools remember of what is gone is forgotten.
    async fn rewind(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        self.emit(event).await?;
        self.conversation = None;
        let ToolState { todo, file_views, .. } = ToolState::from_history(&self.history);
        let todo = todo.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let items = todo.items().to_vec();
        let changed = {
            let own = Arc::clone(&self.context);
            let mut own = own.todo.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::replace(&mut *own, todo).items() != items
        };
        self.context.file_views.become_like(&file_views);
        if changed {
            self.emit(AgentEvent::Plan { items }).await?;
        }
        Ok(())
    }
}
