//! Agents of a programmer's own on the runtime.

use std::time::Duration;

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::RunId,
    message::Block,
};
use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, AgentRuntime, AgentSession, HandleError, InputMessage,
    RuntimeConfig, SessionSpec,
};
use futures_util::StreamExt as _;

fn spawn<F, Fut>(agent: F) -> (AgentRuntime, AgentHandle)
where
    F: FnOnce(AgentInternals) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    let config = RuntimeConfig::default();
    let session =
        AgentSession::create(&config, SessionSpec::new("own", "none/none".parse().unwrap(), "/"))
            .unwrap();
    let runtime = AgentRuntime::new(config);
    let handle = runtime.spawn(session, agent);
    (runtime, handle)
}

async fn echo(mut internals: AgentInternals) -> Result<(), AgentError> {
    loop {
        let InputMessage::UserInput { run_id, .. } = internals.receive().await? else { continue };
        internals.emit(AgentEvent::RunStart { run_id }).await?;
    }
}

#[tokio::test]
async fn an_own_loop_receives_input_and_its_events_arrive_with_a_number() {
    let (_runtime, handle) = spawn(echo);
    let mut events = handle.stream().unwrap();
    let run_id = handle.send_input(vec![Block::text("hi")]).unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(event.event, AgentEvent::RunStart { run_id });
    assert_eq!(event.seq, Some(2));
}

#[tokio::test]
async fn the_main_stream_is_given_out_once() {
    let (_runtime, handle) = spawn(echo);
    assert!(handle.stream().is_some());
    assert!(handle.stream().is_none());
}

#[tokio::test]
async fn shutdown_ends_an_agent_that_waits_and_input_is_refused_after() {
    let (runtime, handle) = spawn(echo);
    assert!(runtime.is_running(handle.session_id()));
    runtime.shutdown(handle.session_id()).await;
    assert_eq!(handle.state(), AgentState::Done);
    assert!(runtime.list_active().is_empty());
    assert!(matches!(handle.send_input(Vec::new()), Err(HandleError::Ended { .. })));
}

#[tokio::test]
async fn a_panic_becomes_a_failed_state_an_event_and_a_log_line() {
    let (_runtime, handle) = spawn(|_internals| async { panic!("oh no") });
    let mut events = handle.stream().unwrap();
    handle.ended().await;
    assert_eq!(handle.state(), AgentState::Error("the agent panicked: oh no".into()));
    let told = events.next().await.unwrap();
    assert!(matches!(&told.event, AgentEvent::Error { error, .. } if error.contains("oh no")));
    let history = handle.history().unwrap();
    assert!(format!("{:?}", history.entries()).contains("oh no"));
}

#[tokio::test]
async fn a_full_inbox_is_an_error_and_nothing_is_lost_silently() {
    let (_runtime, handle) = spawn(|internals: AgentInternals| async move {
        std::future::pending::<()>().await;
        drop(internals);
        Ok(())
    });
    let sent = (0..100).take_while(|_| handle.send_input(Vec::new()).is_ok()).count();
    assert_eq!(sent, 16);
    assert_eq!(handle.send_input(Vec::new()), Err(HandleError::Full { capacity: 16 }));
}

#[tokio::test(start_paused = true)]
async fn shutting_all_down_reports_what_did_not_end_in_time() {
    let (runtime, handle) = spawn(|_internals| std::future::pending());
    let left = runtime.shutdown_all(Duration::from_secs(1)).await;
    assert_eq!(left, [handle.session_id().clone()]);
}

#[tokio::test]
async fn an_interrupt_of_an_earlier_run_does_not_touch_the_next_one() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let first = internals.start_run(RunId::new("1")).await?;
        first.cancel.cancelled().await;
        let second = internals.start_run(RunId::new("2")).await?;
        assert!(!second.cancel.is_cancelled());
        Ok(())
    });
    let mut events = handle.stream().unwrap();
    events.next().await.unwrap();
    handle.interrupt();
    handle.ended().await;
    assert_eq!(handle.state(), AgentState::Done);
}
