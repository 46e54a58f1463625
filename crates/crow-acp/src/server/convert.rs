//! Conversion between messages of version 1 and version 2 of the protocol.
//!
//! Most JSON is the same in both versions: messages are converted as JSON values, and only the differences are changed.

use std::collections::HashSet;

use agent_client_protocol::{
    Error, JsonRpcMessage as _, schema::ProtocolVersion, v1::schema as v1,
};
use crow_core::tool::FileDiff;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::v1::{ParsedRequest, without_quotes};
use crate::view::invalid;

/// Id of the only plan of a session.
const PLAN: &str = "plan";

/// Converts a request of version 2 to the equivalent one of version 1.
pub(super) fn request(method: &str, params: &Value) -> Result<v1::ClientRequest, Error> {
    let method = match method {
        "session/resume" => match params.get("replayFrom").filter(|from| !from.is_null()) {
            None => "session/resume",
            Some(from) if from.get("type").and_then(Value::as_str) == Some("start") => {
                "session/load"
            }
            Some(_) => return Err(invalid("replayFrom: only the start is supported")),
        },
        "auth/login" => "authenticate",
        "auth/logout" => "logout",
        "session/new" | "session/list" | "session/close" | "session/delete" | "session/fork"
        | "session/set_title" | "providers/list" | "providers/set" | "providers/disable" => method,
        _ if method.starts_with('_') => method,
        _ => {
            let mut error = Error::method_not_found();
            error.message = format!("{method} is not supported");
            return Err(error);
        }
    };
    let mut names = HashSet::new();
    let servers = params.get("mcpServers").and_then(Value::as_array).into_iter().flatten();
    for name in servers.filter_map(|server| server.get("name")?.as_str()) {
        if !names.insert(name) {
            return Err(invalid(format!("mcpServers: two servers have the name {name}")));
        }
    }
    ParsedRequest::parse_message(method, params).map(|ParsedRequest(request)| request)
}

/// Converts the parameters of `initialize` to version 1, and adds capabilities that version 2 always has.
pub(super) fn introduction(params: &Value) -> Result<v1::InitializeRequest, Error> {
    let capabilities = params.get("capabilities").cloned().unwrap_or_default();
    let in_terminal =
        capabilities.pointer("/auth/terminal").is_some_and(|terminal| !terminal.is_null());
    let introduction = json!({
        "protocolVersion": ProtocolVersion::V1,
        "clientInfo": params.get("info"),
        "clientCapabilities": {
            "auth": { "terminal": in_terminal },
            "elicitation": capabilities.get("elicitation"),
            "subagents": capabilities.get("subagents"),
            "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
            "_meta": { "terminal_output": true },
        },
    });
    serde_json::from_value(introduction)
        .map_err(|error| invalid(without_quotes(&error.to_string())))
}

/// Converts an update of version 1 to updates of version 2; none if version 2 has no such update.
pub(super) fn updates(update: &v1::SessionUpdate) -> Vec<Map<String, Value>> {
    converted(object(json_of(update)))
}

/// Returns the state update that reports the end of a prompt.
pub(super) fn ended(response: &Result<v1::PromptResponse, Error>) -> Value {
    match response {
        Ok(response) => {
            let reason = response.stop_reason;
            match &response.usage {
                Some(usage) => json!({ "state": "idle", "stopReason": reason, "usage": usage }),
                None => json!({ "state": "idle", "stopReason": reason }),
            }
        }
        Err(error) => {
            let error = json!({ "code": error.code, "message": error.message });
            json!({ "state": "idle", "stopReason": "error", "error": error })
        }
    }
}

/// Converts a response that opens a session: removes the modes, which are an option, and adds the commands.
pub(super) fn opened(answer: &mut Map<String, Value>, commands: &[v1::AvailableCommand]) {
    answer.remove("modes");
    if let Some(options) = answer.get_mut("configOptions") {
        rename_options(options);
    }
    let mut commands = json_of(commands);
    tag_commands(&mut commands);
    answer.insert("availableCommands".to_owned(), commands);
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
        // The mode is an option.
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

/// Converts a call: it is created by an update, its terminal has updates of its own, and `cancelled` is a status.
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
    let operation = if diff.old_text.is_none() { "add" } else { "modify" };
    json!({
        "type": "diff",
        "changes": [{ "operation": operation, "path": diff.path }],
        "patch": { "format": "git_patch", "text": patch(diff) },
    })
}

