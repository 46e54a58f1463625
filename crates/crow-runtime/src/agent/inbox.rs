//! The inbox of an agent.

use std::sync::Arc;

use crow_core::{ids::IdSource, message::Block};
use tokio::sync::mpsc;

use super::{AgentError, InputMessage, agent_shared::AgentShared};

/// The messages that an agent has not read: results from outside, steering and prompts, in this order of priority.
pub(super) struct AgentInbox {
    shared: Arc<AgentShared>,
    ids: Arc<dyn IdSource>,
    input: mpsc::Receiver<InputMessage>,
}

impl AgentInbox {
    pub(super) fn new(
        shared: Arc<AgentShared>,
        ids: Arc<dyn IdSource>,
        input: mpsc::Receiver<InputMessage>,
    ) -> Self {
        Self { shared, ids, input }
    }

    /// Waits for the next message. Fails with [`AgentError::Closed`] when no handle is left. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<InputMessage, AgentError> {
        tokio::select! {
            biased;
            (call_id, result) = self.shared.calls.next_unclaimed_result() => {
                Ok(InputMessage::ToolResult { call_id, result })
            }
            (run_id, content) = self.shared.next_steering_run(self.ids.as_ref()) => {
                Ok(InputMessage::Steering { run_id, content })
            }
            message = self.input.recv() => message.ok_or(AgentError::Closed),
        }
    }

    /// Takes the oldest unread steering message, for the run under way.
    pub(super) fn next_steering(&self) -> Option<Vec<Block>> {
        self.shared.runs().next_steering()
    }
}
