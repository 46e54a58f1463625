//! Ids of traces and spans.
//!
//! They are hashes of the ids that a session's log has anyway. So a run that is watched live, its log that is read later,
//! and the `traceparent` that a command got all have the same ids, and nobody must hand them around.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    hash::fnv1a,
    ids::{CallId, ReplyId, RunId, SessionId},
};

/// Names a trace: one run of a root session with all that it started. 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(u128);

/// Names a span in a trace. 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(u64);

impl TraceId {
    /// Returns the id of the trace of a run.
    pub fn of_run(root: &SessionId, run: &RunId) -> Self {
        let high = hash(&["trace", root.as_str(), run.as_str()]);
        let low = hash(&["trace-low", root.as_str(), run.as_str()]);
        Self(u128::from(high) << 64 | u128::from(low))
    }

    /// Returns the bytes, the most significant one first.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Returns true if the trace is among the `ratio`, from 0 to 1, of traces that are recorded. All its spans are then.
    pub fn is_sampled(self, ratio: f64) -> bool {
        // The lower half, of which 53 bits fit into the number exactly.
        let low = (self.0 & u128::from(u64::MAX)) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let (position, whole) = (low as f64, (1_u64 << 53) as f64);
        position < ratio * whole
    }
}

impl SpanId {
    /// Returns the id of the span of a run.
    pub fn of_run(run: &RunId) -> Self {
        Self(hash(&["run", run.as_str()]))
    }

    /// Returns the id of the span of a turn, by the number of its first event.
    pub fn of_turn(session: &SessionId, seq: u64) -> Self {
        Self(hash(&["turn", session.as_str(), &seq.to_string()]))
    }

    /// Returns the id of the span of a model call.
    pub fn of_model_call(session: &SessionId, reply: &ReplyId) -> Self {
        Self(hash(&["model_call", session.as_str(), reply.as_str()]))
    }

    /// Returns the id of the span of a tool call.
    pub fn of_tool_call(session: &SessionId, call: &CallId) -> Self {
        Self(hash(&["tool_call", session.as_str(), call.as_str()]))
    }

    /// Returns the id of the span that one event describes, by the number of the event.
    pub fn of_event(session: &SessionId, seq: u64) -> Self {
        Self(hash(&["event", session.as_str(), &seq.to_string()]))
    }

    /// Returns the bytes, the most significant one first.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// Returns a hash of the parts that is not zero.
fn hash(parts: &[&str]) -> u64 {
    let mut text = String::new();
    for part in parts {
        text.push_str(part);
        text.push('\n');
    }
    // FNV spreads the last bytes badly over the high bits: mixed as in SplitMix64.
    let mut mixed = fnv1a(text.as_bytes());
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

/// A span within its trace, as other programs are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// True if the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Returns the context of a run.
    pub fn of_run(root: &SessionId, run: &SampledRun) -> Self {
        let trace_id = TraceId::of_run(root, &run.id);
        let is_sampled = trace_id.is_sampled(run.ratio);
        Self { trace_id, span_id: SpanId::of_run(&run.id), is_sampled }
    }

    /// Returns the context of a call of a tool.
    pub fn of_tool_call(
        root: &SessionId,
        run: &SampledRun,
        session: &SessionId,
        call: &CallId,
    ) -> Self {
        let trace_id = TraceId::of_run(root, &run.id);
        let is_sampled = trace_id.is_sampled(run.ratio);
        Self { trace_id, span_id: SpanId::of_tool_call(session, call), is_sampled }
    }
}

impl fmt::Display for TraceContext {
    /// Writes the header `traceparent` of W3C Trace Context, with the flag whether the trace is recorded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }
}

/// A run, and which part of all traces is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledRun {
    /// The run.
    pub id: RunId,
    /// The part of all traces that is recorded, from 0 to 1.
    pub ratio: f64,
}

/// The run of the root session that goes on, if programs that its tools start are told of its trace. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct TracedRun(Arc<Mutex<Option<SampledRun>>>);

impl TracedRun {
    /// Sets the run.
    pub fn set(&self, run: SampledRun) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
    }

    /// Returns the run; none if nobody is told of it.
    pub fn get(&self) -> Option<SampledRun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

macro_rules! hex_id {
    ($name:ident, $digits:literal, $number:ty) => {
        impl fmt::Display for $name {
            /// Writes lowercase hexadecimal digits.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $digits, "x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                String::json_schema(generator)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let number = <$number>::from_str_radix(&text, 16).map_err(D::Error::custom)?;
                if number == 0 {
                    return Err(D::Error::custom("an id of only zeros"));
                }
                Ok(Self(number))
            }
        }
    };
}

hex_id!(TraceId, "32", u128);
hex_id!(SpanId, "16", u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_written_as_a_traceparent_header() {
        let root = SessionId::new("s");
        let run = SampledRun { id: RunId::new("r"), ratio: 1.0 };
        let context = TraceContext::of_tool_call(&root, &run, &root, &CallId::new("c"));
        let text = context.to_string();
        let parts: Vec<&str> = text.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2]);
        assert!(text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()));
        assert!(text.ends_with("-01"), "{text}");
        let ids = (0..400).map(|n| TraceId::of_run(&root, &RunId::new(n.to_string())));
        let sampled = ids.filter(|id| id.is_sampled(0.25)).count();
        assert!((60..140).contains(&sampled), "{sampled} of 400 at a quarter");
        let run = SampledRun { ratio: 0.0, ..run };
        let context = TraceContext::of_tool_call(&root, &run, &root, &CallId::new("c"));
        assert!(context.to_string().ends_with("-00"), "{context}");
    }

    #[test]
    fn ids_are_the_same_for_the_same_names_and_differ_otherwise() {
        let (one, other) = (SessionId::new("1"), SessionId::new("2"));
        let call = CallId::new("c");
        assert_eq!(SpanId::of_tool_call(&one, &call), SpanId::of_tool_call(&one, &call));
        assert_ne!(SpanId::of_tool_call(&one, &call), SpanId::of_tool_call(&other, &call));
        let reply = ReplyId::new("c");
        assert_ne!(SpanId::of_tool_call(&one, &call), SpanId::of_model_call(&one, &reply));
    }

    #[test]
    fn an_id_survives_json() {
        let id = TraceId::of_run(&SessionId::new("s"), &RunId::new("r"));
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<TraceId>(&text).unwrap(), id);
        assert!(serde_json::from_str::<SpanId>("\"0000000000000000\"").is_err());
    }
}
