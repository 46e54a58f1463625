//! Agents of a programmer's own on the runtime.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crow_core::{
    capability::Clock,
    event::{AgentEvent, AgentState, Envelope},
    ids::RunId,
    message::Block,
    permission::{PermissionMode, PermissionPolicy},
    tool::{
        CallPlan, Progress, Tool, ToolCategory, ToolContext, ToolError, ToolRegistry, ToolResult,
    },
};
use crow_runtime::{
    AgentError, AgentInternals, HandleError, InputMessage, ObserverItem, RuntimeConfig,
    SessionError, ShutdownReport,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::support::{SOON, idle, spawn, spawn_with};

async fn echo(mut internals: AgentInternals) -> Result<(), AgentError> {
    loop {
        let InputMessage::UserInput { run_id, .. } = internals.receive().await? else { continue };
        internals.emit(AgentEvent::RunStart { run_id, settings: None }).await?;
    }
}

#[tokio::test]
async fn an_own_loop_receives_input_and_its_events_arrive_with_a_number() {
    let (_runtime, handle) = spawn(echo);
    let mut events = handle.stream().unwrap();
    let run_id = handle.send_input(vec![Block::text("hi")]).unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(event.event, AgentEvent::RunStart { run_id, settings: None });
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
async fn one_run_is_cancelled_and_no_other() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let mut begun = Vec::new();
        for _ in 0..3 {
            let InputMessage::UserInput { run_id, .. } = internals.receive().await? else {
                panic!("no input")
            };
            begun.push(internals.start_run(run_id).await?);
        }
        let cancelled: Vec<_> = begun.iter().map(|run| run.cancel.is_cancelled()).collect();
        assert_eq!(cancelled, [false, true, false]);
        let last = begun.pop().unwrap();
        last.cancel.cancelled().await;
        Ok(())
    });
    let mut events = handle.stream().unwrap();
    let runs: Vec<_> = (0..3).map(|_| handle.send_input(Vec::new()).unwrap()).collect();
    assert!(handle.cancel_run(&runs[1]), "one that waits in the queue");
    assert!(!handle.cancel_run(&RunId::new("no such run")));
    loop {
        let event = events.next().await.unwrap();
        if matches!(&event.event, AgentEvent::RunStart { run_id, .. } if *run_id == runs[2]) {
            break;
        }
    }
    assert!(handle.cancel_run(&runs[2]), "the one under way");
    assert_eq!(handle.ended().await.result, Ok(()));
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

#[tokio::test]
async fn words_that_an_interrupt_finds_unread_start_no_run_and_stand_before_the_next_prompt() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let message = internals.receive().await?;
        assert!(matches!(message, InputMessage::UserInput { .. }), "{message:?}");
        assert!(internals.take_steering().await?.is_some());
        Ok(())
    });
    handle.steer(vec![Block::text("unread")]).unwrap();
    handle.interrupt();
    handle.send_input(Vec::new()).unwrap();
    assert_eq!(handle.ended().await.result, Ok(()));
}

#[tokio::test]
async fn words_after_an_interrupt_start_a_run_of_their_own() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let InputMessage::Steering { content, .. } = internals.receive().await? else {
            panic!("no steering")
        };
        assert_eq!(content, [Block::text("new")]);
        assert!(internals.take_steering().await?.is_some(), "what was unread is gone");
        assert!(internals.take_steering().await?.is_none());
        Ok(())
    });
    handle.steer(vec![Block::text("unread")]).unwrap();
    handle.interrupt();
    handle.steer(vec![Block::text("new")]).unwrap();
    assert_eq!(handle.ended().await.result, Ok(()));
}

#[tokio::test]
async fn unread_words_can_be_taken_back_and_are_not_read_then() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        internals.receive().await?;
        assert!(internals.take_steering().await?.is_none());
        Ok(())
    });
    for words in ["one", "two"] {
        handle.steer(vec![Block::text(words)]).unwrap();
    }
    handle.interrupt();
    let back = handle.take_back_steering();
    assert_eq!(back, [[Block::text("one")], [Block::text("two")]]);
    handle.send_input(Vec::new()).unwrap();
    assert_eq!(handle.ended().await.result, Ok(()));
}

#[tokio::test]
async fn more_words_than_the_queue_holds_are_refused() {
    let (_runtime, handle) = spawn(|internals: AgentInternals| async move {
        std::future::pending::<()>().await;
        drop(internals);
        Ok(())
    });
    let taken = (0..100).take_while(|_| handle.steer(Vec::new()).is_ok()).count();
    assert_eq!(taken, 16);
    assert_eq!(handle.steer(Vec::new()), Err(HandleError::Full { capacity: 16 }));
}

