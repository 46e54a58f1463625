//! How spans end, in words.

use crow_core::{event::RunOutcome, model::ProviderError, tool::ToolResult};
use crow_text::{one_line, shorten};
use jiff::Timestamp;

use super::SpanOutcome;

/// Maximum length of a prompt, title or error message in a span, in bytes.
const TEXT: usize = 200;

/// What is known of the end of a run.
#[derive(Debug)]
pub(super) struct RunEndFacts {
    pub(super) outcome: SpanOutcome,
    pub(super) result: &'static str,
    pub(super) verified: bool,
}

impl RunEndFacts {
    pub(super) fn unfinished() -> Self {
        Self { outcome: SpanOutcome::Unfinished, result: "unfinished", verified: false }
    }
}

pub(super) fn end_of_run(result: &RunOutcome) -> RunEndFacts {
    let (outcome, verified) = match result {
        RunOutcome::Completed { verified, .. } => (SpanOutcome::Succeeded, *verified),
        RunOutcome::NeedsInput => (SpanOutcome::Succeeded, false),
        RunOutcome::Stopped { reason } => {
            let (kind, message) = (reason.name().to_owned(), short(&reason.to_string()));
            (SpanOutcome::Failed { kind, message }, false)
        }
        RunOutcome::Cancelled => (SpanOutcome::Cancelled, false),
        RunOutcome::Failed { error, .. } => {
            let (kind, message) = ("run_failed".to_owned(), short(error));
            (SpanOutcome::Failed { kind, message }, false)
        }
    };
    RunEndFacts { outcome, result: result.name(), verified }
}

pub(super) fn failure(error: &str, provider: Option<&ProviderError>) -> SpanOutcome {
    let kind = provider.map_or("agent_error", |provider| provider.kind.name()).to_owned();
    SpanOutcome::Failed { kind, message: short(error) }
}

pub(super) fn failed(kind: &str, result: &ToolResult) -> SpanOutcome {
    let message = result.error.as_deref().unwrap_or(&result.output);
    SpanOutcome::Failed { kind: kind.to_owned(), message: short(message) }
}

/// Returns a text as one short line.
pub(super) fn short(text: &str) -> String {
    let end = text.char_indices().nth(4 * TEXT).map_or(text.len(), |(end, _)| end);
    shorten(&one_line(&text[..end]), TEXT)
}

/// Returns the moment this long before another.
pub(super) fn before(time: Timestamp, millis: u64) -> Timestamp {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    time.checked_sub(jiff::SignedDuration::from_millis(millis)).unwrap_or(Timestamp::MIN)
}
