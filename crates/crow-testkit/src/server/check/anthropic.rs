//! Checks of Anthropic Messages requests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Rule;
use super::body::{Findings, field, list, text};

/// Maximum number of cache marks in a request.
const MAX_MARKS: usize = 4;

/// Checks required fields, roles, tools, the pairing of calls and results, and cache marks.
pub(super) fn check(body: &Value, found: &mut Findings) {
    found.demand_streaming_model(body);
    found.demand(Rule::Required, field(body, "max_tokens").as_u64().is_some_and(|n| n > 0), || {
        "max_tokens is missing".to_owned()
    });
    let messages = list(body, "messages");
    found.demand(Rule::Required, !messages.is_empty(), || "messages are empty".to_owned());
    check_roles(messages, found);
    check_tools(body, messages, found);
    check_pairing(messages, found);
    check_marks(body, messages, found);
}

fn check_roles(messages: &[Value], found: &mut Findings) {
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        found.demand(Rule::Roles, matches!(role, "user" | "assistant"), || {
            format!("message {index} has role {role:?}")
        });
        if index == 0 {
            found.demand(Rule::Roles, role == "user", || {
                format!("the first message has role {role:?}, not user")
            });
        }
        match field(message, "content") {
            Value::String(content) => {
                found.demand(Rule::Roles, !content.trim().is_empty(), || {
                    format!("message {index} is blank")
                });
            }
            Value::Array(blocks) if !blocks.is_empty() => {
                for block in blocks {
                    check_block(index, role, block, found);
                }
            }
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => found.add(
                Rule::Roles,
                format!("the content of message {index} is {other}, not text or blocks"),
            ),
        }
    }
}

fn check_block(index: usize, role: &str, block: &Value, found: &mut Findings) {
    let kind = text(block, "type");
    let is_legal = match kind {
        "text" => {
            found.demand(Rule::Roles, !text(block, "text").trim().is_empty(), || {
                format!("message {index} has a blank text block")
            });
            true
        }
        "tool_use" => {
            found.demand(Rule::Roles, field(block, "input").is_object(), || {
                format!("the input of a tool_use in message {index} is not an object")
            });
            role == "assistant"
        }
        "thinking" | "redacted_thinking" => role == "assistant",
        "tool_result" | "image" | "document" => role == "user",
        _ => true,
    };
    found.demand(Rule::Roles, is_legal, || {
        format!("message {index} of role {role:?} has a block of type {kind:?}")
    });
}

/// Checks that a request with calls in its history declares tools; the service refuses it otherwise.
fn check_tools(body: &Value, messages: &[Value], found: &mut Findings) {
    let mut blocks = messages.iter().flat_map(|message| list(message, "content"));
    let has_calls = blocks.any(|block| matches!(text(block, "type"), "tool_use" | "tool_result"));
    found.demand(Rule::Tools, !has_calls || !list(body, "tools").is_empty(), || {
        "the history has calls, but the request has no tools".to_owned()
    });
}

/// Checks that call ids are unique, and that the next message has the results of each message's calls.
fn check_pairing(messages: &[Value], found: &mut Findings) {
    let mut known = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        check_results(index, message, &open, found);
        open = list(message, "content")
            .iter()
            .filter(|block| text(block, "type") == "tool_use")
            .map(|block| text(block, "id"))
            .collect();
        for id in &open {
            found.demand(Rule::Pairing, known.insert(*id), || {
                format!("message {index}: the call id {id:?} was used before")
            });
        }
    }
    for id in open {
        found.add(Rule::Pairing, format!("call {id:?} in the last message has no result"));
    }
}

/// Checks that a message begins with exactly one result for each of the calls `open` of the message before.
fn check_results(index: usize, message: &Value, open: &[&str], found: &mut Findings) {
    let blocks = list(message, "content");
    let mut missing: BTreeSet<_> = open.iter().copied().collect();
    let mut has_other = false;
    for block in blocks {
        if text(block, "type") != "tool_result" {
            has_other = true;
            continue;
        }
        let id = text(block, "tool_use_id");
        found.demand(Rule::Pairing, missing.remove(id), || {
            if open.contains(&id) {
                format!("message {index}: call {id:?} has two results")
            } else {
                format!("message {index}: the result of {id:?} has no call in the message before")
            }
        });
        found.demand(Rule::Pairing, !has_other, || {
            format!("message {index}: the result of {id:?} stands after other content")
        });
    }
    for id in missing {
        found.add(
            Rule::Pairing,
            format!("call {id:?} has no result in message {index}, which comes directly after it"),
        );
    }
}

/// Checks the number of cache marks on the body, tools, system prompt, blocks and their content, and that none is on
/// thinking.
fn check_marks(body: &Value, messages: &[Value], found: &mut Findings) {
    let blocks = messages.iter().flat_map(|message| list(message, "content"));
    // Blocks within results may be marked, too.
    let inner = blocks.clone().flat_map(|block| list(block, "content"));
    let values = std::iter::once(body)
        .chain(list(body, "tools"))
        .chain(list(body, "system"))
        .chain(blocks)
        .chain(inner);
    let marked: Vec<_> = values.filter(|value| !field(value, "cache_control").is_null()).collect();
    found.demand(Rule::CacheMarks, marked.len() <= MAX_MARKS, || {
        format!("{} cache marks, {MAX_MARKS} are allowed", marked.len())
    });
    for value in marked {
        found.demand(
            Rule::CacheMarks,
            !matches!(text(value, "type"), "thinking" | "redacted_thinking"),
            || "a cache mark stands on a thinking block".to_owned(),
        );
    }
}
