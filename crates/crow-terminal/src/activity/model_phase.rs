//! The phase of the work of an agent between its calls: what it waits for, or what the model sends.

use crow_console::words::{count, whole_seconds};
use crow_core::model::ProviderError;
use jiff::Timestamp;

use super::text_fit::bounded_line;
use crate::styled_text::TextRole;

/// Maximum number of servers that are named.
const MOST_SERVERS: usize = 3;

/// The phase of an agent, and when it began.
#[derive(Debug, Clone)]
pub(super) struct ModelPhase {
    kind: PhaseKind,
    since: Timestamp,
}

/// The kind of a phase. Texts in it are harmless and on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PhaseKind {
    /// The agent prepares calls, or does what comes before and after a turn.
    Preparation,
    /// The model was asked, and sent nothing yet.
    ModelRequest,
    /// The model sends its reasoning.
    Reasoning,
    /// The model sends text.
    Text,
    /// The conversation is compacted.
    Compaction,
    /// The tools of servers are waited for.
    ServerTools(String),
    /// The request waits for its turn within the limits of its provider.
    RateLimit {
        reason: String,
        /// The end of the wait in milliseconds since 1970, if known.
        until: Option<i64>,
    },
    /// A failed request is sent again.
    Retry {
        /// Number of the attempt that comes next. The first request is attempt 1.
        attempt: u32,
        cause: String,
        /// The end of the wait before it, in milliseconds since 1970.
        until: i64,
    },
}

/// The text for a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PhaseText {
    pub(super) text: String,
    /// Start of the time to show. None if the text has a countdown.
    pub(super) since: Option<Timestamp>,
    pub(super) role: TextRole,
}

impl PhaseKind {
    /// Returns the wait for the tools of these servers.
    pub(super) fn server_tools(servers: &[String]) -> Self {
        let mut names: Vec<String> =
            servers.iter().take(MOST_SERVERS).map(|server| bounded_line(server)).collect();
        let more = servers.len() - names.len();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        Self::ServerTools(names.join(", "))
    }

    /// Returns the wait for the limits of the provider.
    pub(super) fn rate_limit(reason: &str, time: Timestamp, wait_ms: Option<u64>) -> Self {
        let until = wait_ms.map(|wait| millis_after(time, wait));
        Self::RateLimit { reason: bounded_line(reason), until }
    }

    /// Returns the wait before a request is sent again. The first retry is 1.
    pub(super) fn retry(error: &ProviderError, retry: u32, time: Timestamp, wait_ms: u64) -> Self {
        let kind = error.kind.name().replace('_', " ");
        let cause = match error.status {
            Some(status) => format!("{status} {kind}"),
            None => kind,
        };
        let until = millis_after(time, wait_ms);
        Self::Retry { attempt: retry.saturating_add(1), cause, until }
    }
}

impl ModelPhase {
    /// Begins a phase.
    pub(super) fn new(kind: PhaseKind, since: Timestamp) -> Self {
        Self { kind, since }
    }

    /// Returns the kind.
    pub(super) fn kind(&self) -> &PhaseKind {
        &self.kind
    }

    /// Returns true if neither the model nor a server is waited for.
    pub(super) fn is_preparation(&self) -> bool {
        self.kind == PhaseKind::Preparation
    }

    /// Switches to another kind. The same kind goes on.
    pub(super) fn switch_to(&mut self, kind: PhaseKind, time: Timestamp) {
        if self.kind != kind {
            *self = Self::new(kind, time);
        }
    }

    /// Returns the text for this time.
    pub(super) fn describe(&self, now: Timestamp) -> PhaseText {
        let plain = |text: &str| PhaseText {
            text: text.to_owned(),
            since: Some(self.since),
            role: TextRole::Plain,
        };
        match &self.kind {
            PhaseKind::Preparation => plain("working"),
            PhaseKind::ModelRequest => plain("waiting for the model"),
            PhaseKind::Reasoning => plain("thinking"),
            PhaseKind::Text => plain("writing"),
            PhaseKind::Compaction => plain("compacting the conversation"),
            PhaseKind::ServerTools(servers) => {
                plain(&format!("waiting for the tools of {servers}"))
            }
            PhaseKind::RateLimit { reason, until } => {
                match until.and_then(|until| seconds_until(until, now)) {
                    Some(left) => PhaseText {
                        since: None,
                        ..plain(&format!("waiting for the model, {left}: {reason}"))
                    },
                    None => plain(&format!("waiting for the model: {reason}")),
                }
            }
            PhaseKind::Retry { attempt, cause, until } => match seconds_until(*until, now) {
                Some(left) => PhaseText {
                    text: format!("retrying in {left} (attempt {attempt}): {cause}"),
                    since: None,
                    role: TextRole::Warning,
                },
                None => plain(&format!("waiting for the model (attempt {attempt})")),
            },
        }
    }

