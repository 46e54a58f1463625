//! Calls that are run outside, and the results that come for them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use crow_core::{
    capability::OutsideCalls, event::AgentEvent, ids::CallId, message::calls_of, tool::ToolResult,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The open calls of an agent, and those among them whose results come from outside.
#[derive(Debug, Default)]
pub(crate) struct CallDesk(Mutex<BTreeMap<CallId, Option<oneshot::Sender<ToolResult>>>>);

/// What became of a result from outside.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The call that waited for it has it.
    Delivered,
    /// The call is open and nothing waits: the loop takes results itself.
    ToLoop(Box<ToolResult>),
    /// No such call is open.
    NotOpen,
}

impl CallDesk {
    /// Keeps count of the open calls.
    pub(crate) fn on_event(&self, event: &AgentEvent) {
        if let AgentEvent::Reply { blocks, .. } = event {
            self.lock().extend(calls_of(blocks).map(|call| (call.id.clone(), None)));
        }
        if let AgentEvent::CallEnd { call_id, .. } = event {
            self.lock().remove(call_id);
        }
    }

    /// Takes a result that comes from outside.
    pub(crate) fn deliver(&self, call_id: &CallId, result: ToolResult) -> Delivery {
        let mut calls = self.lock();
        let Some(waiting) = calls.get_mut(call_id) else { return Delivery::NotOpen };
        let Some(waiting) = waiting.take() else { return Delivery::ToLoop(Box::new(result)) };
        match waiting.send(result) {
            Ok(()) => Delivery::Delivered,
            // Whoever waited was cancelled.
            Err(_) => Delivery::NotOpen,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CallId, Option<oneshot::Sender<ToolResult>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl OutsideCalls for CallDesk {
    async fn result(&self, call_id: &CallId, cancellation: &CancellationToken) -> ToolResult {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(call_id.clone(), Some(sender));
        let result = cancellation.run_until_cancelled(receiver).await;
        result.and_then(Result::ok).unwrap_or_else(ToolResult::cancelled)
    }
}
