//! The events of a session, and the envelope with their origin and time.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentState, CheckRun, CompactionReport, InputSource, InstructionFile, ModelCallTiming,
    NoticeAudience, NoticeLevel, RequestPrefix, RunOutcome, Verdict,
};
use crate::{
    capability::{QuestionAnswer, UserQuestion},
    ids::{CallId, MessageId, ReplyId, RequestId, RunId, SessionId, SnapshotId, UndoId},
    message::{Block, Origin, ReplyBlock},
    model::{ProviderError, StopReason},
    permission::{Denial, GrantOffer, PermissionAnswer},
    run::EndAssessment,
    settings::SessionSettings,
    todo::TodoItem,
    tool_types::{ChangeCounts, Patch, Subject, ToolResult},
    turn::TurnEnd,
    usage::TokenUsage,
};

/// What happens in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// A session began. Durable; the first line of a log.
    SessionStart {
        /// The version of the log's format.
        format_version: u32,
        /// The provider and model that the session began with, as `provider/model`.
        model: String,
        /// The working directory.
        cwd: PathBuf,
        /// What the session began with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<Box<SessionSettings>>,
    },
    /// A run began. Durable.
    RunStart {
        /// The run.
        run_id: RunId,
        /// The settings from here on, if they differ from those before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<Box<SessionSettings>>,
    },
    /// A run ended. Durable.
    RunEnd {
        /// The run.
        run_id: RunId,
        /// How.
        result: RunOutcome,
        /// What the end means, if the agent ended the run by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assessment: Option<Box<EndAssessment>>,
    },
    /// A round began. Durable.
    RoundStart,
    /// A round ended. Durable.
    RoundEnd,
    /// The agent got a message. Durable.
    UserInput {
        /// The id of the message.
        message_id: MessageId,
        /// The source of the words.
        source: InputSource,
        /// What the loop put before the words: instructions of the project, facts about the machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// The words.
        content: Vec<Block>,
    },
    /// The model was given instructions of files, or told that some count no longer. Durable.
    Instructions {
        /// The files.
        files: Vec<InstructionFile>,
        /// What the model reads.
        text: String,
    },
    /// A turn began. Durable.
    TurnStart {
        /// Its number in the session, counted from 1.
        turn: u32,
    },
    /// A turn ended. Durable.
    TurnComplete {
        /// Its number in the session.
        turn: u32,
        /// Why it ended.
        end: TurnEnd,
    },
    /// A model call and its tool calls ended.
    StepComplete {
        /// Its number in the turn, counted from 1.
        step: u32,
    },
    /// More text of the open reply.
    TextDelta {
        /// The reply.
        reply_id: ReplyId,
        /// Where the delta begins in the reply's text, in bytes.
        offset: u64,
        /// The text.
        delta: String,
    },
    /// A text block is complete.
    TextComplete {
        /// The reply.
        reply_id: ReplyId,
        /// The whole text of the reply.
        text: String,
    },
    /// More reasoning of the open reply.
    ThinkingDelta {
        /// The reply.
        reply_id: ReplyId,
        /// Where the delta begins in the reply's reasoning, in bytes.
        offset: u64,
        /// The text.
        delta: String,
    },
    /// The reasoning is complete.
    ThinkingComplete {
        /// The reply.
        reply_id: ReplyId,
        /// The whole reasoning of the reply.
        text: String,
    },
    /// The partial reply is discarded: the request is sent again.
    ReplyReset {
        /// The reply.
        reply_id: ReplyId,
        /// What went wrong.
        error: ProviderError,
        /// The attempt that comes next, the first retry being 1.
        attempt: u32,
        /// The wait before it.
        wait_ms: u64,
    },
    /// The request waits for its turn within the limits of its provider.
    ModelWait {
        /// The reply.
        reply_id: ReplyId,
        /// What it waits for.
        reason: String,
        /// The remaining wait, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// The tools of servers are waited for before the model is asked.
    ToolsWait {
        /// The servers that are not ready.
        servers: Vec<String>,
    },
    /// The model answered. Durable.
    Reply {
        /// The reply.
        reply_id: ReplyId,
        /// The blocks in the order in which they came.
        blocks: Vec<ReplyBlock>,
        /// Why the model stopped.
        stop: StopReason,
        /// Where the reply came from.
        origin: Origin,
        /// The provider's id of the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_id: Option<String>,
    },
    /// The tokens of a model call. Durable.
    Usage {
        /// The reply.
        reply_id: ReplyId,
        /// What it used.
        usage: TokenUsage,
        /// True if the numbers are Crow's estimate: the provider gave none, or the attempt failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        /// System prompt and tools of the request, if they differ from those of the request before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<Box<RequestPrefix>>,
        /// How long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timing: Option<ModelCallTiming>,
        /// Length of the request in bytes; none if it was not sent over HTTP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_bytes: Option<u64>,
    },
    /// A call was parsed and awaits a decision.
    CallPending {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// What the call would do, in one line.
        title: String,
        /// Its arguments.
        arguments: Value,
        /// The patch that the call would apply, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<Patch>,
    },
    /// A call is about to run. Durable, and written before anything happens.
    CallStart {
        /// The call.
        call_id: CallId,
        /// The reply that asked for it.
        reply_id: ReplyId,
        /// The tool, by its true name.
        tool: String,
        /// What the call does, in one line.
        title: String,
        /// Its arguments as they are used.
        arguments: Value,
        /// The state of the files that it may change, if captured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<SnapshotId>,
    },
    /// A call waits before it runs.
    CallWait {
        /// The call.
        call_id: CallId,
        /// What it waits for.
        reason: String,
    },
    /// A call printed something.
    CallProgress {
        /// The call.
        call_id: CallId,
        /// What it printed.
        output: String,
    },
    /// A call is answered: run, refused or invalid. Durable.
    CallEnd {
        /// The call.
        call_id: CallId,
        /// The reply that asked for it.
        reply_id: ReplyId,
        /// The tool, by its true name, or what the model called.
        tool: String,
        /// The answer.
        result: ToolResult,
        /// Who refused it, if it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denial: Option<Denial>,
    },
    /// Files changed.
    FilesChanged {
        /// The call that changed them.
        call_id: CallId,
        /// The files.
        files: Vec<PathBuf>,
        /// The state after the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<SnapshotId>,
    },
    /// A background job changed files between calls. Durable.
    JobChanges {
        /// The call that started the job.
        call_id: CallId,
        /// The files, within bounds.
        files: Vec<PathBuf>,
        /// The paths before.
        before: SnapshotId,
        /// The paths after.
        after: SnapshotId,
        /// How much changed.
        changes: ChangeCounts,
        /// Others may have made some of the changes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shared: bool,
        /// The job ended with a killed process: its last changes were not observed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut_off: bool,
    },
    /// The user is asked about a call.
    PermissionRequest {
        /// The question.
        request_id: RequestId,
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// What the call would do, in one line.
        title: String,
        /// What it is about.
        subject: Subject,
        /// Why it is asked.
        reason: String,
        /// What an "always" could mean, the narrowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        offers: Vec<GrantOffer>,
    },
    /// A question about a call is withdrawn: the call was cancelled before it was answered.
    PermissionWithdrawn {
        /// The question.
        request_id: RequestId,
        /// The call.
        call_id: CallId,
    },
    /// A question about a call is answered. Durable.
    PermissionDecision {
        /// The question.
        request_id: RequestId,
        /// The call.
        call_id: CallId,
        /// The answer.
        answer: PermissionAnswer,
        /// How long the user was waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
    },
    /// An agent asks the user something. Durable.
    ///
    /// Closed by `question_answered` or `question_withdrawn` with the same request, or, where its process died, by the end
    /// of the call.
    QuestionAsked {
        /// The question.
        request_id: RequestId,
        /// The call that asks.
        call_id: CallId,
        /// What is asked.
        question: UserQuestion,
    },
    /// A question of an agent is answered. Durable.
    QuestionAnswered {
        /// The question.
        request_id: RequestId,
        /// The call that asked.
        call_id: CallId,
        /// The answer.
        answer: QuestionAnswer,
    },
    /// A question of an agent is withdrawn: the call was cancelled before it was answered. Durable.
    QuestionWithdrawn {
        /// The question.
        request_id: RequestId,
        /// The call that asked.
        call_id: CallId,
    },
    /// The todo list changed.
    Plan {
        /// The whole list.
        items: Vec<TodoItem>,
    },
    /// One agent hands work to another. Durable.
    Handoff {
        /// The agent that gives.
        from: String,
        /// The agent that takes.
        to: String,
        /// What it is told.
        prompt: String,
    },
    /// A coagent begins its review.
    CoagentStart {
        /// The agent whose work it is.
        primary: String,
        /// The coagent.
        coagent: String,
    },
    /// A coagent ended its review.
    CoagentEnd {
        /// The agent whose work it is.
        primary: String,
        /// The coagent.
        coagent: String,
    },
    /// A subagent begins.
    SubagentStart {
        /// The agent that started it. The envelope has a `parent` of its own.
        #[serde(rename = "parent_agent")]
        parent: String,
        /// The subagent.
        subagent: String,
        /// The subagent's session.
        child_id: SessionId,
        /// Its task.
        task: String,
    },
    /// A subagent ended.
    SubagentEnd {
        /// The agent that started it. The envelope has a `parent` of its own.
        #[serde(rename = "parent_agent")]
        parent: String,
        /// The subagent.
        subagent: String,
        /// The subagent's session.
        child_id: SessionId,
        /// Its outcome.
        result: String,
    },
    /// The configured checks ran. Durable.
    Checks {
        /// The checks, in their order.
        #[serde(default)]
        checks: Vec<CheckRun>,
        /// Whether all passed.
        passed: bool,
        /// Why they confirm nothing although all passed, if so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unverified: Option<String>,
    },
    /// A reviewer judged. Durable.
    ReviewVerdict {
        /// The reviewer.
        reviewer: String,
        /// What it says.
        verdict: Verdict,
    },
    /// The agent says that the task is done. Durable.
    TaskComplete {
        /// What it says about it.
        summary: String,
        /// True if all configured checks passed with the final files.
        verified: bool,
    },
    /// The agent's state changed.
    StateChange {
        /// The new state.
        state: AgentState,
    },
    /// Another agent, level, model or set of tools from here on. Durable.
    Switch {
        /// What changed, as `key: old -> new`.
        change: String,
    },
    /// Changes of files were undone, redone or put back by the user. Durable; the model reads the text.
    FilesRestored {
        /// What was done.
        undo_id: UndoId,
        /// What the model is told.
        text: String,
    },
    /// The conversation was rewound to an earlier point: what came after is no longer part of it. Durable.
    Rewind {
        /// What was done.
        undo_id: UndoId,
        /// The last event that is kept.
        last_kept: u64,
    },
    /// The conversation that the model is sent was compacted: messages were replaced by a summary, outputs by a placeholder.
    /// The log before stays as it is. Durable.
    Compaction {
        /// The text that stands in place of the messages that are left out. Empty if only outputs were replaced.
        summary: String,
        /// The first message of the part that is kept whole.
        first_kept: MessageId,
        /// Messages of the user before it that are kept, too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<MessageId>,
        /// Calls whose outputs are replaced by a placeholder, in messages that are kept.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        masked: Vec<CallId>,
        /// Why, and how many tokens a request had before and has now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<CompactionReport>,
    },
    /// Something to know. Durable.
    Notice {
        /// How much it matters.
        level: NoticeLevel,
        /// Who reads it.
        audience: NoticeAudience,
        /// The text.
        text: String,
    },
    /// Something failed. Durable.
    Error {
        /// What.
        error: String,
        /// The provider's error, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<ProviderError>,
    },
    /// The run is being cancelled.
    Cancelling,
    /// The run was cancelled. Durable.
    Cancelled,
}

