//! One coagent's look at the work.

use std::path::PathBuf;

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
    failure::failure_of,
    session::{CoagentSession, SeatSession, preface},
};
use crate::handoff::TurnResult;

/// What a coagent came to.
#[derive(Debug)]
pub(super) struct CoagentOutcome {
    pub review: Review,
    /// Why the run is over with it, if it is.
    pub finish: Option<RunFinish>,
    /// Why it could not look.
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
        let mut looked = Self::new(reviewer);
        looked.verified = turn.is_verified();
        let words = turn.text.unwrap_or_default();
        looked.files_changed = turn.files_changed;
        match turn.end {
            TurnEnd::TaskComplete { summary } => {
                looked.review.verdict = Verdict::Approved;
                looked.review.text = summary;
            }
            TurnEnd::Text | TurnEnd::SubmitForReview { .. } => looked.review.text = words,
            // No verdict, and no failure that would end the run: the primary is told, and may submit again.
            TurnEnd::MaxSteps { steps } => {
                looked.review.verdict = Verdict::Unfinished;
                let so_far = if words.trim().is_empty() {
                    String::new()
                } else {
                    format!(" My last words were: {}", words.trim())
                };
                looked.review.text = format!(
                    "I reached my limit of {steps} model calls before I came to a verdict.{so_far}"
                );
            }
            TurnEnd::Cancelled => looked.finish = Some(RunFinish::Cancelled),
            end @ TurnEnd::Budget { .. } => looked.finish = Some(RunFinish::Stopped(end)),
            TurnEnd::Error { error } => looked.failure = Some(Failure::other(error)),
            TurnEnd::Refusal => {
                let (error, kind) = (TurnEnd::Refusal.to_string(), FailureKind::Refusal);
                looked.failure = Some(Failure { error, kind });
            }
            end @ (TurnEnd::DoomLoop { .. } | TurnEnd::InvalidCalls | TurnEnd::OutputLimit) => {
                looked.failure = Some(Failure::other(end.to_string()));
            }
        }
        looked
    }

    fn after_run(reviewer: &str, run: RunResult) -> Self {
        let mut looked = Self::new(reviewer);
        looked.files_changed = run.files_changed;
        looked.verified = run.verified;
        looked.review.text = run.text.unwrap_or_default();
        match run.finish {
            RunFinish::Completed { summary, .. } => {
                looked.review.verdict = Verdict::Approved;
                looked.review.text = summary;
            }
            RunFinish::NeedsInput => {}
            RunFinish::Cancelled => looked.finish = Some(RunFinish::Cancelled),
            RunFinish::Stopped(end) => looked.failure = Some(Failure::other(end.to_string())),
            RunFinish::Failed(failure) => looked.failure = Some(failure),
        }
        looked
    }

    /// Returns what the primary is to know of a look whose words it never hears: which files the coagent changed.
    pub(super) fn untold_changes(&self) -> Option<String> {
        let is_told = self.review.verdict == Verdict::Rejected;
        if is_told || self.files_changed.is_empty() {
            return None;
        }
        let how = match self.review.verdict {
            Verdict::Approved => "approved of the work and",
            Verdict::Rejected | Verdict::Unfinished => "did not finish its review, but",
        };
        let reviewer = &self.review.reviewer;
        let names = self.changed_names();
        Some(format!("{reviewer} {how} changed files after your last turn: {names}"))
    }

    fn changed_names(&self) -> String {
        let names = self.files_changed.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Files that a coagent changed are told to the primary, whose own look at them is out of date.
    fn name_changes(mut self) -> Self {
        if self.review.verdict == Verdict::Rejected && !self.files_changed.is_empty() {
            let text = format!("{}\n\nI changed: {}", self.review.text, self.changed_names());
            text.trim().clone_into(&mut self.review.text);
        }
        self
    }
}

/// Lets a coagent look at what it is handed. Fails only where its session cannot go on.
pub(super) async fn look(
    coagent: &Coagent,
    seat: &mut CoagentSession,
    surroundings: &str,
    handoff: String,
    cancel: &CancellationToken,
) -> Result<CoagentOutcome, AgentError> {
    let may_run = seat.may_run_commands;
    let looked = match (coagent, &mut seat.session) {
        (Coagent::Base(agent), SeatSession::Base(internals)) => {
            let mut agent = agent.as_ref().clone();
            if !may_run {
                agent.retain_tools(|tool| tool.category() != ToolCategory::Execute);
            }
            let turn = async {
                internals.switch_model(&agent.model().info).await?;
                let preface = preface(surroundings, internals);
                let said = vec![Block::text(handoff)];
                internals.say(InputSource::ControlFlow, preface, said).await?;
                agent.execute_turn(internals, cancel).await
            };
            turn.await.map(|turn| CoagentOutcome::after_turn(agent.name(), turn))
        }
        (Coagent::Composition(agent), SeatSession::Composition(session)) => {
            session.internals.switch_model(&agent.model().info).await?;
            let mut agent = agent.as_ref().clone();
            if !may_run {
                agent.retain_tools(&|tool| tool.category() != ToolCategory::Execute);
            }
            let content = vec![Block::text(handoff)];
            let input = RunInput { source: InputSource::ControlFlow, content };
            let ran = Box::pin(agent.run(session, input, cancel)).await;
            ran.map(|result| CoagentOutcome::after_run(agent.name(), result))
        }
        (Coagent::Base(_), SeatSession::Composition(_))
        | (Coagent::Composition(_), SeatSession::Base(_)) => {
            let mut looked = CoagentOutcome::new(coagent.name());
            looked.failure = Some(Failure::other("its session is that of another kind of agent"));
            Ok(looked)
        }
    };
    seat.internals().save_metadata()?;
    match looked {
        Ok(looked) => Ok(looked.name_changes()),
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
