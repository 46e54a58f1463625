//! `ask_user`.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use crow_core::{
    capability::{QuestionAnswer, QuestionChoice, UserQuestion, UserQuestions},
    ids::CallId,
    tool::{Effects, ToolError, ToolStatus},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::Bench;

/// A user who gives every question the same answer. Records the questions.
#[derive(Debug)]
struct User {
    answer: Option<QuestionAnswer>,
    received: Mutex<Vec<UserQuestion>>,
}

#[async_trait]
impl UserQuestions for User {
    async fn ask(
        &self,
        _call_id: &CallId,
        question: UserQuestion,
        _cancellation: &CancellationToken,
    ) -> Option<QuestionAnswer> {
        self.received.lock().unwrap().push(question);
        self.answer.clone()
    }
}

/// Creates a bench with a user who gives this answer.
fn bench(answer: Option<QuestionAnswer>) -> (Bench, Arc<User>) {
    let user = Arc::new(User { answer, received: Mutex::default() });
    let mut bench = Bench::new();
    Arc::get_mut(&mut bench.ctx.agent).unwrap().questions = Some(Arc::clone(&user) as _);
    (bench, user)
}

fn choice(label: &str, description: Option<&str>) -> QuestionChoice {
    QuestionChoice { label: label.into(), description: description.map(str::to_owned) }
}

#[tokio::test]
async fn the_question_is_asked_with_its_choices_and_the_answer_is_returned() {
    let (bench, user) = bench(Some(QuestionAnswer::Chosen { labels: vec!["SQLite".into()] }));
    let input = json!({"question": " Which database? ", "choices": ["SQLite", "PostgreSQL"]});
    let result = bench.run("ask_user", input).await;
    assert_eq!(result.output, "The user chose: SQLite");
    assert_eq!(result.metadata.extra["answer"]["labels"], json!(["SQLite"]));
    let expected = UserQuestion {
        text: "Which database?".into(),
        header: None,
        choices: vec![choice("SQLite", None), choice("PostgreSQL", None)],
        multiple: false,
        free_text: true,
    };
    assert_eq!(*user.received.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn ask_user_accepts_the_parameter_names_of_other_agents() {
    let (bench, user) = bench(Some(QuestionAnswer::Declined));
    let options = json!([{"label": "a", "description": "the first"}, {"label": "b"}]);
    let input =
        json!({"question": "?", "header": "Letters", "options": options, "multiSelect": true});
    bench.ok("ask_user", input).await;
    let received = user.received.lock().unwrap();
    assert_eq!(received[0].header.as_deref(), Some("Letters"));
    assert_eq!(received[0].choices, [choice("a", Some("the first")), choice("b", None)]);
    assert!(received[0].multiple);
}

#[tokio::test]
async fn each_kind_of_answer_is_described_in_words() {
    let table = [
        (QuestionAnswer::Text { text: "neither".into() }, "The user wrote: neither", true),
        (
            QuestionAnswer::Chosen { labels: vec!["a".into(), "b".into()] },
            "The user chose: a; b",
            true,
        ),
        (QuestionAnswer::Declined, "The user does not want to answer.", true),
        (
            QuestionAnswer::Nobody { hint: "there is no terminal".into() },
            "The user cannot be asked now: there is no terminal.",
            false,
        ),
    ];
    for (answer, expected, succeeds) in table {
        let (bench, _) = bench(Some(answer));
        let result = bench.run("ask_user", json!({"question": "Which?"})).await;
        assert!(result.output.starts_with(expected), "{}", result.output);
        assert_eq!(result.status == ToolStatus::Success, succeeds);
    }
}

#[tokio::test]
async fn a_question_that_was_withdrawn_is_a_cancelled_call() {
    let (bench, _) = bench(None);
    let result = bench.run("ask_user", json!({"question": "Which?"})).await;
    assert_eq!(result.status, ToolStatus::Cancelled);
}

#[tokio::test]
async fn ask_user_fails_at_once_without_a_connected_user() {
    let text = Bench::new().fails("ask_user", json!({"question": "Which?"})).await;
    assert!(text.starts_with("The user cannot be asked now: no user is connected."), "{text}");
}

#[tokio::test]
async fn an_invalid_question_is_refused_before_the_user_is_asked() {
    let (bench, user) = bench(Some(QuestionAnswer::Declined));
    let many: Vec<_> = (0..21).map(|number| number.to_string()).collect();
    for input in [
        json!({"question": "  "}),
        json!({"question": "?", "choices": ["a", "a"]}),
        json!({"question": "?", "choices": [" "]}),
        json!({"question": "?", "choices": many}),
    ] {
        let refused = bench.plan("ask_user", &input).await.unwrap_err();
        assert!(matches!(refused, ToolError::Model(_)), "{input}");
    }
    assert_eq!(user.received.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_question_has_no_effects_and_its_first_line_is_its_title() {
    let plan = Bench::new().plan("ask_user", &json!({"question": "Which?\nThe old one…"})).await;
    let plan = plan.unwrap();
    assert_eq!((plan.title.as_str(), plan.effects), ("ask: Which?", Effects::None));
}

#[test]
fn choices_are_offered_to_the_model_as_plain_strings() {
    let schema = Bench::new().tool("ask_user").parameters_schema();
    assert_eq!(schema["properties"]["choices"]["items"], json!({"type": "string"}));
    assert_eq!(schema["properties"]["header"], Value::Null);
}
