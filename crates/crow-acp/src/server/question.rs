//! Permission requests and questions of agents to the user, and the client's answers to them. Questions are asked with
//! forms, or as a choice of options of clients without forms.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    EnumOption, MultiSelectPropertySchema, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, StringPropertySchema,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use crow_core::{
    capability::{
        PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionChoice, QuestionRequest,
        UserQuestion,
    },
    event::AgentEvent,
};
use crow_text::neutralise;

use super::{peer::SessionProgress, pump::Pump};
use crate::view::{self, PermissionReply};

impl Pump {
    /// Sends the client the question that an event asks, or withdraws the one that it settles.
    pub(super) async fn on_question_event(&mut self, event: &AgentEvent) {
        if let AgentEvent::PermissionRequest { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask(question);
            }
        }
        if let AgentEvent::QuestionAsked { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_user_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask_user(question);
            }
        }
        if let AgentEvent::PermissionWithdrawn { request_id, .. }
        | AgentEvent::PermissionDecision { request_id, .. }
        | AgentEvent::QuestionWithdrawn { request_id, .. }
        | AgentEvent::QuestionAnswered { request_id, .. } = event
            && let Some(task) = self.question_tasks.remove(request_id)
        {
            task.abort();
            if self.question_tasks.is_empty() {
                self.peer.report_progress(&self.root, SessionProgress::Running);
            }
        }
    }

    /// Asks the user about a call. The question is withdrawn when it is settled elsewhere.
    pub(super) fn ask(&mut self, question: PermissionRequest) {
        let request = self.view.permission_request(&question, &mut self.updates);
        self.send();
        let pending_response = self.peer.request_permission(request);
        let (handle, id) = (self.handle.clone(), question.id.clone());
        let task = self.tasks.spawn(async move {
            let answer = match pending_response.await {
                Ok(response) => match view::answer(&response.outcome, &question) {
                    PermissionReply::Answer(answer) => answer,
                    PermissionReply::Cancelled => return handle.interrupt(),
                },
                Err(error) => PermissionAnswer::Nobody {
                    hint: format!("the editor could not ask: {}", error.message),
                },
            };
            // Fails if the question was answered elsewhere first.
            drop(handle.answer(&question.id, answer));
        });
        self.question_tasks.insert(id, task);
        self.peer.report_progress(&self.root, SessionProgress::Asking);
    }

    /// Asks the user an agent's question: with a form, else with a choice, else answers that nobody can be asked.
    pub(super) fn ask_user(&mut self, request: QuestionRequest) {
        let root = self.root.clone();
        let id = request.id.clone();
        let handle = self.handle.clone();
        let task = if self.abilities.forms.is_yes() {
            let pending_form = self.peer.create_elicitation(form(root, &request));
            self.tasks.spawn(async move {
                let answer = match pending_form.await {
                    Ok(response) => form_answer(response, &request.question),
                    Err(_) => nobody(),
                };
                // Fails if the question was answered elsewhere first.
                drop(handle.answer_question(&request.id, answer));
            })
        } else if let Some(permission_request) = choice(root, &request) {
            let pending_choice = self.peer.request_permission(permission_request);
            self.tasks.spawn(async move {
                let answer = match pending_choice.await {
                    Ok(response) => choice_answer(response.outcome, &request.question),
                    Err(_) => Some(nobody()),
                };
                match answer {
                    Some(answer) => drop(handle.answer_question(&request.id, answer)),
                    None => handle.interrupt(),
                }
            })
        } else {
            // Fails if the question was answered elsewhere first.
            drop(self.handle.answer_question(&id, nobody()));
            return;
        };
        self.question_tasks.insert(id, task);
        self.peer.report_progress(&self.root, SessionProgress::Asking);
    }
}

/// Form field in which the user chooses.
const CHOICE: &str = "choice";
/// Form field in which the user writes.
const TEXT: &str = "text";
/// Id of the option "None of these".
const NONE: &str = "none";

