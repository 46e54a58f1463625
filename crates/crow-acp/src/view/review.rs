//! Reviews, each of which is shown as a call.

use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallId, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use crow_core::{
    event::Verdict,
    ids::{CallId, SessionId},
};
use serde_json::{Map, Value, json};

use super::{
    call::CallViews,
    content::{bounded_arguments, prose},
    event::{EventContext, SessionView, single_key},
    open_call::{CallKeyInView, OpenCallView},
    tool_display::{Rank, ResultDisplay, ToolDisplay},
};

const SHOWING: ToolDisplay =
    ToolDisplay { kind: ToolKind::Think, body: ResultDisplay::Prose, rank: Rank::Major };

/// Prefix of the keys of reviews. Ids of calls do not have it, because models write no line feeds in them.
const MARK: &str = "review\n";

fn key(primary: &SessionId, coagent: &str) -> CallKeyInView {
    (primary.clone(), CallId::new(format!("{MARK}{coagent}")))
}

impl CallViews {
    /// Returns the open review of a session's work by a coagent.
    pub(super) fn open_review(&self, primary: &SessionId, coagent: &str) -> Option<ToolCallId> {
        let (session, call) = key(primary, coagent);
        self.open_id(&session, &call)
    }

    /// Returns the coagents whose reviews of a session's work are open.
    fn open_reviewers(&self, primary: &SessionId) -> Vec<String> {
        let keys = self.open_keys().filter(|(session, _)| session == primary);
        keys.filter_map(|(_, call)| Some(call.as_str().strip_prefix(MARK)?.to_owned())).collect()
    }
}

impl SessionView {
    /// Begins a review: at the handoff, which is in the log, or at the coagent's start for a client that missed it.
    pub(super) fn begin_review(
        &mut self,
        at: &mut EventContext<'_>,
        coagent: &str,
        handoff: Option<&str>,
    ) {
        self.children.add_reviewer(&at.who.session, coagent);
        let key = key(&at.who.session, coagent);
        if self.calls.is_open(&key) {
            return;
        }
        let title = format!("Review {} — {coagent}", at.who.round.max(1));
        let id = if let Some(seq) = at.seq {
            format!("review-{seq}")
        } else {
            format!("review-{}-{}", at.who.round, self.notices.next_number())
        };
        let session = at.display.session(&self.root);
        let who = at.who.clone();
        let id = ToolCallId::new(id);
        let mut call = OpenCallView::new(key, id, session, who, (title, SHOWING));
        call.status = ToolCallStatus::InProgress;
        let input = handoff
            .map(|handoff| bounded_arguments(&json!({ "reviewer": coagent, "handoff": handoff })));
        let shown = ToolCall::new(call.id.clone(), call.title.clone())
            .name("review")
            .kind(SHOWING.kind)
            .status(call.status)
            .raw_input(input)
            .meta(call.who.meta_with(single_key("reviewer", coagent)));
        at.send(call.session.clone(), SessionUpdate::ToolCall(shown));
        self.calls.push(call);
    }

    /// Ends the reviews of a round. One without a verdict has no other end in the log.
    pub(super) fn end_reviews(&mut self, at: &mut EventContext<'_>) {
        for coagent in self.calls.open_reviewers(&at.who.session) {
            self.end_review(at, &coagent, None);
        }
    }

    pub(super) fn end_review(
        &mut self,
        at: &mut EventContext<'_>,
        coagent: &str,
        verdict: Option<Verdict>,
    ) {
        let key = key(&at.who.session, coagent);
        let Some(mut call) = self.calls.take(&key) else { return };
        at.out.extend(call.catch_up());
        let (status, label) = match verdict {
            Some(Verdict::Approved) => (ToolCallStatus::Completed, Some("approved")),
            Some(Verdict::Rejected) => (ToolCallStatus::Failed, Some("rejected")),
            Some(Verdict::Unfinished) => (ToolCallStatus::Failed, Some("unfinished")),
            None => (ToolCallStatus::Completed, None),
        };
        let mut output = Map::new();
        let mut fields = ToolCallUpdateFields::new().status(status);
        if let Some(label) = label {
            output.insert("verdict".to_owned(), label.into());
            let text = match label {
                "approved" => "**Approved.**",
                "unfinished" => "**Not finished.**",
                _ => "**Sent back.**",
            };
            let mut content = call.content.clone();
            content.push(prose(text));
            fields = fields.content(content);
        }
        let review_text = call.text();
        if !review_text.is_empty() {
            output.insert("text".to_owned(), review_text.into());
        }
        if !output.is_empty() {
            fields = fields.raw_output(bounded_arguments(&Value::Object(output)));
        }
        at.out.push(call.update(fields, Map::new()));
    }
}
