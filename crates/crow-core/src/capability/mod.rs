//! Capabilities: effects on the outside world, as traits that the runtime implements.

mod children;
mod clock;
mod containment;
mod http;
mod processes;
mod questions;
mod side_model;
mod snapshots;

pub use children::{
    BackgroundChild, BackgroundState, ChildEnd, ChildError, ChildOutcome, ChildTask, Children,
};
pub use clock::Clock;
pub use containment::{
    AccessReport, Containment, HostRefusal, NetworkReach, OriginalState, QuarantinedFile,
    RefusedHost, SandboxReport, SessionAccess,
};
pub use http::{Http, HttpBody, HttpError, HttpMethod, HttpReach, HttpRequest, HttpResponse};
pub use processes::{
    CapturedOutput, JobError, JobInfo, JobOutput, JobState, Jobs, OutputFile, OutputLimits,
    OutputPosition, OutputTail, PipedProcess, PipedProcesses, PipedSpec, ProcessEnd, ProcessError,
    ProcessOutcome, ProcessSpec, Processes,
};
pub use questions::{
    Answerer, DelegatedCalls, NoAnswerer, PermissionRequest, QuestionAnswer, QuestionChoice,
    QuestionRequest, UserQuestion, UserQuestions,
};
pub use side_model::{SideModel, SideReply, SideRequest, SideRequestError};
pub use snapshots::{SnapshotError, Snapshots};

pub use crate::{
    mcp::{McpLink, McpLinkError, McpLinkMessage, McpLinkMessages, McpLinkRequest},
    permission::PermissionAnswer,
};