/// Builds the form for a question.
pub(super) fn form(root: SessionId, request: &QuestionRequest) -> CreateElicitationRequest {
    let UserQuestion { text, header, choices, multiple, free_text } = &request.question;
    let mut schema = ElicitationSchema::new().title(header.as_deref().map(neutralise));
    let allows_text = *free_text || choices.is_empty();
    if !choices.is_empty() {
        let options = choices.iter().map(option).collect();
        schema = if *multiple {
            let field = MultiSelectPropertySchema::titled(options)
                .title("Choose".to_owned())
                .min_items((!allows_text).then_some(1));
            schema.property(CHOICE, field, !allows_text)
        } else {
            let field = StringPropertySchema::new().title("Choose".to_owned()).one_of(options);
            schema.property(CHOICE, field, !allows_text)
        };
    }
    if allows_text {
        let title = if choices.is_empty() { "Answer" } else { "Something else" };
        let field = StringPropertySchema::new().title(title.to_owned());
        schema = schema.property(TEXT, field, choices.is_empty());
    }
    let scope = ElicitationSessionScope::new(root)
        .tool_call_id(Some(request.call_id.as_str().to_owned().into()));
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), neutralise(text))
}

fn option(choice: &QuestionChoice) -> EnumOption {
    // The value is the raw label; the displayed one shows invisible characters as signs.
    EnumOption::new(choice.label.clone(), neutralise(&choice.label))
        .description(choice.description.as_deref().map(neutralise))
}

/// Converts a filled-in form to an answer. Written text takes precedence over a choice.
fn form_answer(response: CreateElicitationResponse, question: &UserQuestion) -> QuestionAnswer {
    let ElicitationAction::Accept(accepted) = response.action else {
        return QuestionAnswer::Declined;
    };
    let mut content: BTreeMap<_, _> = accepted.content.unwrap_or_default();
    if let Some(ElicitationContentValue::String(text)) = content.remove(TEXT)
        && !text.trim().is_empty()
    {
        return fitting(QuestionAnswer::Text { text }, question);
    }
    let labels = match content.remove(CHOICE) {
        Some(ElicitationContentValue::String(label)) => vec![label],
        Some(ElicitationContentValue::StringArray(labels)) => labels,
        _ => return QuestionAnswer::Declined,
    };
    fitting(QuestionAnswer::Chosen { labels }, question)
}

/// Returns the answer, or `Declined` if the question does not accept it.
fn fitting(answer: QuestionAnswer, question: &UserQuestion) -> QuestionAnswer {
    if question.accepts(&answer) { answer } else { QuestionAnswer::Declined }
}

/// Builds a choice of options for a question; `None` if it has no choices or allows several.
pub(super) fn choice(
    root: SessionId,
    request: &QuestionRequest,
) -> Option<RequestPermissionRequest> {
    let UserQuestion { text, choices, multiple, .. } = &request.question;
    if choices.is_empty() || *multiple {
        return None;
    }
    let option = |(index, choice): (usize, &QuestionChoice)| {
        let name = match &choice.description {
            Some(description) => format!("{}: {description}", choice.label),
            None => choice.label.clone(),
        };
        PermissionOption::new(index.to_string(), neutralise(&name), PermissionOptionKind::AllowOnce)
    };
    let mut options: Vec<_> = choices.iter().enumerate().map(option).collect();
    options.push(PermissionOption::new(NONE, "None of these", PermissionOptionKind::RejectOnce));
    let fields = ToolCallUpdateFields::new().title(neutralise(text)).kind(ToolKind::Other);
    let call = ToolCallUpdate::new(request.call_id.as_str().to_owned(), fields);
    Some(RequestPermissionRequest::new(root, call, options))
}

/// Converts the user's choice to an answer; `None` if the turn is being cancelled.
fn choice_answer(
    outcome: RequestPermissionOutcome,
    question: &UserQuestion,
) -> Option<QuestionAnswer> {
    let RequestPermissionOutcome::Selected(selected) = outcome else { return None };
    let index = selected.option_id.0.parse::<usize>().ok();
    let chosen = index.and_then(|index| question.choices.get(index));
    Some(chosen.map_or(QuestionAnswer::Declined, |choice| QuestionAnswer::Chosen {
        labels: vec![choice.label.clone()],
    }))
}

