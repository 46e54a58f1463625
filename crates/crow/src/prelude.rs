//! The names that an agent of your own needs.

pub use async_trait::async_trait;
pub use crow_agent::{
    AcpAgent, AgentConfig, AgentExecutor, AgentHooks, BaseAgent, ExecutionOutcome, HookDecision,
    RequestDraft, TerminationCondition, serve,
};
#[cfg(feature = "app")]
pub use crow_app::ProcessEnvironment;
#[cfg(feature = "console")]
pub use crow_console::{AgentConsole, ConsoleStyle};
pub use crow_context::{
    environment::{Environment, SystemState, TaskState, TaskStatus},
    manager::ContextManager,
};
pub use crow_core::{
    event::{AgentEvent, AgentState, Envelope, Failure, InputSource, RunOutcome},
    message::Block,
    model::{ModelConfig, ModelRef, Models, ResolvedModel, StopReason, Thinking, ToolChoice},
    permission::{PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
    tool::{
        CallPlan, Tool, ToolCategory, ToolContext, ToolError, ToolRegistry, ToolResult, TypedTool,
        TypedToolAdapter,
    },
    turn::{RequestedCall, TurnEnd},
};
pub use crow_providers::{HttpClient, ProviderModels, Proxies};
pub use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, AgentRuntime, AgentSession, FileStore, HandleAnswerer,
    InputMessage, MemoryStore, ModelCall, RunGuard, RuntimeConfig, SessionSpec,
};
pub use crow_tools::register_builtin;
