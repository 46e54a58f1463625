//! Telling the model what the user undid.

use std::sync::Arc;

use crow_core::{event::AgentEvent, workspace::ShellFolder};

use super::{AgentError, AgentInternals};
use crate::{session::ToolState, undo::UndoRecord};

impl AgentInternals {
    /// Records what was undone since, so that the model reads of it. Between runs the conversation goes back, too, if
    /// that was asked for.
    pub(super) async fn tell_undone(&mut self, between_runs: bool) -> Result<(), AgentError> {
        if self.shared.id != *self.shared.tree.root.id() {
            return Ok(());
        }
        let mark = self.config.store.undo_mark(&self.shared.id)?;
        if mark == self.undo_mark {
            return Ok(());
        }
        let records = self.config.store.undos(&self.shared.id)?;
        let mut all_told = true;
        for record in &records {
            let Some(last_kept) = record.last_kept.filter(|_| self.goes_back(record)) else {
                continue;
            };
            if !between_runs || self.history.open_reply().is_some() {
                all_told = false;
            } else {
                let undo_id = record.id.clone();
                self.rewind(AgentEvent::Rewind { undo_id, last_kept }).await?;
                if let Some(text) = record.stays.clone() {
                    self.remind(text).await?;
                }
            }
        }
        for record in records {
            let is_known = self.history.knows_undo(&record.id) || self.goes_back(&record);
            // The model does not remember what was undone.
            let is_gone = !record.calls.is_empty()
                && record.calls.iter().all(|call| self.history.is_gone(call.seq));
            if let Some(text) = record.notice.filter(|_| !is_known && !is_gone) {
                self.emit(AgentEvent::FilesRestored { undo_id: record.id, text }).await?;
            }
        }
        if all_told {
            self.undo_mark = mark;
        }
        Ok(())
    }

    /// Returns whether the conversation is still to go back for a record. What was said since that was decided is not
    /// thrown away: then the model is told instead.
    fn goes_back(&self, record: &UndoRecord) -> bool {
        record.last_kept.is_some()
            && !self.history.knows_undo(&record.id)
            && record.last_seen.is_none_or(|seen| self.history.last_input() <= seen)
    }

    /// Goes back. What the provider's encoder and the tools remember of what is gone is forgotten.
    async fn rewind(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        self.emit(event).await?;
        self.conversation = None;
        let ToolState { todo, file_views, resources } = ToolState::from_history(&self.history);
        match resources.remove::<ShellFolder>() {
            Some(folder) => self.context.resources.insert(folder.as_ref().clone()),
            None => drop(self.context.resources.remove::<ShellFolder>()),
        }
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
