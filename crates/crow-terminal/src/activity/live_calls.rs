//! The calls of an agent that have no result yet.

use crow_core::ids::CallId;
use jiff::Timestamp;

use super::{model_phase::millis_between, output_tail::CallOutputTail, text_fit::bounded_line};

/// Maximum number of calls without a result that are kept.
const MOST_CALLS: usize = 64;
/// Milliseconds after which a call is listed. Rows for shorter calls would only flicker.
const LISTED_AFTER_MS: u64 = 300;

/// The calls of an agent without a result, in the order in which they were announced.
#[derive(Debug, Default)]
pub(super) struct LiveCalls(Vec<LiveCall>);

/// A call without a result.
#[derive(Debug)]
pub(super) struct LiveCall {
    pub(super) id: CallId,
    /// Harmless text on one line.
    pub(super) title: String,
    stage: CallStage,
    /// The reason why it waits, if it does.
    waits_for: Option<String>,
    pub(super) tail: CallOutputTail,
}

/// The stage of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallStage {
    /// It awaits a decision.
    Announced,
    /// It waits before it runs, since this time.
    Blocked(Timestamp),
    /// It runs, since this time.
    Running(Timestamp),
}

/// Distinguishes the first start of a call from a repeated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallStartKind {
    First,
    Repeated,
}

impl LiveCall {
    /// Returns since when it runs or waits; none if it does neither.
    pub(super) fn since(&self) -> Option<Timestamp> {
        match self.stage {
            CallStage::Announced => None,
            CallStage::Blocked(since) | CallStage::Running(since) => Some(since),
        }
    }

    /// Returns the title, with the reason if it waits.
    pub(super) fn description(&self) -> String {
        match &self.waits_for {
            Some(reason) => format!("{} (waits: {reason})", self.title),
            None => self.title.clone(),
        }
    }
}

impl LiveCalls {
    /// Adds a call that awaits a decision.
    pub(super) fn on_pending(&mut self, id: &CallId, title: &str) {
        self.entry(id).title = bounded_line(title);
    }

    /// Records that a call runs.
    pub(super) fn on_start(&mut self, id: &CallId, title: &str, time: Timestamp) -> CallStartKind {
        let call = self.entry(id);
        call.title = bounded_line(title);
        call.waits_for = None;
        if let CallStage::Running(_) = call.stage {
            return CallStartKind::Repeated;
        }
        call.stage = CallStage::Running(time);
        CallStartKind::First
    }

    /// Records that a call waits. A call that was not announced is ignored.
    pub(super) fn on_wait(&mut self, id: &CallId, reason: &str, time: Timestamp) {
        let Some(call) = self.find(id) else { return };
        call.waits_for = Some(bounded_line(reason));
        if call.stage == CallStage::Announced {
            call.stage = CallStage::Blocked(time);
        }
    }

    /// Adds output of a call. That of a call which does not run is ignored.
    pub(super) fn on_output(&mut self, id: &CallId, output: &str) {
        if let Some(call) = self.find(id)
            && let CallStage::Running(_) = call.stage
        {
            call.waits_for = None;
            call.tail.push(output);
        }
    }

    /// Records that a call no longer waits.
    pub(super) fn on_wait_end(&mut self, id: &CallId) {
        if let Some(call) = self.find(id) {
            call.waits_for = None;
        }
    }

    /// Removes and returns a call.
    pub(super) fn remove(&mut self, id: &CallId) -> Option<LiveCall> {
        let index = self.0.iter().position(|call| call.id == *id)?;
        Some(self.0.remove(index))
    }

    /// Returns true if there is no call.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the calls that run or wait, in the order in which they were announced.
    pub(super) fn running(&self) -> impl Iterator<Item = &LiveCall> {
        self.0.iter().filter(|call| call.since().is_some())
    }

    /// Returns the calls that have run long enough to get a row.
    pub(super) fn listed(&self, now: Timestamp) -> Vec<&LiveCall> {
        let is_listed = |call: &&LiveCall| {
            call.since().is_some_and(|since| millis_between(since, now) >= LISTED_AFTER_MS)
        };
        self.running().filter(is_listed).collect()
    }

    fn find(&mut self, id: &CallId) -> Option<&mut LiveCall> {
        self.0.iter_mut().find(|call| call.id == *id)
    }

    /// Returns the call; adds it if it is new.
    fn entry(&mut self, id: &CallId) -> &mut LiveCall {
        if let Some(index) = self.0.iter().position(|call| call.id == *id) {
            return &mut self.0[index];
        }
        if self.0.len() == MOST_CALLS {
            self.0.remove(0);
        }
        self.0.push(LiveCall {
            id: id.clone(),
            title: String::new(),
            stage: CallStage::Announced,
            waits_for: None,
            tail: CallOutputTail::default(),
        });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn titles(calls: &LiveCalls) -> Vec<String> {
        calls.running().map(LiveCall::description).collect()
    }

    #[test]
    fn a_call_is_shown_from_its_wait_or_start_to_its_end() {
        let (mut calls, id) = (LiveCalls::default(), CallId::new("c1"));
        calls.on_wait(&id, "unknown call", at(0));
        calls.on_pending(&id, "run\nls");
        assert_eq!(titles(&calls), [""; 0]);
        calls.on_wait(&id, "another agent changes files here", at(10));
        assert_eq!(titles(&calls), ["run ls (waits: another agent changes files here)"]);
        assert_eq!(calls.on_start(&id, "ls", at(20)), CallStartKind::First);
        assert_eq!(calls.on_start(&id, "ls", at(90)), CallStartKind::Repeated);
        assert_eq!(titles(&calls), ["ls"]);
        assert_eq!(calls.running().next().and_then(LiveCall::since), Some(at(20)));
        assert!(calls.remove(&id).is_some() && calls.remove(&id).is_none());
        calls.on_output(&id, "late");
        assert!(calls.is_empty());
    }

    #[test]
    fn a_call_is_listed_once_it_takes_a_moment() {
        let (mut calls, id) = (LiveCalls::default(), CallId::new("c1"));
        calls.on_start(&id, "ls", at(0));
        assert_eq!(calls.listed(at(299)).len(), 0);
        assert_eq!(calls.listed(at(300)).len(), 1);
    }

    #[test]
    fn the_oldest_of_too_many_calls_are_dropped() {
        let mut calls = LiveCalls::default();
        for number in 0..100 {
            calls.on_start(&CallId::new(number.to_string()), &number.to_string(), at(0));
        }
        let titles = titles(&calls);
        assert_eq!(titles.len(), MOST_CALLS);
        assert_eq!(titles.last().map(String::as_str), Some("99"));
    }
}
