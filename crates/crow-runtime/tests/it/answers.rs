//! Answers to permission questions.

use std::sync::Arc;

use crow_core::{
    capability::{Answerer, PermissionAnswer, PermissionRequest},
    event::AgentEvent,
    ids::{CallId, RequestId},
    model::Abilities,
    permission::{Grant, PermissionMode},
    tool::ToolResult,
};
use crow_runtime::{AgentSession, AnswerError, HandleAnswerer};
use crow_testkit::harness::AgentHarness;

use crate::support::{SOON, deploying, idle};

/// Starts an agent and returns it with the id of the question that it waits for.
async fn asking() -> (AgentHarness, RequestId) {
    let mut agent = deploying(PermissionMode::Ask, Arc::new(HandleAnswerer));
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::PermissionRequest { .. })).await;
    let AgentEvent::PermissionRequest { request_id, .. } = &seen.last().unwrap().event else {
        panic!("no question")
    };
    let id = request_id.clone();
    (agent, id)
}

#[tokio::test]
async fn a_question_is_listed_until_it_is_answered_through_a_handle() {
    let (mut agent, id) = asking().await;
    let listed: Vec<_> = agent.handle.open_questions().into_iter().map(|ask| ask.id).collect();
    assert_eq!(listed, std::slice::from_ref(&id));
    agent.handle.answer(&id, PermissionAnswer::AllowOnce).unwrap();
    agent.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    assert!(agent.handle.open_questions().is_empty());
    agent.handle.send_tool_result(CallId::new("c1"), ToolResult::success("ok")).unwrap();
    agent.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
}

#[tokio::test]
async fn an_answer_to_an_unknown_question_is_refused() {
    let (agent, _) = asking().await;
    let id = RequestId::new("of my own");
    let refused = agent.handle.answer(&id, PermissionAnswer::AllowOnce);
    assert_eq!(refused, Err(AnswerError::Unknown { id }));
}

#[tokio::test]
async fn a_second_answer_is_refused_and_changes_nothing() {
    let (mut agent, id) = asking().await;
    agent.handle.answer(&id, PermissionAnswer::Deny { feedback: None }).unwrap();
    let refused = agent.handle.answer(&id, PermissionAnswer::AllowOnce);
    assert_eq!(refused, Err(AnswerError::Answered { id }));
    let seen = agent.until(|event| matches!(event, AgentEvent::CallEnd { .. })).await;
    assert!(matches!(&seen.last().unwrap().event, AgentEvent::CallEnd { denial: Some(_), .. }));
}

