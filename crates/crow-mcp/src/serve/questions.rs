//! The open questions of a task, and their answers: as elicitation, or as texts.

use crow_core::{
    capability::{
        PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionRequest, UserQuestion,
    },
    ids::RequestId,
    permission::GrantOffer,
};
use crow_runtime::AgentHandle;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, JsonObject};
use serde_json::{Value, json};

const ALLOW: &str = "allow";
const DENY: &str = "deny";
const DECLINE: &str = "decline";

/// A question that a task waits for.
#[derive(Debug, Clone)]
pub(super) enum TaskQuestion {
    /// Whether a call may run.
    Permission(PermissionRequest),
    /// A question of the agent.
    User(QuestionRequest),
}

impl TaskQuestion {
    /// Returns the open questions of a task.
    pub(super) fn open(handle: &AgentHandle) -> Vec<Self> {
        let permissions = handle.open_questions().into_iter().map(Self::Permission);
        permissions.chain(handle.open_user_questions().into_iter().map(Self::User)).collect()
    }

    pub(super) fn id(&self) -> &RequestId {
        match self {
            Self::Permission(request) => &request.id,
            Self::User(request) => &request.id,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Permission(request) => {
                let PermissionRequest { tool, title, reason, .. } = request;
                format!("May {tool} run? {title} ({reason})")
            }
            Self::User(request) => request.question.text.clone(),
        }
    }

    /// Returns the answers to choose from; empty if the answer is a text.
    fn choices(&self) -> Vec<String> {
        match self {
            Self::Permission(request) => {
                let always = request.offers.iter().map(always_label);
                [ALLOW.to_owned()].into_iter().chain(always).chain([DENY.to_owned()]).collect()
            }
            Self::User(request) => {
                request.question.choices.iter().map(|choice| choice.label.clone()).collect()
            }
        }
    }

    fn is_multiple(&self) -> bool {
        matches!(self, Self::User(request) if request.question.multiple)
    }

    fn takes_text(&self) -> bool {
        match self {
            Self::Permission(_) => false,
            Self::User(request) => {
                request.question.free_text || request.question.choices.is_empty()
            }
        }
    }

    /// Returns the question as a value of a result.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "question": self.id().as_str(),
            "text": self.text(),
            "choices": self.choices(),
            "takes_text": self.takes_text(),
            "several": self.is_multiple(),
        })
    }

    /// Returns the question as a form for the client's user.
    pub(super) fn to_form(&self) -> Option<ElicitRequestParams> {
        let (mut choices, takes_text) = (self.choices(), self.takes_text());
        let answer = if choices.is_empty() {
            json!({"type": "string", "title": "Answer", "minLength": 1})
        } else if self.is_multiple() {
            json!({"type": "array", "title": "Answer", "items": {"type": "string", "enum": choices}})
        } else {
            if takes_text {
                choices.push(OTHER.to_owned());
            }
            json!({"type": "string", "title": "Answer", "enum": choices})
        };
        let mut properties = JsonObject::new();
        let has_choices = !self.choices().is_empty();
        properties.insert("answer".to_owned(), answer);
        if matches!(self, Self::Permission(_)) {
            let title = "What to do instead, if it is denied";
            properties.insert("feedback".to_owned(), json!({"type": "string", "title": title}));
        } else if has_choices && takes_text {
            properties
                .insert("text".to_owned(), json!({"type": "string", "title": "Other answer"}));
        }
        let form = json!({
            "mode": "form",
            "message": self.text(),
            "requestedSchema": {"type": "object", "properties": properties, "required": ["answer"]},
        });
        serde_json::from_value(form).ok()
    }

    /// Answers the question with the form that the user filled in. Fails with a text if the answer does not fit.
    pub(super) fn answer_form(
        &self,
        handle: &AgentHandle,
        filled: ElicitResult,
    ) -> Result<(), String> {
        if filled.action != ElicitationAction::Accept {
            let answer = if matches!(self, Self::Permission(_)) { DENY } else { DECLINE };
            return self.answer(handle, answer, None);
        }
        let content = filled.content.unwrap_or_default();
        let text = |name: &str| content.get(name).and_then(Value::as_str);
        let answer = match content.get("answer") {
            Some(Value::Array(labels)) => {
                labels.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
            }
            Some(Value::String(answer)) if answer == OTHER => {
                text("text").unwrap_or_default().to_owned()
            }
            Some(Value::String(answer)) => answer.clone(),
            _ => String::new(),
        };
        self.answer(handle, &answer, text("feedback"))
    }

    /// Answers the question with a text: a choice, several choices on lines of their own, or words. Fails with a text if
    /// the answer does not fit, or the question is closed.
    pub(super) fn answer(
        &self,
        handle: &AgentHandle,
        answer: &str,
        feedback: Option<&str>,
    ) -> Result<(), String> {
        let answer = answer.trim();
        match self {
            Self::Permission(request) => {
                let answer = permission_answer(request, answer, feedback)
                    .ok_or_else(|| format!("answer with one of: {}", self.choices().join(", ")))?;
                handle.answer(&request.id, answer).map_err(|error| error.to_string())
            }
            Self::User(request) => {
                let answer = user_answer(&request.question, answer);
                if !request.question.accepts(&answer) {
                    return Err(format!("answer with one of: {}", self.choices().join(", ")));
                }
                handle.answer_question(&request.id, answer).map_err(|error| error.to_string())
            }
        }
    }
}

/// Choice of a form for an answer in words.
const OTHER: &str = "(other)";

fn always_label(offer: &GrantOffer) -> String {
    format!("always in this session: {}", offer.label)
}

fn permission_answer(
    request: &PermissionRequest,
    answer: &str,
    feedback: Option<&str>,
) -> Option<PermissionAnswer> {
    if answer.eq_ignore_ascii_case(ALLOW) {
        return Some(PermissionAnswer::AllowOnce);
    }
    if answer.eq_ignore_ascii_case(DENY) {
        let feedback = feedback.map(str::trim).filter(|text| !text.is_empty());
        return Some(PermissionAnswer::Deny { feedback: feedback.map(str::to_owned) });
    }
    let offer = request.offers.iter().find(|offer| always_label(offer) == answer)?;
    Some(PermissionAnswer::AllowSession { grants: offer.grants.clone() })
}

fn user_answer(question: &UserQuestion, answer: &str) -> QuestionAnswer {
    let is_label = |text: &str| question.choices.iter().any(|choice| choice.label == text);
    let labels: Vec<String> = answer.lines().map(|line| line.trim().to_owned()).collect();
    if is_label(answer) {
        return QuestionAnswer::Chosen { labels: vec![answer.to_owned()] };
    }
    if !labels.is_empty() && labels.iter().all(|label| is_label(label)) {
        return QuestionAnswer::Chosen { labels };
    }
    if answer == DECLINE {
        return QuestionAnswer::Declined;
    }
    QuestionAnswer::Text { text: answer.to_owned() }
}
