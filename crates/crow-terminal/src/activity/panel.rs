//! The panel and its state.

use std::collections::HashMap;

use crow_console::Glyphs;
use crow_core::{
    ids::SessionId,
    todo::{TodoItem, TodoStatus},
};
use jiff::Timestamp;

use super::{
    agent_progress::AgentProgress,
    background_jobs::BackgroundJobs,
    live_calls::LiveCall,
    received_tokens::ReceivedTokens,
    roster::{AgentRoster, TreeAgent, WorkPeriod},
    rows::PanelRows,
    text_fit::bounded_line,
};
use crate::styled_text::StyledLine;

/// Maximum number of todos that are kept.
const MOST_TODOS: usize = 200;
/// Text while a run is being cancelled.
pub(super) const STOPPING: &str = "stopping";

/// The room for the panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ActivitySpace {
    /// Maximum width of a row in columns.
    pub(crate) columns: usize,
    /// Maximum number of rows.
    pub(crate) rows: usize,
}

/// The activity in a root session and the agents below it.
///
/// The memory is bounded: 64 agents, 64 calls of each, and about 6 kB of output for each running call of the root.
#[derive(Debug)]
pub(crate) struct ActivityPanel {
    pub(super) glyphs: Glyphs,
    root: Option<SessionId>,
    pub(super) roster: AgentRoster,
    /// The progress of the agents of the roster that sent events.
    pub(super) agents: HashMap<SessionId, AgentProgress>,
    pub(super) run: RunProgress,
    pub(super) jobs: BackgroundJobs,
}

/// The state of the run of the root session, besides that of its agent.
#[derive(Debug, Default)]
pub(super) struct RunProgress {
    /// The work of the root that this belongs to.
    work: Option<WorkPeriod>,
    pub(super) tokens: ReceivedTokens,
    /// Texts in it are harmless and on one line.
    todos: Vec<TodoItem>,
    pub(super) stopping_since: Option<Timestamp>,
}

impl RunProgress {
    /// Replaces the todo list.
    pub(super) fn set_todos(&mut self, items: &[TodoItem]) {
        let harmless = |item: &TodoItem| TodoItem {
            content: bounded_line(&item.content),
            status: item.status,
            active_form: item.active_form.as_deref().map(bounded_line),
        };
        self.todos = items.iter().take(MOST_TODOS).map(harmless).collect();
    }

    /// Records that the run is being cancelled.
    pub(super) fn on_cancelling(&mut self, time: Timestamp) {
        self.stopping_since.get_or_insert(time);
    }

    /// Returns the todo list if any of it is open.
    pub(super) fn open_todos(&self) -> Option<&[TodoItem]> {
        let is_open = self.todos.iter().any(|item| item.status != TodoStatus::Completed);
        is_open.then_some(self.todos.as_slice())
    }
}

impl ActivityPanel {
    /// Makes a panel that draws its marks in this character set.
    pub(crate) fn new(glyphs: Glyphs) -> Self {
        Self {
            glyphs,
            root: None,
            roster: AgentRoster::new(glyphs),
            agents: HashMap::new(),
            run: RunProgress::default(),
            jobs: BackgroundJobs::default(),
        }
    }

    /// Returns the rows for this time, at most as many and as wide as `space` allows. Equal events, times and spaces give
    /// equal rows.
    pub(crate) fn rows(&self, now: Timestamp, space: ActivitySpace) -> Vec<StyledLine> {
        if space.columns == 0 {
            return Vec::new();
        }
        PanelRows::new(self, now).draw(space)
    }

    /// Returns the progress of the root's agent while a run is active.
    pub(super) fn root_progress(&self) -> Option<&AgentProgress> {
        self.working_progress(self.root.as_ref()?)
    }

    /// Returns the progress of an agent while it works.
    pub(super) fn working_progress(&self, id: &SessionId) -> Option<&AgentProgress> {
        let work = self.roster.work(id)?;
        self.agents.get(id).filter(|progress| progress.work == Some(work))
    }

    /// Returns since when a question of an agent at work is open.
    pub(super) fn asking_since(&self) -> Option<Timestamp> {
        let asking = self
            .agents
            .iter()
            .filter_map(|(id, progress)| self.working_progress(id).and(progress.asking_since()));
        asking.min()
    }

    /// Returns true if a call of the root started another agent.
    pub(super) fn is_delegated(&self, call: &LiveCall) -> bool {
        self.root.as_ref().is_some_and(|root| self.roster.has_child_of(root, &call.id))
    }

    /// Begins anew if this is another root session.
    pub(super) fn follow_root(&mut self, root_id: &SessionId) {
        if self.root.as_ref() != Some(root_id) {
            *self = Self { root: Some(root_id.clone()), ..Self::new(self.glyphs) };
        }
    }

    /// Clears what belonged to a run that ended, or that another one follows.
    pub(super) fn renew_run(&mut self) {
        let work = self.root.as_ref().and_then(|root| self.roster.work(root));
        if self.run.work != work {
            self.run = RunProgress { work, ..RunProgress::default() };
        }
    }

    /// Returns the progress of an agent in the work that it does, which begins at this time if there is none.
    pub(super) fn progress_of(&mut self, id: &SessionId, time: Timestamp) -> &mut AgentProgress {
        let work = self.roster.work(id);
        let progress =
            self.agents.entry(id.clone()).or_insert_with(|| AgentProgress::new(work, time));
        if progress.work != work {
            *progress = AgentProgress::new(work, time);
        }
        progress
    }

    /// Drops the progress of agents that the roster dropped.
    pub(super) fn drop_unknown_agents(&mut self) {
        let roster = &self.roster;
        if self.agents.len() > roster.len() {
            self.agents.retain(|id, _| roster.has(id));
        }
    }
}

/// Returns the names of agents, as in a sentence.
pub(super) fn labels(agents: &[TreeAgent<'_>]) -> String {
    let names: Vec<&str> = agents.iter().map(|entry| entry.agent.label.name.as_str()).collect();
    names.join(", ")
}

/// Returns the number of todos that are done.
pub(super) fn done_count(todos: &[TodoItem]) -> usize {
    todos.iter().filter(|item| item.status == TodoStatus::Completed).count()
}

/// Returns the position of the todo in progress, or of the first one that is open.
pub(super) fn current_todo(todos: &[TodoItem]) -> Option<usize> {
    let with = |status| todos.iter().position(|item| item.status == status);
    with(TodoStatus::InProgress).or_else(|| with(TodoStatus::Pending))
}

/// Returns the text of a todo for its status.
pub(super) fn todo_text(item: &TodoItem) -> &str {
    match (item.status, &item.active_form) {
        (TodoStatus::InProgress, Some(active)) if !active.is_empty() => active,
        (TodoStatus::InProgress | TodoStatus::Pending | TodoStatus::Completed, _) => &item.content,
    }
}
