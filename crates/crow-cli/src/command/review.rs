//! The command `review`: a read-only agent looks at changes or files, and reports findings.

use std::fmt::Write as _;

use crow_app::ProcessEnvironment;
use crow_console::ExitCode;
use crow_core::message::{Block, PromptCommand, UserPrompt};
use crow_text::{neutralise, one_line};
use serde_json::{Value, json};

use crate::{
    args::{Permissions, ReviewArgs},
    error::CliError,
    run::{AgentRequest, AnswerForm, OutputSchema, RunRequest, start},
};

/// The agent that reviews, unless another one is named: it has no tools that change something.
const READER: &str = "explorer";
/// The place of the changes in the prompt.
const CHANGES: &str = "{changes}";
/// The severities, the worst first.
const SEVERITIES: [&str; 3] = ["high", "medium", "low"];

/// Reviews changes or files. The exit code says whether there are findings.
pub(crate) async fn review(
    args: ReviewArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let prompt = prompt(&args)?;
    let mut agent = AgentRequest::of_review(args.agent);
    agent.agent.get_or_insert_with(|| READER.to_owned());
    agent.permissions.get_or_insert(Permissions::ReadOnly);
    let schema = OutputSchema::new(schema()).map_err(CliError::failed)?;
    let form = AnswerForm { schema, show: show_findings };
    start(RunRequest::of_review(prompt, form, args.output, agent), environment).await
}

/// Returns the prompt. The changes are shown by git, which the agent's shell runs before the model reads it.
fn prompt(args: &ReviewArgs) -> Result<UserPrompt, CliError> {
    let mut text = String::from(
        "Review code. You change nothing. Look for what is wrong: faults in logic, cases that are not handled, lost or wrong data, security holes, races, leaks, interfaces that break, tests that cannot fail. Read the code around a place before you call it wrong, and look for whoever calls it. Leave out matters of taste, and what you are not sure enough of to defend.\n\n",
    );
    let mut commands = Vec::new();
    let git = |line: &str, words: Vec<String>| PromptCommand {
        place: CHANGES.to_owned(),
        line: line.to_owned(),
        argument: String::new(),
        words,
        is_required: true,
    };
    if let Some(base) = &args.base {
        if base.is_empty() || base.starts_with('-') || base.chars().any(char::is_control) {
            return Err(CliError::usage(format!("--base: {base:?} is no name of a commit")));
        }
        let _ = writeln!(text, "The changes since `{}`:\n{CHANGES}", one_line(base));
        commands.push(git(
            "git --no-pager diff --no-ext-diff --no-textconv \"$1\"...HEAD --",
            vec![base.clone()],
        ));
    } else if args.staged {
        let _ = writeln!(text, "The changes that are staged for the next commit:\n{CHANGES}");
        commands
            .push(git("git --no-pager diff --no-ext-diff --no-textconv --staged --", Vec::new()));
    } else if args.files.is_empty() {
        let _ = writeln!(
            text,
            "The changes that are not committed, and the files that git does not know:\n{CHANGES}"
        );
        commands.push(git(
            "git --no-pager diff --no-ext-diff --no-textconv HEAD -- && git status --short --untracked-files=all",
            Vec::new(),
        ));
    } else {
        text.push_str("These files and folders:\n");
        for file in &args.files {
            if !file.exists() {
                return Err(CliError::usage(format!("there is no {}", file.display())));
            }
            let _ = writeln!(text, "- {}", one_line(&file.display().to_string()));
        }
    }
    text.push_str(
        "\nIf they are long, only a part stands here: read the rest from the files. Report each finding with the file, the line in it as it is now, how severe it is, and how sure you are, from 0 to 1. An empty list means that you found nothing.",
    );
    if let Some(focus) = args.focus.as_deref().filter(|focus| !focus.trim().is_empty()) {
        let _ = write!(text, "\n\nLook above all for this: {focus}");
    }
    Ok(UserPrompt { content: vec![Block::text(text)], commands })
}