impl AgentEvent {
    /// Returns true if the event is a line of the log.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::SessionStart { .. }
            | Self::RunStart { .. }
            | Self::RunEnd { .. }
            | Self::RoundStart
            | Self::RoundEnd
            | Self::UserInput { .. }
            | Self::Instructions { .. }
            | Self::TurnStart { .. }
            | Self::TurnComplete { .. }
            | Self::Reply { .. }
            | Self::Usage { .. }
            | Self::CallStart { .. }
            | Self::CallEnd { .. }
            | Self::PermissionDecision { .. }
            | Self::QuestionAsked { .. }
            | Self::QuestionAnswered { .. }
            | Self::QuestionWithdrawn { .. }
            | Self::Handoff { .. }
            | Self::Checks { .. }
            | Self::ReviewVerdict { .. }
            | Self::TaskComplete { .. }
            | Self::Switch { .. }
            | Self::JobChanges { .. }
            | Self::FilesRestored { .. }
            | Self::Rewind { .. }
            | Self::Compaction { .. }
            | Self::Notice { .. }
            | Self::Error { .. }
            | Self::Cancelled => true,
            Self::StepComplete { .. }
            | Self::TextDelta { .. }
            | Self::TextComplete { .. }
            | Self::ThinkingDelta { .. }
            | Self::ThinkingComplete { .. }
            | Self::ReplyReset { .. }
            | Self::ModelWait { .. }
            | Self::ToolsWait { .. }
            | Self::CallPending { .. }
            | Self::CallWait { .. }
            | Self::CallProgress { .. }
            | Self::FilesChanged { .. }
            | Self::PermissionRequest { .. }
            | Self::PermissionWithdrawn { .. }
            | Self::Plan { .. }
            | Self::CoagentStart { .. }
            | Self::CoagentEnd { .. }
            | Self::SubagentStart { .. }
            | Self::SubagentEnd { .. }
            | Self::Cancelling
            | Self::StateChange { .. } => false,
        }
    }
}

/// The version of log lines and of the JSON output. It changes when an old reader would misread a new line.
pub const FORMAT_VERSION: u32 = 1;

/// The role of an agent in its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// It does the work.
    #[default]
    Primary,
    /// It reviews or repairs the work of its partner.
    Coagent,
    /// Another agent's call started it.
    Subagent,
}

/// The call that started a child session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentCall {
    /// The session of the parent.
    pub session_id: SessionId,
    /// The call, if a call started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
}

/// An event with its origin. As JSON it is one flat object; a log is one such object per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// The number of a durable event, counted per root session from 1. Other events have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it happened.
    pub time: Timestamp,
    /// The session.
    pub session_id: SessionId,
    /// The root session, whose id the user knows.
    pub root_id: SessionId,
    /// The agent's name.
    pub agent: String,
    /// The role of the agent.
    pub role: AgentRole,
    /// The call that started the session, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentCall>,
    /// The round of the run, counted from 1.
    pub round: u32,
    /// What happened.
    #[serde(flatten)]
    pub event: AgentEvent,
}

impl Envelope {
    /// Returns true if the event is of the root session, whose agent the user talks to.
    pub fn is_root(&self) -> bool {
        self.session_id == self.root_id
    }
}
