//! The calls that have no answer yet.

use std::collections::HashMap;

use crow_core::{
    event::Envelope,
    ids::{CallId, SessionId},
    message::{CallArguments, ReplyBlock, ToolCall, calls_of},
    tool::Patch,
};

use super::waiting::WaitIndicator;

/// A call without an answer.
#[derive(Debug, Default)]
pub(super) struct ConsoleOpenCall {
    pub(super) title: String,
    /// What the model asked for, in its own words. A log has no title of a call that was refused.
    pub(super) asked: String,
    /// What it would change.
    pub(super) preview: Option<Patch>,
    /// Whether the change is on the screen already.
    pub(super) previewed: bool,
    /// Set when it runs.
    pub(super) running: Option<WaitIndicator>,
}

/// The calls that have no answer yet. Ids come from models and are told apart by session.
#[derive(Debug, Default)]
pub(super) struct OpenCalls(HashMap<(SessionId, CallId), ConsoleOpenCall>);

impl OpenCalls {
    /// Returns the call, which may be new.
    pub(super) fn open(&mut self, envelope: &Envelope, call_id: &CallId) -> &mut ConsoleOpenCall {
        self.0.entry(key(envelope, call_id)).or_default()
    }

    /// Takes down what a reply asks for.
    pub(super) fn ask(&mut self, envelope: &Envelope, blocks: &[ReplyBlock]) {
        for call in calls_of(blocks) {
            self.open(envelope, &call.id).asked = asked(call);
        }
    }

    /// Takes the call out.
    pub(super) fn close(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
    ) -> Option<ConsoleOpenCall> {
        self.0.remove(&key(envelope, call_id))
    }

    /// Returns the call if it runs.
    pub(super) fn running(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
    ) -> Option<&mut WaitIndicator> {
        self.0.get_mut(&key(envelope, call_id))?.running.as_mut()
    }

    /// Returns the call that runs longest, and says how many others run.
    pub(super) fn longest_running(&self) -> Option<WaitIndicator> {
        let running = || self.0.values().filter_map(|call| call.running.as_ref());
        let mut first = running().min_by_key(|running| running.since)?.clone();
        let others = running().count() - 1;
        if others > 0 {
            first.what = format!("{} (+{others})", first.what);
        }
        Some(first)
    }

    /// Forgets all calls.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn key(envelope: &Envelope, call_id: &CallId) -> (SessionId, CallId) {
    (envelope.session_id.clone(), call_id.clone())
}

/// Names the command of a call, or the tool and what it is about.
fn asked(call: &ToolCall) -> String {
    let CallArguments::Json(arguments) = &call.arguments else { return call.name.clone() };
    let text = |key: &str| arguments.get(key).and_then(|value| value.as_str());
    if let Some(command) = text("command") {
        return command.to_owned();
    }
    match ["path", "pattern", "url", "query"].into_iter().find_map(text) {
        Some(about) => format!("{} {about}", call.name),
        None => call.name.clone(),
    }
}
