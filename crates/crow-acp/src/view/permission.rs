//! Permission requests for calls, and the meaning of their answers.

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use crow_core::{
    capability::{PermissionAnswer, PermissionRequest},
    permission::{Grant, GrantOffer},
    tool::{Access, Subject},
};
use crow_text::approval_text;
use serde_json::{Map, Value};

use super::{
    call::CallInput,
    content::{fenced_command, prose, title},
    event::{EventContext, SessionUpdateOut, SessionView, single_key},
    tool_display::display_of,
};

const ALLOW_ONCE: &str = "allow_once";
const REJECT_ONCE: &str = "reject_once";
const ALLOW_SESSION: &str = "allow_session";

/// Meaning of a client's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PermissionReply {
    /// The answer of the user.
    Answer(PermissionAnswer),
    /// The turn is being cancelled, without an answer.
    Cancelled,
}

impl SessionView {
    /// Builds the question whether a call may run. Adds the call to `out` if it was not shown yet: `out` is to be
    /// sent first.
    ///
    /// The question is asked in the root session, unless the client knows the agent's session. May read files.
    pub(crate) fn permission_request(
        &mut self,
        request: &PermissionRequest,
        out: &mut Vec<SessionUpdateOut>,
    ) -> RequestPermissionRequest {
        let key = (request.session_id.clone(), request.call_id.clone());
        let mut who = self.who(&request.session_id);
        if who.agent.is_empty() {
            who.agent.clone_from(&request.agent);
        }
        let stage = self.children.display_of_agent(&self.calls, &who);
        let arguments = self.calls.arguments(&key);
        let (tool, label) = (request.tool.as_str(), request.title.as_str());
        let patch = request.preview.as_ref().map(|preview| &preview.patch);
        // 1) Show the call if it is not open.
        self.calls.ask_about(key.clone());
        if !self.calls.is_open(&key) {
            let facts = CallInput { tool, title: label, arguments: &arguments };
            let at = &mut EventContext::live(&who, &stage, out);
            self.calls.open_call(at, key.clone(), facts, (ToolCallStatus::Pending, patch));
        }
        // 2) Content: what the client has of the call, the change and the reason.
        let diffs = match patch {
            Some(patch) => self.calls.display_of_preview(patch, (tool, &arguments)),
            None => super::diff::DiffDisplay::default(),
        };
        let session = stage.session(&self.root);
        let name = format!("{}{}", who.prefix(), title(label));
        let (id, shown, content) = if let Some(call) = self.calls.get_mut(&key) {
            let content = call.set_waiting_content(|shown| question(shown, diffs.content, request));
            (call.id.clone(), call.title.clone(), content)
        } else {
            let id = request.call_id.as_str().to_owned().into();
            (id, name, question(Vec::new(), diffs.content, request))
        };
        // 3) The call in the question, with the agent in its title.
        let mut fields = ToolCallUpdateFields::new()
            .title(if shown.starts_with(&who.prefix()) { shown } else { who.prefix() + &shown })
            .name(tool)
            .kind(display_of(tool).kind)
            .status(ToolCallStatus::Pending)
            .content(content);
        if !diffs.locations.is_empty() {
            fields = fields.locations(diffs.locations);
        }
        if !arguments.is_null() {
            fields = fields.raw_input(super::content::bounded_arguments(&arguments));
        }
        let reason = approval_text(&request.reason);
        let meta = who.meta_with(single_key("reason", reason.as_str()));
        let call = ToolCallUpdate::new(id, fields).meta(meta.clone());
        RequestPermissionRequest::new(session, call, options(request)).meta(meta)
    }
}

/// Returns the content of a question: the change or the whole command, and the reason for asking.
fn question(
    shown: Vec<ToolCallContent>,
    diffs: Vec<ToolCallContent>,
    request: &PermissionRequest,
) -> Vec<ToolCallContent> {
    let mut content = shown;
    let has_diff = content.iter().any(|shown| matches!(shown, ToolCallContent::Diff(_)));
    if !has_diff {
        content.extend(diffs);
    }
    if let Subject::Command(line) = &request.subject {
        let command = fenced_command(&line.text);
        if !content.contains(&command) {
            content.push(command);
        }
    }
    if !request.reason.trim().is_empty() {
        content.push(prose(&approval_text(&request.reason)));
    }
    content
}

/// Returns the options of the user: allow once, allow for the session what an offer says, or reject. There is no
/// permanent rejection, because agents have no such answer.
fn options(request: &PermissionRequest) -> Vec<PermissionOption> {
    let once = PermissionOption::new(ALLOW_ONCE, "Allow", PermissionOptionKind::AllowOnce);
    let always = request.offers.iter().map(|offer| {
        let name = format!("Allow in this session: {}", title(&offer.label));
        // A path that is not UTF-8 cannot be written as JSON: the client sees the label alone.
        let grants = serde_json::to_value(&offer.grants).unwrap_or_default();
        let meta =
            Map::from_iter([("crow".to_owned(), Value::Object(single_key("grants", grants)))]);
        PermissionOption::new(offer_id(offer), name, PermissionOptionKind::AllowAlways).meta(meta)
    });
    let no = PermissionOption::new(REJECT_ONCE, "Reject", PermissionOptionKind::RejectOnce);
    std::iter::once(once).chain(always).chain([no]).collect()
}

/// Returns the id of an offer, made of its grants: the same for equal offers, and different for others.
fn offer_id(offer: &GrantOffer) -> PermissionOptionId {
    let grants = offer.grants.iter().map(|grant| match grant {
        Grant::Tool(tool) => format!("tool:{}", word(tool)),
        Grant::Command(words) => {
            let words: Vec<_> = words.iter().map(|text| word(text)).collect();
            format!("command:{}", words.join(" "))
        }
        Grant::Path { access: Access::Read, path } => {
            format!("read:{}", word(&path.to_string_lossy()))
        }
        Grant::Path { access: Access::Write, path } => {
            format!("write:{}", word(&path.to_string_lossy()))
        }
        Grant::Host(host) => format!("host:{}", word(&host.to_string())),
    });
    let grants: Vec<_> = grants.collect();
    PermissionOptionId::new(format!("{ALLOW_SESSION}:{}", grants.join("|")))
}

/// Quotes a word that could be mistaken for two words or for syntax of the id.
fn word(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./=+@%,:".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("{text:?}")
    }
}

/// Returns the meaning of a client's answer to a question. An answer that was not offered is a rejection.
pub(crate) fn answer(
    outcome: &RequestPermissionOutcome,
    request: &PermissionRequest,
) -> PermissionReply {
    let selected = match outcome {
        RequestPermissionOutcome::Selected(selected) => &selected.option_id,
        RequestPermissionOutcome::Cancelled => return PermissionReply::Cancelled,
        _ => return PermissionReply::Answer(PermissionAnswer::Deny { feedback: None }),
    };
    let offered = request.offers.iter().find(|offer| offer_id(offer) == *selected);
    PermissionReply::Answer(match (selected.0.as_ref(), offered) {
        (ALLOW_ONCE, _) => PermissionAnswer::AllowOnce,
        (_, Some(offer)) => PermissionAnswer::AllowSession { grants: offer.grants.clone() },
        (_, None) => PermissionAnswer::Deny { feedback: None },
    })
}
