//! Checks of Chat Completions requests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Rule;
use super::body::{Findings, field, list, text};

/// Checks required fields, roles, and that the results of calls directly follow the message with the calls.
pub(super) fn check(body: &Value, found: &mut Findings) {
    found.demand_streaming_model(body);
    let messages = list(body, "messages");
    found.demand(Rule::Required, !messages.is_empty(), || "messages are empty".to_owned());
    let mut known = BTreeSet::new();
    let mut open = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        found.demand(
            Rule::Roles,
            matches!(role, "system" | "developer" | "user" | "assistant" | "tool"),
            || format!("message {index} has role {role:?}"),
        );
        if role == "tool" {
            let id = text(message, "tool_call_id");
            found.demand(Rule::Pairing, open.remove(id), || {
                if known.contains(id) {
                    format!("message {index}: call {id:?} has another result or is no longer open")
                } else {
                    format!("message {index}: the result of {id:?} has no call before it")
                }
            });
            found.demand(Rule::Roles, has_content(message), || {
                format!("message {index} has no content")
            });
            continue;
        }
        report_open(&open, index, found);
        open.clear();
        check_message(index, role, message, found);
        for call in list(message, "tool_calls") {
            let id = text(call, "id");
            found.demand(Rule::Pairing, known.insert(id), || {
                format!("message {index}: the call id {id:?} was used before")
            });
            open.insert(id);
        }
    }
    report_open(&open, messages.len(), found);
}

fn report_open(open: &BTreeSet<&str>, index: usize, found: &mut Findings) {
    for id in open {
        found.add(
            Rule::Pairing,
            format!("call {id:?} has no tool message directly after it, before message {index}"),
        );
    }
}

fn check_message(index: usize, role: &str, message: &Value, found: &mut Findings) {
    let calls = list(message, "tool_calls");
    if role == "assistant" {
        let has_anything =
            has_content(message) || !calls.is_empty() || field(message, "refusal").is_string();
        found.demand(Rule::Roles, has_anything, || {
            format!("assistant message {index} has neither content nor calls")
        });
    } else {
        found.demand(Rule::Roles, has_content(message), || {
            format!("message {index} has no content")
        });
        found.demand(Rule::Roles, calls.is_empty(), || {
            format!("message {index} of role {role:?} has tool_calls")
        });
    }
    found.demand(Rule::Roles, field(message, "tool_calls") != &Value::Array(Vec::new()), || {
        format!("message {index} has an empty tool_calls array")
    });
    for call in calls {
        let function = field(call, "function");
        let is_valid = text(call, "type") == "function"
            && !text(call, "id").is_empty()
            && !text(function, "name").is_empty()
            && field(function, "arguments").is_string();
        found.demand(Rule::Roles, is_valid, || {
            format!("message {index} has an incomplete call: {call}")
        });
    }
}

fn has_content(message: &Value) -> bool {
    match field(message, "content") {
        Value::String(_) => true,
        Value::Array(parts) => !parts.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}
