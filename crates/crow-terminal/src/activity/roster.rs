//! The agents of a session: their names, colours and parents, and which of them work.

use std::collections::VecDeque;

use crow_console::Glyphs;
use crow_core::{
    capability::BackgroundChild,
    event::{AgentRole, Envelope, ParentCall},
    ids::{CallId, SessionId},
    tool::ToolMetadata,
};
use jiff::Timestamp;

use super::text_fit::{bounded_line, fit_middle};
use crate::styled_text::TextRole;

/// Maximum number of agents that are kept.
const MOST_AGENTS: usize = 64;
/// Maximum number of calls that started agents in the background and are kept.
const MOST_BACKGROUND_CALLS: usize = 64;
/// Maximum columns of an agent's name, without its number.
const NAME_COLUMNS: usize = 16;
/// Colours of agents other than the one that the user talks to. They differ from those of success, failure and warnings.
const COLOURS: [TextRole; 5] = [
    TextRole::Accent,
    TextRole::Keyword,
    TextRole::StringLiteral,
    TextRole::Number,
    TextRole::Type,
];

/// The name and colour by which an agent is told apart from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentLabel {
    /// The agent's name as harmless text of at most 20 columns. While another agent of the same name works, it ends with a
    /// number from 2.
    pub(crate) name: String,
    pub(crate) role: AgentRole,
    /// Colour of the name. [`TextRole::Plain`] for the agent that the user talks to.
    pub(crate) colour: TextRole,
}

/// The agents of a root session that sent events, at most 64.
///
/// A label stays the same as long as the agent is kept. Only when an agent begins to work again, and another one took its
/// name and number meanwhile, it gets another number. Ended agents are dropped first, the oldest of them before the others.
/// [`ActivityPanel`](super::ActivityPanel) keeps a roster up to date.
#[derive(Debug)]
pub(crate) struct AgentRoster {
    glyphs: Glyphs,
    agents: Vec<RosterAgent>,
    /// Number of the last work that an agent began.
    last_work: u64,
    /// Calls whose agents run in the background.
    background_calls: VecDeque<(SessionId, CallId)>,
}

/// A piece of work of an agent: a run, a review or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkPeriod {
    /// Differs from that of all other works.
    number: u64,
    pub(super) since: Timestamp,
}

/// An agent of the roster.
#[derive(Debug)]
pub(super) struct RosterAgent {
    pub(super) id: SessionId,
    /// The session and call that started it. None for the root session.
    parent: Option<ParentCall>,
    pub(super) label: AgentLabel,
    /// The name without its number.
    name: String,
    number: usize,
    colour: usize,
    /// Harmless text on one line; may be empty.
    pub(super) task: String,
    pub(super) work: Option<WorkPeriod>,
    /// True once it worked.
    has_worked: bool,
    /// True while it reviews: a review may have several turns.
    is_reviewing: bool,
    /// True if no call waits for it, so that it may outlive the run.
    pub(super) is_background: bool,
}

/// An agent that works, and its place in the tree of agents.
#[derive(Debug)]
pub(super) struct TreeAgent<'a> {
    pub(super) agent: &'a RosterAgent,
    /// Number of agents above it, the root not counted.
    pub(super) depth: usize,
}

/// The children that end with the run of their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildScope {
    Foreground,
    All,
}

impl AgentRoster {
    /// Makes an empty roster.
    pub(super) fn new(glyphs: Glyphs) -> Self {
        Self { glyphs, agents: Vec::new(), last_work: 0, background_calls: VecDeque::new() }
    }

    /// Returns the work that the agent of a session does.
    pub(super) fn work(&self, session_id: &SessionId) -> Option<WorkPeriod> {
        self.find(session_id)?.work
    }

    /// Returns true if the agent of a session is kept.
    pub(super) fn has(&self, session_id: &SessionId) -> bool {
        self.find(session_id).is_some()
    }

