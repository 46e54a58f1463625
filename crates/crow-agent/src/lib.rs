//! The built-in agent loops of Crow.
//!
//! [`BaseAgent`] is one model with a system prompt and tools: its [`execute_turn`](BaseAgent::execute_turn) drives
//! the turn machine. [`AcpAgent`] combines base agents: a primary, coagents that review its work, and the control
//! flow that decides what happens after a turn and who may end the run. [`serve`] runs one on the runtime, with a run
//! for each input. Agents are described by files: [`definition::AgentRegistry`] finds them by name in the [`layers`]
//! of a configuration, [`PromptRegistry`] renders their prompts, and [`Assembly`] assembles them. The crate contains
//! no HTTP, no protocol and no terminal.
//!
//! ```
//! use crow_agent::{AcpAgent, AcpAgentParts, BaseAgent, Coagent, CompositionError, EndTools};
//! use crow_core::{control::{Consensus, ControlFlow}, turn::RunLimits};
//!
//! /// One agent works, another one reads what it did and says when it is done.
//! fn pair(builder: BaseAgent, reviewer: BaseAgent) -> Result<AcpAgent, CompositionError> {
//!     AcpAgent::new(AcpAgentParts {
//!         name: "PAIR".to_owned(),
//!         description: "works; a reviewer says when it is done".to_owned(),
//!         primary: builder,
//!         coagents: vec![Coagent::Base(Box::new(reviewer))],
//!         control_flow: ControlFlow::judge(),
//!         consensus: Consensus::All,
//!         handoff: None,
//!         limits: RunLimits { max_rounds: 5, ..RunLimits::default() },
//!         end_tools: EndTools::default(),
//!     })
//! }
//! ```

mod acp_agent;
mod assembly;
mod base_agent;
mod checks;
mod choice;
mod compaction;
mod deferred_tools;
pub mod definition;
mod end_tools;
mod environment;
mod executor;
mod fallback;
mod file_start;
mod handoff;
mod hooks;
mod instructions;
pub mod layers;
mod mentioned_files;
mod named_files;
mod profile;
mod prompt;
mod prompt_commands;
mod session_hooks;
mod task;
mod toolset;

pub use acp_agent::{
    AcpAgent, AcpAgentParts, AcpSession, Coagent, CompositionError, RunInput, RunResult, Subagent,
    Subagents, serve, serve_latest,
};
pub use assembly::{AssembledAgent, Assembly, AssemblyError, MoneyLimit};
pub use base_agent::{AgentConfig, BaseAgent};
pub use checks::{Check, Checks};
pub use choice::{AgentChoice, DEFAULT_REVIEWER, ReviewChoice, SamplingChoice};
pub use definition::PromptContext;
pub use end_tools::{EndTools, SubmitForReview, TaskComplete};
pub use environment::SessionEnvironment;
pub use executor::{AgentExecutor, ExecutionError, ExecutionOutcome};
pub use handoff::{Bundle, HANDOFF_TOKENS, Handoff, HandoffTemplate, TurnCall, TurnResult};
pub use hooks::{
    AgentHooks, HookDecision, RequestDraft, TerminationCondition, TextContains, TimeElapsed,
    TokensUsed, ToolSucceeded, TurnProgress,
};
pub use instructions::{
    InstructionFlaw, InstructionFlawKind, InstructionListing, InstructionSources,
};
pub use profile::{
    EditTool, ListedProfile, ModelProfile, ProfileRegistry, StepThinking, ToolDescription,
    profile_schema,
};
pub use prompt::{
    HANDOFF_VARIABLES, PromptRegistry, PromptStyle, SYSTEM_VARIABLES, Surroundings, Template,
    TemplateError,
};
pub use task::{Task, TaskCancel, TaskOutput};
