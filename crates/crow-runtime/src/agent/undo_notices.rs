//! Reporting of undo records to the model.

use std::sync::Arc;

use crow_core::{event::AgentEvent, workspace::ShellFolder};

use super::{AgentError, model_call::ModelPort, session_writer::SessionWriter};
use crate::session::{SessionStore, ToolState, UndoRecord};

/// Tells the model of undos that it has not seen, each once, and rewinds the conversation where an undo asked for it.
pub(super) struct UndoNotices {
    store: Arc<dyn SessionStore>,
    /// The undo mark of the session up to which records have been reported.
    mark: u64,
}

impl UndoNotices {
    pub(super) fn new(store: Arc<dyn SessionStore>) -> Self {
        Self { store, mark: 0 }
    }

    /// Records the undos made since the last time, so that the model sees them. Rewinds only between runs. Only for the
    /// root's agent.
    pub(super) async fn report(
        &mut self,
        session: &mut SessionWriter,
        model: &mut ModelPort,
        between_runs: bool,
    ) -> Result<(), AgentError> {
        let id = session.shared().id.clone();
        if id != *session.shared().tree.root.id() {
            return Ok(());
        }
        let mark = self.store.undo_mark(&id)?;
        if mark == self.mark {
            return Ok(());
        }
        let records = self.store.undos(&id)?;
        let mut all_reported = true;
        // 1) Rewinds. During a run, or while calls are open, they are postponed.
        for record in &records {
            let Some(last_kept) = record.last_kept.filter(|_| needs_rewind(session, record)) else {
                continue;
            };
            if !between_runs || session.history().open_reply().is_some() {
                all_reported = false;
            } else {
                let undo_id = record.id.clone();
                rewind(session, model, AgentEvent::Rewind { undo_id, last_kept }).await?;
                if let Some(text) = record.stays.clone() {
                    session.add_notice(text).await?;
                }
            }
        }
        // 2) Notices of the other records.
        for record in records {
            let history = session.history();
            let is_known = history.contains_undo(&record.id) || needs_rewind(session, &record);
            // Undone calls that were rewound are no longer in the model's history.
            let is_gone = !record.calls.is_empty()
                && record.calls.iter().all(|call| history.is_rewound(call.seq));
            if let Some(text) = record.notice.filter(|_| !is_known && !is_gone) {
                session.emit(AgentEvent::FilesRestored { undo_id: record.id, text }).await?;
            }
        }
        if all_reported {
            self.mark = mark;
        }
        Ok(())
    }
}

/// Returns true if the conversation has yet to be rewound for a record. It is not rewound over user input that came
/// after the undo: then the model gets a notice instead.
fn needs_rewind(session: &SessionWriter, record: &UndoRecord) -> bool {
    let history = session.history();
    record.last_kept.is_some()
        && !history.contains_undo(&record.id)
        && record.last_seen.is_none_or(|seen| history.last_input() <= seen)
}

/// Rewinds the conversation, and resets the provider's conversation and the tool state accordingly.
async fn rewind(
    session: &mut SessionWriter,
    model: &mut ModelPort,
    event: AgentEvent,
) -> Result<(), AgentError> {
    session.emit(event).await?;
    model.reset_conversation();
    let context = Arc::clone(session.context());
    let ToolState { todo, file_views, resources } = ToolState::from_history(session.history());
    // Working directory, todo list and file views return to what the remaining history says.
    match resources.remove::<ShellFolder>() {
        Some(folder) => context.resources.insert(folder.as_ref().clone()),
        None => drop(context.resources.remove::<ShellFolder>()),
    }
    let todo = todo.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let items = todo.items().to_vec();
    let changed = {
        let mut own = context.todo.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::replace(&mut *own, todo).items() != items
    };
    context.file_views.replace_with(&file_views);
    if changed {
        session.emit(AgentEvent::Plan { items }).await?;
    }
    Ok(())
}
