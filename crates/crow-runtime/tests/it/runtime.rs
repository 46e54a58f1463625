//! Agents of a programmer's own on the runtime.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::RunId,
    message::Block,
};
use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, AgentRuntime, AgentSession, HandleError, InputMessage,
    RuntimeConfig, SessionError, SessionSpec, ShutdownReport,
};
use futures_util::StreamExt as _;

const SOON: Duration = Duration::from_secs(1);

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
    let report = runtime.shutdown(handle.session_id(), SOON).await;
    assert_eq!(report, ShutdownReport::default());
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
async fn what_does_not_end_by_the_deadline_is_aborted_reported_and_sealed() {
    let (runtime, handle) = spawn(|_internals| std::future::pending());
    let report = runtime.shutdown_all(SOON).await;
    let aborted = vec![handle.session_id().clone()];
    assert_eq!(report, ShutdownReport { aborted, stuck: Vec::new() });
    assert_eq!(handle.ended().await.result, Err("the agent was aborted".to_owned()));
    let log = format!("{:?}", handle.history().unwrap().entries());
    assert!(log.contains("the agent was aborted"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_computes_without_ever_waiting_is_reported_as_stuck() {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let (runtime, handle) = spawn(move |_internals| async move {
        while !seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    });
    let report = runtime.shutdown(handle.session_id(), Duration::from_millis(10)).await;
    stop.store(true, Ordering::Relaxed);
    assert_eq!(report.stuck, [handle.session_id().clone()]);
    handle.ended().await;
}

#[tokio::test]
async fn a_state_that_cannot_follow_is_refused_and_changes_nothing() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let refused = internals.set_state(AgentState::ExecutingTool("bash".into())).await;
        assert!(matches!(refused, Err(AgentError::IllegalState { .. })), "{refused:?}");
        let refused = internals.set_state(AgentState::Done).await;
        assert!(matches!(refused, Err(AgentError::IllegalState { .. })), "{refused:?}");
        assert_eq!(internals.state(), AgentState::Idle);
        internals.set_state(AgentState::Processing).await
    });
    let end = handle.ended().await;
    assert_eq!(end.result, Ok(()));
}

#[tokio::test]
async fn words_for_a_run_that_is_over_start_the_next_one() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let message = internals.receive().await?;
        assert!(matches!(message, InputMessage::Steering { .. }), "{message:?}");
        Ok(())
    });
    handle.steer(vec![Block::text("and one more thing")]).unwrap();
    assert_eq!(handle.ended().await.result, Ok(()));
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

#[tokio::test]
async fn values_of_the_program_are_kept_in_the_header_and_ours_are_not_overwritten() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        internals.set_metadata("ticket", 7.into())?;
        internals.receive().await.map(drop)
    });
    let mut observer = handle.subscribe_after(0);
    observer.next().await.unwrap();
    handle.set_metadata("owner", "me".into()).unwrap();
    let refused = handle.set_metadata("crow", 1.into());
    assert!(matches!(refused, Err(SessionError::ReservedKey(_))), "{refused:?}");
    handle.send_input(Vec::new()).unwrap();
    handle.ended().await;
    let metadata = handle.metadata().metadata;
    assert_eq!((&metadata["ticket"], &metadata["owner"]), (&7.into(), &"me".into()));
    assert!(matches!(handle.set_title("late"), Err(SessionError::Closed { .. })));
}
