//! The calls that have no result yet.

use std::collections::HashMap;

use crow_core::{
    event::Envelope,
    ids::{CallId, SessionId},
    message::{CallArguments, ReplyBlock, ToolCall, calls_of},
    tool::Patch,
};

use super::waiting::WaitIndicator;

/// Call without a result.
#[derive(Debug, Default)]
pub(super) struct ConsoleOpenCall {
    pub(super) title: String,
    /// Description of the call from the model's arguments: a log has no title for a refused call.
    pub(super) description: String,
    /// Change that the call would make.
    pub(super) preview: Option<Patch>,
    /// True if the change is on the screen already.
    pub(super) previewed: bool,
    /// Waiting line of the call; set while it runs.
    pub(super) running: Option<WaitIndicator>,
}

/// The calls that have no result yet. The key includes the session, since call ids come from models and are not unique.
#[derive(Debug, Default)]
pub(super) struct OpenCalls(HashMap<(SessionId, CallId), ConsoleOpenCall>);

impl OpenCalls {
    /// Returns the call; adds it if it is new.
    pub(super) fn open(&mut self, envelope: &Envelope, call_id: &CallId) -> &mut ConsoleOpenCall {
        self.0.entry(key(envelope, call_id)).or_default()
    }

    /// Records the calls in a reply.
    pub(super) fn record_calls(&mut self, envelope: &Envelope, blocks: &[ReplyBlock]) {
        for call in calls_of(blocks) {
            self.open(envelope, &call.id).description = describe(call);
        }
    }

    /// Removes and returns the call.
    pub(super) fn close(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
    ) -> Option<ConsoleOpenCall> {
        self.0.remove(&key(envelope, call_id))
    }

    /// Returns the waiting line of the call, if it runs.
    pub(super) fn running(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
    ) -> Option<&mut WaitIndicator> {
        self.0.get_mut(&key(envelope, call_id))?.running.as_mut()
    }

    /// Returns the waiting line of the call that has run longest, with the number of other running calls.
    pub(super) fn longest_running(&self) -> Option<WaitIndicator> {
        let running = || self.0.values().filter_map(|call| call.running.as_ref());
        let mut first = running().min_by_key(|running| running.since)?.clone();
        let others = running().count() - 1;
        if others > 0 {
            first.subject = format!("{} (+{others})", first.subject);
        }
        Some(first)
    }

    /// Removes all calls.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn key(envelope: &Envelope, call_id: &CallId) -> (SessionId, CallId) {
    (envelope.session_id.clone(), call_id.clone())
}

/// Describes a call: its command, or the tool with its path, pattern, URL or query.
fn describe(call: &ToolCall) -> String {
    let CallArguments::Json(arguments) = &call.arguments else { return call.name.clone() };
    let text = |key: &str| arguments.get(key).and_then(|value| value.as_str());
    if let Some(command) = text("command") {
        return command.to_owned();
    }
    match ["path", "pattern", "url", "query"].into_iter().find_map(text) {
        Some(target) => format!("{} {target}", call.name),
        None => call.name.clone(),
    }
}
