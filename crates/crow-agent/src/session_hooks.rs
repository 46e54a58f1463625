//! The moments of a session at which its hooks run, see [`crow_core::hooks`]: its start and end, prompts, the ends of turns,
//! and compactions. Those of calls and questions belong to the runtime.

use std::time::Duration;

use crow_core::{
    event::{AgentEvent, CompactionTrigger, NoticeAudience, NoticeLevel},
    hooks::{HookMoment, HookOutcome, SessionStartSource},
    turn::TurnEnd,
};
use crow_runtime::{AgentError, AgentInternals, run_hooks};
use tokio_util::sync::CancellationToken;

/// Maximum number of times that hooks let one turn go on.
const MOST_OBJECTIONS: u32 = 3;
/// Time for the hooks at the end of a session, after which they are dropped.
const SESSION_END: Duration = Duration::from_millis(2500);

/// The hooks that run when a prompt is taken.
#[derive(Debug, Default)]
pub(crate) struct PromptHooks {
    /// True once the hooks of the start of the session ran.
    is_started: bool,
    /// Context from the start hooks, sent with the first accepted prompt.
    context: Vec<String>,
}

/// Result of the hooks of a prompt.
#[derive(Debug, Default)]
pub(crate) struct PromptCheck {
    /// Texts for the model.
    pub(crate) context: Vec<String>,
    /// The reason if the prompt is refused.
    pub(crate) refusal: Option<PromptRefusal>,
}

/// Why a prompt is not taken.
#[derive(Debug)]
pub(crate) enum PromptRefusal {
    /// A hook objects.
    Objection(String),
    /// A command in it failed that it makes no sense without.
    FailedCommand(String),
    /// The run was cancelled before all hooks had answered.
    Cancelled,
}

impl PromptHooks {
    /// Runs the hooks of the start of the session, once, and those of a prompt. Prompts that agents write for others
    /// have none.
    pub(crate) async fn check(
        &mut self,
        agent: &mut AgentInternals,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<PromptCheck, AgentError> {
        if !is_root(agent) {
            return Ok(PromptCheck::default());
        }
        let (mut refusal, mut has_run) = (None, false);
        if !self.is_started {
            self.is_started = true;
            let is_new = agent.history().is_empty();
            let source = if is_new { SessionStartSource::New } else { SessionStartSource::Resumed };
            let outcome = run_hooks(agent, HookMoment::SessionStart { source }, cancel).await?;
            has_run |= outcome.has_run;
            refusal = outcome.refusal().map(str::to_owned);
            self.context = outcome.context;
        }
        let mut context = Vec::new();
        if refusal.is_none() {
            let outcome = run_hooks(agent, HookMoment::Prompt { text }, cancel).await?;
            has_run |= outcome.has_run;
            refusal = outcome.refusal().map(str::to_owned);
            context = outcome.context;
        }
        let refusal = if has_run && cancel.is_cancelled() {
            Some(PromptRefusal::Cancelled)
        } else {
            refusal.map(PromptRefusal::Objection)
        };
        if refusal.is_none() {
            context.splice(0..0, std::mem::take(&mut self.context));
        }
        Ok(PromptCheck { context, refusal })
    }

    /// Runs the hooks of the end of the session, if those of its start ran.
    pub(crate) async fn end(&self, agent: &mut AgentInternals) -> Result<(), AgentError> {
        if !self.is_started {
            return Ok(());
        }
        // The token of the session is cancelled already. Each hook has a limit of its own, which is shorter.
        let token = CancellationToken::new();
        let end = run_hooks(agent, HookMoment::SessionEnd, &token);
        tokio::time::timeout(SESSION_END, end).await.unwrap_or(Ok(HookOutcome::default())).map(drop)
    }
}

/// The hooks that run when the model ends a turn.
#[derive(Debug, Default)]
pub(crate) struct TurnEndHooks {
    objections: u32,
}

impl TurnEndHooks {
    /// Runs the hooks of the end of a turn. Returns what the model is told if the turn is to go on, at most three times.
    pub(crate) async fn objection(
        &mut self,
        agent: &mut AgentInternals,
        end: &TurnEnd,
        text: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, AgentError> {
        let text = match end {
            TurnEnd::Text | TurnEnd::SubmitForReview { .. } => text,
            TurnEnd::TaskComplete { summary } => Some(summary.as_str()),
            _ => return Ok(None),
        };
        let has_objected = self.objections > 0;
        let moment = HookMoment::TurnEnd { text, has_objected };
        let outcome = run_hooks(agent, moment, cancel).await?;
        for text in outcome.context {
            agent.add_notice(text).await?;
        }
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let Some(objection) = outcome.objection.filter(|_| outcome.stop.is_none()) else {
            return Ok(None);
        };
        if self.objections == MOST_OBJECTIONS {
            let text = format!(
                "a hook objects to the end of the turn for the {}th time, which ends all the same: {objection}",
                MOST_OBJECTIONS + 1
            );
            warn(agent, text).await?;
            return Ok(None);
        }
        self.objections += 1;
        Ok(Some(format!("A hook objects to the end of your work: {objection}")))
    }
}

/// Runs the hooks before a compaction. Returns false if one refuses a compaction that the user asked for. One that the window
/// requires cannot be refused: the session could not go on.
pub(crate) async fn permits_compaction(
    agent: &mut AgentInternals,
    trigger: CompactionTrigger,
    focus: Option<&str>,
    cancel: &CancellationToken,
) -> Result<bool, AgentError> {
    let outcome = run_hooks(agent, HookMoment::Compaction { trigger, focus }, cancel).await?;
    let Some(reason) = outcome.refusal() else { return Ok(true) };
    let is_refused = trigger == CompactionTrigger::User;
    let text = if is_refused {
        format!("a hook refused to compact the conversation: {reason}")
    } else {
        format!(
            "a hook objects to compacting the conversation, which has to be shortened all the same: {reason}"
        )
    };
    warn(agent, text).await?;
    Ok(!is_refused)
}

/// Runs the hooks of the start of a session after a compaction, which may remind the model of what it lost.
pub(crate) async fn after_compaction(
    agent: &mut AgentInternals,
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    if !is_root(agent) {
        return Ok(());
    }
    let source = SessionStartSource::Compacted;
    let outcome = run_hooks(agent, HookMoment::SessionStart { source }, cancel).await?;
    for text in outcome.context {
        agent.add_notice(text).await?;
    }
    Ok(())
}

fn is_root(agent: &AgentInternals) -> bool {
    *agent.session_id() == agent.context().root_id
}

async fn warn(agent: &mut AgentInternals, text: String) -> Result<(), AgentError> {
    let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
    agent.emit(AgentEvent::Notice { level, audience, text }).await
}