    /// Returns the number of agents.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    /// Returns true if a call started an agent.
    pub(super) fn has_child_of(&self, session_id: &SessionId, call_id: &CallId) -> bool {
        self.agents.iter().any(|agent| agent.is_child_of(session_id, call_id))
    }

    /// Adds the agent of an event if it is new. Returns the call that started it when that becomes known.
    pub(super) fn observe(&mut self, envelope: &Envelope) -> Option<ParentCall> {
        let parent = envelope.parent.clone().filter(|_| !envelope.is_root());
        let Some(index) = self.agents.iter().position(|agent| agent.id == envelope.session_id)
        else {
            // A child without a parent in its events belongs to the root.
            let of_root = || ParentCall { session_id: envelope.root_id.clone(), call_id: None };
            let parent = parent.or_else(|| (!envelope.is_root()).then(of_root));
            self.add(&envelope.session_id, &envelope.agent, envelope.role, parent.clone());
            return parent;
        };
        // The start of a subagent does not say which call started it, its own events do.
        let lacks_call =
            self.agents[index].parent.as_ref().is_some_and(|link| link.call_id.is_none());
        let parent = parent.filter(|parent| lacks_call && parent.call_id.is_some())?;
        self.agents[index].is_background = self.is_background_call(&parent);
        self.agents[index].parent = Some(parent.clone());
        Some(parent)
    }

    /// Records that an agent begins a work, also if it was at work.
    pub(super) fn start(&mut self, session_id: &SessionId, time: Timestamp) {
        let Some(index) = self.agents.iter().position(|agent| agent.id == *session_id) else {
            return;
        };
        self.last_work += 1;
        let agent = &mut self.agents[index];
        agent.work = Some(WorkPeriod { number: self.last_work, since: time });
        agent.has_worked = true;
        let is_taken = |other: &RosterAgent| {
            other.work.is_some()
                && other.name == self.agents[index].name
                && other.number == self.agents[index].number
                && other.id != *session_id
        };
        if self.agents.iter().any(is_taken) {
            let name = self.agents[index].name.clone();
            let number = self.free_number(&name);
            self.agents[index].set_number(number);
        }
    }

    /// Records a sign of work: begins a work of an agent that has none.
    pub(super) fn resume(&mut self, session_id: &SessionId, time: Timestamp) {
        if self.work(session_id).is_none() {
            self.start(session_id, time);
        }
    }

    /// Records output of an agent: it works, unless it ended before.
    pub(super) fn on_output(&mut self, session_id: &SessionId, time: Timestamp) {
        if self.find(session_id).is_some_and(|agent| !agent.has_worked && agent.parent.is_some()) {
            self.start(session_id, time);
        }
    }

    /// Records that an agent ended its work.
    pub(super) fn end(&mut self, session_id: &SessionId) {
        if let Some(agent) = self.find_mut(session_id) {
            agent.work = None;
            agent.is_reviewing = false;
        }
    }

    /// Records that the agents below an agent ended.
    pub(super) fn end_children(&mut self, session_id: &SessionId, scope: ChildScope) {
        let mut parents = vec![session_id.clone()];
        let mut next = 0;
        while let Some(parent) = parents.get(next).cloned() {
            next += 1;
            for agent in &mut self.agents {
                let is_child = agent.parent.as_ref().is_some_and(|link| link.session_id == parent);
                let ends = scope == ChildScope::All || !agent.is_background;
                if is_child && ends && !parents.contains(&agent.id) {
                    agent.work = None;
                    agent.is_reviewing = false;
                    parents.push(agent.id.clone());
                }
            }
        }
    }

    /// Records that an agent ended a turn. A review may have another one.
    pub(super) fn on_turn_end(&mut self, session_id: &SessionId) {
        let ends = self
            .find(session_id)
            .is_some_and(|agent| agent.label.role == AgentRole::Coagent && !agent.is_reviewing);
        if ends {
            self.end(session_id);
        }
    }

