//! The table and the trials of a run as one page without scripts and other files.

use std::fmt::Write as _;

use crow_text::neutralise;

use super::{
    RunSummary,
    text_table::{HEADINGS, cells, uncounted_lines},
};
use crate::{
    run_folder::StoredRun,
    trial::{TrialOutcome, TrialRecord},
};

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;margin:1em 0;width:100%}th,td{padding:.3em .7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\
th{border-bottom:2px solid #888}.n{text-align:right;font-variant-numeric:tabular-nums}\
.solved{color:#060}.false_done{color:#a00;font-weight:bold}.stopped,.check_timed_out{color:#850}.uncounted{color:#777}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}.solved{color:#6c6}.false_done{color:#f77}.stopped,.check_timed_out{color:#db5}a{color:#8bf}}";

/// Number of columns of the table that hold names.
const NAME_COLUMNS: usize = 2;

/// Returns the page of a run. `folder` is where the run's folder is, seen from the page: empty for the folder itself.
pub fn html_page(run: &StoredRun, folder: &str) -> String {
    let summary = RunSummary::new(run);
    let title = format!("Evaluation of {}", run.manifest.program);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n",
        escaped(&title)
    );
    let began = run.manifest.created.strftime("%Y-%m-%d %H:%M UTC");
    let count = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "<p>{}, {}, begun {began}, measured by Crow {}.</p>",
        count(run.manifest.tasks.len(), "task"),
        count(run.manifest.seeds.len(), "repetition"),
        escaped(&run.manifest.measured_by)
    );
    summary_table(&mut page, &summary);
    for line in uncounted_lines(&summary) {
        let _ = writeln!(page, "<p class=\"uncounted\">{}</p>", escaped(&line));
    }
    trial_table(&mut page, run, folder);
    page.push_str("</html>\n");
    page
}

fn summary_table(page: &mut String, summary: &RunSummary) {
    page.push_str("<table>\n<tr>");
    for (column, heading) in HEADINGS.iter().enumerate() {
        let _ = write!(page, "<th{}>{heading}</th>", class_of(column));
    }
    page.push_str("</tr>\n");
    for row in &summary.rows {
        page.push_str("<tr>");
        for (column, cell) in cells(row, summary.other_program.as_deref()).iter().enumerate() {
            let _ = write!(page, "<td{}>{}</td>", class_of(column), escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn class_of(column: usize) -> &'static str {
    if column < NAME_COLUMNS { "" } else { " class=\"n\"" }
}

fn trial_table(page: &mut String, run: &StoredRun, folder: &str) {
    page.push_str("<h2>Trials</h2>\n<table>\n<tr><th>task</th><th>agent, model</th><th class=\"n\">seed</th><th>outcome</th><th class=\"n\">exit</th><th class=\"n\">steps</th><th class=\"n\">seconds</th><th>logs</th><th>message</th></tr>\n");
    let mut records: Vec<&TrialRecord> = run.records.iter().collect();
    records.sort_by(|one, other| one.key.cmp(&other.key));
    for record in records {
        let number = |number: Option<String>| number.unwrap_or_default();
        let class = match record.outcome {
            TrialOutcome::Solved => "solved",
            TrialOutcome::FalseDone => "false_done",
            TrialOutcome::Stopped => "stopped",
            TrialOutcome::CheckTimedOut => "check_timed_out",
            TrialOutcome::AlwaysPasses
            | TrialOutcome::SetupFailed
            | TrialOutcome::ProgramFailed => "uncounted",
        };
        let late = if record.timed_out { ", timed out" } else { "" };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"{class}\">{}{late}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td>{}</td><td>{}</td></tr>",
            escaped(&record.key.task),
            escaped(&run.manifest.label(&record.key.variant)),
            record.key.seed,
            record.outcome.as_str(),
            number(record.exit_code.map(|code| code.to_string())),
            number(record.usage.steps.map(|steps| steps.to_string())),
            record.seconds,
            log_links(record, folder),
            escaped(&record.message)
        );
    }
    page.push_str("</table>\n");
}

fn log_links(record: &TrialRecord, folder: &str) -> String {
    if record.log.is_empty() {
        return String::new();
    }
    let mut names = vec!["stdout.txt", "stderr.txt"];
    if record.outcome.is_counted() {
        names.push("check.txt");
    }
    let separator = if folder.is_empty() || folder.ends_with('/') { "" } else { "/" };
    let links = names.iter().map(|name| {
        let target = format!("{folder}{separator}{}/{name}", record.log);
        let label = name.trim_end_matches(".txt");
        format!("<a href=\"{}\">{label}</a>", escaped(&percent_encoded(&target)))
    });
    links.collect::<Vec<_>>().join(" ")
}

/// Encodes the characters of a path that mean something in an address.
fn percent_encoded(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Returns a text as the content of an element or an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in neutralise(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_element() {
        assert_eq!(
            escaped("<a b='c'>&\"\u{202e}"),
            format!("&lt;a b=&#39;c&#39;&gt;&amp;&quot;{}", neutralise("\u{202e}"))
        );
        assert_eq!(percent_encoded("a b/\"c\"?"), "a%20b/%22c%22%3F");
    }
}
