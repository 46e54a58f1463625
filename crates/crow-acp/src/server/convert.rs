//! What version 2 of the protocol makes of the words of version 1.
//!
//! Most of both versions is the same JSON; what differs is changed there.

use agent_client_protocol::{
    Error,
    v1::schema as v1,
    v2::schema::{self as v2, Diff, DiffChange, DiffPatch},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use similar::TextDiff;

use crate::view::Outgoing;

/// The one plan of a session.
const PLAN: &str = "plan";

/// Reads as one version what the other one wrote.
pub(super) fn same<T: DeserializeOwned>(value: impl Serialize) -> Result<T, Error> {
    let value = serde_json::to_value(value).map_err(Error::into_internal_error)?;
    serde_json::from_value(value).map_err(Error::into_internal_error)
}

/// Makes updates of version 2 of one of version 1. What has no place there is left out.
pub(super) fn updates(outgoing: Outgoing) -> Vec<v2::UpdateSessionNotification> {
    let Outgoing { session_id, update } = outgoing;
    let Ok(Value::Object(update)) = serde_json::to_value(update) else { return Vec::new() };
    let session = v2::SessionId::new(session_id.0.as_ref());
    let updates = converted(update).into_iter().filter_map(|update| {
        let read = serde_json::from_value::<v2::SessionUpdate>(Value::Object(update));
        match read {
            Ok(update) => Some(v2::UpdateSessionNotification::new(session.clone(), update)),
            Err(error) => {
                tracing::warn!(%error, "an update has no form in version 2");
                None
            }
        }
    });
    updates.collect()
}

fn converted(mut update: Map<String, Value>) -> Vec<Map<String, Value>> {
    let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
            update.entry("messageId").or_insert_with(|| json!("message"));
            vec![update]
        }
        "tool_call" | "tool_call_update" => call(update, kind == "tool_call"),
        "plan" => {
            let entries = update.remove("entries").unwrap_or_default();
            let items = json!({ "type": "items", "planId": PLAN, "entries": entries });
            vec![object(json!({ "sessionUpdate": "plan_update", "plan": items }))]
        }
        // The option says it.
        "current_mode_update" => Vec::new(),
        "config_option_update" => {
            if let Some(options) = update.get_mut("configOptions") {
                rename_options(options);
            }
            vec![update]
        }
        "available_commands_update" => {
            if let Some(commands) = update.get_mut("availableCommands") {
                tag_commands(commands);
            }
            vec![update]
        }
        _ => vec![update],
    }
}

/// A call is an upsert, its terminal a thing of its own, and cancelled a status.
fn call(mut update: Map<String, Value>, is_new: bool) -> Vec<Map<String, Value>> {
    let mut all = terminal(&mut update);
    update.insert("sessionUpdate".to_owned(), json!("tool_call_update"));
    if is_new {
        update.entry("status").or_insert_with(|| json!("pending"));
    }
    let is_cancelled = update.get("_meta").and_then(|meta| meta.pointer("/crow/cancelled"));
    if is_cancelled == Some(&Value::Bool(true)) {
        update.insert("status".to_owned(), json!("cancelled"));
    }
    if let Some(Value::Array(content)) = update.get_mut("content") {
        for item in content {
            if item.get("type").and_then(Value::as_str) == Some("diff")
                && let Ok(diff) = serde_json::from_value::<v1::Diff>(item.take())
            {
                *item = shown_diff(&diff);
            }
        }
    }
    all.push(update);
    all
}

fn shown_diff(diff: &v1::Diff) -> Value {
    let path = diff.path.clone();
    let change = match &diff.old_text {
        None => DiffChange::add(path),
        Some(_) => DiffChange::modify(path),
    };
    let diff = Diff::new(vec![change]).with_patch(DiffPatch::new(patch(diff)));
    let mut value = serde_json::to_value(diff).unwrap_or_default();
    if let Some(value) = value.as_object_mut() {
        value.insert("type".to_owned(), json!("diff"));
    }
    value
}

/// Writes the difference as git does.
fn patch(diff: &v1::Diff) -> String {
    let path = diff.path.to_string_lossy();
    let name = path.trim_start_matches('/');
    let (old, from) = match &diff.old_text {
        Some(text) => (text.as_str(), format!("a/{name}")),
        None => ("", "/dev/null".to_owned()),
    };
    let lines = TextDiff::from_lines(old, diff.new_text.as_str());
    let hunks = lines.unified_diff().header(&from, &format!("b/{name}")).to_string();
    let new_file = if diff.old_text.is_none() { "new file mode 100644\n" } else { "" };
    format!("diff --git a/{name} b/{name}\n{new_file}{hunks}")
}

