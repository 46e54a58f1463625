//! Sums over many runs: by day, model, project, agent or tool.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crow_core::{
    model::{ModelRef, Price},
    usage::TokenUsage,
};
use jiff::{civil::Date, tz::TimeZone};

use crate::{SpanOutcome, SpanWork, TraceSpan};

/// Grouping of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatisticsGroup {
    /// A day of the user's time zone.
    Day,
    /// A model.
    Model,
    /// A project: the working directory of the root session.
    Project,
    /// An agent.
    Agent,
    /// A tool.
    Tool,
}

/// Sums of spans.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatisticsRow {
    /// Number of root sessions.
    pub sessions: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of runs that ended by themselves: neither stopped, failed, cancelled nor cut off.
    pub succeeded_runs: u64,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of calls of tools that failed, refused ones included.
    pub failed_tool_calls: u64,
    /// The tokens.
    pub usage: TokenUsage,
    /// The cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// True if the price of some model is unknown, so that the cost is higher.
    pub is_cost_partial: bool,
    /// Time of the runs; by agent that of turns, by model and tool that of calls.
    pub time: Duration,
}

impl std::ops::AddAssign<&Self> for StatisticsRow {
    fn add_assign(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.runs += other.runs;
        self.succeeded_runs += other.succeeded_runs;
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.failed_tool_calls += other.failed_tool_calls;
        self.usage += other.usage;
        self.cost_usd += other.cost_usd;
        self.is_cost_partial |= other.is_cost_partial;
        self.time += other.time;
    }
}

/// Sums up the spans of sessions.
#[derive(Debug)]
pub struct Statistics {
    group: StatisticsGroup,
    zone: TimeZone,
    prices: BTreeMap<ModelRef, Price>,
    rows: BTreeMap<String, StatisticsRow>,
    days: BTreeMap<Date, StatisticsRow>,
    total: StatisticsRow,
}

impl Statistics {
    /// Makes empty statistics. Models without a price cost nothing, and mark their rows.
    pub fn new(group: StatisticsGroup, zone: TimeZone, prices: BTreeMap<ModelRef, Price>) -> Self {
        Self {
            group,
            zone,
            prices,
            rows: BTreeMap::new(),
            days: BTreeMap::new(),
            total: StatisticsRow::default(),
        }
    }

    /// Adds the spans of a root session and its descendants.
    pub fn add_session(&mut self, project: &str, spans: &[TraceSpan]) {
        let mut seen = BTreeSet::new();
        for span in spans {
            let mut facts = self.facts(span);
            let date = span.start.to_zoned(self.zone.clone()).date();
            let key = self.key(project, span, date);
            if let Some(key) = key {
                facts.time = self.time(span);
                let mut facts = facts.clone();
                facts.sessions = u64::from(seen.insert(key.clone()));
                *self.rows.entry(key).or_default() += &facts;
            }
            *self.days.entry(date).or_default() += &facts;
            self.total += &facts;
        }
        self.total.sessions += u64::from(!spans.is_empty());
    }

    /// Returns the rows with what each is about, in the order of the names.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &StatisticsRow)> {
        self.rows.iter().map(|(key, row)| (key.as_str(), row))
    }

    /// Returns the sums of every day on which something happened, the first one first.
    pub fn days(&self) -> impl Iterator<Item = (Date, &StatisticsRow)> {
        self.days.iter().map(|(date, row)| (*date, row))
    }

    /// Returns the sums of all.
    pub fn total(&self) -> &StatisticsRow {
        &self.total
    }

    /// Returns the row of a span; none if it is not of this group.
    fn key(&self, project: &str, span: &TraceSpan, date: Date) -> Option<String> {
        match (self.group, &span.work) {
            (StatisticsGroup::Day, _) => Some(date.to_string()),
            (StatisticsGroup::Project, _) => Some(project.to_owned()),
            (StatisticsGroup::Model, SpanWork::ModelCall(call)) => Some(call.model.to_string()),
            (StatisticsGroup::Tool, SpanWork::ToolCall(call)) => Some(call.tool.clone()),
            (StatisticsGroup::Model | StatisticsGroup::Tool, _)
            | (StatisticsGroup::Agent, SpanWork::Run(_)) => None,
            (StatisticsGroup::Agent, _) => Some(span.agent.clone()),
        }
    }

    /// Returns the time that a span adds: of runs by day and project, of turns by agent, else of calls.
    fn time(&self, span: &TraceSpan) -> Duration {
        let counts = match (self.group, &span.work) {
            (StatisticsGroup::Day | StatisticsGroup::Project, work) => {
                matches!(work, SpanWork::Run(_))
            }
            (StatisticsGroup::Agent, work) => matches!(work, SpanWork::Turn(_)),
            (StatisticsGroup::Model | StatisticsGroup::Tool, _) => true,
        };
        if counts { span.duration() } else { Duration::ZERO }
    }

    /// Returns what one span adds, but for its time.
    fn facts(&self, span: &TraceSpan) -> StatisticsRow {
        let mut row = StatisticsRow::default();
        match &span.work {
            SpanWork::Run(_) => {
                row.runs = 1;
                row.succeeded_runs = u64::from(span.outcome == SpanOutcome::Succeeded);
            }
            SpanWork::ModelCall(call) => {
                row.model_calls = 1;
                let usage = call.usage.unwrap_or_default();
                row.usage = usage;
                match self.prices.get(&call.model) {
                    Some(price) => row.cost_usd = price.cost(&usage),
                    None => row.is_cost_partial = usage.total() > 0,
                }
            }
            SpanWork::ToolCall(_) => {
                row.tool_calls = 1;
                row.failed_tool_calls =
                    u64::from(matches!(span.outcome, SpanOutcome::Failed { .. }));
            }
            SpanWork::Turn(_)
            | SpanWork::Permission(_)
            | SpanWork::Question(_)
            | SpanWork::Handoff(_)
            | SpanWork::Verdict(_)
            | SpanWork::Checks(_)
            | SpanWork::Compaction(_) => {}
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use crow_testkit::sample::{good_run, reviewed_run};

    use super::*;
    use crate::TraceBuilder;

    fn statistics(group: StatisticsGroup) -> Statistics {
        let mut statistics = Statistics::new(group, TimeZone::UTC, BTreeMap::new());
        for story in [good_run(), reviewed_run()] {
            statistics.add_session("/p", &TraceBuilder::spans(&story.events));
        }
        statistics
    }

    #[test]
    fn the_rows_of_every_group_add_up_to_the_whole() {
        for group in [
            StatisticsGroup::Day,
            StatisticsGroup::Model,
            StatisticsGroup::Project,
            StatisticsGroup::Agent,
            StatisticsGroup::Tool,
        ] {
            let statistics = statistics(group);
            let time: Duration = statistics.rows().map(|(_, row)| row.time).sum();
            assert_eq!(time, statistics.total().time, "{group:?}");
            assert!(time > Duration::ZERO, "{group:?}");
        }
        let tools = statistics(StatisticsGroup::Tool);
        let calls: u64 = tools.rows().map(|(_, row)| row.tool_calls).sum();
        assert_eq!((calls, tools.total().sessions, tools.total().runs), (5, 2, 2));
    }
}
