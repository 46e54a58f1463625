//! A composition of base agents, and the tools that each of its agents may use.

use std::sync::Arc;

use crow_core::{
    control::{CoagentTools, Consensus, ControlFlow, EndTool},
    model::ResolvedModel,
    tool::{Tool, ToolCategory, ToolRegistry},
    turn::RunLimits,
};
use crow_runtime::{AgentAccess, SystemPrompt};

use super::subagents::Subagents;
use crate::{base_agent::BaseAgent, end_tools::EndTools, handoff::Handoff, toolset::SourcedFilter};

/// A composition: several base agents that are one agent from outside.
///
/// Invariant: only agents that may end the run have the tool `task_complete`; the control flow decides which those
/// are.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    pub(super) name: String,
    description: String,
    pub(super) primary: BaseAgent,
    pub(super) coagents: Vec<Coagent>,
    pub(super) control_flow: ControlFlow,
    pub(super) consensus: Consensus,
    pub(super) handoff: Handoff,
    pub(super) limits: RunLimits,
    subagents: Subagents,
}

/// Parts of which [`AcpAgent::new`] makes a composition.
#[derive(Debug, Clone)]
pub struct AcpAgentParts {
    /// Name of the composition.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// The agent that does the work.
    pub primary: BaseAgent,
    /// Agents that review the work. Several run at the same time, with read-only tools.
    pub coagents: Vec<Coagent>,
    /// Control flow after a turn of the primary.
    pub control_flow: ControlFlow,
    /// Rule for how many of several coagents must approve.
    pub consensus: Consensus,
    /// Message that the coagents get; the default of the control flow if absent.
    pub handoff: Option<Handoff>,
    /// Limits of a run.
    pub limits: RunLimits,
    /// The tools with which an agent ends its turn.
    pub end_tools: EndTools,
}

/// An agent that reviews the work of a primary.
#[derive(Debug, Clone)]
pub enum Coagent {
    /// A base agent.
    Base(Box<BaseAgent>),
    /// A composition: a completed run approves, any other end does not.
    Composition(Box<AcpAgent>),
}

/// Filter for the tools that a coagent may use.
struct PermittedCoagentTools<'a> {
    tools: CoagentTools,
    primary: &'a ToolRegistry,
    sourced: &'a SourcedFilter,
}

impl AcpAgent {
    /// Makes a composition and adjusts the tools of its agents to the control flow.
    ///
    /// Fails if the control flow needs a coagent and there is none, or if it never asks the coagents given.
    pub fn new(parts: AcpAgentParts) -> Result<Self, CompositionError> {
        let AcpAgentParts { name, control_flow, coagents, end_tools, .. } = parts;
        let allowed = control_flow.coagent_tools();
        match (&control_flow, coagents.first(), allowed) {
            (ControlFlow::Coagent { .. }, None, _) => {
                let flow = control_flow.name();
                return Err(CompositionError::NoCoagent { agent: name, flow });
            }
            (flow, Some(coagent), None) => {
                let (flow, coagent) = (flow.name(), coagent.name().to_owned());
                return Err(CompositionError::UnusedCoagent { agent: name, flow, coagent });
            }
            (_, None, _) | (_, Some(_), Some(_)) => {}
        }
        let end = control_flow.end_tool_of_primary();
        let mut primary = parts.primary;
        // With `Hitl` the user speaks next: a primary that was not given the end tool ends its turns with text.
        let wants_end =
            control_flow != ControlFlow::Hitl || primary.tools().get(end.name()).is_some();
        set_end_tool(&mut primary, wants_end.then(|| end_tools.get(end)));
        // Several coagents run at the same time, so none of them may write.
        let tools = match allowed {
            Some(CoagentTools::Full) if coagents.len() > 1 => CoagentTools::ReadOnly,
            Some(tools) => tools,
            None => CoagentTools::None,
        };
        let coagent_end = control_flow.end_tool_of_coagent().map(|end| end_tools.get(end));
        let rights =
            PermittedCoagentTools { tools, primary: primary.tools(), sourced: primary.sourced() };
        let coagents = coagents
            .into_iter()
            .map(|coagent| coagent.restricted_to(&rights, coagent_end))
            .collect();
        Ok(Self {
            name,
            description: parts.description,
            handoff: parts.handoff.unwrap_or_else(|| Handoff::of_flow(&control_flow)),
            primary,
            coagents,
            control_flow,
            consensus: parts.consensus,
            limits: parts.limits,
            subagents: Subagents::default(),
        })
    }

    /// Makes the composition of an agent that works alone and returns to the user after every turn.
    pub fn solo(primary: BaseAgent) -> Self {
        Self {
            name: primary.name().to_owned(),
            description: String::new(),
            primary,
            coagents: Vec::new(),
            control_flow: ControlFlow::Hitl,
            consensus: Consensus::default(),
            handoff: Handoff::Verbatim,
            limits: RunLimits::default(),
            subagents: Subagents::default(),
        }
    }

    /// Sets the agents that its agents may start with the tool `task`, if they have it.
    #[must_use]
    pub fn with_subagents(mut self, subagents: Subagents) -> Self {
        self.subagents = subagents;
        self
    }

    /// Returns the agents that its agents may start.
    pub fn subagents(&self) -> &Subagents {
        &self.subagents
    }

    /// Returns the name of the composition.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its description in one line.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the agent that does the work.
    pub fn primary(&self) -> &BaseAgent {
        &self.primary
    }

    /// Returns the agents that review the work.
    pub fn coagents(&self) -> &[Coagent] {
        &self.coagents
    }

    /// Returns the control flow after a turn of the primary.
    pub fn control_flow(&self) -> &ControlFlow {
        &self.control_flow
    }

