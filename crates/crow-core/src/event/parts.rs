//! Parts of events, such as reports, notices and the state of an agent.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    context::{TokenEstimator, json_length},
    file_views::ContentHash,
    hash::fnv1a,
    ids::{FilesId, SessionId},
    model::ToolDefinition,
    run::{EndAssessment, Failure, FailureKind},
    turn::TurnEnd,
};

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// For information.
    Info,
    /// Something may not be as expected.
    Warning,
}

/// Who reads a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeAudience {
    /// The user alone.
    User,
    /// The model, as a message of its history.
    Model,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The agent says that the task is done.
    Completed {
        /// What it says about it.
        summary: String,
        /// True if all configured checks passed with the final files.
        verified: bool,
    },
    /// The turn ended and the agent waits for the user.
    NeedsInput,
    /// A limit, the budget or the loop guard ended it.
    Stopped {
        /// Which.
        reason: TurnEnd,
    },
    /// The user ended it.
    Cancelled,
    /// It failed.
    Failed {
        /// Why.
        error: String,
        /// Who must act.
        #[serde(default)]
        kind: FailureKind,
    },
}

impl RunOutcome {
    /// Returns the name of the variant, as in the log of a session, without its texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::NeedsInput => "needs_input",
            Self::Stopped { .. } => "stopped",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}

/// The outcome of a run with its assessment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnding {
    /// The outcome.
    pub outcome: RunOutcome,
    /// What the end means, if the agent ended the run by itself.
    pub assessment: Option<Box<EndAssessment>>,
}

impl From<RunOutcome> for RunEnding {
    fn from(outcome: RunOutcome) -> Self {
        Self { outcome, assessment: None }
    }
}

impl From<Failure> for RunOutcome {
    fn from(Failure { error, kind }: Failure) -> Self {
        Self::Failed { error, kind }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    /// Its name.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// The exit code; none if there is none: it ran out of time, was killed, or did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed, if it did: `exit code 1`, `timed out after 600 s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it ran.
    pub duration_ms: u64,
    /// It had passed with the same files, and was not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

impl CheckRun {
    /// Returns true if it passed.
    pub fn passed(&self) -> bool {
        self.error.is_none()
    }
}

/// What the checks of a finished task came to, as the result of the call keeps it in what is known beside its output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckReport {
    /// The checks, in their order.
    pub checks: Vec<CheckRun>,
    /// True if all checks passed with the files as they are.
    pub verified: bool,
    /// Why they do not, if none of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// The files with which they passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesId>,
}

impl CheckReport {
    /// Makes the report of checks that passed with these files.
    pub fn verified(checks: Vec<CheckRun>, files: FilesId) -> Self {
        Self { checks, verified: true, unverified: None, files: Some(files) }
    }

    /// Makes the report of checks that do not verify the task, although none failed.
    pub fn unverified(checks: Vec<CheckRun>, reason: impl Into<String>) -> Self {
        Self { checks, unverified: Some(reason.into()), ..Self::default() }
    }

    /// Makes the report of checks of which at least one failed.
    pub fn failed(checks: Vec<CheckRun>) -> Self {
        Self { checks, ..Self::default() }
    }

    /// Parses the report from the `extra` of a result's metadata.
    pub fn from_extra(extra: &Value) -> Option<Self> {
        extra.get("checks")?;
        Self::deserialize(extra).ok()
    }

    /// Returns true if no check failed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(CheckRun::passed)
    }

    /// Marks the report as not verified.
    pub fn mark_unverified(&mut self, reason: impl Into<String>) {
        self.verified = false;
        self.unverified = Some(reason.into());
    }
}

/// How long a model call took, its retries included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCallTiming {
    /// From the request to the end of the reply, or to the failure.
    pub duration_ms: u64,
    /// From the request to the first part of the reply that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_chunk_ms: Option<u64>,
    /// Number of attempts that failed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why the conversation was compacted, and what that saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionReport {
    /// Why it was compacted.
    pub trigger: CompactionTrigger,
    /// Tokens of a request before, as estimated.
    pub tokens_before: u64,
    /// Tokens of a request with the compacted conversation, as estimated.
    pub tokens_after: u64,
}

/// The part of a request before the conversation: the system prompt and the tools. It is what providers cache first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestPrefix {
    /// The context window of the model in tokens, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The system prompt.
    pub system: PrefixPart,
    /// The definitions of the tools by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, PrefixPart>,
}

/// The length of a part of a request, and a hash that tells whether it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrefixPart {
    /// Its tokens, estimated without knowledge of the model's tokenizer.
    pub tokens: u64,
    /// Its bytes in the JSON of a request; none in older logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Hash of its text.
    pub hash: u32,
}

impl RequestPrefix {
    /// Describes a system prompt and tools.
    pub fn new(window: Option<u64>, system: &str, tools: &[ToolDefinition]) -> Self {
        let tools = tools.iter().map(|tool| {
            let parameters = tool.parameters.to_string();
            let part = PrefixPart {
                tokens: TokenEstimator::tool(tool),
                bytes: Some(
                    json_length(&tool.name)
                        + json_length(&tool.description)
                        + parameters.len() as u64,
                ),
                hash: short_hash(&format!("{}\n{parameters}", tool.description)),
            };
            (tool.name.clone(), part)
        });
        let system = PrefixPart {
            tokens: TokenEstimator::new("", &[]).text(system),
            bytes: Some(json_length(system)),
            hash: short_hash(system),
        };
        Self { window, system, tools: tools.collect() }
    }

