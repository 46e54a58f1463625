//! Draws the panel.

use crow_console::{Glyphs, words::count};
use crow_core::todo::{TodoItem, TodoStatus};
use jiff::Timestamp;

use super::{
    agent_progress::AgentProgress,
    layout::SectionRows,
    live_calls::LiveCall,
    model_phase::{call_count, coarse_elapsed, elapsed},
    output_tail::TAIL_LINES,
    panel::{ActivityPanel, ActivitySpace, current_todo, done_count, labels, todo_text},
    roster::TreeAgent,
    text_fit::{RowBuilder, columns_of},
};
use crate::styled_text::{Emphasis, StyledLine, TextLook, TextRole};

/// Maximum number of calls with a row.
const MOST_CALLS: usize = 4;
/// Maximum number of agents with a row.
const MOST_AGENTS: usize = 6;
/// Maximum number of todos with a row.
const MOST_TODOS: usize = 5;
/// Maximum depth of the tree that is drawn. Deeper agents are drawn at this depth.
const MOST_DEPTH: usize = 3;
/// Columns that the subject of a row keeps before the time is left out.
pub(super) const LEAST_SUBJECT: usize = 12;
/// Columns that a second text of a row needs at least.
pub(super) const LEAST_REST: usize = 10;

/// The content of the panel at a point in time.
#[derive(Debug)]
pub(super) struct PanelRows<'a> {
    pub(super) panel: &'a ActivityPanel,
    pub(super) now: Timestamp,
    root: Option<&'a AgentProgress>,
    /// Calls that run for more than a moment and started no agent.
    calls: Vec<&'a LiveCall>,
    pub(super) agents: Vec<TreeAgent<'a>>,
}

impl<'a> PanelRows<'a> {
    /// Gathers the content.
    pub(super) fn new(panel: &'a ActivityPanel, now: Timestamp) -> Self {
        let root = panel.root_progress();
        let mut calls = root.map(|root| root.calls.listed(now)).unwrap_or_default();
        // The rows of agents stand for the calls that started them.
        calls.retain(|call| !panel.is_delegated(call));
        Self { panel, now, root, calls, agents: panel.roster.working_tree() }
    }

    /// Returns the rows that show everything.
    pub(super) fn wanted(&self) -> SectionRows {
        let listed = |number: usize, most: usize| number.min(most) + usize::from(number > most);
        // One call alone is named by the spinner line.
        let calls = if self.calls.len() > 1 { listed(self.calls.len(), MOST_CALLS) } else { 0 };
        let tail = self
            .newest_output(usize::MAX)
            .map_or(0, |(_, call)| call.tail.last_lines(TAIL_LINES).len());
        let todos = self.todos().map_or(0, |todos| todos.len().min(MOST_TODOS) + 1);
        SectionRows {
            spinner: usize::from(self.root.is_some()),
            calls,
            tail,
            agents: listed(self.agents.len(), MOST_AGENTS),
            todos,
            jobs: usize::from(!self.panel.jobs.running().is_empty()),
        }
    }

    /// Draws the rows.
    pub(super) fn draw(&self, space: ActivitySpace) -> Vec<StyledLine> {
        let given = self.wanted().within(space.rows);
        let columns = space.columns;
        let mut rows = Vec::with_capacity(given.total());
        if let Some(root) = self.root.filter(|_| given.spinner > 0) {
            rows.push(self.spinner_row(root, given, columns));
        }
        self.draw_calls(given, columns, &mut rows);
        self.draw_agents(given.agents, columns, &mut rows);
        self.draw_todos(given.todos, columns, &mut rows);
        if given.jobs > 0 {
            rows.push(self.jobs_row(columns));
        }
        rows
    }

    pub(super) fn glyphs(&self) -> Glyphs {
        self.panel.glyphs
    }

    pub(super) fn row(&self, columns: usize) -> RowBuilder {
        RowBuilder::new(columns, self.glyphs())
    }

