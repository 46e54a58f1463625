//! The service loop of a composition on the runtime: each input is a run.

use std::{sync::Arc, time::Duration};

use crow_core::{
    control::{CompletionOwner, RunFinish},
    event::{
        AgentEvent, AgentState, CompactionTrigger, Failure, FailureKind, NoticeAudience,
        NoticeLevel, RunEnding, RunOutcome,
    },
    message::UserPrompt,
    model::ModelsError,
};
use crow_runtime::{AgentError, AgentInternals, InputMessage, RunGuard};
use tokio::sync::watch;

use super::{
    agent::AcpAgent,
    run::{RunInput, RunResult},
    session::AcpSession,
};
use crate::{prompt::Surroundings, session_hooks::permits_compaction};

/// Serves inputs until the agent is shut down; each input is a run.
///
/// The first input of a session carries the `surroundings` and a snapshot of its environment, and later ones what
/// changed since.
pub async fn serve(
    agent: AcpAgent,
    surroundings: Surroundings,
    internals: AgentInternals,
) -> Result<(), AgentError> {
    // A watch channel without a sender keeps its value, so every run gets this agent.
    serve_latest(watch::channel(agent).1, surroundings, internals).await
}

/// Serves like [`serve`], but takes the agent of each run from `agents` when the run begins, so that its model,
/// limits and tools can change between runs.
pub async fn serve_latest(
    mut agents: watch::Receiver<AcpAgent>,
    surroundings: Surroundings,
    mut internals: AgentInternals,
) -> Result<(), AgentError> {
    internals.close_open_calls().await?;
    let surroundings = Arc::new(surroundings);
    let mut opened_with = internals.metadata().crow().opened_with;
    let mut session = AcpSession::new(internals, Arc::clone(&surroundings));
    loop {
        let internals = session.primary_mut();
        internals.set_state(AgentState::Idle).await?;
        let (run_id, work) = match internals.receive().await {
            Ok(InputMessage::UserInput { run_id, content, commands }) => {
                (run_id, RunWork::Prompt(UserPrompt { content, commands }))
            }
            Ok(InputMessage::Steering { run_id, content }) => {
                (run_id, RunWork::Prompt(content.into()))
            }
            Ok(InputMessage::Compaction { run_id, focus }) => (run_id, RunWork::Compaction(focus)),
            Ok(InputMessage::ToolResult { call_id, .. }) => {
                let text = format!(
                    "a result for call {call_id} came from outside; this agent runs all calls itself"
                );
                let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
                internals.emit(AgentEvent::Notice { level, audience, text }).await?;
                continue;
            }
            Err(AgentError::Closed) => {
                let AcpSession { internals, prompt_hooks, .. } = &mut session;
                return prompt_hooks.end(internals).await;
            }
            Err(error) => return Err(error),
        };
        // Take over changes since the last run: agent, model, subagents.
        let agent = agents.borrow_and_update().clone();
        let latest = internals.metadata().crow().opened_with;
        let switches = opened_with.as_ref().zip(latest.as_ref());
        let switches =
            switches.map(|(before, after)| before.describe_changes(after)).unwrap_or_default();
        internals.switch_agent(agent.primary().name(), switches).await?;
        opened_with = latest;
        internals.switch_model(&agent.model().info).await?;
        if !agent.subagents().is_empty() {
            let subagents = agent.subagents().clone().with_surroundings(Arc::clone(&surroundings));
            internals.offer_children(Arc::new(subagents));
        }
        let run = internals.start_run(run_id).await?;
        let prompt = match work {
            RunWork::Prompt(prompt) => prompt,
            RunWork::Compaction(focus) => {
                compact(&agent, internals, run, focus.as_deref()).await?;
                continue;
            }
        };
        if !internals.history().is_empty() {
            // Steering texts that came between the runs precede the prompt in the history.
            internals.take_steering().await?;
        }
        serve_run(&agent, &mut session, run, prompt).await?;
    }
}

/// The work of a run.
enum RunWork {
    /// The agent works on a prompt.
    Prompt(UserPrompt),
    /// The conversation is compacted, with what is to be kept above all.
    Compaction(Option<String>),
}

/// Compacts the conversation of the primary, as a run. Fails if the session cannot continue.
async fn compact(
    agent: &AcpAgent,
    internals: &mut AgentInternals,
    run: RunGuard,
    focus: Option<&str>,
) -> Result<(), AgentError> {
    let trigger = CompactionTrigger::User;
    if !permits_compaction(internals, trigger, focus, &run.cancel).await? {
        return internals.end_run(run, RunOutcome::NeedsInput).await;
    }
    let outcome = match Box::pin(agent.primary().compact(internals, focus, &run.cancel)).await {
        Ok(true) => RunOutcome::NeedsInput,
        Ok(false) => {
            let text =
                "there is nothing to compact: the conversation is your messages and the last step";
            let (level, audience) = (NoticeLevel::Info, NoticeAudience::User);
            internals.emit(AgentEvent::Notice { level, audience, text: text.to_owned() }).await?;
            RunOutcome::NeedsInput
        }
        Err(AgentError::Cancelled) => {
            internals.emit(AgentEvent::Cancelled).await?;
            RunOutcome::Cancelled
        }
        Err(error @ AgentError::Session(_)) => return Err(error),
        Err(error) => {
            internals.report_error(&error).await;
            failure_of(&error).into()
        }
    };
    internals.end_run(run, outcome).await
}