    /// Returns the tokens of all parts.
    pub fn tokens(&self) -> u64 {
        self.system.tokens + self.tools.values().map(|tool| tool.tokens).sum::<u64>()
    }

    /// Returns the names of the parts that differ from those of `earlier`: `system prompt`, or a tool.
    pub fn differences(&self, earlier: &Self) -> Vec<String> {
        let system = (self.system.hash != earlier.system.hash).then(|| "system prompt".to_owned());
        let added = self.tools.iter().filter(|(name, tool)| {
            earlier.tools.get(*name).is_none_or(|before| before.hash != tool.hash)
        });
        let removed = earlier.tools.keys().filter(|name| !self.tools.contains_key(*name));
        let names = added.map(|(name, _)| name).chain(removed).cloned();
        system.into_iter().chain(names).collect()
    }
}

/// Returns a hash that is exact as a number of JSON.
fn short_hash(text: &str) -> u32 {
    let [a, b, c, d, ..] = fnv1a(text.as_bytes()).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Why the conversation was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The next request would come close to the context window.
    Window,
    /// The provider refused a request as too long.
    Overflow,
    /// The user asked for it.
    User,
}

impl fmt::Display for CompactionReport {
    /// Writes one line for people, such as `about 23200 tokens became 8100, because the window was nearly full`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.trigger {
            CompactionTrigger::Window => "because the window was nearly full",
            CompactionTrigger::Overflow => "because the provider refused the request as too long",
            CompactionTrigger::User => "as asked for",
        };
        let (before, after) = (hundreds(self.tokens_before), hundreds(self.tokens_after));
        write!(f, "about {before} tokens became {after}, {reason}")
    }
}

/// Rounds an estimate to hundreds.
fn hundreds(tokens: u64) -> u64 {
    tokens.div_ceil(100) * 100
}

/// A file whose instructions the model was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionFile {
    /// The file, by the name under which it was found.
    pub path: PathBuf,
    /// Who wrote it.
    pub author: InstructionAuthor,
    /// Hash of its content. None if the file no longer has instructions, so that those before count no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<ContentHash>,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many of these bytes the model was given.
    pub shown_bytes: u64,
}

/// The author of a file with instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstructionAuthor {
    /// The user: the file is part of the user's own configuration.
    User,
    /// The authors of the project.
    Repository,
}

impl fmt::Display for InstructionFile {
    /// Writes one line for people, such as `/p/AGENTS.md (40000 bytes, the first 24000 shown)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, author: _, hash, bytes, shown_bytes } = self;
        write!(f, "{}", path.display())?;
        match (hash, shown_bytes) {
            (None, _) => f.write_str(" (counts no longer)"),
            (Some(_), shown) if shown == bytes => write!(f, " ({bytes} bytes)"),
            (Some(_), 0) => write!(f, " ({bytes} bytes, not shown)"),
            (Some(_), shown) => write!(f, " ({bytes} bytes, the first {shown} shown)"),
        }
    }
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case")]
pub enum AgentState {
    /// It waits for input.
    Idle,
    /// It waits for the model, or decides what comes next.
    Processing,
    /// It waits for an answer about a call.
    WaitingForPermission,
    /// It runs this tool.
    ExecutingTool(String),
    /// It waits for the agent of this session.
    WaitingForSubagent(SessionId),
    /// It ended.
    Done,
    /// It failed.
    Error(String),
}

impl AgentState {
    /// Returns true if `next` may follow this state.
    ///
    /// Nothing follows an end. An idle agent enters [`Processing`](Self::Processing) before it asks, runs or waits.
    pub fn may_become(&self, next: &Self) -> bool {
        match self {
            Self::Done | Self::Error(_) => false,
            Self::Idle => !matches!(
                next,
                Self::WaitingForPermission | Self::ExecutingTool(_) | Self::WaitingForSubagent(_)
            ),
            Self::Processing
            | Self::WaitingForPermission
            | Self::ExecutingTool(_)
            | Self::WaitingForSubagent(_) => true,
        }
    }

    /// Returns true if this is an end state.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Done | Self::Error(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_an_end_and_an_idle_agent_processes_first() {
        let states = || {
            [
                AgentState::Idle,
                AgentState::Processing,
                AgentState::WaitingForPermission,
                AgentState::ExecutingTool("bash".into()),
                AgentState::WaitingForSubagent(SessionId::new("c")),
                AgentState::Done,
                AgentState::Error("e".into()),
            ]
        };
        let legal = [
            [true, true, false, false, false, true, true],
            [true, true, true, true, true, true, true],
            [true, true, true, true, true, true, true],
            [true, true, true, true, true, true, true],
            [true, true, true, true, true, true, true],
            [false; 7],
            [false; 7],
        ];
        for (from, row) in states().iter().zip(legal) {
            for (to, expected) in states().iter().zip(row) {
                assert_eq!(from.may_become(to), expected, "{from:?} -> {to:?}");
            }
        }
    }
}