    /// Records the end of a call: the agents that it started ended with it, or run in the background.
    pub(super) fn on_call_end(
        &mut self,
        session_id: &SessionId,
        call_id: &CallId,
        metadata: &ToolMetadata,
    ) {
        let runs_on = metadata.extra.get(BackgroundChild::EXTRA_KEY).is_some();
        let mut ended = Vec::new();
        for agent in &mut self.agents {
            if agent.is_child_of(session_id, call_id) {
                agent.is_background = runs_on;
                if !runs_on {
                    ended.push(agent.id.clone());
                }
            }
        }
        for child in ended {
            self.end(&child);
            self.end_children(&child, ChildScope::All);
        }
        if runs_on {
            if self.background_calls.len() == MOST_BACKGROUND_CALLS {
                self.background_calls.pop_front();
            }
            self.background_calls.push_back((session_id.clone(), call_id.clone()));
        }
    }

    /// Records the start of a subagent.
    pub(super) fn on_subagent_start(
        &mut self,
        envelope: &Envelope,
        child_id: &SessionId,
        name: &str,
        task: &str,
    ) {
        if !self.has(child_id) {
            let (session_id, call_id) = (envelope.session_id.clone(), None);
            let parent = Some(ParentCall { session_id, call_id });
            self.add(child_id, name, AgentRole::Subagent, parent);
        }
        if let Some(agent) = self.find_mut(child_id).filter(|agent| agent.parent.is_some()) {
            agent.task = bounded_line(task);
            self.start(child_id, envelope.time);
        }
    }

    /// Records the start of a review by a coagent, if its session is known.
    pub(super) fn on_review_start(&mut self, primary: &SessionId, coagent: &str, time: Timestamp) {
        let Some(id) = self.coagent(primary, coagent) else { return };
        if let Some(agent) = self.find_mut(&id) {
            agent.is_reviewing = true;
            "review".clone_into(&mut agent.task);
        }
        self.start(&id, time);
    }

    /// Records the end of a review.
    pub(super) fn on_review_end(&mut self, primary: &SessionId, coagent: &str) {
        if let Some(id) = self.coagent(primary, coagent) {
            self.end(&id);
        }
    }

