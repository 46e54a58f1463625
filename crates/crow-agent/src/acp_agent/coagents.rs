//! The review of the work by one coagent.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    control::{Review, RunFinish},
    event::{Failure, FailureKind, InputSource, Verdict},
    message::Block,
    tool::ToolCategory,
    turn::TurnEnd,
};
use crow_runtime::AgentError;
use tokio_util::sync::CancellationToken;

use super::{
    Coagent, RunInput, RunResult,
    serve::failure_of,
    session::{CoagentSession, CoagentSessionKind},
};
use crate::{environment, handoff::TurnResult, prompt::Surroundings};

/// Result of one coagent's review.
#[derive(Debug)]
pub(super) struct CoagentOutcome {
    pub review: Review,
    /// End of the run, if the coagent was cancelled or used up the budget.
    pub finish: Option<RunFinish>,
    /// Reason for which the coagent could not review the work.
    pub failure: Option<Failure>,
    pub files_changed: Vec<PathBuf>,
    pub verified: bool,
}

impl CoagentOutcome {
    fn new(reviewer: &str) -> Self {
        let review = Review {
            reviewer: reviewer.to_owned(),
            verdict: Verdict::Rejected,
            text: String::new(),
        };
        Self { review, finish: None, failure: None, files_changed: Vec::new(), verified: false }
    }

    fn after_turn(reviewer: &str, turn: TurnResult) -> Self {
        let mut outcome = Self::new(reviewer);
        outcome.verified = turn.is_verified();
        let reply = turn.text.unwrap_or_default();
        outcome.files_changed = turn.files_changed;
        match turn.end {
            TurnEnd::TaskComplete { summary } => {
                outcome.review.verdict = Verdict::Approved;
                outcome.review.text = summary;
            }
            TurnEnd::Text | TurnEnd::SubmitForReview { .. } => outcome.review.text = reply,
            // Neither a verdict nor a failure that would end the run: the primary gets the text and may submit again.
            TurnEnd::MaxSteps { steps } => {
                outcome.review.verdict = Verdict::Unfinished;
                let last_text = if reply.trim().is_empty() {
                    String::new()
                } else {
                    format!(" My last words were: {}", reply.trim())
                };
                outcome.review.text = format!(
                    "I reached my limit of {steps} model calls before I came to a verdict.{last_text}"
                );
            }
            TurnEnd::Cancelled => outcome.finish = Some(RunFinish::Cancelled),
            end @ (TurnEnd::Budget { .. } | TurnEnd::Condition { .. }) => {
                outcome.finish = Some(RunFinish::Stopped(end));
            }
            TurnEnd::Error { error } => outcome.failure = Some(Failure::other(error)),
            TurnEnd::Refusal => {
                let (error, kind) = (TurnEnd::Refusal.to_string(), FailureKind::Refusal);
                outcome.failure = Some(Failure { error, kind });
            }
            end @ (TurnEnd::DoomLoop { .. } | TurnEnd::InvalidCalls | TurnEnd::OutputLimit) => {
                outcome.failure = Some(Failure::other(end.to_string()));
            }
        }
        outcome
    }

    fn after_run(reviewer: &str, run: RunResult) -> Self {
        let mut outcome = Self::new(reviewer);
        outcome.files_changed = run.files_changed;
        outcome.verified = run.verified;
        outcome.review.text = run.text.unwrap_or_default();
        match run.finish {
            RunFinish::Completed { summary, .. } => {
                outcome.review.verdict = Verdict::Approved;
                outcome.review.text = summary;
            }
            RunFinish::NeedsInput => {}
            RunFinish::Cancelled => outcome.finish = Some(RunFinish::Cancelled),
            RunFinish::Stopped(end) => outcome.failure = Some(Failure::other(end.to_string())),
            RunFinish::Failed(failure) => outcome.failure = Some(failure),
        }
        outcome
    }