/// Formats a diff as a git patch.
fn patch(diff: &v1::Diff) -> String {
    let path = diff.path.to_string_lossy();
    let name = path.trim_start_matches('/');
    let (old, from) = match &diff.old_text {
        Some(text) => (text.as_str(), format!("a/{name}")),
        None => ("", "/dev/null".to_owned()),
    };
    let hunks = FileDiff::of_whole_text(&diff.path, old, &diff.new_text).hunks;
    let files =
        if hunks.is_empty() { String::new() } else { format!("--- {from}\n+++ b/{name}\n") };
    let new_file = if diff.old_text.is_none() { "new file mode 100644\n" } else { "" };
    format!("diff --git a/{name} b/{name}\n{new_file}{files}{hunks}")
}

/// Moves the terminal data in the `_meta` of a call to updates of their own.
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
        let fields = [("exitCode", "exit_code"), ("signal", "signal")];
        let status = fields.into_iter().filter_map(|(name, old_name)| {
            let value = exit.get(old_name).filter(|value| !value.is_null())?;
            Some((name.to_owned(), value.clone()))
        });
        all.push(object(json!({
            "sessionUpdate": "terminal_update",
            "terminalId": exit.get("terminal_id"),
            "exitStatus": status.collect::<Map<_, _>>(),
        })));
    }
    if meta.is_empty() {
        update.remove("_meta");
    }
    all
}

/// Converts options to version 2.
pub(super) fn options(options: &[v1::SessionConfigOption]) -> Value {
    let mut options = json_of(options);
    rename_options(&mut options);
    options
}

/// Converts authentication methods to version 2.
pub(super) fn auth_methods(methods: &[v1::AuthMethod]) -> Value {
    let mut methods = json_of(methods);
    for method in methods.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(id) = method.remove("id") {
            method.insert("methodId".to_owned(), id);
        }
        method.entry("type").or_insert_with(|| json!("agent"));
        // No method of ours needs environment variables.
        method.remove("env");
    }
    methods
}

/// Adds the `type` of commands and of their inputs.
fn tag_commands(commands: &mut Value) {
    for command in commands.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        command.insert("type".to_owned(), json!("command"));
        if let Some(input) = command.get_mut("input").and_then(Value::as_object_mut) {
            input.insert("type".to_owned(), json!("text"));
        }
    }
}

/// Renames the `id` of options to `configId`.
fn rename_options(options: &mut Value) {
    for option in options.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(id) = option.remove("id") {
            option.insert("configId".to_owned(), id);
        }
    }
}

/// Converts a permission request to version 2.
pub(super) fn permission(request: &v1::RequestPermissionRequest) -> Result<Value, Error> {
    let title = request.tool_call.fields.title.as_deref().unwrap_or("Allow this?");
    let mut shown =
        call(object(json_of(&request.tool_call)), false).pop().ok_or_else(Error::internal_error)?;
    shown.remove("sessionUpdate");
    let mut params = json!({
        "sessionId": request.session_id,
        "title": title,
        "subject": { "type": "tool_call", "toolCall": shown },
        "options": request.options,
    });
    if let (Some(params), Some(meta)) = (params.as_object_mut(), &request.meta) {
        params.insert("_meta".to_owned(), Value::Object(meta.clone()));
    }
    Ok(params)
}

