//! The tool that starts a subagent.

use std::fmt::Write as _;

use async_trait::async_trait;
use crow_core::{
    capability::{BackgroundChild, ChildError, ChildTask},
    tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::report;
use crate::acp_agent::Subagents;

/// Gives a part of the work to another agent.
#[derive(Debug, Clone)]
pub struct Task {
    subagents: Subagents,
    description: String,
    is_foreground_only: bool,
}

/// The arguments of [`Task`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskInput {
    /// Which agent.
    #[serde(
        alias = "subagent_type",
        alias = "agent_type",
        alias = "agent_name",
        alias = "subagent"
    )]
    agent: String,
    /// For the user, in three to six words.
    #[serde(default)]
    description: String,
    /// All that the agent knows of its task: files, what to find out or change, what to answer.
    #[serde(alias = "task", alias = "instructions", alias = "message")]
    prompt: String,
    /// Lets it work beside you: an id comes back at once, `task_output` collects the answer.
    #[serde(default, alias = "run_in_background", alias = "is_background")]
    background: bool,
}

impl Task {
    /// Makes the tool. Its description lists the agents.
    pub fn new(subagents: Subagents) -> Self {
        let mut description = "Gives a part of the work to another agent, which works on its own and answers \
             once. Several calls in one reply work at the same time. You alone read the answer. The agents:"
            .to_owned();
        for subagent in subagents.iter() {
            let agent = &subagent.agent;
            let reference = &agent.model().info.reference;
            let _ =
                write!(description, "\n- {} ({reference}): {}", agent.name(), agent.description());
        }
        Self { subagents, description, is_foreground_only: false }
    }

    /// Hides the background option from the model, which has no tool to collect the answers.
    #[must_use]
    pub fn in_foreground(self) -> Self {
        Self { is_foreground_only: true, ..self }
    }
}

#[async_trait]
impl TypedTool for Task {
    type Input = TaskInput;

    const NAME: &'static str = "task";
    const CATEGORY: ToolCategory = ToolCategory::Agent;

    fn description(&self) -> &str {
        &self.description
    }

    fn requires_permission(&self) -> bool {
        false
    }

    fn exposes_argument(&self, argument: &str) -> bool {
        !(self.is_foreground_only && argument == "background")
    }

    async fn plan(&self, input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if input.prompt.trim().is_empty() {
            return Err(ToolError::Model(
                "the prompt is empty: the agent knows nothing else".to_owned(),
            ));
        }
        let found = self.subagents.find(&input.agent);
        let subagent = found.map_err(|error| ToolError::Model(error.to_string()))?;
        Ok(CallPlan::without_effects(format!("{}: {}", subagent.agent.name(), words(input))))
    }

    async fn execute(&self, input: Self::Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let agent = match self.subagents.find(&input.agent) {
            Ok(subagent) => subagent.agent.name().to_owned(),
            Err(error) => return ToolResult::failure(error.to_string()),
        };
        let Some(children) = &ctx.children else {
            return ToolResult::failure("no agents can be started here");
        };
        let task = ChildTask {
            call_id: ctx.call_id.clone(),
            agent: agent.clone(),
            description: words(&input),
            prompt: input.prompt,
        };
        if input.background {
            return match children.start(task).await {
                Ok(id) => {
                    let mut result = ToolResult::success(format!(
                        "[{id} works in the background, until this session ends at the latest; task_output collects its answer]"
                    ));
                    result.metadata.extra =
                        json!({ BackgroundChild::EXTRA_KEY: id, "agent": agent });
                    result
                }
                Err(error) => not_started(&error),
            };
        }
        match children.run(task, ctx.cancellation.clone()).await {
            Ok(outcome) => report::result(&agent, &outcome),
            Err(error) => not_started(&error),
        }
    }
}

/// Makes the result of a call whose subagent has no outcome.
pub(super) fn not_started(error: &ChildError) -> ToolResult {
    if *error == ChildError::Cancelled {
        return ToolResult::cancelled();
    }
    ToolResult::failure(error.to_string())
}

/// Returns the task in a few words.
fn words(input: &TaskInput) -> String {
    let given = input.description.trim();
    let text = if given.is_empty() { input.prompt.trim() } else { given };
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}