/// Runs the agent on one input and emits the end of the run. Fails if the session cannot continue.
#[tracing::instrument(level = "debug", name = "run", skip_all, fields(run = %run.id))]
pub(crate) async fn serve_run(
    agent: &AcpAgent,
    session: &mut AcpSession,
    run: RunGuard,
    prompt: UserPrompt,
) -> Result<(), AgentError> {
    if run.cancel.is_cancelled() {
        // The input was withdrawn while it was queued: the model never reads it.
        tracing::debug!("run cancelled before it began");
        session.primary_mut().emit(AgentEvent::Cancelled).await?;
        return session.primary_mut().end_run(run, RunOutcome::Cancelled).await;
    }
    let clock = Arc::clone(&session.primary().config().clock);
    let started = clock.monotonic();
    tracing::debug!(composition = agent.name(), "run started");
    let input = RunInput::prompt(prompt);
    let result = Box::pin(agent.run(session, input, &run.cancel)).await;
    let ending = match result {
        Ok(mut result) => {
            let assessment = result.assessment.take().map(Box::new);
            RunEnding { outcome: emit_end(session, result).await?, assessment }
        }
        // A session cannot continue without its log; the runtime reports the error to the listeners.
        Err(error @ AgentError::Session(_)) => return Err(error),
        Err(error) => {
            session.primary_mut().report_error(&error).await;
            RunOutcome::from(failure_of(&error)).into()
        }
    };
    log_run_end(&ending.outcome, clock.monotonic().saturating_sub(started));
    session.primary_mut().end_run(run, ending).await
}

/// Logs why a run ended, without the texts of the model.
fn log_run_end(outcome: &RunOutcome, duration: Duration) {
    let duration_ms = duration.as_millis();
    match outcome {
        RunOutcome::Completed { verified, summary: _ } => {
            tracing::debug!(outcome = "completed", verified, duration_ms, "run ended");
        }
        RunOutcome::NeedsInput => {
            tracing::debug!(outcome = "needs_input", duration_ms, "run ended");
        }
        RunOutcome::Stopped { reason } => {
            let reason = reason.name();
            tracing::debug!(outcome = "stopped", reason, duration_ms, "run ended");
        }
        RunOutcome::Cancelled => tracing::debug!(outcome = "cancelled", duration_ms, "run ended"),
        RunOutcome::Failed { error, kind } => {
            tracing::debug!(outcome = "failed", ?kind, error, duration_ms, "run ended");
        }
    }
}

/// Emits the events of the end of a run. The agent that completed the task emits `TaskComplete`.
async fn emit_end(session: &mut AcpSession, result: RunResult) -> Result<RunOutcome, AgentError> {
    let verified = result.verified;
    Ok(match result.finish {
        RunFinish::Completed { summary, by } => {
            let event = AgentEvent::TaskComplete { summary: summary.clone(), verified };
            let owner = match (by, result.completed_by) {
                (CompletionOwner::Coagent, Some(index)) => session.coagent_mut(index),
                (CompletionOwner::Coagent, None) | (CompletionOwner::Primary, _) => None,
            };
            match owner {
                Some(coagent) => coagent.emit(event).await?,
                None => session.primary_mut().emit(event).await?,
            }
            RunOutcome::Completed { summary, verified }
        }
        RunFinish::NeedsInput => RunOutcome::NeedsInput,
        RunFinish::Cancelled => {
            session.primary_mut().emit(AgentEvent::Cancelled).await?;
            RunOutcome::Cancelled
        }
        RunFinish::Stopped(reason) => RunOutcome::Stopped { reason },
        RunFinish::Failed(failure) => failure.into(),
    })
}

/// Returns the failure of an error: its text, and the kind that says who must act.
pub(super) fn failure_of(error: &AgentError) -> Failure {
    let lacks_credentials = matches!(
        error,
        AgentError::Models(ModelsError::NoCredentials { .. } | ModelsError::NoneConfigured)
    );
    let kind = if let AgentError::Provider(error) = error {
        error.kind.into()
    } else if lacks_credentials {
        FailureKind::Credentials
    } else if matches!(error, AgentError::NoPrice { .. }) {
        FailureKind::Request
    } else {
        FailureKind::Other
    };
    Failure { error: error.to_string(), kind }
}
