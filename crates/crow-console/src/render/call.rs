//! Lines for tool calls, with an excerpt of the output and a summary of the file changes, and for questions to the user.

use std::{fmt::Write as _, path::Path, time::Duration};

use crow_core::{
    capability::{QuestionAnswer, UserQuestion},
    permission::{Denial, DenialSource},
    tool::{NotRestorable, Subject, ToolResult, ToolStatus},
};

use super::{
    ConsoleStyle, Visibility, approval_line, approval_text, one_line,
    style::Paint,
    words,
    wrap::{shorten_end, shorten_middle, width, wrap, wrap_hanging},
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
        Subject::Command(_) | Subject::Path(_) | Subject::Host(_) | Subject::Nothing => {
            return String::new();
        }
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
        DenialSource::Hook => "refused by a hook",
    }
}

fn refusal(style: &ConsoleStyle, denial: &Denial) -> String {
    let mut lines = String::new();
    let reason = one_line(&denial.reason);
    if !reason.is_empty() {
        lines.push_str(&wrap(style, Paint::Plain, "  ", &reason));
    }
    match denial.source {
        DenialSource::User | DenialSource::Hook => {}
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

/// Name of the shell tool. It can change any number of files, so its changes are summarised instead of shown as a diff.
const SHELL: &str = "bash";
/// Maximum number of files that are named.
const NAMED: usize = 3;

/// Returns true if the change is summarised: it comes from the shell, or the diff lacks some of the changed files.
pub(super) fn is_summarised(tool: &str, result: &ToolResult) -> bool {
    let Some(counts) = &result.metadata.changes else { return false };
    let in_diff = result.metadata.diff.as_ref().map_or(0, |patch| patch.files.len() as u64);
    counts.paths() > 0 && (tool == SHELL || counts.paths() > in_diff)
}

/// Renders the summary of the changes, and below it the limits of an undo: changes that cannot be restored or may be
/// foreign.
pub(super) fn change_summary(style: &ConsoleStyle, tool: &str, result: &ToolResult) -> String {
    let mut lines = String::new();
    if is_summarised(tool, result) {
        lines.push_str(&wrap(style, Paint::Dim, "  ", &summary(result)));
    }
    let irreversible = &result.metadata.not_restorable;
    if !irreversible.is_empty() {
        lines.push_str(&wrap(style, Paint::Yellow, "  ", &cannot_be_undone(irreversible)));
    }
    if result.metadata.shared {
        let text = "others may have made some of these changes; an undo leaves those alone";
        lines.push_str(&wrap(style, Paint::Dim, "  ", text));
    }
    lines
}

fn summary(result: &ToolResult) -> String {
    let counts = result.metadata.changes.unwrap_or_default();
    let mut text = format!("{} changed", words::count(counts.paths(), "file"));
    // Writing to a string cannot fail.
    if counts.additions + counts.deletions > 0 {
        let _ = write!(text, ", +{} -{}", counts.additions, counts.deletions);
    }
    for (count, kind) in [(counts.created, "new"), (counts.deleted, "deleted")] {
        if count > 0 {
            let _ = write!(text, ", {count} {kind}");
        }
    }
    let files = &result.metadata.files_modified;
    if !files.is_empty() && files.len() <= NAMED && files.len() as u64 == counts.paths() {
        let names: Vec<_> = files.iter().map(|file| name(file)).collect();
        let _ = write!(text, ": {}", names.join(", "));
    }
    text
}

fn cannot_be_undone(irreversible: &[NotRestorable]) -> String {
    let mut names: Vec<_> = irreversible
        .iter()
        .take(NAMED)
        .map(|change| format!("{} ({})", name(&change.path), one_line(&change.reason)))
        .collect();
    if irreversible.len() > NAMED {
        names.push(format!("{} more", irreversible.len() - NAMED));
    }
    format!("{} cannot be undone: {}", irreversible.len(), names.join(", "))
}

/// Returns the last component of a path; the title of the call shows the directory.
fn name(path: &Path) -> String {
    let last = path.file_name().unwrap_or(path.as_os_str());
    one_line(&last.to_string_lossy())
}

/// Maximum number of lines shown of a successful command.
const FIRST: usize = 5;
/// Maximum number of lines shown of a failed or cancelled command.
const LAST: usize = 12;
const INDENT: &str = "  ";
const NOTHING: &str = "(no output)";

/// Renders an excerpt of the output of a shell command; empty for other tools.
pub(super) fn output_excerpt(style: &ConsoleStyle, tool: &str, result: &ToolResult) -> String {
    if tool != SHELL {
        return String::new();
    }
    let mut lines = lines_of(&result.output);
    lines.drain(..lines_shown_as_reason(result, &lines));
    let (excerpt, left_out, paint) = match result.status {
        ToolStatus::Success => {
            let (first, rest) = lines.split_at(lines.len().min(FIRST));
            (first, rest.len(), Paint::Dim)
        }
        ToolStatus::Error | ToolStatus::Cancelled => {
            let (before, last) = lines.split_at(lines.len().saturating_sub(LAST));
            (last, before.len(), Paint::Plain)
        }
    };
    let count = |suffix: &str| {
        let lines = words::count(left_out as u64, "line");
        format!("{} {lines} {suffix}", style.glyphs.pick("…", "..."))
    };
    let mut text = String::new();
    if left_out > 0 && result.status != ToolStatus::Success {
        line(style, Paint::Dim, &count("before"), &mut text);
    }
    for row in excerpt {
        line(style, paint, row, &mut text);
    }
    if left_out > 0 && result.status == ToolStatus::Success {
        line(style, Paint::Dim, &count("more"), &mut text);
    }
    text
}

/// Returns how many of the first lines are already shown as the reason of the failure: those of a command that never
/// ran, or whose end is unknown (no `exit_code`). A line that ends with a colon counts together with the next one.
fn lines_shown_as_reason(result: &ToolResult, lines: &[&str]) -> usize {
    let has_ended = result.metadata.extra.get("exit_code").is_some();
    let (false, Some(first)) = (has_ended, lines.first()) else { return 0 };
    match (result.status, result.error.as_deref()) {
        (ToolStatus::Success, _) => 0,
        (ToolStatus::Error | ToolStatus::Cancelled, Some(error)) if error != *first => {
            let next = lines.get(1).filter(|_| first.ends_with(':'));
            if next.is_some_and(|next| error == format!("{first} {next}")) { 2 } else { 0 }
        }
        (ToolStatus::Error | ToolStatus::Cancelled, _) => 1,
    }
}

/// Returns the lines of an output without the notes in brackets at its end, which repeat the line of the call.
fn lines_of(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    let is_note = |line: &str| line.is_empty() || line.starts_with('[') && line.ends_with(']');
    while lines.last().is_some_and(|line| is_note(line)) {
        lines.pop();
    }
    if lines == [NOTHING] {
        lines.clear();
    }
    lines
}

fn line(style: &ConsoleStyle, paint: Paint, content: &str, text: &mut String) {
    let room = style.width.saturating_sub(INDENT.len() + 1);
    text.push_str(INDENT);
    paint.write(style, &shorten_end(&approval_text(content), room, style.glyphs), text);
    text.push('\n');
}

/// Renders the question and its choices, numbered from 1. `agent` is the prefix that names the agent; empty for the
/// primary.
pub(super) fn user_question(style: &ConsoleStyle, agent: &str, question: &UserQuestion) -> String {
    let header = question.header.as_ref().map(|header| format!("{}: ", approval_line(header)));
    let mut lines = String::new();
    let mut before = format!("{agent}{}", header.unwrap_or_default());
    let mut prefix = "? ";
    for line in question.text.lines() {
        let text = format!("{}{}", std::mem::take(&mut before), approval_text(line));
        lines.push_str(&wrap_hanging(style, Paint::Yellow, (prefix, "  "), &text));
        prefix = "  ";
    }
    let last = question.choices.len().to_string().len();
    for (number, choice) in (1..).zip(&question.choices) {
        let first = format!("  {number:>last$}  ");
        let rest = " ".repeat(width(&first));
        let mut text = approval_line(&choice.label);
        if let Some(description) = &choice.description {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {}", approval_line(description));
        }
        lines.push_str(&wrap_hanging(style, Paint::Plain, (&first, &rest), &text));
    }
    lines
}

/// Renders the answer of the user. If there was no user, the result of the call says so.
pub(super) fn user_answer(style: &ConsoleStyle, agent: &str, answer: &QuestionAnswer) -> String {
    if style.questions == Visibility::Hide {
        return String::new();
    }
    let reply = match answer {
        QuestionAnswer::Text { text } => format!("you: {}", approval_line(text)),
        QuestionAnswer::Chosen { labels } => format!("you: {}", approval_line(&labels.join(", "))),
        QuestionAnswer::Declined => "you gave no answer".to_owned(),
        QuestionAnswer::Nobody { .. } => return String::new(),
    };
    wrap(style, Paint::Dim, style.glyphs.pick("· ", "- "), &format!("{agent}{reply}"))
}

#[cfg(test)]
mod tests {
    use crow_core::{
        capability::QuestionChoice,
        tool::{ChangeCounts, FileDiff, Patch},
    };

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

    fn result(files: &[&str], counts: ChangeCounts) -> ToolResult {
        let mut result = ToolResult::success("");
        result.metadata.files_modified = files.iter().map(Into::into).collect();
        result.metadata.changes = Some(counts);
        let files = files.iter().map(|file| FileDiff::of_text(Path::new(file), "a\n", "b\n"));
        result.metadata.diff = Some(Patch { files: files.collect() });
        result
    }

    fn counts(created: u64, modified: u64, deleted: u64) -> ChangeCounts {
        ChangeCounts { created, deleted, modified, additions: 5, deletions: 2 }
    }

    fn shown(tool: &str, result: &ToolResult) -> String {
        change_summary(&ConsoleStyle::plain(80), tool, result)
    }

    #[test]
    fn the_summary_of_a_command_names_up_to_three_files() {
        let table = [
            (vec!["/p/a.md"], counts(0, 1, 0), "  1 file changed, +5 -2: a.md\n"),
            (
                vec!["/p/a.md", "/p/\u{1b}b.md", "/p/c"],
                counts(1, 1, 1),
                "  3 files changed, +5 -2, 1 new, 1 deleted: a.md, ␛b.md, c\n",
            ),
            (
                vec!["/p/a", "/p/b", "/p/c", "/p/d"],
                counts(0, 0, 4),
                "  4 files changed, +5 -2, 4 deleted\n",
            ),
        ];
        for (files, counts, expected) in table {
            assert_eq!(shown("bash", &result(&files, counts)), expected);
        }
        assert_eq!(shown("bash", &ToolResult::success("nothing changed")), "");
    }

    #[test]
    fn an_edit_is_summarised_only_if_its_diff_is_incomplete() {
        assert_eq!(shown("edit_file", &result(&["/p/a.md"], counts(0, 1, 0))), "");
        let summary = shown("my_tool", &result(&["/p/a.md"], counts(0, 9, 0)));
        assert_eq!(summary, "  9 files changed, +5 -2\n");
    }

    #[test]
    fn irreversible_changes_are_named_with_the_reason() {
        let lost = |path: &str| NotRestorable { path: path.into(), reason: "too large".into() };
        let mut result = result(&["/p/a"], counts(0, 1, 0));
        result.metadata.not_restorable = vec![lost("/p/big.bin")];
        assert!(shown("bash", &result).contains("1 cannot be undone: big.bin (too large)"));
        result.metadata.not_restorable = ["/a", "/b", "/c", "/d", "/e"].map(lost).to_vec();
        assert!(shown("bash", &result).contains("c (too large), 2 more"));
        result.metadata.shared = true;
        assert!(shown("bash", &result).ends_with("an undo leaves those alone\n"));
    }

    fn numbered(count: usize, end: &str) -> String {
        let lines: Vec<_> = (1..=count).map(|number| format!("line {number}")).collect();
        format!("{}\n[{end}]", lines.join("\n"))
    }

    fn failed(output: String) -> ToolResult {
        let mut result = ToolResult { status: ToolStatus::Error, ..ToolResult::success(output) };
        result.metadata.extra = serde_json::json!({"exit_code": 1});
        result
    }

    #[test]
    fn the_reason_of_a_command_that_never_ran_is_not_repeated() {
        let style = ConsoleStyle::plain(80);
        let table = [
            (ToolResult::failure("the command is empty"), ""),
            (ToolResult::failure("it was not run:\nno shell"), ""),
            (ToolResult::cancelled(), ""),
            (
                ToolResult { error: Some("timed out".into()), ..ToolResult::failure("a\n[end]") },
                "  a\n",
            ),
        ];
        for (result, expected) in table {
            assert_eq!(output_excerpt(&style, SHELL, &result), expected, "{result:?}");
        }
        let mut same = ToolResult { error: Some("a".into()), ..failed("a\n[exit code 1]".into()) };
        assert_eq!(output_excerpt(&style, SHELL, &same), "  a\n");
        same.metadata.extra = serde_json::Value::Null;
        assert_eq!(output_excerpt(&style, SHELL, &same), "");
    }

    #[test]
    fn the_beginning_of_the_output_of_a_successful_command_is_shown() {
        let style = ConsoleStyle::plain(80);
        let shown = |count| {
            output_excerpt(&style, SHELL, &ToolResult::success(numbered(count, "exit code 0")))
        };
        assert_eq!(shown(2), "  line 1\n  line 2\n");
        assert_eq!(shown(6), "  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n  … 1 line more\n");
        assert!(shown(40).ends_with("  line 5\n  … 35 lines more\n"));
        assert_eq!(
            output_excerpt(&style, SHELL, &ToolResult::success("(no output)\n[exit code 0]")),
            ""
        );
        assert_eq!(output_excerpt(&style, "grep", &ToolResult::success("a\nb")), "");
    }

    #[test]
    fn the_end_of_the_output_of_a_failed_command_is_shown() {
        let style = ConsoleStyle::plain(80);
        let text = output_excerpt(&style, SHELL, &failed(numbered(40, "exit code 1")));
        assert!(text.starts_with("  … 28 lines before\n  line 29\n"), "{text}");
        assert!(text.ends_with("  line 40\n"), "{text}");
    }

    #[test]
    fn a_line_of_output_is_neutralised_and_fits_the_screen() {
        let style = ConsoleStyle::plain(20);
        let text = output_excerpt(
            &style,
            SHELL,
            &failed(format!("\u{1b}[2J{}\n[exit code 1]", "x".repeat(40))),
        );
        assert!(!text.contains('\u{1b}') && text.lines().count() == 1, "{text}");
        assert!(super::super::wrap::width(text.trim_end()) <= 19, "{text}");
    }

    #[test]
    fn a_question_shows_its_choices_and_nothing_of_it_commands_the_terminal() {
        let choice = |label: &str, description: Option<&str>| QuestionChoice {
            label: label.into(),
            description: description.map(str::to_owned),
        };
        let question = UserQuestion {
            text: "Which database\u{1b}[2J should it be?\nIt cannot be changed later.".into(),
            header: Some("data".into()),
            choices: vec![
                choice("SQLite", Some("one file, nothing to run, which is enough for one person")),
                choice("Postgre\nSQL", None),
            ],
            multiple: false,
            free_text: true,
        };
        let style = ConsoleStyle::plain(50);
        insta::assert_snapshot!(user_question(&style, "planner: ", &question), @"
        ? planner: data: Which database␛[2J should it be?
          It cannot be changed later.
          1  SQLite: one file, nothing to run, which is
             enough for one person
          2  Postgre SQL
        ");
    }

    #[test]
    fn the_answer_of_the_user_takes_one_line() {
        let style = ConsoleStyle { questions: Visibility::Show, ..ConsoleStyle::plain(80) };
        let table = [
            (QuestionAnswer::Text { text: "the\nold one".into() }, "· you: the old one\n"),
            (QuestionAnswer::Chosen { labels: vec!["a".into(), "b".into()] }, "· you: a, b\n"),
            (QuestionAnswer::Declined, "· you gave no answer\n"),
            (QuestionAnswer::Nobody { hint: "no terminal".into() }, ""),
        ];
        for (answer, expected) in table {
            assert_eq!(user_answer(&style, "", &answer), expected);
        }
    }
}
