//! Ends of agents: by shutdown, by abort and by panic.

use std::{sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::{CallId, RunId},
    message::Block,
    model::Abilities,
    tool::ToolResult,
};
use crow_runtime::{
    AgentInternals, AgentSession, FileStore, HandleError, Observer, RuntimeConfig, ShutdownReport,
};
use crow_testkit::telemetry::CheckedRuntime;
use tokio::sync::watch;

use crate::support::{SOON, create, delta, idle, notice, spawn, spawn_with};

#[tokio::test]
async fn input_after_shutdown_is_refused() {
    let (_runtime, handle) = spawn(idle);
    handle.shutdown();
    let is_ended_error =
        |sent: Result<(), HandleError>| matches!(sent, Err(HandleError::Ended { .. }));
    assert!(is_ended_error(handle.send_input(vec![Block::text("hi")]).map(drop)));
    assert!(is_ended_error(handle.steer(vec![Block::text("hi")])));
    assert!(is_ended_error(handle.send_tool_result(CallId::new("c"), ToolResult::success("x"))));
}

#[tokio::test]
async fn an_agent_ends_when_its_last_handle_is_dropped() {
    let (runtime, handle) = spawn(idle);
    let mut observer = handle.subscribe();
    drop(handle);
    while observer.next().await.is_some() {}
    assert_eq!(runtime.shutdown_all(SOON).await, ShutdownReport::default());
}

/// Panics when it is dropped.
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("boom");
    }
}

#[tokio::test]
async fn a_panic_while_an_aborted_agent_is_dropped_still_seals_the_session() {
    let (_runtime, handle) = spawn(|_internals| async {
        let _guard = PanicOnDrop;
        std::future::pending().await
    });
    tokio::task::yield_now().await;
    handle.abort();
    let end = tokio::time::timeout(SOON, handle.wait_for_end()).await.unwrap();
    assert_eq!(end.result, Err("the agent panicked: boom".to_owned()));
    assert!(matches!(handle.state(), AgentState::Error(_)));
}

#[tokio::test]
async fn a_session_can_be_reopened_as_soon_as_its_agent_ended() {
    let folder = tempfile::tempdir().unwrap();
    let config = RuntimeConfig {
        store: Arc::new(FileStore::new(folder.path())),
        ..RuntimeConfig::default()
    };
    let mut session = create(&config);
    let runtime = CheckedRuntime::new(config.clone());
    for _ in 0..20 {
        let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
            internals.emit(notice("a line")).await?;
            panic!("oh no")
        });
        handle.wait_for_end().await;
        session = AgentSession::open(&config, handle.session_id(), Abilities::default()).unwrap();
    }
}

#[tokio::test]
async fn the_end_of_an_agent_does_not_unregister_its_successor() {
    let config = RuntimeConfig::default();
    let (runtime, first) = spawn_with(config.clone(), |_internals| async { Ok(()) });
    first.wait_for_end().await;
    let session = AgentSession::open(&config, first.session_id(), Abilities::default()).unwrap();
    let second = runtime.spawn(session, idle);
    assert!(runtime.is_running(second.session_id()));
    assert!(runtime.get(second.session_id()).is_some());
}

#[tokio::test]
async fn an_agent_spawned_after_shutdown_ends_without_running() {
    let config = RuntimeConfig::default();
    let runtime = CheckedRuntime::new(config.clone());
    runtime.shutdown_all(SOON).await;
    let handle = runtime.spawn(create(&config), |_internals| async { panic!("it was run") });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn an_interrupt_cancels_queued_runs() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let crow_runtime::InputMessage::UserInput { run_id, .. } = internals.receive().await?
        else {
            panic!("no input")
        };
        let run = internals.start_run(run_id).await?;
        assert!(run.cancel.is_cancelled());
        Ok(())
    });
    handle.send_input(Vec::new()).unwrap();
    handle.interrupt();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_unread_stream_does_not_stall_shutdown_or_sealing_after_a_panic() {
    let (runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        while !internals.session_token().is_cancelled() {
            internals.emit(notice("more")).await?;
        }
        panic!("oh no")
    });
    let _unread = handle.stream().unwrap();
    assert!(tokio::time::timeout(SOON, handle.wait_for_end()).await.is_err(), "it was not held up");
    let report = runtime.shutdown(handle.session_id(), SOON).await;
    assert_eq!(report, ShutdownReport::default());
    assert!(matches!(handle.state(), AgentState::Error(_)));
}

