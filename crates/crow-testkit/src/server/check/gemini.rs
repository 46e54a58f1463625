//! Checks of Gemini requests.

use serde_json::Value;

use super::Rule;
use super::body::{Findings, field, list, text};

/// Checks the contents' roles and parts, and that the results of calls are in the next content.
pub(super) fn check(body: &Value, found: &mut Findings) {
    let contents = list(body, "contents");
    found.demand(Rule::Required, !contents.is_empty(), || "contents are empty".to_owned());
    let mut calls: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let role = text(content, "role");
        check_content(index, role, content, found);
        let results = parts_of(content, "functionResponse");
        check_results(index, role, &calls, &results, found);
        calls = parts_of(content, "functionCall");
        let follows_client = index
            .checked_sub(1)
            .and_then(|before| contents.get(before))
            .is_some_and(|before| text(before, "role") != "model");
        found.demand(Rule::Pairing, calls.is_empty() || follows_client, || {
            format!("the calls of content {index} do not follow a user or a result turn")
        });
    }
    found.demand(Rule::Pairing, calls.is_empty(), || {
        "the calls of the last content have no results".to_owned()
    });
}

fn check_content(index: usize, role: &str, content: &Value, found: &mut Findings) {
    found.demand(Rule::Roles, matches!(role, "user" | "model" | "function"), || {
        format!("content {index} has role {role:?}")
    });
    if index == 0 {
        found.demand(Rule::Roles, role == "user", || {
            format!("the first content has role {role:?}, not user")
        });
    }
    let parts = list(content, "parts");
    found.demand(Rule::Roles, !parts.is_empty(), || format!("content {index} has no parts"));
    for part in parts {
        let call = field(part, "functionCall");
        if !call.is_null() {
            found.demand(Rule::Roles, role == "model", || {
                format!("content {index} of role {role:?} has a functionCall")
            });
            found.demand(Rule::Roles, field(call, "args").is_object(), || {
                format!("the args of a functionCall in content {index} are not an object")
            });
        }
        let result = field(part, "functionResponse");
        if !result.is_null() {
            found.demand(Rule::Roles, role != "model", || {
                format!("content {index} of role {role:?} has a functionResponse")
            });
            found.demand(Rule::Roles, field(result, "response").is_object(), || {
                format!("a functionResponse in content {index} is not an object")
            });
        }
    }
}

fn check_results(
    index: usize,
    role: &str,
    calls: &[&Value],
    results: &[&Value],
    found: &mut Findings,
) {
    if !calls.is_empty() {
        found.demand(Rule::Pairing, role != "model", || {
            format!("content {index} after calls has role {role:?}")
        });
    }
    if calls.len() != results.len() {
        let (calls, results) = (calls.len(), results.len());
        found.add(
            Rule::Pairing,
            format!("content {index} has {results} results for the {calls} calls before it"),
        );
        return;
    }
    let mut open: Vec<_> = calls.iter().map(|call| identity(call)).collect();
    for result in results {
        let (name, id) = identity(result);
        let matched = open.iter().position(|(call_name, call_id)| {
            *call_name == name && (id.is_empty() || call_id.is_empty() || *call_id == id)
        });
        match matched {
            Some(position) => drop(open.remove(position)),
            None => found.add(
                Rule::Pairing,
                format!("content {index}: the result of {name:?} ({id:?}) has no call before it"),
            ),
        }
    }
}

/// Returns the name and the id of a call or a result; the id may be empty.
fn identity(value: &Value) -> (&str, &str) {
    (text(value, "name"), text(value, "id"))
}

fn parts_of<'a>(content: &'a Value, kind: &str) -> Vec<&'a Value> {
    list(content, "parts").iter().filter_map(|part| part.get(kind)).collect()
}