/// Returns the fields of a value that is an object: `json!` or a type of the protocol made it.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// Serialises a type of the protocol. It has only text, numbers and lists, so this cannot fail.
fn json_of(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v2::schema as v2;

    use super::*;

    /// Converts an update, and checks that the types of version 2 can read the result.
    fn converts(update: Value) -> Vec<Value> {
        let update: v1::SessionUpdate = serde_json::from_value(update).unwrap();
        let updates = updates(&update).into_iter().map(Value::Object);
        let read = |update: Value| {
            let read: v2::SessionUpdate = serde_json::from_value(update.clone()).unwrap();
            assert!(!matches!(read, v2::SessionUpdate::Other(_)), "{update}");
            assert_eq!(serde_json::to_value(read).unwrap(), update);
            update
        };
        updates.map(read).collect()
    }

    #[test]
    fn every_kind_of_update_is_valid_in_version_2() {
        let text = json!({ "type": "text", "text": "x" });
        for update in [
            json!({ "sessionUpdate": "user_message_chunk", "content": text, "messageId": "1" }),
            json!({ "sessionUpdate": "agent_message_chunk", "content": text }),
            json!({ "sessionUpdate": "agent_thought_chunk", "content": text, "messageId": "1" }),
            json!({ "sessionUpdate": "session_info_update", "title": "t" }),
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }),
            json!({ "sessionUpdate": "notice", "severity": "warning", "title": "t" }),
            json!({ "sessionUpdate": "plan", "entries": [
                { "content": "c", "priority": "high", "status": "pending" },
            ] }),
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": [
                { "name": "n", "description": "d", "input": { "hint": "h" } },
            ] }),
            json!({ "sessionUpdate": "config_option_update", "configOptions": [
                { "id": "i", "name": "n", "type": "select", "currentValue": "v", "options": [] },
            ] }),
        ] {
            assert_eq!(converts(update.clone()).len(), 1, "{update}");
        }
        let mode = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "loop" });
        assert_eq!(converts(mode), [Value::Null; 0], "its option says it");
    }

    #[test]
    fn a_command_is_a_call_and_a_terminal() {
        let begun = converts(json!({
            "sessionUpdate": "tool_call", "toolCallId": "1", "title": "ls", "kind": "execute",
            "content": [{ "type": "terminal", "terminalId": "1" }],
            "_meta": { "terminal_info": { "terminal_id": "1", "cwd": "/p" } },
        }));
        assert_eq!(begun[0]["cwd"], "/p", "{begun:?}");
        assert_eq!(begun[1]["status"], "pending");
        assert!(begun[1].get("_meta").is_none());
        let ended = converts(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "failed",
            "_meta": {
                "crow": { "cancelled": true },
                "terminal_output": { "terminal_id": "1", "data": "aGk=" },
                "terminal_exit": { "terminal_id": "1", "exit_code": null, "signal": "SIGKILL" },
            },
        }));
        assert_eq!(ended[1]["exitStatus"], json!({ "signal": "SIGKILL" }));
        assert_eq!(ended[2]["status"], "cancelled");
    }

    #[test]
    fn diffs_are_converted_to_git_patches() {
        let shown = converts(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "1", "content": [
                { "type": "diff", "path": "/p/a", "oldText": "a\n", "newText": "b\n" },
                { "type": "diff", "path": "/p/new", "newText": "n\n" },
            ],
        }));
        let text = |item: usize| shown[0]["content"][item]["patch"]["text"].as_str().unwrap();
        let changed = "diff --git a/p/a b/p/a\n--- a/p/a\n+++ b/p/a\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(text(0), changed);
        assert!(text(1).contains("new file mode 100644\n--- /dev/null"), "{}", text(1));
    }

    #[test]
    fn two_servers_of_one_name_are_refused() {
        let server = json!({ "type": "acp", "name": "one", "serverId": "1" });
        let other = json!({ "type": "acp", "name": "other", "serverId": "2" });
        let new = |servers: &[&Value]| json!({ "cwd": "/", "mcpServers": servers });
        let refused = request("session/new", &new(&[&server, &server])).unwrap_err();
        assert_eq!(i32::from(refused.code), -32602);
        assert!(request("session/new", &new(&[&server, &other])).is_ok());
    }

    #[test]
    fn methods_of_version_1_alone_are_unknown() {
        for method in ["session/load", "session/set_mode", "authenticate", "logout", "nes/start"] {
            let refused = request(method, &json!({})).unwrap_err();
            assert_eq!(i32::from(refused.code), -32601, "{method}");
        }
        let from = json!({ "sessionId": "s", "cwd": "/", "replayFrom": { "type": "_other" } });
        assert_eq!(i32::from(request("session/resume", &from).unwrap_err().code), -32602);
    }
}
