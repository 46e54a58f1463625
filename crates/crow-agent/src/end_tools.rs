//! The tools with which an agent ends its turn on purpose: `task_complete` and `submit_for_review`.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use crow_core::{
    control::EndTool,
    event::CheckReport,
    tool::{
        CallPlan, Effects, Tool, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
        TypedToolAdapter,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::checks::{CheckOutcome, Checks};

/// The tools with which an agent ends its turn on purpose. The control flow decides which agent gets which.
#[derive(Clone)]
pub struct EndTools {
    /// Tool that reports the task as done.
    pub task_complete: Arc<dyn Tool>,
    /// Tool that hands the work to the reviewers.
    pub submit_for_review: Arc<dyn Tool>,
}

impl EndTools {
    /// Returns the tool of this kind.
    pub(crate) fn get(&self, tool: EndTool) -> &Arc<dyn Tool> {
        match tool {
            EndTool::TaskComplete => &self.task_complete,
            EndTool::SubmitForReview => &self.submit_for_review,
        }
    }
}

impl Default for EndTools {
    fn default() -> Self {
        Self {
            task_complete: Arc::new(TypedToolAdapter::new(TaskComplete::default())),
            submit_for_review: Arc::new(TypedToolAdapter::new(SubmitForReview)),
        }
    }
}

impl std::fmt::Debug for EndTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndTools").finish_non_exhaustive()
    }
}

const DESCRIPTION: &str = "Say that the whole task is done. Call it only when nothing is left to do and you have seen the result work; it ends your turn.";

/// Ends the turn: the agent reports its task as done. If there are checks, they run first, and the call fails if one
/// of them fails.
#[derive(Debug, Clone)]
pub struct TaskComplete {
    checks: Checks,
    description: String,
}

/// The arguments of [`TaskComplete`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCompleteInput {
    /// What was done and how it was checked, for the user.
    #[serde(alias = "result", alias = "message", alias = "final_response")]
    summary: String,
    /// The command that checked the work after the last change, as you ran it; left out if no command can.
    #[serde(default, alias = "evidence", alias = "command")]
    #[schemars(with = "String")]
    check_command: Option<String>,
    /// What that command showed, in one line.
    #[serde(default, alias = "showed", alias = "output")]
    #[schemars(with = "String")]
    #[expect(dead_code, reason = "a model that must say it looks at it")]
    check_output: Option<String>,
}

impl TaskCompleteInput {
    /// Returns the command that is named as evidence.
    fn evidence(&self) -> Option<&str> {
        self.check_command.as_deref().filter(|command| !command.trim().is_empty())
    }
}

impl TaskComplete {
    /// Makes the tool. Every agent that may end the run, the primary or a reviewer, has it with the same checks.
    pub fn new(checks: Checks) -> Self {
        let names: Vec<_> = checks.iter().map(|check| format!("`{}`", check.command)).collect();
        let description = if names.is_empty() {
            DESCRIPTION.to_owned()
        } else {
            format!(
                "{DESCRIPTION} The checks of this project are run first ({}); while one of them fails, the task is not done.",
                names.join(", ")
            )
        };
        Self { checks, description }
    }
}

impl Default for TaskComplete {
    fn default() -> Self {
        Self::new(Checks::default())
    }
}

#[async_trait]
impl TypedTool for TaskComplete {
    type Input = TaskCompleteInput;

    const NAME: &'static str = "task_complete";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &str {
        &self.description
    }

    fn requires_permission(&self) -> bool {
        false
    }

    fn ends_turn(&self) -> bool {
        true
    }

    /// Evidence is asked for where no checks are configured that give it.
    fn exposes_argument(&self, argument: &str) -> bool {
        argument == "summary" || self.checks.is_empty()
    }

    async fn plan(&self, _input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let plan = CallPlan::without_effects("complete the task");
        Ok(if self.checks.is_empty() {
            plan
        } else {
            CallPlan { effects: Effects::UserCommands, ..plan }
        })
    }

    async fn execute(&self, input: Self::Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        if input.summary.trim().is_empty() {
            return ToolResult::failure("summary is empty: say in a few sentences what was done");
        }
        let (mut result, report) = match self.checks.run_stale(ctx).await {
            CheckOutcome::Passed(report) => {
                record_checks(ctx, &report);
                let evidence = input.evidence().filter(|_| self.checks.is_empty());
                let result = if let Some(objection) = objection(ctx, evidence, &report) {
                    ToolResult::failure(objection)
                } else {
                    ctx.work.lock().accept(evidence.map(str::to_owned));
                    ToolResult::success(accepted(&report, evidence))
                };
                (result, report)
            }
            CheckOutcome::Failed(report, text) => {
                record_checks(ctx, &report);
                (ToolResult::failure(text), report)
            }
            CheckOutcome::Cancelled => return ToolResult::cancelled(),
        };
        result.metadata.extra =
            serde_json::to_value(report).expect("invariant: a report of checks is plain data");
        result
    }
}

fn record_checks(ctx: &ToolContext, report: &CheckReport) {
    let failed = report.checks.iter().filter(|check| !check.passed());
    let failed = failed.map(|check| check.name.clone()).collect();
    ctx.work.lock().on_checks(failed, report.verified);
}

/// Returns what speaks against a completion: a fact of the log that contradicts it, each time; and once a run what is
/// open, failed or was never run.
fn objection(ctx: &ToolContext, evidence: Option<&str>, report: &CheckReport) -> Option<String> {
    let todo = ctx.todo.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut work = ctx.work.lock();
    if let Some(contradiction) = work.contradiction(evidence) {
        return Some(format!(
            "The task is not complete: {contradiction}. Do what is missing, then call task_complete again. If it cannot be done, end your turn with a text that says why."
        ));
    }
    let mut findings = work.findings(todo.items());
    let lacks_evidence = evidence.is_none() && !report.verified;
    if lacks_evidence && !findings.is_empty() {
        findings.push("no check_command was named".to_owned());
    }
    (!findings.is_empty() && work.begin_telling()).then(|| {
        format!(
            "Before this counts as complete, the log says:\n- {}\nDo what is missing, then call task_complete again. If nothing is missing, call it again as it is.",
            findings.join("\n- ")
        )
    })
}

fn accepted(report: &CheckReport, evidence: Option<&str>) -> String {
    if let Some(command) = evidence {
        return format!(
            "The task is marked as complete; `{command}` succeeded after the last change."
        );
    }
    if let Some(reason) = &report.unverified {
        return format!("The task is marked as complete, unverified: {reason}.");
    }
    let names: Vec<_> = report.checks.iter().map(|check| check.name.as_str()).collect();
    format!("The task is marked as complete, verified by {}.", names.join(", "))
}

/// Ends the turn: the agent hands its work to its reviewers, who say whether the task is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubmitForReview;

/// The arguments of [`SubmitForReview`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitForReviewInput {
    /// What was done, how it was checked, and what is still open, in a few sentences for the reviewer.
    #[serde(alias = "result", alias = "message")]
    summary: String,
}

#[async_trait]
impl TypedTool for SubmitForReview {
    type Input = SubmitForReviewInput;

    const NAME: &'static str = "submit_for_review";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Hand your work to the reviewer, who decides whether the task is done. Call it when nothing is left to do and you have seen the result work; it ends your turn."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    fn ends_turn(&self) -> bool {
        true
    }

    async fn plan(&self, _input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects("submit the work for review"))
    }

    async fn execute(
        &self,
        input: Self::Input,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        if input.summary.trim().is_empty() {
            return ToolResult::failure("summary is empty: say in a few sentences what was done");
        }
        ToolResult::success("The work is submitted for review.")
    }
}
