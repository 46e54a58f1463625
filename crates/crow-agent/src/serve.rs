//! An agent on the runtime that returns to the user after every turn.

use crow_core::{
    event::{AgentEvent, AgentState, InputSource, NoticeAudience, NoticeLevel, RunOutcome},
    message::Block,
    turn::TurnEnd,
};
use crow_runtime::{AgentError, AgentInternals, InputMessage, RunGuard};
use tokio::sync::watch;

use crate::{BaseAgent, Surroundings, TurnResult};

/// Serves inputs until the agent is shut down: each is a run of one turn.
///
/// The first input of a session carries the `surroundings`; they stay as they are for the whole session.
pub async fn serve(
    agent: BaseAgent,
    surroundings: Surroundings,
    internals: AgentInternals,
) -> Result<(), AgentError> {
    // Without its sender the channel holds the one agent for ever.
    serve_latest(watch::channel(agent).1, surroundings, internals).await
}

/// Serves like [`serve`], each run by the agent that `agents` holds when it begins: another model from here on, other
/// limits or tools.
pub async fn serve_latest(
    mut agents: watch::Receiver<BaseAgent>,
    surroundings: Surroundings,
    mut internals: AgentInternals,
) -> Result<(), AgentError> {
    internals.close_open_calls().await?;
    loop {
        internals.set_state(AgentState::Idle).await?;
        let (run_id, content) = match internals.receive().await {
            Ok(
                InputMessage::UserInput { run_id, content }
                | InputMessage::Steering { run_id, content },
            ) => (run_id, content),
            Ok(InputMessage::ToolResult { call_id, .. }) => {
                let text = format!(
                    "a result for call {call_id} came from outside; this agent runs all calls itself"
                );
                let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
                internals.emit(AgentEvent::Notice { level, audience, text }).await?;
                continue;
            }
            Err(AgentError::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        let agent = agents.borrow_and_update().clone();
        internals.switch_model(&agent.model().info).await?;
        let run = internals.start_run(run_id).await?;
        let worked = work(&agent, &surroundings, &mut internals, content, &run).await;
        let outcome = match worked {
            Ok(turn) => conclude(&mut internals, turn).await?,
            // Without its log a session cannot go on; the runtime tells the listeners.
            Err(error @ AgentError::Session(_)) => return Err(error),
            Err(error) => {
                internals.report_error(&error).await;
                RunOutcome::Failed { error: error.to_string() }
            }
        };
        internals.end_run(run, outcome).await?;
    }
}

async fn work(
    agent: &BaseAgent,
    surroundings: &Surroundings,
    internals: &mut AgentInternals,
    content: Vec<Block>,
    run: &RunGuard,
) -> Result<TurnResult, AgentError> {
    let preface = internals.history().is_empty().then(|| surroundings.to_text());
    if preface.is_none() {
        // Words that came between the runs stand before the prompt.
        internals.take_steering().await?;
    }
    internals.start_round().await?;
    internals.say(InputSource::Prompt, preface, content).await?;
    let turn = agent.execute_turn(internals, &run.cancel).await;
    internals.emit(AgentEvent::RoundEnd).await?;
    turn
}

/// What the end of its only turn means for a run.
async fn conclude(
    internals: &mut AgentInternals,
    turn: TurnResult,
) -> Result<RunOutcome, AgentError> {
    let verified = turn.is_verified();
    Ok(match turn.end {
        TurnEnd::TaskComplete { summary } => {
            internals.emit(AgentEvent::TaskComplete { summary: summary.clone(), verified }).await?;
            RunOutcome::Completed { summary, verified }
        }
        TurnEnd::Text if turn.text.as_deref().unwrap_or_default().trim().is_empty() => {
            RunOutcome::Failed { error: "the model gave no answer".to_owned() }
        }
        TurnEnd::Text | TurnEnd::SubmitForReview { .. } => RunOutcome::NeedsInput,
        TurnEnd::Cancelled => {
            internals.emit(AgentEvent::Cancelled).await?;
            RunOutcome::Cancelled
        }
        TurnEnd::Refusal => RunOutcome::Failed { error: TurnEnd::Refusal.to_string() },
        TurnEnd::Error { error } => RunOutcome::Failed { error },
        reason @ (TurnEnd::MaxSteps { .. }
        | TurnEnd::DoomLoop { .. }
        | TurnEnd::InvalidCalls
        | TurnEnd::OutputLimit
        | TurnEnd::Budget { .. }) => RunOutcome::Stopped { reason },
    })
}