    fn todos(&self) -> Option<&'a [TodoItem]> {
        self.root.and_then(|_| self.panel.run.open_todos())
    }

    /// Returns the newest call with output among the first `shown` ones, and its position.
    fn newest_output(&self, shown: usize) -> Option<(usize, &'a LiveCall)> {
        let shown = self.calls.iter().copied().enumerate().take(shown.min(MOST_CALLS));
        shown.filter(|(_, call)| !call.tail.is_empty()).max_by_key(|(_, call)| call.since())
    }

    fn draw_calls(&self, given: SectionRows, columns: usize, rows: &mut Vec<StyledLine>) {
        let shown = shown_of(self.calls.len(), given.calls);
        let (with_output, tail) = match self.newest_output(if given.calls > 0 { shown } else { 1 })
        {
            Some((position, call)) if given.tail > 0 => {
                (Some(position), call.tail.last_lines(given.tail))
            }
            Some(_) | None => (None, Vec::new()),
        };
        let draw_tail = |rows: &mut Vec<StyledLine>| {
            rows.extend(tail.iter().map(|line| {
                let mut row = self.row(columns);
                row.push("    ", TextRole::Plain);
                row.push(line, TextRole::Dim);
                row.finish()
            }));
        };
        if given.calls == 0 {
            draw_tail(rows);
            return;
        }
        for (position, call) in self.calls.iter().take(shown).enumerate() {
            let mut row = self.row(columns);
            row.push(self.glyphs().pick("  · ", "  - "), TextRole::Dim);
            let since = call.since().map(|since| elapsed(since, self.now)).unwrap_or_default();
            // The only row says how many others there are.
            let others = self.calls.len() - 1;
            let more = if given.calls == 1 && others > 0 {
                format!(" (+{others})")
            } else {
                String::new()
            };
            push_with_time(&mut row, &call.description(), &format!("{more}  {since}"));
            rows.push(row.finish());
            if with_output == Some(position) {
                draw_tail(rows);
            }
        }
        if given.calls > 1 && shown < self.calls.len() {
            rows.push(self.more_row(self.calls.len() - shown, "more call", columns));
        }
    }

    fn more_row(&self, number: usize, noun: &str, columns: usize) -> StyledLine {
        let mut row = self.row(columns);
        let mark = self.glyphs().pick("…", "...");
        row.push(&format!("  {mark} and {}", count(number as u64, noun)), TextRole::Dim);
        row.finish()
    }

    fn draw_agents(&self, given: usize, columns: usize, rows: &mut Vec<StyledLine>) {
        if given == 1 && self.agents.len() > 1 {
            let mut row = self.row(columns);
            let number = count(self.agents.len() as u64, "agent");
            row.push(&format!("  {number}: "), TextRole::Dim);
            row.push(&labels(&self.agents), TextRole::Plain);
            rows.push(row.finish());
            return;
        }
        let shown = shown_of(self.agents.len(), given);
        let mut depths: Vec<usize> =
            self.agents.iter().take(shown).map(|entry| entry.depth.min(MOST_DEPTH)).collect();
        let more = self.agents.len() - shown;
        if given > 0 && more > 0 {
            depths.push(0);
        }
        for (position, entry) in self.agents.iter().take(shown).enumerate() {
            rows.push(self.agent_row(entry, &branch(&depths, position, self.glyphs()), columns));
        }
        if given > 0 && more > 0 {
            let mut row = self.row(columns);
            row.push(&branch(&depths, shown, self.glyphs()), TextRole::Dim);
            let mark = self.glyphs().pick("…", "...");
            let number = count(more as u64, "more agent");
            row.push(&format!("{mark} and {number}"), TextRole::Dim);
            rows.push(row.finish());
        }
    }

    fn agent_row(&self, entry: &TreeAgent<'_>, branch: &str, columns: usize) -> StyledLine {
        let agent = entry.agent;
        let progress = self.panel.working_progress(&agent.id);
        let mut row = self.row(columns);
        row.push(branch, TextRole::Dim);
        row.push(&agent.label.name, agent.label.colour);
        let since = agent.work.map(|work| work.since);
        let time = since.map(|since| elapsed(since, self.now)).unwrap_or_default();
        let calls = progress.map_or(0, |progress| progress.call_count);
        let mut rest = vec![time];
        if calls > 0 {
            rest.push(call_count(calls));
        }
        let dot = self.glyphs().pick(" · ", " - ");
        // The time and the number of calls keep their place as long as there is room for what the agent does.
        let fits = |rest: &[String]| columns_of(&rest.join(dot)) + LEAST_SUBJECT + 4 <= row.room();
        while !rest.is_empty() && !fits(&rest) {
            rest.pop();
        }
        let rest = rest.join(dot);
        let room =
            row.room().saturating_sub(if rest.is_empty() { 2 } else { columns_of(&rest) + 4 });
        let doing = progress.map_or_else(String::new, |progress| progress.doing(self.now));
        if room > 0 {
            row.push("  ", TextRole::Plain);
            push_task(&mut row, (&agent.task, &doing), dot, room);
        }
        if !rest.is_empty() {
            row.push(&format!("  {rest}"), TextRole::Dim);
        }
        row.finish()
    }

    fn draw_todos(&self, given: usize, columns: usize, rows: &mut Vec<StyledLine>) {
        let Some(todos) = self.todos().filter(|_| given > 0) else { return };
        let current = current_todo(todos);
        let mut header = self.row(columns);
        header.push(&format!("  todo {}/{}", done_count(todos), todos.len()), TextRole::Dim);
        if given == 1
            && let Some(item) = current.and_then(|current| todos.get(current))
        {
            header.push("  ", TextRole::Plain);
            push_todo(&mut header, item, self.glyphs());
        }
        rows.push(header.finish());
        let shown = given - 1;
        let before = shown.saturating_sub(1) / 2;
        let start =
            current.unwrap_or(0).saturating_sub(before).min(todos.len().saturating_sub(shown));
        rows.extend(todos.iter().skip(start).take(shown).map(|item| {
            let mut row = self.row(columns);
            row.push("    ", TextRole::Plain);
            push_todo(&mut row, item, self.glyphs());
            row.finish()
        }));
    }

    fn jobs_row(&self, columns: usize) -> StyledLine {
        let jobs = self.panel.jobs.running();
        let mut row = self.row(columns);
        row.push(&format!("  {}: ", count(jobs.len() as u64, "job")), TextRole::Dim);
        // Each job gets the same share of the row, so that the time of a single one is always shown.
        let share = (row.room() / jobs.len().max(1)).max(LEAST_SUBJECT);
        for (position, job) in jobs.iter().enumerate() {
            if position > 0 {
                row.push(", ", TextRole::Dim);
            }
            let time = format!(" ({})", coarse_elapsed(job.since, self.now));
            let room = share.saturating_sub(columns_of(&time) + 2 * usize::from(position > 0));
            row.push_middle(&job.title, room, TextRole::Plain);
            row.push(&time, TextRole::Dim);
        }
        row.finish()
    }
}

