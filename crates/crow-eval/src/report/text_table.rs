//! The table of a run as text.

use std::fmt::Write as _;

use crow_text::one_line;

use super::{RunSummary, SummaryRow};
use crate::statistics::ConfidenceInterval;

/// Number of tasks that a line names.
const NAMED_TASKS: usize = 8;
/// Shown for a number that is not known.
const UNKNOWN: &str = "-";

/// Headings of the table.
pub(super) const HEADINGS: [&str; 12] = [
    "agent",
    "model",
    "trials",
    "solved",
    "95 %",
    "false done",
    "stopped",
    "check hung",
    "steps",
    "tokens in/out",
    "cost",
    "time",
];

/// Returns the table of a run for people, with the trials that are not counted below it.
pub fn text_table(summary: &RunSummary) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    lines.extend(
        summary.rows.iter().map(|row| cells(row, summary.other_program.as_deref()).to_vec()),
    );
    let mut text = columns(&lines, 2);
    for line in uncounted_lines(summary) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns a line for each kind of trials that are not counted.
pub(super) fn uncounted_lines(summary: &RunSummary) -> Vec<String> {
    let line = |uncounted: &super::UncountedTrials| {
        let mut names: Vec<_> =
            uncounted.tasks.iter().take(NAMED_TASKS).map(|name| one_line(name)).collect();
        if let Some(more) = uncounted.tasks.len().checked_sub(NAMED_TASKS).filter(|more| *more > 0)
        {
            names.push(format!("{more} more"));
        }
        let mut line = format!("not counted, {}: {}", uncounted.outcome.as_str(), names.join(", "));
        if !uncounted.message.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(line, " ({})", one_line(&uncounted.message));
        }
        line
    };
    summary.uncounted.iter().map(line).collect()
}

/// Returns the cells of a row. Another program than Crow has no agents and models.
pub(super) fn cells(row: &SummaryRow, other_program: Option<&str>) -> [String; 12] {
    let unknown = || UNKNOWN.to_owned();
    let name = |name: Option<&str>| name.map_or_else(|| "(default)".to_owned(), one_line);
    let (agent, model) = if other_program.is_some() {
        (one_line(&row.label), unknown())
    } else {
        let model = row.variant.model.as_deref().or(row.used_model.as_deref());
        (name(row.variant.agent.as_deref()), name(model))
    };
    let tokens = match (row.input_tokens, row.output_tokens) {
        (Some(input), Some(output)) => format!("{}/{}", short_count(input), short_count(output)),
        _ => unknown(),
    };
    [
        agent,
        model,
        row.trials.to_string(),
        row.solved.to_string(),
        row.interval.map_or_else(unknown, |interval| interval_text(&interval)),
        row.false_done.to_string(),
        row.stopped.to_string(),
        row.check_timed_out.to_string(),
        row.mean_steps.map_or_else(unknown, |steps| format!("{steps:.1}")),
        tokens,
        row.cost_usd.map_or_else(unknown, |cost| format!("${cost:.4}")),
        row.mean_seconds.map_or_else(unknown, |seconds| format!("{seconds:.1} s")),
    ]
}

fn interval_text(interval: &ConfidenceInterval) -> String {
    format!("{}-{}", percent(interval.low).trim_end_matches(" %"), percent(interval.high))
}

/// Returns a share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Returns a number of tokens with three digits at most.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn short_count(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Aligns cells in columns, the first `left` of which to the left.
pub(crate) fn columns(lines: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        run_folder::sample_run,
        trial::TrialOutcome::{
            AlwaysPasses, CheckTimedOut, FalseDone, SetupFailed, Solved, Stopped,
        },
    };

    #[test]
    fn the_table_counts_each_outcome_and_names_what_is_not_counted() {
        let run = sample_run(
            &["m", "n"],
            &[
                ("a", "m", Solved),
                ("b", "m", FalseDone),
                ("c", "m", Stopped),
                ("d", "m", CheckTimedOut),
                ("e", "m", AlwaysPasses),
                ("f", "m", SetupFailed),
            ],
        );
        let expected = "\
agent      model  trials  solved    95 %  false done  stopped  check hung  steps  tokens in/out     cost   time
(default)  m           4       1  5-70 %           1        1           1    3.0      6.0k/4.0M  $1.0000  2.0 s
(default)  n           0       0       -           0        0           0      -              -        -      -
not counted, set-up failed: f (why)
not counted, invalid: the check always passes: e (why)
";
        assert_eq!(text_table(&RunSummary::new(&run)), expected);
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let mut run = sample_run(&["m"], &[("a", "m", Solved), ("b", "m", Solved)]);
        run.records[1].usage = crate::trial::TrialUsage::default();
        let row = &RunSummary::new(&run).rows[0];
        assert_eq!((row.cost_usd, row.input_tokens, row.mean_steps), (None, None, None));
        assert_eq!(row.mean_seconds, Some(2.0));
    }
}
