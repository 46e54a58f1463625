//! The text that stands in place of the messages that are left out.

use std::{collections::HashSet, fmt::Write as _, sync::Arc};

use crow_core::{
    history::is_summary,
    message::{
        AssistantMessage, Block, CallArguments, Message, ReplyContent, ResultMessage, ToolCall,
    },
};
use crow_text::shorten;

use super::WindowLimits;
use crate::TokenCounter;

/// Characters of a call's arguments in a mechanical summary.
const ARGUMENTS: usize = 120;
/// Characters of a reply's text in a mechanical summary.
const REPLY_TEXT: usize = 240;
/// Characters of the output of an open failure.
const FAILURE_OUTPUT: usize = 1_200;
/// Number of open failures that a summary repeats.
const FAILURES: usize = 3;

/// Heading of the open failures in a summary.
const FAILURES_HEADING: &str = "## Failures that are open";

/// Characters of a message of the user in a transcript.
const TRANSCRIPT_TEXT: usize = 4_000;
/// Characters of an output in a transcript.
const TRANSCRIPT_OUTPUT: usize = 800;

/// Why a summary is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SummaryRejection {
    /// It has no text.
    #[error("the summary was empty")]
    Empty,
    /// It is longer than a summary may be, or than what it replaces.
    #[error("the summary had {tokens} tokens, {most} are allowed")]
    TooLong {
        /// Its length in tokens.
        tokens: u64,
        /// The longest that is accepted.
        most: u64,
    },
}

/// A call that failed and was not repeated with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFailure {
    /// The call, as one line.
    pub call: String,
    /// The end of its output.
    pub output: String,
}

/// Returns what the model is told to write. `focus` is what the user wants to be kept.
pub fn summary_instruction(limits: &WindowLimits, focus: Option<&str>) -> String {
    let words = limits.summary * 3 / 5;
    let mut text = format!(
        "<system-reminder>\nThe conversation so far will be replaced by a summary that \
         you write now; you then go on with the task from it alone. Write only the summary, no calls, at most {words} \
         words, with these headings:\n\
         ## Goal\n(what the user wants, in their words)\n\
         ## Constraints\n(rules and preferences of the user, quoted)\n\
         ## Decisions\n\
         ## Files\n(path: what was read or changed, and its state)\n\
         ## Commands\n(that work, with what they show)\n\
         ## Failures\n(what was tried and did not work, and why)\n\
         ## Next step\n\
         Take over what an earlier summary says that still holds. Write exact paths, names, numbers and error texts."
    );
    if let Some(focus) = focus {
        let _ = write!(text, "\nThe user asks to keep above all: {focus}");
    }
    text.push_str("\n</system-reminder>");
    text
}

/// Checks a summary of the model and returns its text. `replaced` are the tokens of the messages that it replaces.
pub fn check_summary(
    text: &str,
    counter: &dyn TokenCounter,
    limits: &WindowLimits,
    replaced: u64,
) -> Result<String, SummaryRejection> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SummaryRejection::Empty);
    }
    let tokens = counter.text(text);
    let most = (limits.summary * 3 / 2).min(replaced);
    if tokens > most {
        return Err(SummaryRejection::TooLong { tokens, most });
    }
    Ok(text.to_owned())
}

/// Writes a summary without a model: an earlier summary, then the newest calls and texts, a line each, within the limit.
pub fn mechanical_summary(
    messages: &[Arc<Message>],
    counter: &dyn TokenCounter,
    limits: &WindowLimits,
) -> String {
    let mut lines = Vec::new();
    let mut answers: Vec<&ResultMessage> = Vec::new();
    let mut left = limits.summary;
    let mut left_out = 0_usize;
    for message in messages.iter().rev() {
        let line = match message.as_ref() {
            Message::User(_) => continue,
            Message::Results(results) => {
                answers = results.results.iter().collect();
                continue;
            }
            Message::Assistant(reply) => reply_lines(reply, &answers),
        };
        let tokens = counter.text(&line);
        if tokens > left {
            left = 0;
            left_out += 1;
        } else {
            left -= tokens;
            lines.push(line);
        }
    }
    let mut text = String::from("## Steps so far, oldest first\n");
    if left_out > 0 {
        let _ = writeln!(text, "({left_out} earlier replies left out)");
    }
    for line in lines.iter().rev() {
        text.push_str(line);
    }
    text
}

/// Returns what a reply said and called, a line each, with the outcomes that are known.
fn reply_lines(reply: &AssistantMessage, answers: &[&ResultMessage]) -> String {
    let mut text = String::new();
    for block in &reply.blocks {
        match &block.content {
            ReplyContent::Text { text: said } if !said.trim().is_empty() => {
                let _ = writeln!(text, "- said: {}", shorten(said.trim(), REPLY_TEXT));
            }
            ReplyContent::Call(call) => {
                let answer = answers.iter().find(|answer| answer.call_id == call.id);
                let outcome = match answer {
                    Some(answer) if answer.is_error => ": failed",
                    Some(_) => ": ok",
                    None => "",
                };
                let _ = writeln!(text, "- {}{outcome}", call_line(call));
            }
            ReplyContent::Text { .. } | ReplyContent::Thinking { .. } | ReplyContent::Opaque => {}
        }
    }
    text
}

