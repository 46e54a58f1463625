//! Questions of agents to the user: as a form, or as a choice where the client has no forms.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    EnumOption, MultiSelectPropertySchema, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, StringPropertySchema,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use crow_core::capability::{QuestionAnswer, QuestionChoice, QuestionRequest, UserQuestion};
use crow_text::neutralise;

/// The field of a form in which the user chooses.
const CHOICE: &str = "choice";
/// The field of a form in which the user writes.
const TEXT: &str = "text";
/// The option that stands for no answer.
const NONE: &str = "none";

/// Makes a form of a question.
pub(super) fn form(root: SessionId, asked: &QuestionRequest) -> CreateElicitationRequest {
    let UserQuestion { text, header, choices, multiple, free_text } = &asked.question;
    let mut schema = ElicitationSchema::new().title(header.as_deref().map(neutralise));
    let writes = *free_text || choices.is_empty();
    if !choices.is_empty() {
        let options = choices.iter().map(option).collect();
        schema = if *multiple {
            let field = MultiSelectPropertySchema::titled(options)
                .title("Choose".to_owned())
                .min_items((!writes).then_some(1));
            schema.property(CHOICE, field, !writes)
        } else {
            let field = StringPropertySchema::new().title("Choose".to_owned()).one_of(options);
            schema.property(CHOICE, field, !writes)
        };
    }
    if writes {
        let title = if choices.is_empty() { "Answer" } else { "Something else" };
        let field = StringPropertySchema::new().title(title.to_owned());
        schema = schema.property(TEXT, field, choices.is_empty());
    }
    let scope = ElicitationSessionScope::new(root)
        .tool_call_id(Some(asked.call_id.as_str().to_owned().into()));
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), neutralise(text))
}

fn option(choice: &QuestionChoice) -> EnumOption {
    // The answer is the label as it is; what is shown hides nothing.
    EnumOption::new(choice.label.clone(), neutralise(&choice.label))
        .description(choice.description.as_deref().map(neutralise))
}

/// Reads what the user filled in. What was written counts before what was chosen.
pub(super) fn form_answer(
    response: CreateElicitationResponse,
    question: &UserQuestion,
) -> QuestionAnswer {
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

/// An answer that the question does not take is none.
fn fitting(answer: QuestionAnswer, question: &UserQuestion) -> QuestionAnswer {
    if question.takes(&answer) { answer } else { QuestionAnswer::Declined }
}

/// Makes a choice of a question, if it is one.
pub(super) fn choice(root: SessionId, asked: &QuestionRequest) -> Option<RequestPermissionRequest> {
    let UserQuestion { text, choices, multiple, .. } = &asked.question;
    if choices.is_empty() || *multiple {
        return None;
    }
    let option = |(place, choice): (usize, &QuestionChoice)| {
        let name = match &choice.description {
            Some(description) => format!("{}: {description}", choice.label),
            None => choice.label.clone(),
        };
        PermissionOption::new(place.to_string(), neutralise(&name), PermissionOptionKind::AllowOnce)
    };
    let mut options: Vec<_> = choices.iter().enumerate().map(option).collect();
    options.push(PermissionOption::new(NONE, "None of these", PermissionOptionKind::RejectOnce));
    let fields = ToolCallUpdateFields::new().title(neutralise(text)).kind(ToolKind::Other);
    let call = ToolCallUpdate::new(asked.call_id.as_str().to_owned(), fields);
    Some(RequestPermissionRequest::new(root, call, options))
}

/// Reads what the user chose; none if the turn is being cancelled.
pub(super) fn choice_answer(
    outcome: RequestPermissionOutcome,
    question: &UserQuestion,
) -> Option<QuestionAnswer> {
    let RequestPermissionOutcome::Selected(selected) = outcome else { return None };
    let place = selected.option_id.0.parse::<usize>().ok();
    let chosen = place.and_then(|place| question.choices.get(place));
    Some(chosen.map_or(QuestionAnswer::Declined, |choice| QuestionAnswer::Chosen {
        labels: vec![choice.label.clone()],
    }))
}

/// The answer where the client has no way to ask. The model asks in its reply then.
pub(super) fn nobody() -> QuestionAnswer {
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
    fn what_is_filled_in_is_an_answer_only_if_it_fits() {
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
    fn without_forms_one_of_several_is_chosen_and_nothing_else() {
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
