//! Hooks of a session: programs of the user or of a trusted project that are told what an agent does, and may object.
//!
//! The runtime and the built-in loops say what happens ([`HookMoment`]) and act on the answer ([`HookOutcome`]). What the
//! hooks are, how they are started and what they read and print is the business of the program that implements
//! [`SessionHooks`].

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    capability::PipedProcesses,
    event::CompactionTrigger,
    ids::{CallId, SessionId},
    permission::PermissionMode,
    tool::{CallPlan, SourceNotice, ToolResult},
    trace::TraceContext,
};

/// The kinds of [`HookMoment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    BeforeCall,
    AfterCall,
    Prompt,
    SessionStart,
    SessionEnd,
    TurnEnd,
    Compaction,
    Notification,
}

/// Something that happens in a session, with what hooks are told of it.
#[derive(Debug, Clone, Copy)]
pub enum HookMoment<'a> {
    /// A call is about to be decided about.
    BeforeCall {
        call_id: &'a CallId,
        tool: &'a str,
        input: &'a Value,
        /// What it would touch: the same for each spelling of the input.
        plan: &'a CallPlan,
    },
    /// A call has ended. Files that a hook changes count as changed by the call.
    AfterCall {
        call_id: &'a CallId,
        tool: &'a str,
        input: &'a Value,
        plan: &'a CallPlan,
        result: &'a ToolResult,
        duration: Duration,
    },
    /// The user has sent a prompt, which the model has not seen.
    Prompt { text: &'a str },
    /// The first prompt of an opened session is about to be worked on.
    SessionStart { source: SessionStartSource },
    /// The session is closed.
    SessionEnd,
    /// The model ends its turn.
    TurnEnd {
        /// Its last text.
        text: Option<&'a str>,
        /// True if a hook made the turn go on before.
        has_objected: bool,
    },
    /// The conversation is about to be compacted.
    Compaction {
        trigger: CompactionTrigger,
        /// What the user wants to be kept above all.
        focus: Option<&'a str>,
    },
    /// The user is needed.
    Notification { kind: NotificationKind, text: &'a str },
}

/// How a session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStartSource {
    /// It is new.
    New,
    /// It was opened again.
    Resumed,
    /// It goes on after its conversation was compacted.
    Compacted,
}

/// Why the user is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationKind {
    /// A call needs a permission.
    Permission,
    /// The agent asks a question.
    Question,
}

impl HookMoment<'_> {
    /// Returns the kind.
    pub fn kind(&self) -> HookKind {
        match self {
            Self::BeforeCall { .. } => HookKind::BeforeCall,
            Self::AfterCall { .. } => HookKind::AfterCall,
            Self::Prompt { .. } => HookKind::Prompt,
            Self::SessionStart { .. } => HookKind::SessionStart,
            Self::SessionEnd => HookKind::SessionEnd,
            Self::TurnEnd { .. } => HookKind::TurnEnd,
            Self::Compaction { .. } => HookKind::Compaction,
            Self::Notification { .. } => HookKind::Notification,
        }
    }
}

/// The agent of a moment.
#[derive(Debug, Clone)]
pub struct HookScene<'a> {
    /// The session of the agent.
    pub session_id: &'a SessionId,
    /// The root session, whose id the user sees. It differs from the session for a subagent or a reviewer.
    pub root_id: &'a SessionId,
    /// The agent's name.
    pub agent: &'a str,
    /// The directory that it works in.
    pub cwd: &'a Path,
    /// The directories that it may change, the first of which contains `cwd`.
    pub roots: &'a [PathBuf],
    /// The permission mode of the session.
    pub mode: PermissionMode,
    /// Starts processes in the sandbox of the agent's commands; `None` if it confines nothing.
    pub sandboxed: Option<Arc<dyn PipedProcesses>>,
    /// True if the sandbox keeps processes in it from changing files in the read-only mode.
    pub enforces_read_only: bool,
    /// The span in which it happens, if programs are told of it.
    pub trace: Option<TraceContext>,
}

/// The permission that hooks give to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookPermission {
    /// The user need not be asked, if the permission mode alone is the reason to ask.
    Allow,
    /// The user must be asked, for this reason.
    Ask(String),
    /// The call may not run, for this reason.
    Deny(String),
}

impl HookPermission {
    /// Returns the stricter of two permissions; of two equally strict ones the first.
    pub fn stricter(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let rank = |permission: &Option<Self>| match permission {
            None => 0,
            Some(Self::Allow) => 1,
            Some(Self::Ask(_)) => 2,
            Some(Self::Deny(_)) => 3,
        };
        if rank(&other) > rank(&one) { other } else { one }
    }
}

/// The answer of all hooks to a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// Before a call: its permission.
    pub permission: Option<HookPermission>,
    /// Before a call: the input in place of its own.
    pub input: Option<Value>,
    /// The objection. It refuses a prompt or a compaction, lets a turn go on, and is shown to the model after a call.
    pub objection: Option<String>,
    /// Texts for the model.
    pub context: Vec<String>,
    /// Messages for the user.
    pub notices: Vec<SourceNotice>,
    /// Reason to end the turn.
    pub stop: Option<String>,
    /// True if a hook ran.
    pub has_run: bool,
}

impl HookOutcome {
    /// Returns the reason not to go on with what is about to happen, if there is one.
    pub fn refusal(&self) -> Option<&str> {
        self.stop.as_deref().or(self.objection.as_deref())
    }
}

/// The hooks of a session.
#[async_trait]
pub trait SessionHooks: Send + Sync + fmt::Debug {
    /// Returns true if there may be hooks for moments of this kind. Cheap.
    fn has(&self, kind: HookKind) -> bool;

    /// Runs the hooks of a moment. When `cancellation` is cancelled, it ends the hooks and returns soon.
    async fn run(
        &self,
        scene: HookScene<'_>,
        moment: HookMoment<'_>,
        cancellation: &CancellationToken,
    ) -> HookOutcome;
}