/// Returns how many of `number` entries are shown in `given` rows, if one row says how many more there are.
fn shown_of(number: usize, given: usize) -> usize {
    if number > given && given > 1 { given - 1 } else { number.min(given) }
}

/// Appends a text and a time after it. The text is shortened, but the time is left out first if nothing would remain.
fn push_with_time(row: &mut RowBuilder, text: &str, time: &str) {
    let least = columns_of(text).min(LEAST_SUBJECT);
    if least + columns_of(time) > row.room() {
        row.push_middle(text, row.room(), TextRole::Plain);
        return;
    }
    row.push_middle(text, row.room() - columns_of(time), TextRole::Plain);
    row.push(time, TextRole::Dim);
}

/// Appends the task of an agent and what it does, within `room`. What it does is more important.
fn push_task(row: &mut RowBuilder, (task, doing): (&str, &str), dot: &str, room: usize) {
    let doing_columns = columns_of(doing).min((room / 2).max(LEAST_REST));
    let task_room = room.saturating_sub(doing_columns + columns_of(dot));
    if task.is_empty() || doing.is_empty() || task_room < columns_of(task).min(LEAST_REST) {
        let text = if doing.is_empty() { task } else { doing };
        row.push_middle(text, room, TextRole::Plain);
        return;
    }
    let before = row.room();
    row.push_middle(task, task_room, TextRole::Plain);
    row.push(dot, TextRole::Dim);
    let used = before - row.room();
    row.push_middle(doing, room.saturating_sub(used), TextRole::Dim);
}

fn push_todo(row: &mut RowBuilder, item: &TodoItem, glyphs: Glyphs) {
    let (mark, role, emphasis) = match item.status {
        TodoStatus::Pending => (glyphs.pick("☐ ", "[ ] "), TextRole::Plain, Emphasis::NONE),
        TodoStatus::InProgress => (glyphs.pick("▸ ", "[~] "), TextRole::Accent, Emphasis::BOLD),
        TodoStatus::Completed => {
            (glyphs.pick("☑ ", "[x] "), TextRole::Dim, Emphasis::STRIKETHROUGH)
        }
    };
    row.push(mark, role);
    row.push(todo_text(item), TextLook { role, emphasis, link: None });
}

/// Returns the lines of the tree before an entry. `depths` are those of all rows.
fn branch(depths: &[usize], position: usize, glyphs: Glyphs) -> String {
    let goes_on = |level: usize| {
        let below = depths[position + 1..].iter();
        below.take_while(|depth| **depth >= level).any(|depth| *depth == level)
    };
    let depth = depths[position];
    let mut text = "  ".to_owned();
    for level in 0..depth {
        text.push_str(if goes_on(level) { glyphs.pick("│  ", "|  ") } else { "   " });
    }
    let end =
        if goes_on(depth) { glyphs.pick("├─ ", "|- ") } else { glyphs.pick("└─ ", "`- ") };
    text.push_str(end);
    text
}
