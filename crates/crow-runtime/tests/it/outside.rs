//! Results of calls that are run outside.

use std::sync::Arc;

use crow_core::{
    event::AgentEvent,
    ids::{CallId, ReplyId},
    message::{Origin, ReplyBlock},
    model::StopReason,
    permission::PermissionMode,
    tool::{ToolResult, ToolStatus},
};
use crow_runtime::{AgentInternals, HandleError, InputMessage};
use crow_testkit::scripted::call;
use serde_json::json;

use crate::support::{HandlesAnswer, SOON, deploying, spawn};

fn id() -> CallId {
    CallId::new("c1")
}

fn refused() -> Result<(), HandleError> {
    Err(HandleError::CallNotOpen { call_id: id() })
}

#[tokio::test]
async fn a_result_goes_to_the_call_that_waits_for_it() {
    let mut agent = deploying(PermissionMode::FullAuto, Arc::new(HandlesAnswer));
    agent.handle.send_input(Vec::new()).unwrap();
    agent
        .until(|event| {
            matches!(
                event,
                AgentEvent::StateChange { state: crow_core::event::AgentState::ExecutingTool(_) }
            )
        })
        .await;
    agent.handle.send_tool_result(id(), ToolResult::success("deployed")).unwrap();
    agent.until(|event| matches!(event, AgentEvent::CallEnd { result, .. } if result.output == "deployed")).await;
    agent.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    agent.model.assert_finished();
}

#[tokio::test]
async fn a_result_that_comes_before_the_call_waits_is_kept_and_a_second_one_is_refused() {
    let mut agent = deploying(PermissionMode::Ask, Arc::new(HandlesAnswer));
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::PermissionRequest { .. })).await;
    agent.handle.send_tool_result(id(), ToolResult::success("first")).unwrap();
    assert_eq!(agent.handle.send_tool_result(id(), ToolResult::success("second")), refused());
    let AgentEvent::PermissionRequest { request_id, .. } = &seen.last().unwrap().event else {
        panic!("no question")
    };
    let yes = crow_core::capability::PermissionAnswer::AllowOnce;
    agent.handle.answer(request_id, yes).unwrap();
    agent
        .until(
            |event| matches!(event, AgentEvent::CallEnd { result, .. } if result.output == "first"),
        )
        .await;
}

#[tokio::test]
async fn a_result_for_a_call_that_nobody_made_is_refused() {
    let agent = deploying(PermissionMode::FullAuto, Arc::new(HandlesAnswer));
    assert_eq!(agent.handle.send_tool_result(id(), ToolResult::success("x")), refused());
}

#[tokio::test]
async fn a_result_for_a_call_that_was_cancelled_or_answered_is_refused() {
    let mut agent = deploying(PermissionMode::FullAuto, Arc::new(HandlesAnswer));
    agent.handle.send_input(Vec::new()).unwrap();
    agent
        .until(|event| {
            matches!(
                event,
                AgentEvent::StateChange { state: crow_core::event::AgentState::ExecutingTool(_) }
            )
        })
        .await;
    agent.handle.interrupt();
    let seen = agent.until(|event| matches!(event, AgentEvent::CallEnd { .. })).await;
    let AgentEvent::CallEnd { result, .. } = &seen.last().unwrap().event else { panic!("no end") };
    assert_eq!(result.status, ToolStatus::Cancelled);
    assert_eq!(agent.handle.send_tool_result(id(), ToolResult::success("late")), refused());
}

#[tokio::test]
async fn a_result_for_an_agent_that_has_ended_is_refused() {
    let agent = deploying(PermissionMode::FullAuto, Arc::new(HandlesAnswer));
    agent.runtime.shutdown(agent.handle.session_id(), SOON).await;
    let refused = agent.handle.send_tool_result(id(), ToolResult::success("late"));
    assert!(matches!(refused, Err(HandleError::Ended { .. })));
}

fn asks(reply_id: &ReplyId, blocks: Vec<ReplyBlock>) -> AgentEvent {
    AgentEvent::Reply {
        reply_id: reply_id.clone(),
        blocks,
        stop: StopReason::ToolUse,
        origin: Origin {
            dialect: "none".into(),
            provider: "none".into(),
            base_url: String::new(),
            model: "none".into(),
        },
        response_id: None,
    }
}

#[tokio::test]
async fn a_loop_that_runs_calls_by_its_own_means_receives_their_results() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let reply_id = ReplyId::new("r");
        internals.emit(asks(&reply_id, vec![call("c1", "deploy", json!({}))])).await?;
        let InputMessage::ToolResult { call_id, result } = internals.receive().await? else {
            panic!("no result")
        };
        let (result, tool) = (*result, "deploy".to_owned());
        internals.emit(AgentEvent::CallEnd { call_id, reply_id, tool, result, denial: None }).await
    });
    let mut observer = handle.subscribe();
    observer.next().await.unwrap();
    handle.send_tool_result(id(), ToolResult::success("done")).unwrap();
    assert_eq!(handle.ended().await.result, Ok(()));
    assert!(handle.history().unwrap().open_calls().is_empty());
}