/// Number of agents in the stress test.
const AGENTS: usize = 100;
/// Number of events after which an agent counts as working. An agent with a stuck listener gets a little further than this.
const WORKING_AFTER: usize = 300;
const DONE: usize = usize::MAX;

/// Emits events and reports its progress until its run is cancelled, then idles.
async fn chatter(
    mut internals: AgentInternals,
    progress: watch::Sender<usize>,
) -> Result<(), crow_runtime::AgentError> {
    let run = internals.start_run(RunId::new("r")).await?;
    for number in 0.. {
        if run.cancel.is_cancelled() {
            break;
        }
        internals.emit(notice("n")).await?;
        internals.emit(delta("r", number, "x")).await?;
        progress.send_replace(number);
        tokio::task::yield_now().await;
    }
    internals.emit(AgentEvent::Cancelled).await?;
    progress.send_replace(DONE);
    idle(internals).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_agents_with_stuck_listeners_can_be_interrupted_and_shut_down() {
    let config = RuntimeConfig::default();
    let runtime = CheckedRuntime::new(config.clone());
    let (mut agents, mut stuck, mut unread) = (Vec::new(), Vec::new(), Vec::<Observer>::new());
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..AGENTS {
        let (progress, receiver) = watch::channel(0);
        let handle = runtime.spawn(create(&config), |internals| chatter(internals, progress));
        match number % 4 {
            0 => stuck.extend(handle.stream()),
            1 => unread.push(handle.subscribe()),
            2 => {
                let mut slow = handle.subscribe();
                readers.spawn(async move {
                    while slow.next().await.is_some() {
                        tokio::task::yield_now().await;
                    }
                });
            }
            _ => {}
        }
        agents.push((handle, receiver));
    }
    for (_, receiver) in &mut agents {
        receiver.wait_for(|number| *number >= WORKING_AFTER).await.unwrap();
    }
    // Observers that subscribe late.
    unread.extend(agents.iter().map(|(handle, _)| handle.subscribe_after(0)));
    for (handle, _) in &agents {
        handle.interrupt();
    }
    let interrupted = async {
        for (_, receiver) in &mut agents {
            receiver.wait_for(|number| *number == DONE).await.unwrap();
        }
    };
    let timeout = Duration::from_secs(3);
    tokio::time::timeout(timeout, interrupted).await.expect("a listener stalled an interrupt");
    assert_eq!(runtime.shutdown_all(timeout).await, ShutdownReport::default());
    readers.join_all().await;
    assert_eq!((stuck.len(), unread.len()), (AGENTS / 4, AGENTS / 4 + AGENTS));
}

/// A clock that panics once it is broken.
#[derive(Debug, Default)]
struct BreakableClock(std::sync::atomic::AtomicBool);

impl crow_core::capability::Clock for BreakableClock {
    fn now(&self) -> jiff::Timestamp {
        assert!(!self.0.load(std::sync::atomic::Ordering::Relaxed), "the clock is broken");
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn an_agent_whose_sealing_panics_still_ends() {
    let clock = Arc::new(BreakableClock::default());
    let config = RuntimeConfig { clock: Arc::clone(&clock) as _, ..RuntimeConfig::default() };
    let (runtime, handle) = spawn_with(config, |mut internals: AgentInternals| async move {
        internals.receive().await?;
        internals.emit(notice("never seen")).await
    });
    let mut observer = handle.subscribe();
    clock.0.store(true, std::sync::atomic::Ordering::Relaxed);
    handle.send_input(Vec::new()).unwrap();
    let end = tokio::time::timeout(SOON, handle.wait_for_end()).await.expect("it never ended");
    assert!(end.result.as_ref().unwrap_err().contains("the clock is broken"), "{end:?}");
    assert!(matches!(handle.state(), AgentState::Error(_)));
    assert!(!runtime.is_running(handle.session_id()));
    assert!(observer.next().await.is_none(), "the streams stay open");
    assert_eq!(runtime.shutdown_all(SOON).await, ShutdownReport::default());
}
