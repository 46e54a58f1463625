//! Reporting of undo records to the model.

use std::sync::Arc;

use crow_core::{event::AgentEvent, workspace::ShellFolder};

use super::{AgentError, AgentInternals};
use crate::session::{ToolState, UndoRecord};

impl AgentInternals {
    /// Records the undos made since the last time, so that the model sees them. Between runs, also rewinds the
    /// conversation where an undo asked for it. Only for the root's agent.
    pub(super) async fn report_undos(&mut self, between_runs: bool) -> Result<(), AgentError> {
        if self.shared.id != *self.shared.tree.root.id() {
            return Ok(());
        }
        let mark = self.config.store.undo_mark(&self.shared.id)?;
        if mark == self.undo_mark {
            return Ok(());
        }
        let records = self.config.store.undos(&self.shared.id)?;
        let mut all_reported = true;
        // 1) Rewinds. During a run, or while calls are open, they are postponed.
        for record in &records {
            let Some(last_kept) = record.last_kept.filter(|_| self.needs_rewind(record)) else {
                continue;
            };
            if !between_runs || self.history.open_reply().is_some() {
                all_reported = false;
            } else {
                let undo_id = record.id.clone();
                self.rewind(AgentEvent::Rewind { undo_id, last_kept }).await?;
                if let Some(text) = record.stays.clone() {
                    self.add_notice(text).await?;
                }
            }
        }
        // 2) Notices of the other records.
        for record in records {
            let is_known = self.history.contains_undo(&record.id) || self.needs_rewind(&record);
            // Undone calls that were rewound are no longer in the model's history.
            let is_gone = !record.calls.is_empty()
                && record.calls.iter().all(|call| self.history.is_rewound(call.seq));
            if let Some(text) = record.notice.filter(|_| !is_known && !is_gone) {
                self.emit(AgentEvent::FilesRestored { undo_id: record.id, text }).await?;
            }
        }
        if all_reported {
            self.undo_mark = mark;
        }
        Ok(())
    }

    /// Returns true if the conversation has yet to be rewound for a record. It is not rewound over user input that came
    /// after the undo: then the model gets a notice instead.
    fn needs_rewind(&self, record: &UndoRecord) -> bool {
        record.last_kept.is_some()
            && !self.history.contains_undo(&record.id)
            && record.last_seen.is_none_or(|seen| self.history.last_input() <= seen)
    }

    /// Rewinds the conversation, and resets the provider's conversation and the tool state accordingly.
    async fn rewind(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        self.emit(event).await?;
        self.conversation = None;
        let ToolState { todo, file_views, resources } = ToolState::from_history(&self.history);
        // Working directory, todo list and file views return to what the remaining history says.
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
        self.context.file_views.replace_with(&file_views);
        if changed {
            self.emit(AgentEvent::Plan { items }).await?;
        }
        Ok(())
    }
}
