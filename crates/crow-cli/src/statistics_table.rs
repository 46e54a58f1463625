//! The table of `stats`: rows by day, model, project, agent or tool, and a sparkline of the days.

use crow_console::{
    ConsoleStyle, Paint,
    words::{count, dollars, duration, tokens},
    wrap::{shorten_end, shorten_start, width},
};
use crow_telemetry::statistics::{Statistics, StatisticsRow};
use crow_text::one_line;
use jiff::{ToSpan as _, civil::Date};

use crate::args::{StatsArgs, StatsGroup};

/// Separator of columns.
const GAP: &str = "  ";
/// Minimum columns of the names.
const NAME: usize = 10;
/// Heights of the sparkline.
const UNICODE: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII: [&str; 8] = ["_", "_", ".", ".", "-", "-", "=", "#"];

/// Renders statistics. `today` ends the days; `home` is shown as `~`.
pub(crate) fn statistics_text(
    style: &ConsoleStyle,
    statistics: &Statistics,
    args: &StatsArgs,
    (today, home): (Date, Option<&str>),
) -> String {
    let total = statistics.total();
    if total.runs == 0 && total.model_calls == 0 {
        let days = count(args.days.into(), "day");
        return format!("Nothing was run in the last {days}.\n");
    }
    let mut out = String::new();
    // 1) The days as a sparkline.
    let costs = statistics.days().map(|(_, row)| row.cost_usd).sum::<f64>() > 0.0;
    let what = if costs { "cost" } else { "tokens" };
    let days = i64::from(args.days.min(60).min(u32::try_from(style.width).unwrap_or(60)));
    let values: Vec<f64> = (0..days)
        .rev()
        .map(|back| {
            let date = today.saturating_sub(back.days());
            let row = statistics.days().find(|(day, _)| *day == date).map(|(_, row)| row);
            row.map_or(0.0, |row| if costs { row.cost_usd } else { row_tokens(row) })
        })
        .collect();
    if values.len() > 1 {
        out.push_str(&sparkline(style, &values));
        out.push('\n');
        let caption = format!("{what} by day, the last {}", count(values.len() as u64, "day"));
        Paint::Dim.write(style, &shorten_end(&caption, style.width, style.glyphs), &mut out);
        out.push('\n');
    }
    // 2) The rows, the largest first; days in their order.
    let mut rows: Vec<(&str, &StatisticsRow)> = statistics.rows().collect();
    if args.by != StatsGroup::Day {
        rows.sort_by(|(_, one), (_, other)| {
            let sizes = |row: &StatisticsRow| (row.cost_usd, row_tokens(row));
            let order = sizes(other).partial_cmp(&sizes(one));
            let calls = other.tool_calls.cmp(&one.tool_calls);
            order.unwrap_or(std::cmp::Ordering::Equal).then(calls)
        });
    }
    let columns = Columns::of(args.by);
    let mut table = vec![columns.heading()];
    for (name, row) in rows {
        let name = match home.filter(|_| args.by == StatsGroup::Project) {
            Some(home) => std::path::Path::new(name)
                .strip_prefix(home)
                .ok()
                .map(|below| format!("~/{}", below.display())),
            None => None,
        }
        .unwrap_or_else(|| name.to_owned());
        table.push(columns.cells(&one_line(&name), row));
    }
    table.push(columns.cells("all", total));
    out.push_str(&Columns::render(style, &table, args.by));
    if total.is_cost_partial {
        let note = "The price of some models is unknown: the cost is higher.";
        Paint::Dim.write(style, &shorten_end(note, style.width, style.glyphs), &mut out);
        out.push('\n');
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "only compared and drawn")]
fn row_tokens(row: &StatisticsRow) -> f64 {
    row.usage.total() as f64
}

fn sparkline(style: &ConsoleStyle, values: &[f64]) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let level = |value: f64| -> usize {
        if value <= 0.0 || highest <= 0.0 {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 7"
        )]
        let level = (value / highest * 6.0).round() as usize;
        level + 1
    };
    values
        .iter()
        .map(|value| style.glyphs.pick(UNICODE[level(*value).min(7)], ASCII[level(*value).min(7)]))
        .collect()
}

/// The columns of a table.
#[derive(Debug, Clone, Copy)]
struct Columns {
    of_calls: bool,
}

impl Columns {
    fn of(group: StatsGroup) -> Self {
        Self { of_calls: group == StatsGroup::Tool }
    }

