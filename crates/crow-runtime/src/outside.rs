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

/// The open calls of an agent, and who takes a result that comes for one from outside.
#[derive(Debug, Default)]
pub(crate) struct CallDesk(Mutex<BTreeMap<CallId, Taker>>);

/// Who takes the result of an open call.
#[derive(Debug)]
enum Taker {
    /// The loop, which runs the call by its own means.
    Loop,
    /// The call, which does not wait yet.
    Call,
    /// The call, which waits.
    Waiting(oneshot::Sender<ToolResult>),
    /// The call, for which this result came early.
    Early(Box<ToolResult>),
    /// Nobody: the call has a result or was cancelled.
    Nobody,
}

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
            self.lock().extend(calls_of(blocks).map(|call| (call.id.clone(), Taker::Loop)));
        }
        if let AgentEvent::CallEnd { call_id, .. } = event {
            self.lock().remove(call_id);
        }
    }

    /// Takes a result that comes from outside.
    pub(crate) fn deliver(&self, call_id: &CallId, result: ToolResult) -> Delivery {
        let mut calls = self.lock();
        let Some(taker) = calls.get_mut(call_id) else { return Delivery::NotOpen };
        match std::mem::replace(taker, Taker::Nobody) {
            Taker::Loop => {
                *taker = Taker::Loop;
                Delivery::ToLoop(Box::new(result))
            }
            Taker::Call => {
                *taker = Taker::Early(Box::new(result));
                Delivery::Delivered
            }
            Taker::Waiting(waiting) => match waiting.send(result) {
                Ok(()) => Delivery::Delivered,
                // Whoever waited was dropped.
                Err(_) => Delivery::NotOpen,
            },
            Taker::Early(first) => {
                *taker = Taker::Early(first);
                Delivery::NotOpen
            }
            Taker::Nobody => Delivery::NotOpen,
        }
    }

    /// Takes a result that came early, or a place to wait for one.
    fn wait(&self, call_id: &CallId) -> Result<ToolResult, oneshot::Receiver<ToolResult>> {
        let mut calls = self.lock();
        if let Some(taker) = calls.get_mut(call_id)
            && let Taker::Early(_) = taker
            && let Taker::Early(result) = std::mem::replace(taker, Taker::Nobody)
        {
            return Ok(*result);
        }
        let (sender, receiver) = oneshot::channel();
        calls.insert(call_id.clone(), Taker::Waiting(sender));
        Err(receiver)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CallId, Taker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl OutsideCalls for CallDesk {
    fn expect(&self, call_id: &CallId) {
        if let Some(taker @ Taker::Loop) = self.lock().get_mut(call_id) {
            *taker = Taker::Call;
        }
    }

    async fn result(&self, call_id: &CallId, cancellation: &CancellationToken) -> ToolResult {
        let mut receiver = match self.wait(call_id) {
            Ok(early) => return early,
            Err(receiver) => receiver,
        };
        if let Some(Ok(result)) = cancellation.run_until_cancelled(&mut receiver).await {
            return result;
        }
        if let Some(taker) = self.lock().get_mut(call_id) {
            *taker = Taker::Nobody;
        }
        // A result that came together with the cancel was taken, and counts.
        receiver.try_recv().unwrap_or_else(|_| ToolResult::cancelled())
    }
}
