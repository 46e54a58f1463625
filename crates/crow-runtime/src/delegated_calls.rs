//! Calls that are executed outside, and the delivery of their results.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use crow_core::{
    capability::DelegatedCalls, event::AgentEvent, ids::CallId, message::calls_of, tool::ToolResult,
};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// The open calls of an agent, and the results received for them from outside.
#[derive(Debug, Default)]
pub(crate) struct DelegatedResults {
    calls: Mutex<BTreeMap<CallId, ResultTaker>>,
    /// Notified when a result arrives for an unclaimed call.
    unclaimed: Notify,
}

/// The recipient of the result of an open call.
#[derive(Debug)]
enum ResultTaker {
    /// Not decided yet: the pipeline once it is given the call, or the loop when it receives input. An early result is
    /// stored for either.
    Unclaimed(Option<Box<ToolResult>>),
    /// The call, which does not wait yet. An early result is stored.
    Call(Option<Box<ToolResult>>),
    /// The call, which is waiting.
    Waiting(oneshot::Sender<ToolResult>),
    /// None: the call runs inside, has its result, or was cancelled.
    Nobody,
}

/// The place of execution of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunBy {
    /// Outside: its tool waits for the result.
    Outside,
    /// Inside, by its tool.
    Inside,
}

/// Error: no open call expects a result from outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallNotOpen;

impl DelegatedResults {
    /// Updates the open calls.
    pub(crate) fn on_event(&self, event: &AgentEvent) {
        if let AgentEvent::Reply { blocks, .. } = event {
            let open = calls_of(blocks).map(|call| (call.id.clone(), ResultTaker::Unclaimed(None)));
            self.lock().extend(open);
        }
        if let AgentEvent::CallEnd { call_id, .. } = event {
            self.lock().remove(call_id);
        }
    }

    /// Delivers a result from outside. Each open call accepts one.
    pub(crate) fn deliver(&self, call_id: &CallId, result: ToolResult) -> Result<(), CallNotOpen> {
        let mut calls = self.lock();
        let taker = calls.get_mut(call_id).ok_or(CallNotOpen)?;
        match taker {
            ResultTaker::Unclaimed(early @ None) => {
                *early = Some(Box::new(result));
                self.unclaimed.notify_one();
                Ok(())
            }
            ResultTaker::Call(early @ None) => {
                *early = Some(Box::new(result));
                Ok(())
            }
            ResultTaker::Waiting(_) => match std::mem::replace(taker, ResultTaker::Nobody) {
                // An error means that the waiting call was dropped.
                ResultTaker::Waiting(waiting) => waiting.send(result).map_err(|_| CallNotOpen),
                ResultTaker::Unclaimed(_) | ResultTaker::Call(_) | ResultTaker::Nobody => {
                    Err(CallNotOpen)
                }
            },
            ResultTaker::Unclaimed(Some(_)) | ResultTaker::Call(Some(_)) | ResultTaker::Nobody => {
                Err(CallNotOpen)
            }
        }
    }

    /// Sets where a call is executed that was given to the pipeline. Returns true if this discards an early result from
    /// outside.
    pub(crate) fn claim(&self, call_id: &CallId, by: RunBy) -> bool {
        let mut calls = self.lock();
        let Some(taker) = calls.get_mut(call_id) else { return false };
        let ResultTaker::Unclaimed(early) = taker else { return false };
        let early = early.take();
        match by {
            RunBy::Outside => {
                *taker = ResultTaker::Call(early);
                false
            }
            RunBy::Inside => {
                *taker = ResultTaker::Nobody;
                early.is_some()
            }
        }
    }

    /// Waits for a result of an unclaimed call. Cancel-safe.
    pub(crate) async fn next_unclaimed_result(&self) -> (CallId, Box<ToolResult>) {
        loop {
            if let Some(unclaimed) = self.take_unclaimed() {
                return unclaimed;
            }
            self.unclaimed.notified().await;
        }
    }

    fn take_unclaimed(&self) -> Option<(CallId, Box<ToolResult>)> {
        self.lock().iter_mut().find_map(|(call_id, taker)| {
            let ResultTaker::Unclaimed(early) = taker else { return None };
            let result = early.take()?;
            *taker = ResultTaker::Nobody;
            Some((call_id.clone(), result))
        })
    }

    /// Takes an early result, or returns a receiver for it.
    fn wait(&self, call_id: &CallId) -> Result<ToolResult, oneshot::Receiver<ToolResult>> {
        let mut calls = self.lock();
        if let Some(taker) = calls.get_mut(call_id)
            && let ResultTaker::Unclaimed(early) | ResultTaker::Call(early) = taker
            && let Some(result) = early.take()
        {
            *taker = ResultTaker::Nobody;
            return Ok(*result);
        }
        let (sender, receiver) = oneshot::channel();
        calls.insert(call_id.clone(), ResultTaker::Waiting(sender));
        Err(receiver)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CallId, ResultTaker>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl DelegatedCalls for DelegatedResults {
    fn expect(&self, call_id: &CallId) {
        let mut calls = self.lock();
        let Some(taker) = calls.get_mut(call_id) else { return };
        match taker {
            ResultTaker::Unclaimed(early) => *taker = ResultTaker::Call(early.take()),
            ResultTaker::Nobody => *taker = ResultTaker::Call(None),
            ResultTaker::Call(_) | ResultTaker::Waiting(_) => {}
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
            *taker = ResultTaker::Nobody;
        }
        // A result that arrived together with the cancel was accepted, and counts.
        receiver.try_recv().unwrap_or_else(|_| ToolResult::cancelled())
    }
}