    /// Returns a note for the primary on the files that the coagent changed, if the text of the review does not reach
    /// the primary: only a rejection does.
    pub(super) fn changes_note(&self) -> Option<String> {
        let is_told = self.review.verdict == Verdict::Rejected;
        if is_told || self.files_changed.is_empty() {
            return None;
        }
        let action = match self.review.verdict {
            Verdict::Approved => "approved of the work and",
            Verdict::Rejected | Verdict::Unfinished => "did not finish its review, but",
        };
        let reviewer = &self.review.reviewer;
        let names = self.changed_names();
        Some(format!("{reviewer} {action} changed files after your last turn: {names}"))
    }

    fn changed_names(&self) -> String {
        let names = self.files_changed.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Appends the changed files to the text of a rejection, because what the primary knows of these files is out of
    /// date.
    fn name_changes(mut self) -> Self {
        if self.review.verdict == Verdict::Rejected && !self.files_changed.is_empty() {
            let text = format!("{}\n\nI changed: {}", self.review.text, self.changed_names());
            text.trim().clone_into(&mut self.review.text);
        }
        self
    }
}

/// Runs a coagent on its handoff. Fails only if its session cannot continue; other errors are part of the outcome.
#[tracing::instrument(
    level = "debug",
    name = "review",
    skip_all,
    fields(reviewer = coagent.name(), session = %seat.internals().session_id())
)]
pub(super) async fn run_review(
    coagent: &Coagent,
    seat: &mut CoagentSession,
    surroundings: &Arc<Surroundings>,
    handoff: String,
    cancel: &CancellationToken,
) -> Result<CoagentOutcome, AgentError> {
    let may_run = seat.may_run_commands;
    tracing::debug!(may_run_commands = may_run, "review started");
    let outcome = match (coagent, &mut seat.session) {
        (Coagent::Base(agent), CoagentSessionKind::Base(internals)) => {
            let mut agent = agent.as_ref().clone();
            if !may_run {
                agent.retain_tools(|tool| tool.category() != ToolCategory::Execute);
            }
            let turn = async {
                internals.switch_model(&agent.model().info).await?;
                agent.give_instructions(internals, cancel).await?;
                let content = vec![Block::text(handoff)];
                let source = InputSource::ControlFlow;
                environment::add_input(internals, surroundings, source, content, None).await?;
                agent.execute_turn(internals, cancel).await
            };
            Box::pin(turn).await.map(|turn| CoagentOutcome::after_turn(agent.name(), turn))
        }
        (Coagent::Composition(agent), CoagentSessionKind::Composition(session)) => {
            let mut agent = agent.as_ref().clone();
            if !may_run {
                agent.retain_tools(&|tool| tool.category() != ToolCategory::Execute);
            }
            let run = async {
                session.internals.switch_model(&agent.model().info).await?;
                let content = vec![Block::text(handoff)];
                let input =
                    RunInput { source: InputSource::ControlFlow, content, commands: Vec::new() };
                Box::pin(agent.run(session, input, cancel)).await
            };
            run.await.map(|result| CoagentOutcome::after_run(agent.name(), result))
        }
        (Coagent::Base(_), CoagentSessionKind::Composition(_))
        | (Coagent::Composition(_), CoagentSessionKind::Base(_)) => {
            let mut outcome = CoagentOutcome::new(coagent.name());
            outcome.failure = Some(Failure::other("its session belongs to another kind of agent"));
            Ok(outcome)
        }
    };
    seat.internals().save_metadata()?;
    match outcome {
        Ok(outcome) => Ok(outcome.name_changes()),
        Err(error @ (AgentError::Session(_) | AgentError::Closed)) => Err(error),
        Err(AgentError::Cancelled) => {
            let finish = Some(RunFinish::Cancelled);
            Ok(CoagentOutcome { finish, ..CoagentOutcome::new(coagent.name()) })
        }
        Err(error) => {
            let internals = seat.internals_mut();
            internals.report_error(&error).await;
            let failure = Some(failure_of(&error));
            Ok(CoagentOutcome { failure, ..CoagentOutcome::new(coagent.name()) })
        }
    }
}