    /// Returns the agents that work, without the root, as a tree: each before those that it started.
    pub(super) fn working_tree(&self) -> Vec<TreeAgent<'_>> {
        let is_shown = |agent: &&RosterAgent| agent.work.is_some() && agent.parent.is_some();
        let working: Vec<&RosterAgent> = self.agents.iter().filter(is_shown).collect();
        let above: Vec<Option<&SessionId>> =
            working.iter().map(|agent| self.working_ancestor(agent)).collect();
        let mut tree = Vec::with_capacity(working.len());
        let mut is_added = vec![false; working.len()];
        // 1) The agents below the root. 2) Those that claim to be below each other.
        let tops = (0..working.len()).filter(|index| above[*index].is_none());
        for top in tops.chain(0..working.len()) {
            // Agents to add next, with their depth; the last one comes first.
            let mut next = vec![(top, 0)];
            while let Some((index, depth)) = next.pop() {
                if std::mem::replace(&mut is_added[index], true) {
                    continue;
                }
                tree.push(TreeAgent { agent: working[index], depth });
                let is_child = |child: &usize| above[*child] == Some(&working[index].id);
                next.extend(
                    (0..working.len()).rev().filter(is_child).map(|child| (child, depth + 1)),
                );
            }
        }
        tree
    }

    /// Returns the nearest agent above an agent that works, the root excepted.
    fn working_ancestor(&self, agent: &RosterAgent) -> Option<&SessionId> {
        let mut link = agent.parent.as_ref();
        // Links of untrusted events may form a circle.
        for _ in 0..MOST_AGENTS {
            let above = self.find(&link?.session_id)?;
            above.parent.as_ref()?;
            if above.work.is_some() {
                return Some(&above.id);
            }
            link = above.parent.as_ref();
        }
        None
    }

    fn coagent(&self, primary: &SessionId, name: &str) -> Option<SessionId> {
        let name = shown_name(name, self.glyphs);
        let found = self.agents.iter().rev().find(|agent| {
            let parent = agent.parent.as_ref();
            agent.label.role == AgentRole::Coagent
                && agent.name == name
                && parent.is_some_and(|parent| parent.session_id == *primary)
        });
        found.map(|agent| agent.id.clone())
    }

    /// Returns the agent of a session, if it is kept.
    pub(super) fn find(&self, session_id: &SessionId) -> Option<&RosterAgent> {
        self.agents.iter().find(|agent| agent.id == *session_id)
    }

    fn find_mut(&mut self, session_id: &SessionId) -> Option<&mut RosterAgent> {
        self.agents.iter_mut().find(|agent| agent.id == *session_id)
    }

    fn add(&mut self, id: &SessionId, name: &str, role: AgentRole, parent: Option<ParentCall>) {
        self.make_room();
        let name = shown_name(name, self.glyphs);
        let colour = self.free_colour();
        let is_background = parent.as_ref().is_some_and(|parent| self.is_background_call(parent));
        let is_root = parent.is_none();
        let mut agent = RosterAgent {
            id: id.clone(),
            parent,
            label: AgentLabel {
                name: name.clone(),
                role,
                colour: if is_root { TextRole::Plain } else { COLOURS[colour] },
            },
            name,
            number: 1,
            colour,
            task: String::new(),
            work: None,
            has_worked: false,
            is_reviewing: false,
            is_background,
        };
        agent.set_number(self.free_number(&agent.name));
        self.agents.push(agent);
    }

    fn is_background_call(&self, parent: &ParentCall) -> bool {
        self.background_calls.iter().any(|(session_id, call_id)| {
            *session_id == parent.session_id && Some(call_id) == parent.call_id.as_ref()
        })
    }

    /// Drops an agent if there are too many: the oldest that does not work, or else the oldest. The root stays.
    fn make_room(&mut self) {
        if self.agents.len() < MOST_AGENTS {
            return;
        }
        let mut children =
            self.agents.iter().enumerate().filter(|(_, agent)| agent.parent.is_some());
        let oldest = children.clone().next();
        let dropped = children.find(|(_, agent)| agent.work.is_none()).or(oldest);
        if let Some((index, _)) = dropped {
            self.agents.remove(index);
        }
    }

    /// Returns the smallest number that no agent of this name has, those that ended excepted.
    fn free_number(&self, name: &str) -> usize {
        let is_taken = |number: usize| {
            self.agents.iter().any(|agent| {
                let is_current = agent.work.is_some() || !agent.has_worked;
                is_current && agent.name == name && agent.number == number
            })
        };
        let mut numbers = 1..=MOST_AGENTS + 1;
        numbers
            .find(|number| !is_taken(*number))
            .expect("invariant: there are more numbers than agents")
    }

    /// Returns the colour that the fewest working agents have, then that the fewest agents have.
    fn free_colour(&self) -> usize {
        let users = |colour: usize| {
            let of_colour =
                self.agents.iter().filter(|agent| agent.parent.is_some() && agent.colour == colour);
            (of_colour.clone().filter(|agent| agent.work.is_some()).count(), of_colour.count())
        };
        (0..COLOURS.len()).min_by_key(|colour| users(*colour)).unwrap_or(0)
    }
}

impl RosterAgent {
    fn is_child_of(&self, session_id: &SessionId, call_id: &CallId) -> bool {
        self.parent.as_ref().is_some_and(|parent| {
            parent.session_id == *session_id && parent.call_id.as_ref() == Some(call_id)
        })
    }

    fn set_number(&mut self, number: usize) {
        self.number = number;
        self.label.name = match number {
            1 => self.name.clone(),
            _ => format!("{} {number}", self.name),
        };
    }
}

fn shown_name(name: &str, glyphs: Glyphs) -> String {
    fit_middle(&bounded_line(name), NAME_COLUMNS, glyphs)
}