/// Returns the schema of the findings.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "findings": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string", "description": "path from the root of the project"},
                        "line": {"type": "integer", "minimum": 1},
                        "last_line": {"type": "integer", "minimum": 1},
                        "severity": {"enum": SEVERITIES},
                        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                        "title": {"type": "string", "minLength": 1, "maxLength": 200},
                        "explanation": {"type": "string", "description": "what happens, when, and how it could be mended"},
                    },
                    "required": ["file", "line", "severity", "confidence", "title", "explanation"],
                    "additionalProperties": false,
                },
            },
            "summary": {"type": "string"},
        },
        "required": ["findings", "summary"],
        "additionalProperties": false,
    })
}

/// Shows the findings, the worst first.
fn show_findings(value: &Value) -> (String, ExitCode) {
    let mut findings: Vec<&Value> = value["findings"].as_array().into_iter().flatten().collect();
    let rank = |finding: &Value| {
        let severity = finding["severity"].as_str().unwrap_or_default();
        SEVERITIES.iter().position(|known| *known == severity)
    };
    let doubt = |finding: &Value| 1.0 - finding["confidence"].as_f64().unwrap_or_default();
    findings.sort_by(|one, other| {
        rank(one).cmp(&rank(other)).then(doubt(one).total_cmp(&doubt(other)))
    });
    let text_of = |finding: &Value, name: &str| {
        neutralise(finding[name].as_str().unwrap_or_default()).trim().to_owned()
    };
    let mut text = String::new();
    for finding in &findings {
        let file = one_line(&text_of(finding, "file"));
        let line = number(&finding["line"]).unwrap_or_default();
        let place = match number(&finding["last_line"]).filter(|last| *last > line) {
            Some(last) => format!("{file}:{line}-{last}"),
            None => format!("{file}:{line}"),
        };
        let percent = (finding["confidence"].as_f64().unwrap_or_default() * 100.0).round();
        let _ = writeln!(
            text,
            "{place}  {}, {percent} % sure: {}",
            text_of(finding, "severity"),
            one_line(&text_of(finding, "title"))
        );
        for line in text_of(finding, "explanation").lines() {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
    }
    let count = match findings.len() {
        0 => "No findings.".to_owned(),
        1 => "1 finding.".to_owned(),
        count => format!("{count} findings."),
    };
    let summary = value["summary"].as_str().map(neutralise).unwrap_or_default();
    let _ = write!(text, "{count} {}", summary.trim());
    let code = if findings.is_empty() { ExitCode::Done } else { ExitCode::Findings };
    (text.trim_end().to_owned(), code)
}

/// Returns the number of a line. `3.0` is an integer for JSON Schema, too.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.to_string().strip_suffix(".0")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_shown_with_the_worst_first() {
        let finding = |file: &str, severity: &str, confidence: f64| {
            json!({
                "file": file, "line": 3, "severity": severity, "confidence": confidence,
                "title": "t", "explanation": "why\nand how",
            })
        };
        let value = json!({
            "findings": [
                finding("low.rs", "low", 0.9),
                finding("doubtful.rs", "high", 0.4),
                finding("sure.rs", "high", 0.95),
            ],
            "summary": "Two faults \u{1b}[31mand a nit.",
        });
        let (text, code) = show_findings(&value);
        insta::assert_snapshot!(text);
        assert_eq!(code, ExitCode::Findings);
        let none = json!({"findings": [], "summary": "Fine."});
        assert_eq!(show_findings(&none), ("No findings. Fine.".to_owned(), ExitCode::Done));
    }

    #[test]
    fn the_schema_of_findings_is_one() {
        let schema = OutputSchema::new(schema()).unwrap();
        assert!(schema.check(r#"{"findings": [], "summary": ""}"#).is_ok());
        assert!(schema.check(r#"{"findings": [{"file": "a"}], "summary": ""}"#).is_err());
    }
}
