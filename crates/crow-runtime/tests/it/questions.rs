//! Questions to the user from within calls.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{
        Answerer, NoAnswerer, PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionChoice,
        QuestionRequest, SideRequest, UserQuestion,
    },
    event::{AgentEvent, Envelope},
    ids::RequestId,
    message::Block,
    redact::Redactor,
    tool::{
        CallPlan, ToolCategory, ToolContext, ToolRegistry, ToolResult, TypedTool, TypedToolAdapter,
    },
};
use crow_runtime::{AnswerError, HandleAnswerer, RuntimeConfig};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::support::SOON;

/// Tool that asks the user to choose `left` or `right`.
struct Choose;

#[derive(Deserialize, JsonSchema)]
struct Input {
    question: String,
}

#[async_trait]
impl TypedTool for Choose {
    type Input = Input;
    const NAME: &'static str = "choose";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Asks."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(&self, input: Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let choice = |label: &str| QuestionChoice { label: label.into(), description: None };
        let question = UserQuestion {
            text: input.question,
            header: None,
            choices: vec![choice("left"), choice("right")],
            multiple: false,
            free_text: true,
        };
        let questions = ctx.questions.as_ref().unwrap();
        match questions.ask(&ctx.call_id, question, &ctx.cancellation).await {
            Some(answer) => ToolResult::success(format!("{answer:?}")),
            None => ToolResult::cancelled(),
        }
    }
}

fn options(answerer: Arc<dyn Answerer>) -> HarnessOptions {
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(Choose));
    let runtime = RuntimeConfig { answerer, ..RuntimeConfig::default() };
    HarnessOptions { tools, runtime, ..HarnessOptions::default() }
}

fn model() -> ScriptedModel {
    let ask = call("c1", "choose", json!({"question": "Where to?"}));
    ScriptedModel::new([reply([ask]), reply([text("done")])])
}

/// Starts an agent and returns it with the id of the question that it waits for.
async fn asking() -> (AgentHarness, RequestId) {
    let mut agent = AgentHarness::start(model(), options(Arc::new(HandleAnswerer)));
    agent.handle.send_input(Vec::new()).unwrap();
    let id = question_id(&agent.until(is_question).await);
    (agent, id)
}

fn is_question(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::QuestionAsked { .. })
}

fn is_end(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::RunEnd { .. })
}

fn question_id(seen: &[Arc<Envelope>]) -> RequestId {
    let AgentEvent::QuestionAsked { request_id, .. } = &seen.last().unwrap().event else {
        panic!("no question: {seen:?}")
    };
    request_id.clone()
}

