//! The sessions of a composition.

use std::sync::Arc;

use crow_core::{event::AgentRole, ids::SessionId};
use crow_runtime::{AgentAccess, AgentError, AgentInternals, ChildSpec};

use super::{AcpAgent, Coagent};

/// The sessions of a composition: that of the primary, which is the root and whose id is the one that is known outside,
/// and those of its coagents, made when they are first needed.
#[derive(Debug)]
pub struct AcpSession {
    pub(super) internals: AgentInternals,
    /// What opens each session: facts about the place.
    pub(super) surroundings: Arc<str>,
    pub(super) seats: Vec<CoagentSession>,
    /// The sessions below the primary's that earlier processes left.
    earlier: Vec<SessionId>,
    /// What the generator of the handoff wrote for the run under way.
    pub(super) written: Option<String>,
    /// The session in which messages are written for the run under way.
    pub(super) generator: Option<Box<AgentInternals>>,
}

/// A coagent's session.
#[derive(Debug)]
pub(super) struct CoagentSession {
    pub(super) name: String,
    /// How far it may go. A session keeps what it began with.
    reach: AgentAccess,
    pub(super) session: SeatSession,
    /// Whether the kernel holds its commands, where they must not change anything.
    pub(super) may_run_commands: bool,
}

#[derive(Debug)]
pub(super) enum SeatSession {
    Base(Box<AgentInternals>),
    Composition(Box<AcpSession>),
}

impl AcpSession {
    /// Makes the session of a composition whose primary has these internals. Each of its sessions is opened with the
    /// `surroundings`.
    pub fn new(internals: AgentInternals, surroundings: impl Into<Arc<str>>) -> Self {
        let surroundings = surroundings.into();
        let earlier = internals.metadata().child_session_ids;
        Self { internals, surroundings, seats: Vec::new(), earlier, written: None, generator: None }
    }

    /// Returns what the primary works with.
    pub fn primary(&self) -> &AgentInternals {
        &self.internals
    }

    /// Returns the same, to be changed.
    pub fn primary_mut(&mut self) -> &mut AgentInternals {
        &mut self.internals
    }

    /// Returns what the coagent at that place works with, once it was asked.
    pub fn coagent(&self, place: usize) -> Option<&AgentInternals> {
        self.seats.get(place).map(CoagentSession::internals)
    }

    /// Returns the same, to be changed.
    pub fn coagent_mut(&mut self, place: usize) -> Option<&mut AgentInternals> {
        self.seats.get_mut(place).map(CoagentSession::internals_mut)
    }

    /// Makes the sessions of the coagents that have none, or opens those again that an earlier process left. Another agent at a place gets another session, and so does one
    /// that may go further than before, or less far.
    pub(super) async fn seat(&mut self, agent: &AcpAgent) -> Result<(), AgentError> {
        let reach = agent.reach_of_coagents();
        for (place, coagent) in agent.coagents.iter().enumerate() {
            if self.seats.get(place).is_some_and(|seat| seat.serves(coagent, reach)) {
                continue;
            }
            self.seats.truncate(place);
            let internals = self.child(coagent, reach).await?;
            let may_run_commands =
                reach == AgentAccess::Policy || internals.holds_read_only_commands().await;
            let session = match coagent {
                Coagent::Base(_) => SeatSession::Base(Box::new(internals)),
                Coagent::Composition(_) => {
                    let session = Self::new(internals, Arc::clone(&self.surroundings));
                    SeatSession::Composition(Box::new(session))
                }
            };
            let name = coagent.name().to_owned();
            self.seats.push(CoagentSession { name, reach, session, may_run_commands });
        }
        self.seats.truncate(agent.coagents.len());
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
            reach,
        };
        if let Some(child) = self.internals.reopen_child(&spec, &self.earlier).await? {
            self.earlier.retain(|id| id != child.session_id());
            return Ok(child);
        }
        self.internals.child(spec).await
    }
}

impl CoagentSession {
    fn serves(&self, coagent: &Coagent, reach: AgentAccess) -> bool {
        let is_kind = matches!(
            (&self.session, coagent),
            (SeatSession::Base(_), Coagent::Base(_))
                | (SeatSession::Composition(_), Coagent::Composition(_))
        );
        is_kind && self.name == coagent.name() && self.reach == reach
    }

    pub(super) fn internals(&self) -> &AgentInternals {
        match &self.session {
            SeatSession::Base(internals) => internals,
            SeatSession::Composition(session) => &session.internals,
        }
    }

    pub(super) fn internals_mut(&mut self) -> &mut AgentInternals {
        match &mut self.session {
            SeatSession::Base(internals) => internals,
            SeatSession::Composition(session) => &mut session.internals,
        }
    }
}

/// Returns what opens a session that has no entry yet.
pub(super) fn preface(surroundings: &str, internals: &AgentInternals) -> Option<String> {
    let is_first = internals.history().is_empty() && !surroundings.is_empty();
    is_first.then(|| surroundings.to_owned())
}
