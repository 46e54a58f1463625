//! Questions about calls, and what the answers mean.

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
use crow_text::exact;
use serde_json::{Map, Value};

use super::{
    call::Facts,
    content::{fenced_command, prose},
    diff::of_preview,
    event::{EventPosition, EventSource, SessionView},
    kind::showing,
    outgoing::SessionUpdateOut,
    text::title,
    who::only,
};

const ALLOW_ONCE: &str = "allow_once";
const REJECT_ONCE: &str = "reject_once";
const ALLOW_SESSION: &str = "allow_session";

/// What a client's answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PermissionReply {
    /// This.
    Answer(PermissionAnswer),
    /// The turn is being cancelled, and nobody answered.
    Cancelled,
}

impl SessionView {
    /// Makes the question whether a call may run. The call is shown before, if it was not yet: `out` goes first.
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
        let stage = self.stage_of(&who);
        let arguments = self.arguments(&key);
        let (tool, words) = (request.tool.as_str(), request.title.as_str());
        let patch = request.preview.as_ref().map(|preview| &preview.patch);
        self.calls.ask_about(key.clone());
        if !self.calls.is_open(&key) {
            let facts = Facts { tool, title: words, arguments: &arguments };
            let at = &mut EventPosition {
                who: &who,
                stage: &stage,
                source: EventSource::Live,
                seq: None,
                out,
            };
            self.open_call(at, key.clone(), facts, (ToolCallStatus::Pending, patch));
        }
        let diffs = match patch {
            Some(patch) => of_preview(self.contents.as_ref(), &self.cwd, patch, (tool, &arguments)),
            None => super::diff::DiffDisplay::default(),
        };
        let session = self.session_of(&stage);
        let name = format!("{}{}", who.prefix(), title(words));
        let (id, shown, content) = if let Some(call) = self.calls.get_mut(&key) {
            let content = call.wait(|shown| question(shown, diffs.content, request));
            (call.id.clone(), call.title.clone(), content)
        } else {
            let id = request.call_id.as_str().to_owned().into();
            (id, name, question(Vec::new(), diffs.content, request))
        };
        let mut fields = ToolCallUpdateFields::new()
            .title(if shown.starts_with(&who.prefix()) { shown } else { who.prefix() + &shown })
            .name(tool)
            .kind(showing(tool).kind)
            .status(ToolCallStatus::Pending)
            .content(content);
        if !diffs.locations.is_empty() {
            fields = fields.locations(diffs.locations);
        }
        if !arguments.is_null() {
            fields = fields.raw_input(super::content::raw(&arguments));
        }
        let reason = exact(&request.reason);
        let meta = who.meta_with(only("reason", reason.as_str()));
        let call = ToolCallUpdate::new(id, fields).meta(meta.clone());
        RequestPermissionRequest::new(session, call, options(request)).meta(meta)
    }
}

/// What is shown with the question: the change or the whole command, and why it is asked.
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
        content.push(prose(&exact(&request.reason)));
    }
    content
}

/// Returns the answers that the user can give: once, for the session as each offer says, or no. A rejection for good is
/// no answer that an agent takes.
fn options(request: &PermissionRequest) -> Vec<PermissionOption> {
    let once = PermissionOption::new(ALLOW_ONCE, "Allow", PermissionOptionKind::AllowOnce);
    let always = request.offers.iter().map(|offer| {
        let name = format!("Allow in this session: {}", title(&offer.label));
        let grants = serde_json::to_value(&offer.grants).unwrap_or_default();
        let meta = Map::from_iter([("crow".to_owned(), Value::Object(only("grants", grants)))]);
        PermissionOption::new(offer_id(offer), name, PermissionOptionKind::AllowAlways).meta(meta)
    });
    let no = PermissionOption::new(REJECT_ONCE, "Reject", PermissionOptionKind::RejectOnce);
    std::iter::once(once).chain(always).chain([no]).collect()
}

/// Names an offer by what it allows, so that the same offer always has the same id, and another one another.
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
    });
    let grants: Vec<_> = grants.collect();
    PermissionOptionId::new(format!("{ALLOW_SESSION}:{}", grants.join("|")))
}

/// Quotes what would not be told apart from two words.
fn word(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./=+@%,:".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("{text:?}")
    }
}

/// Returns what a client's answer to a question means. An answer that was not offered allows nothing.
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