fn answers(seen: &[Arc<Envelope>]) -> Vec<QuestionAnswer> {
    let answers = seen.iter().filter_map(|event| match &event.event {
        AgentEvent::QuestionAnswered { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    answers.collect()
}

/// Returns the result of the last call.
fn result(seen: &[Arc<Envelope>]) -> ToolResult {
    let end = seen.iter().rev().find_map(|event| match &event.event {
        AgentEvent::CallEnd { result, .. } => Some(result.clone()),
        _ => None,
    });
    end.unwrap()
}

fn choose_left() -> QuestionAnswer {
    QuestionAnswer::Chosen { labels: vec!["left".into()] }
}

#[tokio::test]
async fn a_question_is_listed_until_it_is_answered_and_the_call_gets_the_answer() {
    let (mut agent, id) = asking().await;
    let listed = agent.handle.open_user_questions();
    assert_eq!(listed.iter().map(|ask| &ask.id).collect::<Vec<_>>(), [&id]);
    assert_eq!(
        (listed[0].agent.as_str(), listed[0].question.text.as_str()),
        ("builder", "Where to?")
    );
    agent.handle.answer_question(&id, choose_left()).unwrap();
    let seen = agent.until(is_end).await;
    assert!(agent.handle.open_user_questions().is_empty());
    assert_eq!(answers(&seen), [choose_left()]);
    assert!(result(&seen).output.contains("left"));
}

#[tokio::test]
async fn question_and_answer_are_in_the_log() {
    let (mut agent, id) = asking().await;
    agent.handle.answer_question(&id, choose_left()).unwrap();
    agent.until(is_end).await;
    let stored = agent.runtime.config().store.read(agent.handle.session_id()).unwrap();
    let logged: Vec<_> = stored
        .events
        .iter()
        .filter_map(|line| match &line.event {
            AgentEvent::QuestionAsked { request_id, call_id, question } => {
                Some(format!("{} {call_id} {}", *request_id == id, question.text))
            }
            AgentEvent::QuestionAnswered { request_id, answer, .. } => {
                Some(format!("{} {answer:?}", *request_id == id))
            }
            _ => None,
        })
        .collect();
    assert_eq!(logged, ["true c1 Where to?".to_owned(), format!("true {:?}", choose_left())]);
}

#[tokio::test]
async fn an_unoffered_answer_is_refused_and_the_question_stays_open() {
    let (agent, id) = asking().await;
    let up = QuestionAnswer::Chosen { labels: vec!["up".into()] };
    let refused = agent.handle.answer_question(&id, up);
    assert_eq!(refused, Err(AnswerError::NotOffered { id: id.clone() }));
    assert_eq!(agent.handle.open_user_questions().len(), 1);
    agent.handle.answer_question(&id, QuestionAnswer::Text { text: "up".into() }).unwrap();
    let refused = agent.handle.answer_question(&id, choose_left());
    assert_eq!(refused, Err(AnswerError::Answered { id }));
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question_before_the_call_ends() {
    let (mut agent, id) = asking().await;
    agent.handle.interrupt();
    let seen = agent.until(is_end).await;
    let order: Vec<_> = seen
        .iter()
        .filter_map(|event| match &event.event {
            AgentEvent::QuestionWithdrawn { request_id, .. } if *request_id == id => {
                Some("withdrawn")
            }
            AgentEvent::CallEnd { .. } => Some("call end"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["withdrawn", "call end"]);
    let refused = agent.handle.answer_question(&id, choose_left());
    assert_eq!(refused, Err(AnswerError::Withdrawn { id }));
    assert!(agent.handle.open_user_questions().is_empty());
}

#[tokio::test]
async fn an_abort_withdraws_the_user_question() {
    let (agent, id) = asking().await;
    agent.handle.abort();
    tokio::time::timeout(SOON, agent.handle.wait_for_end()).await.unwrap();
    let refused = agent.handle.answer_question(&id, choose_left());
    assert_eq!(refused, Err(AnswerError::Withdrawn { id }));
}

#[tokio::test]
async fn without_an_answerer_a_question_is_answered_at_once_with_nobody() {
    let mut agent = AgentHarness::start(model(), options(Arc::new(NoAnswerer)));
    let seen = agent.run("go").await;
    assert!(matches!(answers(&seen)[..], [QuestionAnswer::Nobody { .. }]));
    assert!(result(&seen).output.contains("Nobody"));
}

/// Gives an answer that the question does not offer.
#[derive(Debug)]
struct InvalidAnswerer;

#[async_trait]
impl Answerer for InvalidAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::AllowOnce
    }

    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        QuestionAnswer::Chosen { labels: vec!["up".into()] }
    }
}

#[tokio::test]
async fn an_invalid_answer_of_the_answerer_becomes_nobody() {
    let mut agent = AgentHarness::start(model(), options(Arc::new(InvalidAnswerer)));
    let seen = agent.run("go").await;
    let hint = "the answer does not fit the question".to_owned();
    assert_eq!(answers(&seen), [QuestionAnswer::Nobody { hint }]);
}

#[tokio::test]
async fn several_calls_can_ask_concurrently() {
    let calls = ["c1", "c2"].map(|id| call(id, "choose", json!({"question": id})));
    let model = ScriptedModel::new([reply(calls), reply([text("done")])]);
    let mut agent = AgentHarness::start(model, options(Arc::new(HandleAnswerer)));
    agent.handle.send_input(Vec::new()).unwrap();
    agent.until(is_question).await;
    agent.until(is_question).await;
    for request in agent.handle.open_user_questions().iter().rev() {
        let text = format!("answer to {}", request.question.text);
        agent.handle.answer_question(&request.id, QuestionAnswer::Text { text }).unwrap();
    }
    let seen = agent.until(is_end).await;
    let answered = seen.iter().filter_map(|event| match &event.event {
        AgentEvent::CallEnd { call_id, result, .. } => {
            Some(result.output.contains(&format!("answer to {call_id}")))
        }
        _ => None,
    });
    assert_eq!(answered.collect::<Vec<_>>(), [true, true]);
}

#[tokio::test]
async fn secrets_in_questions_and_answers_are_redacted() {
    let secret = "hunter2-hunter2-hunter2";
    let ask = call("c1", "choose", json!({"question": format!("Is it {secret}?")}));
    let model = ScriptedModel::new([reply([ask]), reply([text("done")])]);
    let mut options = options(Arc::new(HandleAnswerer));
    options.runtime.redactor = Redactor::new([secret.to_owned()]);
    let mut agent = AgentHarness::start(model, options);
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(is_question).await;
    let [request] = &agent.handle.open_user_questions()[..] else { panic!("no question") };
    assert!(!request.question.text.contains(secret));
    let text = format!("no, {secret} it is not");
    agent.handle.answer_question(&request.id, QuestionAnswer::Text { text }).unwrap();
    let rest = agent.until(is_end).await;
    for event in seen.iter().chain(&rest) {
        let line = serde_json::to_string(event.as_ref()).unwrap();
        assert!(!line.contains(secret), "{line}");
    }
}

/// Tool that asks the model beside the conversation.
struct Consult;

#[async_trait]
impl TypedTool for Consult {
    type Input = Input;
    const NAME: &'static str = "consult";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Asks the model."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(&self, input: Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let request = SideRequest {
            system: "Be brief.".to_owned(),
            content: vec![Block::text(input.question)],
            max_tokens: 100,
            temperature: None,
        };
        match ctx.side_model.as_ref().unwrap().ask(request, &ctx.cancellation).await {
            Ok(reply) => ToolResult::success(format!("{} said {}", reply.model, reply.text)),
            Err(error) => ToolResult::failure(error.to_string()),
        }
    }
}

#[tokio::test]
async fn a_call_asks_the_model_beside_the_conversation_and_its_usage_counts() {
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(Consult));
    let ask = call("c1", "consult", json!({"question": "Which colour?"}));
    let model =
        ScriptedModel::new([reply([ask]), reply([text("Blue.")]), reply([text("It is blue.")])]);
    let options = HarnessOptions { tools, ..HarnessOptions::default() };
    let mut agent = AgentHarness::start(model.clone(), options);
    agent.handle.send_input(vec![Block::text("Ask.")]).unwrap();
    let seen = agent.until(is_end).await;
    let result = seen.iter().find_map(|event| match &event.event {
        AgentEvent::CallEnd { result, .. } => Some(result.output.clone()),
        _ => None,
    });
    let result = result.unwrap();
    assert!(result.ends_with(" said Blue."), "{result}");
    // Three requests have a usage, but only two of them a reply in the conversation.
    let count =
        |wanted: fn(&AgentEvent) -> bool| seen.iter().filter(|event| wanted(&event.event)).count();
    assert_eq!(count(|event| matches!(event, AgentEvent::Usage { .. })), 3);
    assert_eq!(count(|event| matches!(event, AgentEvent::Reply { .. })), 2);
    let requests = model.requests();
    assert_eq!((requests[1].system.as_str(), requests[1].messages.len()), ("Be brief.", 1));
    assert!(requests[1].tools.is_empty());
}
