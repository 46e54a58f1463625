//! Results of calls that are run outside of the agent.

use std::sync::Arc;

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::{CallId, ReplyId},
    message::{Origin, ReplyBlock, ReplyContent},
    model::StopReason,
    permission::{PermissionMode, PermissionPolicy},
    tool::{ToolResult, ToolStatus},
    turn::RequestedCall,
};
use crow_runtime::{AgentInternals, HandleAnswerer, HandleError, InputMessage, RuntimeConfig};
use crow_testkit::scripted::call;
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{
    SOON, collect_events, deploy_tools, deploying, deploying_twice, spawn, spawn_with,
};

fn id() -> CallId {
    CallId::new("c1")
}

fn call_not_open() -> Result<(), HandleError> {
    Err(HandleError::CallNotOpen { call_id: id() })
}

#[tokio::test]
async fn an_external_result_is_delivered_to_the_waiting_call() {
    let mut agent = deploying(PermissionMode::FullAuto, Arc::new(HandleAnswerer));
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
async fn an_early_external_result_is_stored_and_a_second_one_is_refused() {
    let mut agent = deploying(PermissionMode::Ask, Arc::new(HandleAnswerer));
    agent.handle.send_input(Vec::new()).unwrap();
    let seen = agent.until(|event| matches!(event, AgentEvent::PermissionRequest { .. })).await;
    agent.handle.send_tool_result(id(), ToolResult::success("first")).unwrap();
    assert_eq!(agent.handle.send_tool_result(id(), ToolResult::success("second")), call_not_open());
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
async fn a_result_for_an_unknown_call_is_refused() {
    let agent = deploying(PermissionMode::FullAuto, Arc::new(HandleAnswerer));
    assert_eq!(agent.handle.send_tool_result(id(), ToolResult::success("x")), call_not_open());
}

#[tokio::test]
async fn a_result_for_a_cancelled_call_is_refused() {
    let mut agent = deploying(PermissionMode::FullAuto, Arc::new(HandleAnswerer));
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
    assert_eq!(agent.handle.send_tool_result(id(), ToolResult::success("late")), call_not_open());
}

#[tokio::test]
async fn a_result_for_an_ended_agent_is_refused() {
    let agent = deploying(PermissionMode::FullAuto, Arc::new(HandleAnswerer));
    agent.runtime.shutdown(agent.handle.session_id(), SOON).await;
    let refused = agent.handle.send_tool_result(id(), ToolResult::success("late"));
    assert!(matches!(refused, Err(HandleError::Ended { .. })));
}

fn reply_event(reply_id: &ReplyId, blocks: Vec<ReplyBlock>) -> AgentEvent {
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
async fn a_custom_loop_receives_external_results_as_input() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let reply_id = ReplyId::new("r");
        internals.emit(reply_event(&reply_id, vec![call("c1", "deploy", json!({}))])).await?;
        let InputMessage::ToolResult { call_id, result } = internals.receive().await? else {
            panic!("no result")
        };
        let (result, tool) = (*result, "deploy".to_owned());
        internals.emit(AgentEvent::CallEnd { call_id, reply_id, tool, result, denial: None }).await
    });
    let mut observer = handle.subscribe();
    observer.next().await.unwrap();
    handle.send_tool_result(id(), ToolResult::success("done")).unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert!(handle.history().unwrap().open_calls().is_empty());
}

#[tokio::test]
async fn a_result_for_a_later_call_of_the_reply_is_stored_until_that_call_runs() {
    let mut agent = deploying_twice(PermissionMode::FullAuto, Arc::new(HandleAnswerer));
    agent.handle.send_input(Vec::new()).unwrap();
    agent.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    agent.handle.send_tool_result(CallId::new("c2"), ToolResult::success("two")).unwrap();
    agent.handle.send_tool_result(id(), ToolResult::success("one")).unwrap();
    agent
        .until(
            |event| matches!(event, AgentEvent::CallEnd { result, .. } if result.output == "one"),
        )
        .await;
    agent
        .until(
            |event| matches!(event, AgentEvent::CallEnd { result, .. } if result.output == "two"),
        )
        .await;
    agent.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
}

/// Starts an agent that emits a call of `tool` and runs it only after a result was sent from outside. Returns the events.
async fn result_before_call(tool: &'static str) -> Vec<Arc<Envelope>> {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..RuntimeConfig::default() };
    let (_runtime, handle) = spawn_with(config, move |mut internals: AgentInternals| async move {
        let reply_id = ReplyId::new("r");
        let block = call("c1", tool, json!({}));
        let ReplyContent::Call(tool_call) = block.content.clone() else { panic!("no call") };
        internals.emit(reply_event(&reply_id, vec![block])).await?;
        gate.notified().await;
        let calls = vec![RequestedCall::run(tool_call)];
        let cancel = internals.session_token().clone();
        internals.call(&deploy_tools(), &reply_id, calls, &cancel).await.map(drop)
    });
    let mut stream = handle.stream().unwrap();
    while !matches!(stream.next().await.unwrap().event, AgentEvent::Reply { .. }) {}
    handle.send_tool_result(id(), ToolResult::success("early")).unwrap();
    go.notify_one();
    let seen = tokio::time::timeout(SOON, collect_events(stream)).await.unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    seen
}

#[tokio::test]
async fn a_result_that_arrives_between_a_reply_and_its_calls_is_used() {
    let seen = result_before_call("deploy").await;
    assert!(seen.iter().any(|event| matches!(&event.event, AgentEvent::CallEnd { result, .. } if result.output == "early")));
}

#[tokio::test]
async fn an_external_result_for_an_internal_call_is_ignored_with_a_notice() {
    let seen = result_before_call("no_such_tool").await;
    assert!(seen.iter().any(
        |event| matches!(&event.event, AgentEvent::Notice { text, .. } if text.contains("c1"))
    ));
    assert!(!seen.iter().any(|event| matches!(&event.event, AgentEvent::CallEnd { result, .. } if result.output == "early")));
}