fn call_line(call: &ToolCall) -> String {
    let arguments = match &call.arguments {
        CallArguments::Json(value) => value.to_string(),
        CallArguments::Malformed(text) => text.clone(),
    };
    format!("{} {}", call.name, shorten(&arguments, ARGUMENTS))
}

/// Returns the newest calls before `cut` that failed and were not made again with success, oldest first.
pub fn open_failures(messages: &[Arc<Message>], cut: usize) -> Vec<OpenFailure> {
    let mut failures = Vec::new();
    let mut succeeded: HashSet<String> = HashSet::new();
    let mut answers: &[ResultMessage] = &[];
    for (index, message) in messages.iter().enumerate().rev() {
        match message.as_ref() {
            Message::User(user) if index < cut && is_summary(message) => {
                // Failures from before an earlier compaction, which are still open.
                let earlier = failures_in(&Block::text_of(&user.content));
                let is_open = |failure: &OpenFailure| {
                    !succeeded.contains(&failure.call)
                        && failures.iter().all(|known: &OpenFailure| known.call != failure.call)
                };
                let open: Vec<_> = earlier.into_iter().rev().filter(is_open).collect();
                failures.extend(open);
            }
            Message::User(_) => {}
            Message::Results(results) => answers = &results.results,
            Message::Assistant(reply) => {
                for call in reply.calls() {
                    let Some(answer) = answers.iter().find(|answer| answer.call_id == call.id)
                    else {
                        continue;
                    };
                    let line = call_line(call);
                    if !answer.is_error {
                        succeeded.insert(line);
                    } else if index < cut && !succeeded.contains(&line) {
                        let output = Block::text_of(&answer.content);
                        failures.push(OpenFailure { call: line, output: tail_of(&output) });
                    }
                }
            }
        }
        if failures.len() >= FAILURES {
            break;
        }
    }
    failures.truncate(FAILURES);
    failures.reverse();
    failures
}

/// Returns the end of an output, which mostly has the error.
/// Reads the failures that [`compose_summary`] wrote into a summary: each is a line with the call after `- `, and the
/// output indented.
fn failures_in(summary: &str) -> Vec<OpenFailure> {
    let mut failures: Vec<OpenFailure> = Vec::new();
    let Some((_, section)) = summary.rsplit_once(FAILURES_HEADING) else { return failures };
    for line in section.lines().skip(1) {
        if let Some(call) = line.strip_prefix("- ") {
            failures.push(OpenFailure { call: call.to_owned(), output: String::new() });
        } else if let (Some(text), Some(failure)) = (line.strip_prefix("  "), failures.last_mut()) {
            if !failure.output.is_empty() {
                failure.output.push('\n');
            }
            failure.output.push_str(text);
        } else {
            break;
        }
    }
    failures
}

fn tail_of(output: &str) -> String {
    let count = output.chars().count();
    if count <= FAILURE_OUTPUT {
        return output.to_owned();
    }
    let tail: String = output.chars().skip(count - FAILURE_OUTPUT).collect();
    format!("[…] {tail}")
}

/// Joins the parts of a summary: the text, the failures that are open, the list of tasks.
pub fn compose_summary(text: &str, failures: &[OpenFailure], todo: Option<&str>) -> String {
    let mut summary = text.trim().to_owned();
    if !failures.is_empty() {
        let _ = write!(summary, "\n\n{FAILURES_HEADING}");
        for failure in failures {
            let _ = write!(summary, "\n- {}", failure.call);
            for line in failure.output.lines() {
                let _ = write!(summary, "\n  {line}");
            }
        }
    }
    if let Some(todo) = todo.filter(|todo| !todo.trim().is_empty()) {
        let _ = write!(summary, "\n\n## Todo list\n{}", todo.trim());
    }
    summary
}

/// Writes the conversation as one text for a model whose window cannot take the conversation itself: the newest steps
/// with the beginning and the end of their outputs, within `limit` tokens.
pub fn transcript(messages: &[Arc<Message>], counter: &dyn TokenCounter, limit: u64) -> String {
    let mut parts = Vec::new();
    let mut left = limit;
    for message in messages.iter().rev() {
        let text = match message.as_ref() {
            Message::User(user) => {
                format!("USER: {}\n", excerpt(&Block::text_of(&user.content), TRANSCRIPT_TEXT))
            }
            Message::Results(results) => {
                let outputs = results.results.iter().map(|result| {
                    let outcome = if result.is_error { "FAILED" } else { "RESULT" };
                    let output = excerpt(&Block::text_of(&result.content), TRANSCRIPT_OUTPUT);
                    format!("{outcome} of {}: {output}\n", result.tool)
                });
                outputs.collect()
            }
            Message::Assistant(reply) => reply_lines(reply, &[]),
        };
        let tokens = counter.text(&text);
        if tokens > left {
            parts.push("(earlier steps left out)\n".to_owned());
            break;
        }
        left -= tokens;
        parts.push(text);
    }
    parts.reverse();
    parts.concat()
}

/// Returns the beginning and the end of a text, `most` characters together.
fn excerpt(text: &str, most: usize) -> String {
    let text = text.trim();
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most / 2).collect();
    let tail: String = text.chars().skip(count - most / 2).collect();
    format!("{head}\n[…]\n{tail}")
}
