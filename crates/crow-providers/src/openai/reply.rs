//! The parts of replies that both formats share: ids that pair calls with results, token usage, errors within the stream.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crow_core::{
    ids::CallId,
    message::AssistantMessage,
    model::{ProviderError, ProviderErrorKind},
    usage::TokenUsage,
};
use serde_json::Value;

use crate::{classify, codec::new_call_id};

/// The ids of all calls of a conversation.
///
/// A result refers to its call by the id alone. But some servers give no id, and some repeat one, in the same reply or
/// in the next: such a call gets a new id when it is received. A history may contain replies of other services, whose
/// ids may repeat or be too long for this one: those get another id on the wire, always the same one.
#[derive(Debug, Clone)]
pub(super) struct CallIds {
    known: Arc<HashSet<CallId>>,
    /// Ids that were sent.
    sent: HashSet<String>,
    /// Wire ids of the last reply's calls, for the results that follow.
    open: HashMap<CallId, String>,
    /// Maximum number of characters that the service accepts.
    longest: usize,
}

impl CallIds {
    pub(super) fn new(longest: usize) -> Self {
        Self { known: Arc::default(), sent: HashSet::new(), open: HashMap::new(), longest }
    }

    /// Registers the calls of a reply in the history.
    pub(super) fn on_message(&mut self, message: &AssistantMessage) {
        self.open.clear();
        for call in message.calls() {
            Arc::make_mut(&mut self.known).insert(call.id.clone());
            let wire = self.free_id(call.id.as_str());
            self.sent.insert(wire.clone());
            self.open.insert(call.id.clone(), wire);
        }
    }

    /// Returns the wire id of a call of the last reply.
    pub(super) fn wire<'a>(&'a self, id: &'a CallId) -> &'a str {
        self.open.get(id).map_or(id.as_str(), String::as_str)
    }

    /// Returns the taken ids for the decoder of a new reply.
    pub(super) fn for_reply(&self) -> ReplyIds {
        ReplyIds { known: Arc::clone(&self.known) }
    }

    fn free_id(&self, id: &str) -> String {
        let is_free = |id: &str| !self.sent.contains(id);
        let id = if id.is_empty() { "call" } else { id };
        if id.chars().count() <= self.longest && is_free(id) {
            return id.to_owned();
        }
        let mut numbered = (2_usize..).map(|number| {
            let end = format!("_{number}");
            let start: String = id.chars().take(self.longest.saturating_sub(end.len())).collect();
            start + &end
        });
        numbered.find(|id| is_free(id)).expect("invariant: there are fewer calls than numbers")
    }
}

/// Taken ids, which the calls of a new reply may not have.
#[derive(Debug)]
pub(super) struct ReplyIds {
    known: Arc<HashSet<CallId>>,
}

impl ReplyIds {
    /// Returns the id of a new call: the given one if it is not taken, otherwise a generated one.
    pub(super) fn assign(&mut self, given: Option<&str>) -> CallId {
        let given = given.filter(|id| !id.trim().is_empty()).map(CallId::new);
        let id = given.filter(|id| !self.known.contains(id)).unwrap_or_else(new_call_id);
        Arc::make_mut(&mut self.known).insert(id.clone());
        id
    }
}

/// Names of the two totals and of their details; the other names are the same in both formats.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageNames {
    input: &'static str,
    input_details: &'static str,
    output: &'static str,
    output_details: &'static str,
}

/// Names in Chat Completions.
pub(super) const CHAT_USAGE: UsageNames = UsageNames {
    input: "prompt_tokens",
    input_details: "prompt_tokens_details",
    output: "completion_tokens",
    output_details: "completion_tokens_details",
};

/// Names in Responses.
pub(super) const RESPONSES_USAGE: UsageNames = UsageNames {
    input: "input_tokens",
    input_details: "input_tokens_details",
    output: "output_tokens",
    output_details: "output_tokens_details",
};

/// Parses a usage object. Both totals include their parts: cached input and reasoning.
pub(super) fn read_usage(usage: &Value, names: UsageNames) -> TokenUsage {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let input = usage.get(names.input_details).unwrap_or(&Value::Null);
    let output = usage.get(names.output_details).unwrap_or(&Value::Null);
    TokenUsage {
        input_tokens: number(usage, names.input).unwrap_or(0),
        output_tokens: number(usage, names.output).unwrap_or(0),
        reasoning_tokens: number(output, "reasoning_tokens"),
        // DeepSeek has another name for it.
        cache_read_tokens: number(input, "cached_tokens")
            .or_else(|| number(usage, "prompt_cache_hit_tokens"))
            .unwrap_or(0),
        cache_write_tokens: number(input, "cache_write_tokens").unwrap_or(0),
        cache_write_1h_tokens: 0,
    }
}

/// Parses the data of an event.
pub(super) fn parse_event(data: &str) -> Result<Value, ProviderError> {
    serde_json::from_str(data).map_err(|error| {
        let message = format!("an event of the stream is not JSON: {error}");
        ProviderError::new(ProviderErrorKind::Decode, message)
    })
}

/// Returns the error of an event that is one or contains one.
pub(super) fn event_error(event: &Value) -> Option<ProviderError> {
    let has_error = event.get("error").is_some_and(|error| !error.is_null());
    // vLLM sends its error object without an envelope.
    let is_error = event.get("object").and_then(Value::as_str) == Some("error");
    (has_error || is_error).then(|| classify::error_event(event))
}

#[cfg(test)]
mod tests {
    use crow_core::message::{CallArguments, ReplyBlock};

    use super::*;
    use crate::openai::testing;

    #[test]
    fn an_id_is_passed_through_unless_it_is_missing_or_taken() {
        let mut ids = CallIds::new(40).for_reply();
        assert_eq!(ids.assign(Some("call_1")).as_str(), "call_1");
        assert_eq!(ids.assign(Some("call_2")).as_str(), "call_2");
        for given in [Some("call_1"), Some(""), Some(" "), None] {
            let id = ids.assign(given);
            assert!(id.as_str().len() > 20 && id.as_str().starts_with("call_"), "{given:?}: {id}");
        }
    }

    #[test]
    fn wire_ids_are_unique_and_not_too_long() {
        let mut ids = CallIds::new(10);
        for (given, expected) in [
            ("call_1", "call_1"),
            ("call_2", "call_2"),
            ("call_1", "call_1_2"),
            ("call_1", "call_1_3"),
            ("functions.bash:0", "function_2"),
            ("functions.bash:1", "function_3"),
            ("", "call"),
            ("", "call_3"),
        ] {
            let call = testing::call(given, CallArguments::parse("{}"));
            let message = testing::assistant_message(vec![ReplyBlock::without_native_item(call)]);
            ids.on_message(&message);
            assert_eq!(ids.wire(&CallId::new(given)), expected, "{given}");
        }
    }
}
