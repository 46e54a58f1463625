//! Lines for tool calls and for permission questions.

use std::time::Duration;

use crow_core::{
    permission::{Denial, DenialSource},
    tool::{Subject, ToolResult, ToolStatus},
};

use super::{
    ConsoleStyle, approval_line, approval_text,
    change_summary::is_summarised,
    one_line,
    paint::Paint,
    words,
    wrap::{shorten_middle, width, wrap, wrap_hanging},
};

/// Length of a command, in bytes, above which a question also states its size, since it may not fit on the screen.
const LONG: usize = 2000;

/// Minimum columns of a title.
const LEAST_TITLE: usize = 8;

/// Renders a finished call: mark, title, size of the change, duration; below it the reason of a failure or refusal.
///
/// `agent` is the prefix of the title that names the agent; empty for the primary.
pub(super) fn call_lines(
    style: &ConsoleStyle,
    agent: &str,
    (tool, title): (&str, &str),
    result: &ToolResult,
    denial: Option<&Denial>,
) -> String {
    let (mark, paint) = mark(style, result, denial);
    let mut tail = vec![change(tool, result)];
    match denial {
        Some(denial) => tail.push(refused_by(denial).to_owned()),
        None => tail.push(words::duration(Duration::from_millis(result.metadata.duration_ms))),
    }
    tail.retain(|part| !part.is_empty());
    // The tail keeps its full width; the title gets the rest of the line.
    let tail = tail.iter().flat_map(|part| ["  ", part.as_str()]).collect::<String>();
    let fixed = width(mark) + width(agent) + width(&tail) + 2;
    let room = style.width.saturating_sub(fixed).max(LEAST_TITLE);
    let mut lines = String::new();
    paint.write(style, mark, &mut lines);
    lines.push(' ');
    Paint::Dim.write(style, agent, &mut lines);
    lines.push_str(&shorten_middle(&one_line(title), room, style.glyphs));
    Paint::Dim.write(style, &tail, &mut lines);
    lines.push('\n');
    match denial {
        Some(denial) => lines.push_str(&refusal(style, denial)),
        None => lines.push_str(&failure(style, result)),
    }
    lines
}

/// Renders the question whether a call may run.
pub(super) fn question(style: &ConsoleStyle, agent: &str, title: &str, reason: &str) -> String {
    let mark = style.glyphs.pick("?", "?");
    let text = format!("{agent}{}: {}", approval_line(title), one_line(reason));
    wrap_hanging(style, Paint::Yellow, (&format!("{mark} "), "  "), &text)
}

/// Renders the complete command if the title abbreviates it: a user who allows it must have seen all of it.
pub(super) fn whole_command(style: &ConsoleStyle, title: &str, subject: &Subject) -> String {
    let command = match subject {
        Subject::Command(command) if command.text.trim() != title => &command.text,
        Subject::Command(_) | Subject::Path(_) | Subject::Nothing => return String::new(),
    };
    let lines = command
        .trim_end()
        .lines()
        .map(|line| wrap_hanging(style, Paint::Plain, ("  | ", "    "), &approval_text(line)));
    let mut shown: String = lines.collect();
    if command.len() > LONG {
        let size = format!(
            "the command has {} characters; all of them are above",
            command.chars().count()
        );
        shown.push_str(&wrap(style, Paint::Yellow, "  ", &size));
    }
    shown
}

fn mark(
    style: &ConsoleStyle,
    result: &ToolResult,
    denial: Option<&Denial>,
) -> (&'static str, Paint) {
    let glyphs = style.glyphs;
    match (denial, result.status) {
        (Some(_), _) => (glyphs.pick("⊘", "refused"), Paint::Yellow),
        (None, ToolStatus::Success) => (glyphs.pick("✓", "ok"), Paint::Green),
        (None, ToolStatus::Error) => (glyphs.pick("✗", "failed"), Paint::Red),
        (None, ToolStatus::Cancelled) => (glyphs.pick("■", "stopped"), Paint::Yellow),
    }
}

fn change(tool: &str, result: &ToolResult) -> String {
    match &result.metadata.diff {
        Some(patch) if !is_summarised(tool, result) => {
            format!("+{} -{}", patch.additions(), patch.deletions())
        }
        Some(_) | None => String::new(),
    }
}

fn refused_by(denial: &Denial) -> &'static str {
    match denial.source {
        DenialSource::User => "refused by you",
        DenialSource::Policy => "refused by policy",
    }
}

fn refusal(style: &ConsoleStyle, denial: &Denial) -> String {
    let mut lines = String::new();
    let reason = one_line(&denial.reason);
    if !reason.is_empty() {
        lines.push_str(&wrap(style, Paint::Plain, "  ", &reason));
    }
    match denial.source {
        DenialSource::User => {}
        DenialSource::Policy => {
            if let Some(hint) = style.hints.for_refusal(&reason) {
                lines.push_str(&wrap(style, Paint::Dim, "  ", &hint));
            }
        }
    }
    lines
}

