//! Custom agents on the runtime.

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
async fn a_custom_agent_receives_input_and_its_durable_events_are_numbered() {
    let (_runtime, handle) = spawn(echo);
    let mut events = handle.stream().unwrap();
    let run_id = handle.send_input(vec![Block::text("hi")]).unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(event.event, AgentEvent::RunStart { run_id, settings: None });
    assert_eq!(event.seq, Some(2));
}

#[tokio::test]
async fn the_main_stream_can_be_taken_once() {
    let (_runtime, handle) = spawn(echo);
    assert!(handle.stream().is_some());
    assert!(handle.stream().is_none());
}

#[tokio::test]
async fn shutdown_ends_a_waiting_agent_and_later_input_is_refused() {
    let (runtime, handle) = spawn(echo);
    assert!(runtime.is_running(handle.session_id()));
    let report = runtime.shutdown(handle.session_id(), SOON).await;
    assert_eq!(report, ShutdownReport::default());
    assert_eq!(handle.state(), AgentState::Done);
    assert!(runtime.list_active().is_empty());
    assert!(matches!(handle.send_input(Vec::new()), Err(HandleError::Ended { .. })));
}

#[tokio::test]
async fn a_panic_sets_the_error_state_and_is_emitted_and_logged() {
    let (_runtime, handle) = spawn(|_internals| async { panic!("oh no") });
    let mut events = handle.stream().unwrap();
    handle.wait_for_end().await;
    assert_eq!(handle.state(), AgentState::Error("the agent panicked: oh no".into()));
    let envelope = events.next().await.unwrap();
    assert!(matches!(&envelope.event, AgentEvent::Error { error, .. } if error.contains("oh no")));
    let history = handle.history().unwrap();
    assert!(format!("{:?}", history.entries()).contains("oh no"));
}

#[tokio::test]
async fn input_beyond_the_inbox_capacity_is_refused_with_an_error() {
    let (_runtime, handle) = spawn(|internals: AgentInternals| async move {
        std::future::pending::<()>().await;
        drop(internals);
        Ok(())
    });
    let accepted = (0..100).take_while(|_| handle.send_input(Vec::new()).is_ok()).count();
    assert_eq!(accepted, 16);
    assert_eq!(handle.send_input(Vec::new()), Err(HandleError::Full { capacity: 16 }));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_misses_the_shutdown_deadline_is_aborted_reported_and_sealed() {
    let (runtime, handle) = spawn(|_internals| std::future::pending());
    let report = runtime.shutdown_all(SOON).await;
    let aborted = vec![handle.session_id().clone()];
    assert_eq!(report, ShutdownReport { aborted, stuck: Vec::new() });
    assert_eq!(handle.wait_for_end().await.result, Err("the agent was aborted".to_owned()));
    let log = format!("{:?}", handle.history().unwrap().entries());
    assert!(log.contains("the agent was aborted"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_never_yields_is_reported_as_stuck() {
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
    handle.wait_for_end().await;
}

#[tokio::test]
async fn an_illegal_state_change_is_refused_and_keeps_the_state() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let refused = internals.set_state(AgentState::ExecutingTool("bash".into())).await;
        assert!(matches!(refused, Err(AgentError::IllegalState { .. })), "{refused:?}");
        let refused = internals.set_state(AgentState::Done).await;
        assert!(matches!(refused, Err(AgentError::IllegalState { .. })), "{refused:?}");
        assert_eq!(internals.state(), AgentState::Idle);
        internals.set_state(AgentState::Processing).await
    });
    let end = handle.wait_for_end().await;
    assert_eq!(end.result, Ok(()));
}

#[tokio::test]
async fn steering_without_a_running_run_starts_a_new_one() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let message = internals.receive().await?;
        assert!(matches!(message, InputMessage::Steering { .. }), "{message:?}");
        Ok(())
    });
    handle.steer(vec![Block::text("and one more thing")]).unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn an_interrupt_does_not_cancel_the_next_run() {
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
    handle.wait_for_end().await;
    assert_eq!(handle.state(), AgentState::Done);
}

#[tokio::test]
async fn cancel_run_cancels_only_the_named_run() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let mut started_runs = Vec::new();
        for _ in 0..3 {
            let InputMessage::UserInput { run_id, .. } = internals.receive().await? else {
                panic!("no input")
            };
            started_runs.push(internals.start_run(run_id).await?);
        }
        let cancelled: Vec<_> = started_runs.iter().map(|run| run.cancel.is_cancelled()).collect();
        assert_eq!(cancelled, [false, true, false]);
        let last = started_runs.pop().unwrap();
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
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn custom_metadata_is_stored_in_the_header_and_the_reserved_key_is_refused() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        internals.set_metadata("ticket", 7.into())?;
        internals.receive().await.map(drop)
    });
    let mut observer = handle.subscribe_after(0);
    observer.next().await.unwrap();
    handle.header().set_value("owner", "me".into()).unwrap();
    let refused = handle.header().set_value("crow", 1.into());
    assert!(matches!(refused, Err(SessionError::ReservedKey(_))), "{refused:?}");
    handle.send_input(Vec::new()).unwrap();
    handle.wait_for_end().await;
    let metadata = handle.metadata().metadata;
    assert_eq!((&metadata["ticket"], &metadata["owner"]), (&7.into(), &"me".into()));
    assert!(matches!(handle.header().set_title("late"), Err(SessionError::Closed { .. })));
}

