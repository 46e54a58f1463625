//! Checks of Responses requests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Rule;
use super::body::{Findings, field, list, text};

/// Checks required fields, roles, that reasoning is followed by its item, and the pairing of calls and results.
pub(super) fn check(body: &Value, found: &mut Findings) {
    found.demand_streaming_model(body);
    let items = match field(body, "input") {
        Value::String(input) if !input.is_empty() => return,
        Value::Array(items) if !items.is_empty() => items,
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => {
            found.add(Rule::Required, format!("input is {other}, not text or items"));
            return;
        }
    };
    check_roles(items, found);
    check_reasoning_followed(items, found);
    // With a previous response the calls may be stored on the server.
    if field(body, "previous_response_id").is_null() {
        CallPairing::default().check(items, found);
    }
}

/// Side of the conversation that an item belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemSide {
    Model,
    Result,
    Client,
}

/// Returns the side of an item; unknown items count as the model's own tools.
pub(super) fn side(item: &Value) -> ItemSide {
    match text(item, "type") {
        "function_call_output" | "custom_tool_call_output" => ItemSide::Result,
        "message" | "" if text(item, "role") != "assistant" => ItemSide::Client,
        _ => ItemSide::Model,
    }
}

fn check_roles(items: &[Value], found: &mut Findings) {
    for (index, item) in items.iter().enumerate() {
        match text(item, "type") {
            "message" | "" => check_message(index, item, found),
            "function_call" => {
                let is_valid = !text(item, "call_id").is_empty()
                    && !text(item, "name").is_empty()
                    && field(item, "arguments").is_string();
                found.demand(Rule::Roles, is_valid, || {
                    format!("item {index} is an incomplete function_call: {item}")
                });
            }
            "function_call_output" => {
                let output = field(item, "output");
                found.demand(Rule::Roles, output.is_string() || output.is_array(), || {
                    format!("the output of item {index} is neither text nor parts")
                });
            }
            "reasoning" => {
                found.demand(Rule::Roles, field(item, "summary").is_array(), || {
                    format!("the reasoning item {index} has no summary array")
                });
            }
            _ => {}
        }
    }
}

fn check_message(index: usize, item: &Value, found: &mut Findings) {
    let role = text(item, "role");
    found.demand(
        Rule::Roles,
        matches!(role, "user" | "assistant" | "system" | "developer"),
        || format!("item {index} has role {role:?}"),
    );
    let expected: &[&str] = if role == "assistant" {
        &["output_text", "refusal"]
    } else {
        &["input_text", "input_image", "input_file"]
    };
    match field(item, "content") {
        Value::String(_) => {}
        Value::Array(parts) if !parts.is_empty() => {
            for part in parts {
                let kind = text(part, "type");
                found.demand(Rule::Roles, expected.contains(&kind), || {
                    format!("item {index} of role {role:?} has a part of type {kind:?}")
                });
            }
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => {
            found.add(Rule::Roles, format!("the content of item {index} is {other}"));
        }
    }
}

/// Checks that each reasoning item is followed by an item of the model; the service refuses it otherwise.
fn check_reasoning_followed(items: &[Value], found: &mut Findings) {
    for (index, item) in items.iter().enumerate() {
        let is_followed = items.get(index + 1).is_some_and(|next| side(next) == ItemSide::Model);
        if text(item, "type") == "reasoning" && !is_followed {
            found.add(
                Rule::Echo,
                format!("the reasoning item {index} is not followed by the item it led to"),
            );
        }
    }
}

/// State of the pairing check: all call ids, those without a result, and true after a result of the current turn.
#[derive(Default)]
struct CallPairing<'a> {
    known: BTreeSet<&'a str>,
    open: BTreeSet<&'a str>,
    has_results: bool,
}

impl<'a> CallPairing<'a> {
    fn check(mut self, items: &'a [Value], found: &mut Findings) {
        for (index, item) in items.iter().enumerate() {
            let id = text(item, "call_id");
            match side(item) {
                ItemSide::Client => self.report_open(index, found),
                ItemSide::Result => {
                    self.has_results = true;
                    let is_open = self.open.remove(id);
                    found.demand(Rule::Pairing, is_open, || {
                        if self.known.contains(id) {
                            format!("item {index}: call {id:?} has another result")
                        } else {
                            format!("item {index}: the result of {id:?} has no call before it")
                        }
                    });
                }
                ItemSide::Model => {
                    // Items of one reply may follow each other; after a result a new turn begins.
                    if self.has_results {
                        self.report_open(index, found);
                    }
                    if matches!(text(item, "type"), "function_call" | "custom_tool_call") {
                        found.demand(Rule::Pairing, self.known.insert(id), || {
                            format!("item {index}: the call id {id:?} was used before")
                        });
                        self.open.insert(id);
                    }
                }
            }
        }
        self.report_open(items.len(), found);
    }

    fn report_open(&mut self, index: usize, found: &mut Findings) {
        for id in std::mem::take(&mut self.open) {
            found.add(Rule::Pairing, format!("call {id:?} has no result before item {index}"));
        }
        self.has_results = false;
    }
}

/// Returns the concatenated summary of a reasoning item.
pub(super) fn summary_text(item: &Value) -> String {
    list(item, "summary").iter().map(|part| text(part, "text")).collect()
}