#[tokio::test]
async fn exactly_one_of_two_concurrent_answers_is_accepted() {
    let (mut agent, id) = asking().await;
    let answer = || agent.handle.answer(&id, PermissionAnswer::AllowOnce);
    let answers = std::thread::scope(|scope| {
        let other = scope.spawn(answer);
        [answer(), other.join().unwrap()]
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    agent.handle.send_tool_result(CallId::new("c1"), ToolResult::success("ok")).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    let decisions =
        seen.iter().filter(|e| matches!(e.event, AgentEvent::PermissionDecision { .. }));
    assert_eq!(decisions.count(), 1);
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question_and_emits_an_event() {
    let (mut agent, id) = asking().await;
    agent.handle.interrupt();
    agent.until(|event| matches!(event, AgentEvent::PermissionWithdrawn { .. })).await;
    let refused = agent.handle.answer(&id, PermissionAnswer::AllowOnce);
    assert_eq!(refused, Err(AnswerError::Withdrawn { id }));
    assert!(agent.handle.open_questions().is_empty());
}

#[tokio::test]
async fn an_abort_withdraws_the_question() {
    let (agent, id) = asking().await;
    agent.handle.abort();
    tokio::time::timeout(SOON, agent.handle.wait_for_end()).await.unwrap();
    let refused = agent.handle.answer(&id, PermissionAnswer::AllowOnce);
    assert_eq!(refused, Err(AnswerError::Withdrawn { id }));
}

/// Allows the call through the agent's handle, then returns a denial.
#[derive(Debug, Default)]
struct TwoAnswers(std::sync::OnceLock<crow_runtime::AgentHandle>);

#[async_trait::async_trait]
impl Answerer for TwoAnswers {
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer {
        self.0.get().unwrap().answer(&request.id, PermissionAnswer::AllowOnce).unwrap();
        PermissionAnswer::Deny { feedback: None }
    }
}

#[tokio::test]
async fn an_answer_through_the_handle_wins_over_a_later_one_of_the_answerer() {
    let answerer = Arc::new(TwoAnswers::default());
    let mut agent = deploying(PermissionMode::Ask, Arc::clone(&answerer) as _);
    answerer.0.set(agent.handle.clone()).unwrap();
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::PermissionDecision { .. })).await;
    let AgentEvent::PermissionDecision { answer, .. } = &seen.last().unwrap().event else {
        panic!("no decision")
    };
    assert_eq!(*answer, PermissionAnswer::AllowOnce);
}

fn allow_deploy() -> PermissionAnswer {
    PermissionAnswer::AllowSession { grants: vec![Grant::Tool("deploy".to_owned())] }
}

fn allow_bash() -> PermissionAnswer {
    PermissionAnswer::AllowSession { grants: vec![Grant::Tool("bash".to_owned())] }
}

#[tokio::test]
async fn an_answer_accepted_after_an_interrupt_is_recorded_and_its_grant_applies() {
    let (mut agent, id) = asking().await;
    agent.handle.interrupt();
    agent.handle.answer(&id, allow_deploy()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    let is_decision = |event: &AgentEvent| matches!(event, AgentEvent::PermissionDecision { answer, .. } if *answer == allow_deploy());
    assert!(seen.iter().any(|event| is_decision(&event.event)), "{seen:?}");
    assert!(!seen.iter().any(|e| matches!(e.event, AgentEvent::PermissionWithdrawn { .. })));
    assert_eq!(agent.handle.permissions().policy().rules().count(), 1);
    assert!(!seen.iter().any(|e| matches!(e.event, AgentEvent::CallStart { .. })), "it was run");
}

#[tokio::test]
async fn a_grant_that_was_not_offered_is_refused_and_the_question_stays_open() {
    let (agent, id) = asking().await;
    let refused = agent.handle.answer(&id, allow_bash());
    assert_eq!(refused, Err(AnswerError::NotOffered { id: id.clone() }));
    assert_eq!(agent.handle.open_questions().len(), 1);
    assert_eq!(agent.handle.permissions().policy().rules().count(), 0);
    assert_eq!(agent.handle.answer(&id, allow_deploy()), Ok(()));
}

/// Grants something that the question does not offer.
#[derive(Debug)]
struct OvergrantingAnswerer;

#[async_trait::async_trait]
impl Answerer for OvergrantingAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        allow_bash()
    }
}

#[tokio::test]
async fn an_answerers_unoffered_grant_allows_only_the_one_call_and_emits_a_notice() {
    let mut agent = deploying(PermissionMode::Ask, Arc::new(OvergrantingAnswerer));
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    let is_allow_once = |event: &AgentEvent| {
        matches!(event, AgentEvent::PermissionDecision { answer: PermissionAnswer::AllowOnce, .. })
    };
    assert!(seen.iter().any(|event| is_allow_once(&event.event)));
    assert!(seen.iter().any(|event| matches!(event.event, AgentEvent::Notice { .. })));
    assert_eq!(agent.handle.permissions().policy().rules().count(), 0);
}

#[derive(Debug)]
struct PanickingAnswerer;

#[async_trait::async_trait]
impl Answerer for PanickingAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        panic!("boom")
    }
}

#[tokio::test]
async fn a_panic_of_an_answerer_denies_the_call_and_the_agent_goes_on() {
    let mut agent = deploying(PermissionMode::Ask, Arc::new(PanickingAnswerer));
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::CallEnd { .. })).await;
    assert!(matches!(&seen.last().unwrap().event, AgentEvent::CallEnd { denial: Some(_), .. }));
    agent.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
}

#[tokio::test]
async fn session_grants_survive_reopening_but_are_not_copied_to_a_fork() {
    let (mut agent, id) = asking().await;
    agent.handle.answer(&id, allow_deploy()).unwrap();
    agent.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    agent.runtime.shutdown(agent.handle.session_id(), SOON).await;
    let (config, id) = (agent.runtime.config(), agent.handle.session_id());
    let rules = |session| agent.runtime.spawn(session, idle).permissions().policy().rules().count();
    assert_eq!(rules(AgentSession::fork(config, id, Abilities::default()).unwrap()), 0);
    assert_eq!(rules(AgentSession::open(config, id, Abilities::default()).unwrap()), 1);
}