    fn heading(self) -> Vec<String> {
        let names: &[&str] = if self.of_calls {
            &["TOOL", "CALLS", "FAILED", "TIME"]
        } else {
            &["", "COST", "TOKENS IN", "OUT", "CACHED", "RUNS", "STEPS", "CALLS", "TIME"]
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn cells(self, name: &str, row: &StatisticsRow) -> Vec<String> {
        let percent =
            |part: u64, whole: u64| format!("{} %", part.saturating_mul(100) / whole.max(1));
        if self.of_calls {
            return vec![
                name.to_owned(),
                row.tool_calls.to_string(),
                percent(row.failed_tool_calls, row.tool_calls),
                duration(row.time),
            ];
        }
        let usage = &row.usage;
        let cost = match (row.cost_usd > 0.0, row.is_cost_partial) {
            (false, true) => "-".to_owned(),
            (_, false) => dollars(row.cost_usd),
            (true, true) => format!(">{}", dollars(row.cost_usd)),
        };
        vec![
            name.to_owned(),
            cost,
            tokens(usage.input_tokens),
            tokens(usage.output_tokens),
            percent(usage.cache_read_tokens, usage.input_tokens),
            row.runs.to_string(),
            row.model_calls.to_string(),
            row.tool_calls.to_string(),
            duration(row.time),
        ]
    }

    /// Renders the table; columns at the right that find no room are left out.
    fn render(style: &ConsoleStyle, table: &[Vec<String>], group: StatsGroup) -> String {
        let widths: Vec<usize> = (0..table[0].len())
            .map(|column| table.iter().map(|row| width(&row[column])).max().unwrap_or(0))
            .collect();
        let mut shown = widths.len();
        let needed = |shown: usize| -> usize {
            widths[1..shown].iter().map(|width| width + GAP.len()).sum()
        };
        while shown > 2 && needed(shown) + NAME > style.width {
            shown -= 1;
        }
        let names = widths[0].min(style.width.saturating_sub(needed(shown)).max(NAME));
        let mut out = String::new();
        for (number, row) in table.iter().enumerate() {
            // The end of a path says more than its beginning.
            let name = match group {
                StatsGroup::Project => shorten_start(&row[0], names, style.glyphs),
                _ => shorten_end(&row[0], names, style.glyphs),
            };
            let mut line = format!("{name}{}", " ".repeat(names.saturating_sub(width(&name))));
            for (cell, columns) in row[1..shown].iter().zip(&widths[1..shown]) {
                line.push_str(GAP);
                line.push_str(&" ".repeat(columns.saturating_sub(width(cell))));
                line.push_str(cell);
            }
            let is_sum = number + 1 == table.len();
            let paint = if number == 0 || is_sum { Paint::Bold } else { Paint::Plain };
            paint.write(style, line.trim_end(), &mut out);
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crow_core::model::{ModelRef, Price};
    use crow_telemetry::{TraceBuilder, statistics::StatisticsGroup};
    use crow_testkit::sample::{bad_run, good_run};
    use jiff::tz::TimeZone;

    use super::*;
    use crate::args::OutputForm;

    fn table(by: StatsGroup, columns: usize) -> String {
        let model = ModelRef { provider: "anthropic".into(), model: "claude-sonnet-4-5".into() };
        let price = Price {
            input: 2.0,
            output: 10.0,
            cache_read: 0.2,
            cache_write: 2.5,
            cache_write_1h: 4.0,
        };
        let group = StatisticsGroup::from(by);
        let mut statistics =
            Statistics::new(group, TimeZone::UTC, BTreeMap::from([(model, price)]));
        let stories = [good_run(), bad_run()];
        for (project, story) in ["/srv/user/one", "/srv/two"].iter().zip(&stories) {
            statistics.add_session(project, &TraceBuilder::spans(&story.events));
        }
        let today = stories[0].events[0].time.to_zoned(TimeZone::UTC).date();
        let args = StatsArgs { by, days: 7, cwd: None, output: OutputForm::Text };
        let place = (today, Some("/srv/user"));
        statistics_text(&ConsoleStyle::plain(columns), &statistics, &args, place)
    }

    #[test]
    fn sums_are_shown_by_day_tool_and_project() {
        insta::assert_snapshot!("by_day", table(StatsGroup::Day, 100));
        insta::assert_snapshot!("by_tool", table(StatsGroup::Tool, 100));
        insta::assert_snapshot!("by_project", table(StatsGroup::Project, 100));
    }

    #[test]
    fn sums_fit_a_narrow_screen() {
        for by in [StatsGroup::Day, StatsGroup::Model, StatsGroup::Project, StatsGroup::Tool] {
            let text = table(by, 40);
            assert!(text.lines().all(|line| width(line) <= 40), "{text}");
        }
    }
}