/// Returns the answer for clients that cannot ask. Its hint tells the model to ask in its reply.
fn nobody() -> QuestionAnswer {
    let hint = "this editor has no way to ask; ask in your reply and end your turn with it";
    QuestionAnswer::Nobody { hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::{ElicitationAcceptAction, SelectedPermissionOutcome};
    use crow_core::ids::{CallId, RequestId};
    use serde_json::json;

    use super::*;

    fn asked(choices: &[&str], multiple: bool, free_text: bool) -> QuestionRequest {
        let choice = |label: &&str| QuestionChoice { label: (*label).into(), description: None };
        QuestionRequest {
            id: RequestId::new("q"),
            session_id: crow_core::ids::SessionId::new("s"),
            agent: "builder".into(),
            call_id: CallId::new("c"),
            question: UserQuestion {
                text: "Which?".into(),
                header: Some("Colour".into()),
                choices: choices.iter().map(choice).collect(),
                multiple,
                free_text,
            },
        }
    }

    fn accepted(content: serde_json::Value) -> CreateElicitationResponse {
        let content: BTreeMap<String, ElicitationContentValue> =
            serde_json::from_value(content).unwrap();
        let action = ElicitationAcceptAction::new().content(content);
        CreateElicitationResponse::new(ElicitationAction::Accept(action))
    }

    #[test]
    fn a_form_has_a_field_for_each_way_to_answer() {
        let form = |asked| serde_json::to_value(form("s".into(), &asked)).unwrap();
        let one = form(asked(&["red", "blue"], false, false));
        assert_eq!(one["message"], "Which?");
        assert_eq!(one["sessionId"], "s");
        assert_eq!(one["toolCallId"], "c");
        let schema = &one["requestedSchema"];
        assert_eq!(schema["required"], json!(["choice"]));
        assert_eq!(schema["properties"]["choice"]["oneOf"][1]["const"], "blue");
        let several = form(asked(&["red", "blue"], true, true));
        let schema = &several["requestedSchema"];
        assert_eq!(schema["required"], json!(null));
        assert_eq!(schema["properties"]["choice"]["type"], "array");
        assert_eq!(schema["properties"]["text"]["type"], "string");
        let free = form(asked(&[], false, true));
        assert_eq!(free["requestedSchema"]["required"], json!(["text"]));
    }

    #[test]
    fn a_form_answer_that_does_not_fit_the_question_is_declined() {
        let chosen = |labels: &[&str]| QuestionAnswer::Chosen {
            labels: labels.iter().map(|label| (*label).into()).collect(),
        };
        let one = asked(&["red", "blue"], false, false).question;
        let both = asked(&["red", "blue"], true, true).question;
        let table = [
            (&one, json!({ "choice": "red" }), chosen(&["red"])),
            (&one, json!({ "choice": "green" }), QuestionAnswer::Declined),
            (&one, json!({ "text": "x" }), QuestionAnswer::Declined),
            (&one, json!({}), QuestionAnswer::Declined),
            (&both, json!({ "choice": ["red", "blue"] }), chosen(&["red", "blue"])),
            (
                &both,
                json!({ "choice": ["red"], "text": "green" }),
                QuestionAnswer::Text { text: "green".into() },
            ),
        ];
        for (question, content, answer) in table {
            assert_eq!(form_answer(accepted(content.clone()), question), answer, "{content}");
        }
        let declined = CreateElicitationResponse::new(ElicitationAction::Decline);
        assert_eq!(form_answer(declined, &one), QuestionAnswer::Declined);
    }

    #[test]
    fn without_forms_only_single_choice_questions_are_asked() {
        let asked = asked(&["red", "blue"], false, true);
        let request = choice("s".into(), &asked).unwrap();
        let names: Vec<_> = request.options.iter().map(|option| option.name.as_str()).collect();
        assert_eq!(names, ["red", "blue", "None of these"]);
        let answer = |option: &str| {
            let outcome = SelectedPermissionOutcome::new(option.to_owned());
            choice_answer(RequestPermissionOutcome::Selected(outcome), &asked.question)
        };
        assert_eq!(answer("1"), Some(QuestionAnswer::Chosen { labels: vec!["blue".into()] }));
        assert_eq!(answer("none"), Some(QuestionAnswer::Declined));
        assert_eq!(answer("7"), Some(QuestionAnswer::Declined));
        assert_eq!(choice_answer(RequestPermissionOutcome::Cancelled, &asked.question), None);
        assert_eq!(choice("s".into(), &self::asked(&[], false, true)), None);
        assert_eq!(choice("s".into(), &self::asked(&["a"], true, true)), None);
    }
}
