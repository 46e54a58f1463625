//! The types of spans.

use std::time::Duration;

use crow_core::{
    event::{AgentRole, CompactionTrigger, Verdict},
    ids::{CallId, ReplyId, RunId, SessionId, SnapshotId},
    model::{ModelRef, StopReason},
    trace::{SpanId, TraceId},
    usage::TokenUsage,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ModelCallContent, ToolCallContent};

/// A piece of work of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSpan {
    /// The trace: all that one run of the root session did.
    pub trace_id: TraceId,
    /// The span.
    pub id: SpanId,
    /// The span that it is part of; none for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SpanId>,
    /// The session of the agent.
    pub session_id: SessionId,
    /// The root session.
    pub root_id: SessionId,
    /// The agent.
    pub agent: String,
    /// Its role.
    pub role: AgentRole,
    /// The round of the run, counted from 1.
    pub round: u32,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; the same as `start` for what takes no time.
    pub end: Timestamp,
    /// How it ended.
    pub outcome: SpanOutcome,
    /// What was done.
    pub work: SpanWork,
}

impl TraceSpan {
    /// Returns how long it took.
    pub fn duration(&self) -> Duration {
        self.end.duration_since(self.start).try_into().unwrap_or_default()
    }

    /// Returns the span without the words of users, models and tools: prompts, titles of calls, error messages.
    #[must_use]
    pub fn without_content(&self) -> Self {
        let mut span = self.clone();
        match &mut span.work {
            SpanWork::Run(run) => run.prompt = None,
            SpanWork::ToolCall(call) => call.title = String::new(),
            SpanWork::ModelCall(_)
            | SpanWork::Turn(_)
            | SpanWork::Permission(_)
            | SpanWork::Question(_)
            | SpanWork::Handoff(_)
            | SpanWork::Verdict(_)
            | SpanWork::Checks(_)
            | SpanWork::Compaction(_) => {}
        }
        if let SpanOutcome::Failed { message, .. } = &mut span.outcome {
            *message = String::new();
        }
        span.without_call_content()
    }

    /// Returns the span without the [content](ToolCallContent) of its call, which is not stored.
    #[must_use]
    pub(crate) fn without_call_content(mut self) -> Self {
        if let SpanWork::ModelCall(call) = &mut self.work {
            call.content = None;
        } else if let SpanWork::ToolCall(call) = &mut self.work {
            call.content = None;
        }
        self
    }

    /// Returns the approximate size of the content of its call, in bytes.
    pub(crate) fn call_content_len(&self) -> usize {
        if let SpanWork::ModelCall(call) = &self.work {
            call.content.as_ref().map_or(0, |content| content.len())
        } else if let SpanWork::ToolCall(call) = &self.work {
            call.content.as_ref().map_or(0, |content| content.len())
        } else {
            0
        }
    }

    /// Returns the name of the work, for people: the run, the agent, the model, or the tool.
    pub fn name(&self) -> &str {
        match &self.work {
            SpanWork::Run(_) => "run",
            SpanWork::Turn(_) => &self.agent,
            SpanWork::ModelCall(call) => &call.model.model,
            SpanWork::ToolCall(call) => &call.tool,
            SpanWork::Permission(_) => "permission",
            SpanWork::Question(_) => "question",
            SpanWork::Handoff(_) => "handoff",
            SpanWork::Verdict(_) => "verdict",
            SpanWork::Checks(_) => "checks",
            SpanWork::Compaction(_) => "compaction",
        }
    }
}

/// How a span ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SpanOutcome {
    /// It did what it was to do.
    Succeeded,
    /// It did not.
    Failed {
        /// The kind of failure, one of few: `tool_error`, `rate_limit`.
        kind: String,
        /// Why, in one line.
        message: String,
    },
    /// It was cancelled.
    Cancelled,
    /// Its end is not known: it still goes on, or its process died.
    Unfinished,
}

/// The work of a span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpanWork {
    /// All that one prompt started.
    Run(RunTotals),
    /// A turn of one agent.
    Turn(TurnWork),
    /// A call of a model.
    ModelCall(ModelCallWork),
    /// A call of a tool.
    ToolCall(ToolCallWork),
    /// The user was asked for permission.
    Permission(PermissionWork),
    /// An agent asked the user something.
    Question(QuestionWork),
    /// An agent handed its work to another.
    Handoff(HandoffWork),
    /// A reviewer judged.
    Verdict(VerdictWork),
    /// The configured checks ran.
    Checks(CheckWork),
    /// The conversation was compacted.
    Compaction(CompactionWork),
}