#[tokio::test]
async fn unread_steering_starts_no_run_after_an_interrupt_and_precedes_the_next_prompt() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let message = internals.receive().await?;
        assert!(matches!(message, InputMessage::UserInput { .. }), "{message:?}");
        assert!(internals.take_steering().await?.is_some());
        Ok(())
    });
    handle.steer(vec![Block::text("unread")]).unwrap();
    handle.interrupt();
    handle.send_input(Vec::new()).unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn steering_after_an_interrupt_starts_a_run() {
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
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn steering_that_was_taken_back_is_not_delivered() {
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        internals.receive().await?;
        assert!(internals.take_steering().await?.is_none());
        Ok(())
    });
    for words in ["one", "two"] {
        handle.steer(vec![Block::text(words)]).unwrap();
    }
    handle.interrupt();
    let returned = handle.take_back_steering();
    assert_eq!(returned, [[Block::text("one")], [Block::text("two")]]);
    handle.send_input(Vec::new()).unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn steering_beyond_the_queue_capacity_is_refused() {
    let (_runtime, handle) = spawn(|internals: AgentInternals| async move {
        std::future::pending::<()>().await;
        drop(internals);
        Ok(())
    });
    let accepted = (0..100).take_while(|_| handle.steer(Vec::new()).is_ok()).count();
    assert_eq!(accepted, 16);
    assert_eq!(handle.steer(Vec::new()), Err(HandleError::Full { capacity: 16 }));
}

#[tokio::test]
async fn an_interrupt_cancels_a_run_requested_by_steering_before_it_starts() {
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
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn run_ids_of_inputs_that_start_no_run_are_forgotten() {
    let (_runtime, handle) = spawn(idle);
    for _ in 0..500 {
        handle.send_input(Vec::new()).unwrap();
        tokio::task::yield_now().await;
    }
    let count = format!("{handle:?}").matches("RunId(").count();
    assert!((1..=32).contains(&count), "{count} are kept");
}

#[tokio::test]
async fn concurrent_metadata_changes_are_both_stored() {
    let config = RuntimeConfig::default();
    let store = Arc::clone(&config.store);
    let (_runtime, handle) = spawn_with(config, idle);
    for round in 0..2000 {
        std::thread::scope(|scope| {
            scope.spawn(|| handle.header().set_value("one", round.into()).unwrap());
            handle.header().set_value("two", round.into()).unwrap();
        });
        let stored = store.read(handle.session_id()).unwrap().metadata;
        assert_eq!(stored, handle.metadata());
    }
}

/// A clock and a tool: reading the time sends a progress report of the call, so every event leaves another report pending.
#[derive(Debug, Clone, Default)]
struct ChattyTool(Arc<OnceLock<Progress>>);

impl Clock for ChattyTool {
    fn now(&self) -> jiff::Timestamp {
        if let Some(progress) = self.0.get() {
            progress.report("line\n".to_owned());
        }
        jiff::Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// Number of times the call is polled before it ends.
const POLLS: usize = 50;

#[async_trait::async_trait]
impl Tool for ChattyTool {
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
        Ok(CallPlan::without_effects("chatty"))
    }

    async fn execute(&self, _: serde_json::Value, _: &CallPlan, ctx: &ToolContext) -> ToolResult {
        self.0.set(ctx.progress.clone()).unwrap();
        ctx.progress.report("the first\n".to_owned());
        let mut remaining = POLLS;
        std::future::poll_fn(|task_context| {
            if remaining == 0 {
                return Poll::Ready(());
            }
            remaining -= 1;
            task_context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        ToolResult::success("ok")
    }
}

#[tokio::test]
async fn constant_progress_reports_do_not_keep_a_call_from_ending() {
    let (mut tools, chatty) = (ToolRegistry::new(), ChattyTool::default());
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
    assert!((1..10 * POLLS).contains(&count), "{count} reports came before the call");
}

#[tokio::test(start_paused = true)]
async fn only_a_slow_file_scan_emits_a_notice() {
    let (done, slow_scan) = tokio::sync::oneshot::channel();
    let (runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        assert_eq!(internals.wait_for_scan(async { 1 }).await?, 1);
        assert_eq!(internals.wait_for_scan(slow_scan).await?, Ok(2));
        idle(internals).await
    });
    let mut observer = handle.subscribe_after(0);
    let notice_text = loop {
        if let Some(ObserverItem::Event(event)) = observer.next().await
            && let AgentEvent::Notice { text, .. } = &event.event
        {
            break text.clone();
        }
    };
    assert_eq!(notice_text, "reading the files of the project, so that changes can be undone");
    done.send(2).unwrap();
    runtime.shutdown_all(SOON).await;
    // The short scan emitted no notice.
    while let Some(observed) = observer.next().await {
        let is_notice = |event: &Envelope| matches!(event.event, AgentEvent::Notice { .. });
        assert!(
            !matches!(&observed, ObserverItem::Event(event) if is_notice(event)),
            "{observed:?}"
        );
    }
}