#[tokio::test]
async fn an_interrupt_reaches_a_run_that_words_asked_for_before_it_begins() {
    let (received, is_received) = tokio::sync::oneshot::channel();
    let (interrupted, is_interrupted) = tokio::sync::oneshot::channel::<()>();
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let InputMessage::Steering { run_id, .. } = internals.receive().await? else {
            panic!("no steering")
        };
        received.send(()).unwrap();
        is_interrupted.await.unwrap();
        assert!(internals.start_run(run_id).await?.cancel.is_cancelled());
        Ok(())
    });
    handle.steer(vec![Block::text("go")]).unwrap();
    is_received.await.unwrap();
    handle.interrupt();
    interrupted.send(()).unwrap();
    assert_eq!(handle.ended().await.result, Ok(()));
}

#[tokio::test]
async fn inputs_that_were_received_and_begin_no_run_are_forgotten() {
    let (_runtime, handle) = spawn(idle);
    for _ in 0..500 {
        handle.send_input(Vec::new()).unwrap();
        tokio::task::yield_now().await;
    }
    let kept = format!("{handle:?}").matches("RunId(").count();
    assert!((1..=32).contains(&kept), "{kept} are kept");
}

#[tokio::test]
async fn of_two_changes_of_a_header_at_once_none_is_lost_on_its_way_to_the_store() {
    let config = RuntimeConfig::default();
    let store = Arc::clone(&config.store);
    let (_runtime, handle) = spawn_with(config, idle);
    for round in 0..2000 {
        std::thread::scope(|scope| {
            scope.spawn(|| handle.set_metadata("one", round.into()).unwrap());
            handle.set_metadata("two", round.into()).unwrap();
        });
        let stored = store.read(handle.session_id()).unwrap().metadata;
        assert_eq!(stored, handle.metadata());
    }
}

/// A clock that lets a call report whenever an event is made: there is always a report that waits.
#[derive(Debug, Clone, Default)]
struct Chatty(Arc<OnceLock<Progress>>);

impl Clock for Chatty {
    fn now(&self) -> jiff::Timestamp {
        if let Some(progress) = self.0.get() {
            progress.report("line\n".to_owned());
        }
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// How often the call is to be looked after before it ends.
const LOOKS: usize = 50;

#[async_trait::async_trait]
impl Tool for Chatty {
    fn name(&self) -> &'static str {
        "chatty"
    }

    fn description(&self) -> &'static str {
        "Talks."
    }

    fn parameters_schema(&self) -> serde_json::Value {
        json!({"type": "object"})
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::Execute
    }

    async fn plan(&self, _: &serde_json::Value, _: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::inert("chatty"))
    }

    async fn execute(&self, _: serde_json::Value, _: &CallPlan, ctx: &ToolContext) -> ToolResult {
        self.0.set(ctx.progress.clone()).unwrap();
        ctx.progress.report("the first\n".to_owned());
        let mut left = LOOKS;
        std::future::poll_fn(|polled| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            polled.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        ToolResult::success("ok")
    }
}

#[tokio::test]
async fn a_call_that_reports_without_a_pause_is_not_kept_from_ending_by_its_reports() {
    let (mut tools, chatty) = (ToolRegistry::new(), Chatty::default());
    tools.register(chatty.clone());
    let model =
        ScriptedModel::new([reply([call("c1", "chatty", json!({}))]), reply([text("done")])]);
    let runtime = RuntimeConfig { clock: Arc::new(chatty), ..RuntimeConfig::default() };
    let policy = Some(PermissionPolicy::new(PermissionMode::FullAuto));
    let options = HarnessOptions { tools, policy, runtime, ..HarnessOptions::default() };
    let mut agent = AgentHarness::start(model, options);
    agent.handle.send_input(Vec::new()).unwrap();
    let ended = agent.until(|event| matches!(event, AgentEvent::CallEnd { .. }));
    let seen = tokio::time::timeout(SOON, ended).await.expect("its reports keep it from ending");
    let reports = seen.iter().filter(|e| matches!(e.event, AgentEvent::CallProgress { .. }));
    let count = reports.count();
    assert!((1..10 * LOOKS).contains(&count), "{count} reports came before the call");
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_files_that_takes_long_is_told_and_a_short_one_is_not() {
    let (done, look) = tokio::sync::oneshot::channel();
    let (runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        assert_eq!(internals.look_at_files(async { 1 }).await?, 1);
        assert_eq!(internals.look_at_files(look).await?, Ok(2));
        idle(internals).await
    });
    let mut observer = handle.subscribe_after(0);
    let told = loop {
        if let Some(ObserverItem::Event(event)) = observer.next().await
            && let AgentEvent::Notice { text, .. } = &event.event
        {
            break text.clone();
        }
    };
    assert_eq!(told, "the files of the project are read, so that changes can be undone");
    done.send(2).unwrap();
    runtime.shutdown_all(SOON).await;
    // The short look was told of by none.
    while let Some(observed) = observer.next().await {
        let is_notice = |event: &Envelope| matches!(event.event, AgentEvent::Notice { .. });
        assert!(
            !matches!(&observed, ObserverItem::Event(event) if is_notice(event)),
            "{observed:?}"
        );
    }
}
