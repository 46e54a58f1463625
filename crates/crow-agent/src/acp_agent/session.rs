//! The sessions of a composition.

use std::sync::Arc;

use crow_core::{event::AgentRole, ids::SessionId};
use crow_runtime::{AgentAccess, AgentError, AgentInternals, ChildSpec};

use super::{AcpAgent, Coagent};
use crate::{prompt::Surroundings, session_hooks::PromptHooks};

/// The sessions of a composition: the root session of the primary, whose id is the public one, and those of the
/// coagents, created when first needed.
#[derive(Debug)]
pub struct AcpSession {
    pub(super) internals: AgentInternals,
    /// The surroundings with which each session is opened.
    pub(super) surroundings: Arc<Surroundings>,
    /// Sessions of the coagents, in the order of the coagents.
    pub(super) coagents: Vec<CoagentSession>,
    /// Sessions below the primary's that earlier processes created and that are not reopened yet.
    reopenable: Vec<SessionId>,
    /// Handoff text generated for the current run.
    pub(super) generated_handoff: Option<String>,
    /// Session of the message generator for the current run.
    pub(super) generator: Option<Box<AgentInternals>>,
    pub(super) prompt_hooks: PromptHooks,
}

/// Session of a coagent.
#[derive(Debug)]
pub(super) struct CoagentSession {
    pub(super) name: String,
    /// Access of the coagent. It never changes during a session.
    access: AgentAccess,
    pub(super) session: CoagentSessionKind,
    /// True if commands may run: the coagent may write, or the kernel keeps commands read-only.
    pub(super) may_run_commands: bool,
}

#[derive(Debug)]
pub(super) enum CoagentSessionKind {
    Base(Box<AgentInternals>),
    Composition(Box<AcpSession>),
}

impl AcpSession {
    /// Makes the session of a composition from the internals of its primary. Each of its sessions is opened with the
    /// `surroundings`.
    pub fn new(internals: AgentInternals, surroundings: impl Into<Arc<Surroundings>>) -> Self {
        let surroundings = surroundings.into();
        let earlier = internals.metadata().child_session_ids;
        Self {
            internals,
            surroundings,
            coagents: Vec::new(),
            reopenable: earlier,
            generated_handoff: None,
            generator: None,
            prompt_hooks: PromptHooks::default(),
        }
    }

    /// Returns the internals of the primary.
    pub fn primary(&self) -> &AgentInternals {
        &self.internals
    }

    /// Returns the internals of the primary, mutably.
    pub fn primary_mut(&mut self) -> &mut AgentInternals {
        &mut self.internals
    }

    /// Returns the internals of the coagent at this index, once it has been asked.
    pub fn coagent(&self, index: usize) -> Option<&AgentInternals> {
        self.coagents.get(index).map(CoagentSession::internals)
    }

    /// Returns the internals of the coagent at this index, mutably.
    pub fn coagent_mut(&mut self, index: usize) -> Option<&mut AgentInternals> {
        self.coagents.get_mut(index).map(CoagentSession::internals_mut)
    }

    /// Opens the missing sessions of the coagents: those that an earlier process left are reopened, others are
    /// created. Another agent at an index, or one with another access, gets a new session.
    pub(super) async fn open_coagent_sessions(
        &mut self,
        agent: &AcpAgent,
    ) -> Result<(), AgentError> {
        let reach = agent.coagent_access();
        for (index, coagent) in agent.coagents.iter().enumerate() {
            if self.coagents.get(index).is_some_and(|seat| seat.serves(coagent, reach)) {
                continue;
            }
            self.coagents.truncate(index);
            let internals = self.child(coagent, reach).await?;
            let may_run_commands =
                reach == AgentAccess::Policy || internals.can_enforce_read_only().await;
            let session = match coagent {
                Coagent::Base(_) => CoagentSessionKind::Base(Box::new(internals)),
                Coagent::Composition(_) => {
                    let session = Self::new(internals, Arc::clone(&self.surroundings));
                    CoagentSessionKind::Composition(Box::new(session))
                }
            };
            let name = coagent.name().to_owned();
            self.coagents.push(CoagentSession { name, access: reach, session, may_run_commands });
        }
        self.coagents.truncate(agent.coagents.len());
        Ok(())
    }

    async fn child(
        &mut self,
        coagent: &Coagent,
        reach: AgentAccess,
    ) -> Result<AgentInternals, AgentError> {
        let spec = ChildSpec {
            agent: coagent.name().to_owned(),
            role: AgentRole::Coagent,
            model: coagent.model().clone(),
            task: "review".to_owned(),
            call_id: None,
            access: reach,
        };
        if let Some(child) = self.internals.reopen_child(&spec, &self.reopenable).await? {
            self.reopenable.retain(|id| id != child.session_id());
            return Ok(child);
        }
        self.internals.child(spec).await
    }
}

impl CoagentSession {
    fn serves(&self, coagent: &Coagent, reach: AgentAccess) -> bool {
        let is_kind = matches!(
            (&self.session, coagent),
            (CoagentSessionKind::Base(_), Coagent::Base(_))
                | (CoagentSessionKind::Composition(_), Coagent::Composition(_))
        );
        is_kind && self.name == coagent.name() && self.access == reach
    }

    pub(super) fn internals(&self) -> &AgentInternals {
        match &self.session {
            CoagentSessionKind::Base(internals) => internals,
            CoagentSessionKind::Composition(session) => &session.internals,
        }
    }

    pub(super) fn internals_mut(&mut self) -> &mut AgentInternals {
        match &mut self.session {
            CoagentSessionKind::Base(internals) => internals,
            CoagentSessionKind::Composition(session) => &mut session.internals,
        }
    }
}