    /// Returns the text for a row of several agents, in which a usual model call is one word.
    pub(super) fn describe_shortly(&self, now: Timestamp) -> String {
        match self.kind {
            PhaseKind::ModelRequest => "thinking".to_owned(),
            PhaseKind::Preparation
            | PhaseKind::Reasoning
            | PhaseKind::Text
            | PhaseKind::Compaction
            | PhaseKind::ServerTools(_)
            | PhaseKind::RateLimit { .. }
            | PhaseKind::Retry { .. } => self.describe(now).text,
        }
    }
}

/// Returns the milliseconds from one time to another; 0 if the clock went back.
pub(super) fn millis_between(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.as_millisecond() - since.as_millisecond()).unwrap_or(0)
}

/// Formats the time since then in whole seconds.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> String {
    whole_seconds(millis_between(since, now) / 1000)
}

/// Formats the time since then coarsely: seconds, then minutes, then hours and minutes.
pub(super) fn coarse_elapsed(since: Timestamp, now: Timestamp) -> String {
    match millis_between(since, now) / 1000 {
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => whole_seconds(seconds),
    }
}

/// Formats a number of calls.
pub(super) fn call_count(calls: usize) -> String {
    count(u64::try_from(calls).unwrap_or(u64::MAX), "call")
}

fn millis_after(time: Timestamp, wait_ms: u64) -> i64 {
    time.as_millisecond().saturating_add(i64::try_from(wait_ms).unwrap_or(i64::MAX))
}

/// Formats the time left, rounded up to seconds. None if there is none.
fn seconds_until(until: i64, now: Timestamp) -> Option<String> {
    let left = u64::try_from(until.saturating_sub(now.as_millisecond())).ok()?;
    (left > 0).then(|| whole_seconds(left.div_ceil(1000)))
}

#[cfg(test)]
mod tests {
    use crow_core::model::ProviderErrorKind;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn a_retry_counts_down_and_then_waits_for_the_model() {
        let mut error = ProviderError::new(ProviderErrorKind::RateLimited, "slow down");
        error.status = Some(429);
        let phase = ModelPhase::new(PhaseKind::retry(&error, 1, at(0), 4000), at(0));
        let text = |now| phase.describe(at(now)).text;
        assert_eq!(text(0), "retrying in 4 s (attempt 2): 429 rate limited");
        assert_eq!(text(3001), "retrying in 1 s (attempt 2): 429 rate limited");
        assert_eq!(text(4000), "waiting for the model (attempt 2)");
    }

    #[test]
    fn a_wait_for_the_rate_limit_has_its_reason_and_the_time_left_if_known() {
        let text = |wait_ms, now| {
            let kind = PhaseKind::rate_limit("30 requests\nper minute", at(0), wait_ms);
            ModelPhase::new(kind, at(0)).describe(at(now)).text
        };
        assert_eq!(text(Some(1500), 0), "waiting for the model, 2 s: 30 requests per minute");
        assert_eq!(text(Some(1500), 2000), "waiting for the model: 30 requests per minute");
        assert_eq!(text(None, 0), "waiting for the model: 30 requests per minute");
        assert_eq!(text(Some(u64::MAX), 0).get(..27), Some("waiting for the model, 2562"));
    }

    #[test]
    fn at_most_three_servers_are_named() {
        let servers = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            ModelPhase::new(PhaseKind::server_tools(&names), at(0)).describe(at(0)).text
        };
        assert_eq!(servers(&["docs"]), "waiting for the tools of docs");
        assert_eq!(
            servers(&["a", "b\u{1b}", "c", "d", "e"]),
            "waiting for the tools of a, b␛, c, 2 more"
        );
    }

    #[test]
    fn the_same_phase_goes_on_and_another_begins_anew() {
        let mut phase = ModelPhase::new(PhaseKind::Text, at(0));
        phase.switch_to(PhaseKind::Text, at(50));
        assert_eq!(phase.describe(at(60)).since, Some(at(0)));
        phase.switch_to(PhaseKind::Reasoning, at(50));
        assert_eq!(phase.describe(at(60)).since, Some(at(50)));
    }

    #[test]
    fn coarse_times_have_one_unit_below_an_hour() {
        let table =
            [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3725, "1 h 2 min")];
        for (seconds, expected) in table {
            assert_eq!(coarse_elapsed(at(0), at(seconds * 1000)), expected);
        }
    }
}
