//! Ends of calls.

use agent_client_protocol::v1::schema::{ToolCallContent, ToolCallStatus, ToolCallUpdateFields};
use crow_core::{
    ids::CallId,
    permission::{Denial, DenialSource},
    tool::{ToolResult, ToolStatus},
};
use serde_json::{Map, Value, json};

use super::{
    call::{CallInput, CallViews},
    content::{bounded, fenced, image, prose, sanitise},
    diff::{DiffDisplay, KnownChange},
    event::EventContext,
    open_call::OpenCallView,
    tool_display::{
        ResultDisplay, rest_of_output, terminal_content, terminal_exit, terminal_output,
    },
};

/// Limit of the output in the raw output, in bytes.
const RAW_OUTPUT: usize = 16 * 1024;
/// Limit of changed files that are sent as locations, because some clients open each of them.
const MOST_LOCATIONS: usize = 8;

impl CallViews {
    /// Shows the end of a call.
    pub(super) fn on_end(
        &mut self,
        at: &mut EventContext<'_>,
        (call_id, tool): (&CallId, &str),
        result: &ToolResult,
        denial: Option<&Denial>,
    ) {
        let key = (at.who.session.clone(), call_id.clone());
        if self.is_to_show(at, &key, tool) && !self.is_open(&key) {
            let arguments = self.arguments(&key);
            let facts = CallInput { tool, title: tool, arguments: &arguments };
            self.open_call(at, key.clone(), facts, (ToolCallStatus::Pending, None));
        }
        self.forget(&key);
        if let Some(call) = self.take(&key) {
            self.end_call(at, call, result, denial);
        }
    }

    fn end_call(
        &mut self,
        at: &mut EventContext<'_>,
        mut call: OpenCallView,
        result: &ToolResult,
        denial: Option<&Denial>,
    ) {
        // 1) Content: terminal, whole command, result, changes and images.
        let change = self.change(result);
        let mut content = Vec::new();
        if call.in_terminal {
            content.push(terminal_content(&call.id));
        }
        content.extend(call.head.clone());
        content.extend(body(&call, result, denial));
        let is_previewed = change.content.is_empty() && call.showing.body == ResultDisplay::Change;
        if is_previewed {
            // The previewed change stays visible if there is no other one.
            let diffs = call.content.iter();
            let diffs = diffs.filter(|shown| matches!(shown, ToolCallContent::Diff(_)));
            content.splice(0..0, diffs.cloned());
        } else {
            content.extend(change.content);
        }
        content.extend(result.images.iter().map(|shown| ToolCallContent::from(image(shown))));
        // 2) Fields: only what differs from what the client has.
        let status = match result.status {
            ToolStatus::Success => ToolCallStatus::Completed,
            ToolStatus::Error | ToolStatus::Cancelled => ToolCallStatus::Failed,
        };
        let mut fields = ToolCallUpdateFields::new().status(status).raw_output(raw_output(result));
        if content != call.content {
            fields = fields.content(content.clone());
            call.content = content;
        }
        if !change.locations.is_empty() {
            let locations = change.locations.into_iter().take(MOST_LOCATIONS);
            fields = fields.locations(locations.collect::<Vec<_>>());
        }
        // 3) Rest of the terminal's output, and its end.
        let mut meta = call.who.meta_with(marks(result, denial));
        if call.in_terminal {
            let rest = match denial {
                Some(denial) => refusal(denial),
                None => rest_of_output(&call.output, &result.output),
            };
            if !rest.is_empty() {
                meta = terminal_output(&call.id, &rest, meta);
            }
            let code = result.metadata.extra.get("exit_code").and_then(Value::as_i64);
            meta = terminal_exit(&call.id, code, meta);
        }
        at.out.push(call.update_with(fields, meta));
    }

    fn change(&self, result: &ToolResult) -> DiffDisplay {
        let metadata = &result.metadata;
        let known = KnownChange {
            patch: metadata.diff.as_ref(),
            files: &metadata.files_modified,
            paths: metadata.changes.map_or(0, |changes| changes.paths()),
            before: metadata.snapshot_before.as_ref(),
            after: metadata.snapshot_after.as_ref(),
        };
        self.display_of_change(known)
    }
}

/// Returns the content for a result, apart from its changes.
fn body(
    call: &OpenCallView,
    result: &ToolResult,
    denial: Option<&Denial>,
) -> Option<ToolCallContent> {
    if let Some(denial) = denial {
        return Some(prose(&refusal(denial)));
    }
    let output = result.output.as_str();
    match (call.showing.body, result.status) {
        _ if output.trim().is_empty() => None,
        (ResultDisplay::Command, _) if call.in_terminal => None,
        (ResultDisplay::Change, ToolStatus::Success) if result.metadata.diff.is_some() => None,
        (ResultDisplay::Prose, _) => Some(prose(output)),
        (ResultDisplay::Command | ResultDisplay::Change | ResultDisplay::Output, _) => {
            Some(fenced(output, ""))
        }
    }
}

fn refusal(denial: &Denial) -> String {
    let reason = sanitise(&denial.reason);
    match (denial.source, reason.is_empty()) {
        (DenialSource::User, true) => "Rejected.".to_owned(),
        (DenialSource::User, false) => format!("Rejected: {reason}"),
        (DenialSource::Hook, true) => "Refused by a hook.".to_owned(),
        (DenialSource::Hook, false) => format!("Refused by a hook: {reason}"),
        (DenialSource::Policy, true) => "Not permitted by policy.".to_owned(),
        (DenialSource::Policy, false) => format!("Not permitted by policy: {reason}"),
    }
}

fn marks(result: &ToolResult, denial: Option<&Denial>) -> Map<String, Value> {
    let mut marks = Map::new();
    match denial.map(|denial| denial.source) {
        Some(DenialSource::User) => drop(marks.insert("denied".to_owned(), "user".into())),
        Some(DenialSource::Hook) => drop(marks.insert("denied".to_owned(), "hook".into())),
        Some(DenialSource::Policy) => drop(marks.insert("denied".to_owned(), "policy".into())),
        None => {}
    }
    if result.status == ToolStatus::Cancelled {
        marks.insert("cancelled".to_owned(), true.into());
    }
    marks
}

fn raw_output(result: &ToolResult) -> Value {
    let metadata = &result.metadata;
    let mut raw = Map::from_iter([
        ("status".to_owned(), json!(result.status)),
        ("output".to_owned(), Value::from(bounded(&sanitise(&result.output), RAW_OUTPUT))),
    ]);
    if let Some(error) = &result.error {
        raw.insert("error".to_owned(), sanitise(error).into());
    }
    if metadata.duration_ms > 0 {
        raw.insert("durationMs".to_owned(), metadata.duration_ms.into());
    }
    if let Some(code) = metadata.extra.get("exit_code") {
        raw.insert("exitCode".to_owned(), code.clone());
    }
    if let Some(changes) = &metadata.changes {
        raw.insert("changes".to_owned(), json!(changes));
    }
    Value::Object(raw)
}