fn failure(style: &ConsoleStyle, result: &ToolResult) -> String {
    match result.status {
        ToolStatus::Success => String::new(),
        ToolStatus::Error => {
            let first = |text: &str| {
                let mut lines = text.lines().map(one_line).filter(|line| !line.is_empty());
                let line = lines.next()?;
                // A line that ends with a colon is joined with the next one.
                match lines.next().filter(|_| line.ends_with(':')) {
                    Some(next) => Some(format!("{line} {next}")),
                    None => Some(line),
                }
            };
            // Logs of older versions contain errors that end with the colon: the output has the rest.
            let is_complete = |error: &String| !error.ends_with(':');
            let error = result.error.as_deref().and_then(first).filter(is_complete);
            let error = error.or_else(|| first(&result.output)).or_else(|| result.error.clone());
            error.map_or_else(String::new, |error| wrap(style, Paint::Red, "  ", &error))
        }
        ToolStatus::Cancelled => {
            let first = result.output.lines().map(one_line).find(|line| !line.is_empty());
            first.map_or_else(String::new, |line| wrap(style, Paint::Dim, "  ", &line))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PermissionsHint, ProgramHints, render::Glyphs};

    fn lines(
        style: &ConsoleStyle,
        title: &str,
        result: &ToolResult,
        denial: Option<&Denial>,
    ) -> String {
        call_lines(style, "", ("bash", title), result, denial)
    }

    #[test]
    fn a_call_line_has_mark_title_and_duration() {
        let mut result = ToolResult::success("");
        result.metadata.duration_ms = 1234;
        let style = ConsoleStyle::plain(80);
        assert_eq!(lines(&style, "cargo test", &result, None), "✓ cargo test  1.2 s\n");
        let ascii = ConsoleStyle { glyphs: Glyphs::Ascii, ..style };
        assert_eq!(lines(&ascii, "cargo test", &result, None), "ok cargo test  1.2 s\n");
        assert_eq!(
            lines(&style, "cargo test", &ToolResult::cancelled(), None),
            "■ cargo test  0 ms\n  The call was cancelled before it finished. What it did until then was not\n  undone.\n"
        );
    }

    #[test]
    fn a_failure_shows_the_first_line_of_its_error() {
        let result = ToolResult::failure("\u{1b}[31mno such file\nsecond line");
        assert_eq!(
            lines(&ConsoleStyle::plain(80), "read a", &result, None),
            "✗ read a  0 ms\n  ␛[31mno such file\n"
        );
    }

    #[test]
    fn a_failure_whose_first_line_ends_with_a_colon_shows_what_the_colon_announces() {
        let message =
            "The arguments of edit_file do not fit:\n- old is not known\n- old_string is missing";
        let shown = "✗ edit a  0 ms\n  The arguments of edit_file do not fit: - old is not known\n";
        let fresh = ToolResult::failure(message);
        let mut logged = fresh.clone();
        logged.error = Some("The arguments of edit_file do not fit:".to_owned());
        for result in [fresh, logged] {
            assert_eq!(lines(&ConsoleStyle::plain(80), "edit a", &result, None), shown);
        }
        let mut empty = ToolResult::failure("it failed:");
        empty.output = String::new();
        let shown = "✗ edit a  0 ms\n  it failed:\n";
        assert_eq!(lines(&ConsoleStyle::plain(80), "edit a", &empty, None), shown);
    }

    #[test]
    fn a_refusal_names_its_source_and_the_flag_once() {
        let advice = "--permissions full-auto permits it";
        let permissions = Some(PermissionsHint { option: "--permissions", advice });
        let hints = ProgramHints { permissions, ..ProgramHints::default() };
        let style = ConsoleStyle { hints, ..ConsoleStyle::plain(120) };
        let result = ToolResult::failure("refused");
        let denial = |source, reason: &str| Denial { source, reason: reason.into() };
        let table = [
            (
                denial(DenialSource::Policy, "it changes files"),
                format!("  it changes files\n  {advice}\n"),
            ),
            (
                denial(DenialSource::Policy, "nobody to ask; see --permissions"),
                "  nobody to ask; see --permissions\n".to_owned(),
            ),
            (denial(DenialSource::User, ""), String::new()),
            (denial(DenialSource::User, "use b.rs"), "  use b.rs\n".to_owned()),
        ];
        for (denial, below) in table {
            let text = lines(&style, "edit a.rs", &result, Some(&denial));
            assert_eq!(text, format!("⊘ edit a.rs  {}\n{below}", refused_by(&denial)));
        }
    }

    #[test]
    fn a_long_title_is_shortened_in_the_middle() {
        let text = lines(
            &ConsoleStyle::plain(40),
            "edit crates/crow-cli/src/render/console.rs",
            &ToolResult::success(""),
            None,
        );
        assert_eq!(width(text.trim_end()), 39, "{text}");
    }
}
