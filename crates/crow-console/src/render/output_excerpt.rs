//! Output of commands: the last lines of those that failed, the first lines of the others.

use crow_core::tool::{ToolResult, ToolStatus};

use super::{ConsoleStyle, approval_text, change_summary::SHELL, paint::Paint, wrap::shorten_end};

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
        let noun = if left_out == 1 { "line" } else { "lines" };
        format!("{} {left_out} {noun} {suffix}", style.glyphs.pick("…", "..."))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