/// What a run came to for its user: the aggregate of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTotals {
    /// The run.
    pub run_id: RunId,
    /// The prompt, shortened. Content: consumers pass it on only if they were told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How it ended: `completed`, `needs_input`, `stopped`, `cancelled`, `failed`.
    pub result: String,
    /// True if all configured checks passed with the final files.
    #[serde(default)]
    pub verified: bool,
    /// The last verdict of a reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Number of rounds.
    pub rounds: u32,
    /// Number of answered model calls, of all agents.
    pub model_calls: u32,
    /// Number of tool calls, of all agents.
    pub tool_calls: u32,
    /// The tokens by model, of all agents.
    pub usage: Vec<(ModelRef, TokenUsage)>,
    /// How long the user was waited for, in milliseconds.
    pub waited_ms: u64,
}

impl RunTotals {
    /// Returns the tokens of all models.
    pub fn total_usage(&self) -> TokenUsage {
        let mut total = TokenUsage::default();
        for (_, usage) in &self.usage {
            total += *usage;
        }
        total
    }
}

/// A turn of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnWork {
    /// Its number in the session, counted from 1.
    pub turn: u32,
    /// Why it ended, as a name: `text`, `task_complete`, `max_steps`. None while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Number of answered model calls.
    pub model_calls: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// The tokens.
    pub usage: TokenUsage,
}

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelCallPurpose {
    /// Its reply is part of the conversation.
    Reply,
    /// It was beside the conversation, as for a summary, or it failed.
    Other,
}

/// A call of a model, its retries included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCallWork {
    /// The reply.
    pub reply_id: ReplyId,
    /// The model that was asked.
    pub model: ModelRef,
    /// The wire format, such as `anthropic`; empty if it is not known.
    pub dialect: String,
    /// The address that was asked; empty if it is not known.
    pub base_url: String,
    /// Its purpose.
    pub purpose: ModelCallPurpose,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// The provider's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Its tokens; none if it failed before anything came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// True if the tokens are estimated.
    #[serde(default)]
    pub estimated: bool,
    /// From the request to the first part of the reply, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_chunk_ms: Option<u64>,
    /// Number of attempts that failed before.
    #[serde(default)]
    pub retries: u32,
    /// True if the conversation was compacted since the call before.
    #[serde(default)]
    pub compacted: bool,
    /// Its content, if that is collected. Not stored.
    #[serde(skip)]
    pub content: Option<Box<ModelCallContent>>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallWork {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// What the call does, in one line. Content: consumers pass it on only if they were told to.
    pub title: String,
    /// True if it was refused.
    #[serde(default)]
    pub denied: bool,
    /// Files that it created, changed or deleted.
    #[serde(default)]
    pub files_changed: u64,
    /// Lines that it added.
    #[serde(default)]
    pub additions: u64,
    /// Lines that it deleted.
    #[serde(default)]
    pub deletions: u64,
    /// The state of the files after it, if captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
    /// Length of what the model reads of it, in bytes.
    #[serde(default)]
    pub output_bytes: u64,
    /// Its content, if that is collected. Not stored.
    #[serde(skip)]
    pub content: Option<Box<ToolCallContent>>,
}

/// A question to the user about a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionWork {
    /// The call.
    pub call_id: CallId,
    /// The answer: `allow_once`, `allow_session`, `deny`, `nobody`.
    pub answer: String,
}

/// A question of an agent to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionWork {
    /// The call that asks.
    pub call_id: CallId,
    /// True if it was answered, and not withdrawn.
    pub answered: bool,
}

/// A handoff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffWork {
    /// The agent that gives.
    pub from: String,
    /// The agent that takes.
    pub to: String,
}

/// The judgement of a reviewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictWork {
    /// The reviewer.
    pub reviewer: String,
    /// What it says.
    pub verdict: Verdict,
}

/// A run of the configured checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckWork {
    /// The names of the checks that passed.
    pub passed: Vec<String>,
    /// The names of those that failed.
    pub failed: Vec<String>,
}

/// A compaction of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionWork {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<CompactionTrigger>,
    /// Tokens of a request before, as estimated.
    #[serde(default)]
    pub tokens_before: u64,
    /// Tokens of a request after it, as estimated.
    #[serde(default)]
    pub tokens_after: u64,
}