    /// Returns the model of the primary.
    pub fn model(&self) -> &ResolvedModel {
        self.primary.model()
    }

    /// Returns the access of the coagents: only a single coagent with full tools may write.
    pub(super) fn coagent_access(&self) -> AgentAccess {
        match self.control_flow.coagent_tools() {
            Some(CoagentTools::Full) if self.coagents.len() == 1 => AgentAccess::Policy,
            Some(CoagentTools::None | CoagentTools::ReadOnly | CoagentTools::Full) | None => {
                AgentAccess::ReadOnly
            }
        }
    }

    /// Removes from all its agents the tools that `allowed` does not permit, except the tools that end a turn.
    fn restricted_to(mut self, allowed: &PermittedCoagentTools<'_>) -> Self {
        self.retain_tools(&|tool| is_end(tool) || allowed.permits(tool));
        self.for_each_base_agent(&mut |agent| agent.set_sourced(allowed.sourced(agent.sourced())));
        self
    }

    /// Removes the tools that change anything, except the tools that end a turn.
    pub(crate) fn restrict_to_reading(&mut self) {
        let rights = PermittedCoagentTools {
            tools: CoagentTools::ReadOnly,
            primary: &ToolRegistry::new(),
            sourced: &SourcedFilter::default(),
        };
        self.retain_tools(&|tool| is_end(tool) || rights.permits(tool));
    }

    /// Appends to the system prompt of the primary or replaces it.
    pub(crate) fn change_system_prompt(&mut self, change: &SystemPrompt) {
        let prompt = match change {
            SystemPrompt::Append(text) => {
                format!("{}\n\n{text}", self.primary.config().system_prompt.trim_end())
            }
            SystemPrompt::Replace(text) => text.clone(),
        };
        self.primary.set_system_prompt(prompt);
    }

    /// Calls `work` with each of its base agents, those of nested compositions included.
    pub(crate) fn for_each_base_agent(&mut self, work: &mut dyn FnMut(&mut BaseAgent)) {
        work(&mut self.primary);
        for coagent in &mut self.coagents {
            match coagent {
                Coagent::Base(agent) => work(agent),
                Coagent::Composition(inner) => inner.for_each_base_agent(work),
            }
        }
    }

    /// Removes from all its agents the tools for which `keeps` returns false.
    pub(super) fn retain_tools(&mut self, keeps: &dyn Fn(&dyn Tool) -> bool) {
        self.for_each_base_agent(&mut |agent| agent.retain_tools(keeps));
    }
}

impl Coagent {
    /// Returns the name of the agent.
    pub fn name(&self) -> &str {
        match self {
            Self::Base(agent) => agent.name(),
            Self::Composition(agent) => agent.name(),
        }
    }

    /// Returns the model of the base agent, or of the composition's primary.
    pub fn model(&self) -> &ResolvedModel {
        match self {
            Self::Base(agent) => agent.model(),
            Self::Composition(agent) => agent.model(),
        }
    }

    fn restricted_to(
        self,
        allowed: &PermittedCoagentTools<'_>,
        end: Option<&Arc<dyn Tool>>,
    ) -> Self {
        match self {
            Self::Base(mut agent) => {
                agent.retain_tools(|tool| allowed.permits(tool));
                agent.set_sourced(allowed.sourced(agent.sourced()));
                set_end_tool(&mut agent, end);
                Self::Base(agent)
            }
            // A composition votes by completing its run, so its own control flow decides how that run ends.
            Self::Composition(inner) => Self::Composition(Box::new(inner.restricted_to(allowed))),
        }
    }
}

impl PermittedCoagentTools<'_> {
    /// Restricts the tools from external sources. Their effects are unknown, so a read-only coagent gets none.
    fn sourced(&self, own: &SourcedFilter) -> SourcedFilter {
        match self.tools {
            CoagentTools::None | CoagentTools::ReadOnly => SourcedFilter::default(),
            CoagentTools::Full => own.intersect(self.sourced),
        }
    }

    fn permits(&self, tool: &dyn Tool) -> bool {
        match self.tools {
            CoagentTools::None => false,
            CoagentTools::Full => self.primary.get(tool.name()).is_some(),
            CoagentTools::ReadOnly => match tool.category() {
                // The kernel keeps commands read-only; where it cannot, the session removes them.
                ToolCategory::Read | ToolCategory::Execute | ToolCategory::Session => true,
                ToolCategory::Write
                | ToolCategory::Network
                | ToolCategory::Agent
                | ToolCategory::External => false,
            },
        }
    }
}

/// Gives an agent this tool to end its turn with, and removes every other end tool.
fn set_end_tool(agent: &mut BaseAgent, tool: Option<&Arc<dyn Tool>>) {
    agent.retain_tools(|tool| !is_end(tool));
    if let Some(tool) = tool {
        agent.add_tool(tool);
    }
}

fn is_end(tool: &dyn Tool) -> bool {
    [EndTool::TaskComplete, EndTool::SubmitForReview].iter().any(|end| end.name() == tool.name())
}

/// A reason for which a composition cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompositionError {
    /// The control flow needs a coagent, and none is given.
    #[error("{agent}: the control flow \"{flow}\" needs a coagent, and none is named")]
    NoCoagent {
        /// The composition.
        agent: String,
        /// The control flow.
        flow: &'static str,
    },
    /// Coagents are given, and the control flow never asks them.
    #[error(
        "{agent}: the control flow \"{flow}\" never asks a coagent, and {coagent} is named as one"
    )]
    UnusedCoagent {
        /// The composition.
        agent: String,
        /// The control flow.
        flow: &'static str,
        /// The first coagent.
        coagent: String,
    },
}