/// Takes what is said of a terminal out of the notes of a call.
fn terminal(update: &mut Map<String, Value>) -> Vec<Map<String, Value>> {
    let Some(Value::Object(meta)) = update.get_mut("_meta") else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(info) = meta.remove("terminal_info") {
        let mut shown = json!({
            "sessionUpdate": "terminal_update",
            "terminalId": info.get("terminal_id"),
        });
        if let (Some(shown), Some(cwd)) = (shown.as_object_mut(), info.get("cwd")) {
            shown.insert("cwd".to_owned(), cwd.clone());
        }
        all.push(object(shown));
    }
    if let Some(output) = meta.remove("terminal_output") {
        all.push(object(json!({
            "sessionUpdate": "terminal_output_chunk",
            "terminalId": output.get("terminal_id"),
            "data": output.get("data"),
        })));
    }
    if let Some(exit) = meta.remove("terminal_exit") {
        all.push(object(json!({
            "sessionUpdate": "terminal_update",
            "terminalId": exit.get("terminal_id"),
            "exitStatus": { "exitCode": exit.get("exit_code"), "signal": exit.get("signal") },
        })));
    }
    if meta.is_empty() {
        update.remove("_meta");
    }
    all
}

/// Makes the options of version 2.
pub(super) fn options(
    options: Vec<v1::SessionConfigOption>,
) -> Result<Vec<v2::SessionConfigOption>, Error> {
    let mut value = serde_json::to_value(options).map_err(Error::into_internal_error)?;
    rename_options(&mut value);
    serde_json::from_value(value).map_err(Error::into_internal_error)
}

/// Makes the ways to authenticate of version 2.
pub(super) fn auth_methods(methods: &[v1::AuthMethod]) -> Result<Vec<v2::AuthMethod>, Error> {
    let mut value = serde_json::to_value(methods).map_err(Error::into_internal_error)?;
    for method in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(id) = method.remove("id") {
            method.insert("methodId".to_owned(), id);
        }
        method.entry("type").or_insert_with(|| json!("agent"));
        // No method of ours needs any.
        method.remove("env");
    }
    serde_json::from_value(value).map_err(Error::into_internal_error)
}

/// Makes the commands of version 2.
pub(super) fn commands(
    commands: Vec<v1::AvailableCommand>,
) -> Result<Vec<v2::AvailableCommand>, Error> {
    let mut value = serde_json::to_value(commands).map_err(Error::into_internal_error)?;
    tag_commands(&mut value);
    serde_json::from_value(value).map_err(Error::into_internal_error)
}

/// Commands and their inputs say of what kind they are.
fn tag_commands(commands: &mut Value) {
    for command in commands.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        command.insert("type".to_owned(), json!("command"));
        if let Some(input) = command.get_mut("input").and_then(Value::as_object_mut) {
            input.insert("type".to_owned(), json!("text"));
        }
    }
}

/// An option's id has a name of its own.
fn rename_options(options: &mut Value) {
    for option in options.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(id) = option.remove("id") {
            option.insert("configId".to_owned(), id);
        }
    }
}

/// Makes the question about a call.
pub(super) fn permission(
    request: v1::RequestPermissionRequest,
) -> Result<v2::RequestPermissionRequest, Error> {
    let title = request.tool_call.fields.title.clone().unwrap_or_else(|| "Allow this?".to_owned());
    let session = v2::SessionId::new(request.session_id.0.as_ref());
    let Value::Object(shown) =
        serde_json::to_value(&request.tool_call).map_err(Error::into_internal_error)?
    else {
        return Err(Error::internal_error());
    };
    let mut shown = call(shown, false).pop().unwrap_or_default();
    shown.remove("sessionUpdate");
    let subject = v2::ToolCallPermissionSubject::new(
        serde_json::from_value(Value::Object(shown)).map_err(Error::into_internal_error)?,
    );
    let subject = v2::RequestPermissionSubject::ToolCall(Box::new(subject));
    let asked = v2::RequestPermissionRequest::new(session, title, same(request.options)?);
    Ok(asked.subject(subject).meta(request.meta))
}

/// Returns the object that the macro wrote.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}
