//! Capabilities: effects on the outside world, as traits that the runtime implements.

mod access;
mod answerer;
mod children;
mod clock;
mod containment;
mod delegated_calls;
mod http;
mod jobs;
mod mcp_link;
mod piped;
mod processes;
mod question;
mod snapshots;

pub use access::{AccessReport, NetworkReach, SandboxReport, SessionAccess};
pub use answerer::{Answerer, NoAnswerer, PermissionRequest};
pub use children::{
    BackgroundChild, BackgroundState, ChildEnd, ChildError, ChildOutcome, ChildTask, Children,
};
pub use clock::Clock;
pub use containment::{Containment, HostRefusal, OriginalState, QuarantinedFile, RefusedHost};
pub use delegated_calls::DelegatedCalls;
pub use http::{Http, HttpBody, HttpError, HttpMethod, HttpRequest, HttpResponse};
pub use jobs::{JobError, JobInfo, JobOutput, JobState, Jobs, OutputPosition};
pub use mcp_link::{McpLink, McpLinkError, McpLinkMessage, McpLinkMessages, McpLinkRequest};
pub use piped::{OutputTail, PipedProcess, PipedProcesses, PipedSpec};
pub use processes::{
    CapturedOutput, OutputFile, OutputLimits, ProcessEnd, ProcessError, ProcessOutcome,
    ProcessSpec, Processes,
};
pub use question::{QuestionAnswer, QuestionChoice, QuestionRequest, UserQuestion, UserQuestions};
pub use snapshots::{SnapshotError, Snapshots};

pub use crate::permission::PermissionAnswer;
