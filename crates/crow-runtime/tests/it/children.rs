//! Child agents.

use std::sync::Arc;

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::{CallId, RunId},
};
use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, AgentSession, ChildLimits, ChildSpec, RuntimeConfig,
    SessionError, ShutdownReport,
};
use crow_testkit::telemetry::CheckedRuntime;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::support::{
    MANY, SOON, child, collect_events, create, emit_notices, idle, notice, spawn, spawn_with,
};

async fn start(
    internals: &mut AgentInternals,
    owner: &CancellationToken,
) -> Result<AgentHandle, AgentError> {
    internals.spawn_child(child("helper"), owner, idle).await
}

#[tokio::test]
async fn events_of_a_child_appear_in_the_root_stream_with_shared_numbers() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        root.set_state(AgentState::Processing).await?;
        root.emit(notice("before")).await?;
        let owner = root.session_token().clone();
        let helper = root
            .spawn_child(child("helper"), &owner, |mut helper| async move {
                helper.emit(notice("inside")).await
            })
            .await?;
        let end = root.wait_for_child(&helper, &owner).await?;
        assert_eq!(end.result, Ok(()));
        root.emit(notice("after")).await
    });
    let seen = collect_events(handle.stream().unwrap()).await;
    let seqs: Vec<_> = seen.iter().filter_map(|event| event.seq).collect();
    assert_eq!(seqs, [2, 3, 4, 5]);
    let names: Vec<_> =
        seen.iter().filter(|event| event.seq.is_some()).map(|event| event.agent.clone()).collect();
    assert_eq!(names, ["own", "helper", "helper", "own"]);
    let count =
        |fits: fn(&AgentEvent) -> bool| seen.iter().filter(|event| fits(&event.event)).count();
    assert_eq!(count(|event| matches!(event, AgentEvent::SubagentStart { .. })), 1);
    assert_eq!(count(|event| matches!(event, AgentEvent::SubagentEnd { .. })), 1);
    assert_eq!(
        count(|event| matches!(
            event,
            AgentEvent::StateChange { state: AgentState::WaitingForSubagent(_) }
        )),
        1
    );
}

#[tokio::test]
async fn the_headers_of_parent_and_child_sessions_refer_to_each_other() {
    let config = RuntimeConfig::default();
    let store = Arc::clone(&config.store);
    let (_runtime, handle) = spawn_with(config, |mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        start(&mut root, &owner).await?;
        Ok(())
    });
    handle.wait_for_end().await;
    let root = store.read(handle.session_id()).unwrap().metadata;
    let [id] = root.child_session_ids.as_slice() else { panic!("{:?}", root.child_session_ids) };
    let helper = store.read(id).unwrap().metadata;
    assert_eq!(helper.parent_session_id.as_ref(), Some(handle.session_id()));
    assert_eq!(helper.crow().root_id, *handle.session_id());
    assert_eq!(handle.header().children(), std::slice::from_ref(id));
}

#[tokio::test]
async fn the_tool_context_of_a_child_has_its_parent_call_and_metadata() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let spec = ChildSpec { call_id: Some(CallId::new("c7")), ..child("helper") };
        let mut helper = root.child(spec).await?;
        let parent = helper.context().parent.clone().unwrap();
        assert_eq!(
            (&parent.session_id, parent.call_id),
            (root.session_id(), Some(CallId::new("c7")))
        );
        assert!(root.context().parent.is_none());
        helper.set_metadata("colour", "blue".into())?;
        assert_eq!(helper.context().metadata.get("colour"), Some("blue".into()));
        assert!(helper.set_metadata("crow", 1.into()).is_err());
        assert_eq!(helper.context().metadata.get("crow"), None);
        helper.emit(AgentEvent::TurnStart { turn: 3 }).await?;
        let turn = helper.context().current_turn.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(turn, 3);
        Ok(())
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn event_numbers_continue_after_the_last_child_event_on_resume() {
    let config = RuntimeConfig::default();
    let (_runtime, handle) = spawn_with(config.clone(), |mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let helper = root
            .spawn_child(child("helper"), &owner, |mut helper| async move {
                emit_notices(&mut helper, 5).await
            })
            .await?;
        helper.wait_for_end().await;
        Ok(())
    });
    handle.wait_for_end().await;
    let session =
        AgentSession::open(&config, handle.session_id(), crow_core::model::Abilities::default())
            .unwrap();
    let runtime = CheckedRuntime::new(config);
    let resumed = runtime
        .spawn(session, |mut root: AgentInternals| async move { root.emit(notice("on")).await });
    let seen = collect_events(resumed.stream().unwrap()).await;
    assert_eq!(seen.iter().find_map(|event| event.seq), Some(8));
    let all =
        crate::support::seqs(&crate::support::collect_items(resumed.subscribe_after(0)).await);
    assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[tokio::test]
async fn a_child_beyond_the_depth_limit_is_refused() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let helper = root
            .spawn_child(child("helper"), &owner, |mut helper| async move {
                let owner = helper.session_token().clone();
                let refused = start(&mut helper, &owner).await;
                assert!(matches!(refused, Err(AgentError::ChildTooDeep { depth: 1 })));
                Ok(())
            })
            .await?;
        assert_eq!(helper.wait_for_end().await.result, Ok(()));
        Ok(())
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn children_beyond_the_running_limit_are_refused_until_one_ends() {
    let config = RuntimeConfig {
        children: ChildLimits { depth: 1, running: 2 },
        ..RuntimeConfig::default()
    };
    let (_runtime, handle) = spawn_with(config, |mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let first = start(&mut root, &owner).await?;
        start(&mut root, &owner).await?;
        let refused = start(&mut root, &owner).await;
        assert!(matches!(refused, Err(AgentError::TooManyChildren { running: 2 })));
        first.shutdown();
        first.wait_for_end().await;
        start(&mut root, &owner).await?;
        Ok(())
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn a_dropped_child_start_does_not_count_against_the_limit() {
    let config = RuntimeConfig {
        children: ChildLimits { depth: 1, running: 1 },
        ..RuntimeConfig::default()
    };
    let (dropped, was_dropped) = oneshot::channel();
    let (_runtime, handle) = spawn_with(config, |mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        while root.emit(notice("until the stream is full")).now_or_never().is_some() {}
        assert!(start(&mut root, &owner).now_or_never().is_none(), "it was not dropped halfway");
        dropped.send(()).unwrap();
        start(&mut root, &owner).await?;
        Ok(())
    });
    let stream = handle.stream().unwrap();
    was_dropped.await.unwrap();
    collect_events(stream).await;
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn a_childs_panic_is_reported_to_its_parent_its_listeners_and_its_log() {
    let (sender, receiver) = oneshot::channel();
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        root.set_state(AgentState::Processing).await?;
        let owner = root.session_token().clone();
        let helper =
            root.spawn_child(child("helper"), &owner, |_| async { panic!("oh no") }).await?;
        let end = root.wait_for_child(&helper, &owner).await?;
        assert_eq!(end.result, Err("the agent panicked: oh no".to_owned()));
        sender.send(helper).unwrap();
        Ok(())
    });
    let seen = collect_events(handle.stream().unwrap()).await;
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert!(seen.iter().any(|event| matches!(&event.event, AgentEvent::SubagentEnd { result, .. } if result.contains("oh no"))));
    let helper = receiver.await.unwrap();
    assert!(matches!(helper.state(), AgentState::Error(_)));
    assert!(format!("{:?}", helper.history().unwrap().entries()).contains("oh no"));
}

#[tokio::test]
async fn a_child_ends_when_its_owner_token_is_cancelled() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let run = root.start_run(RunId::new("1")).await?;
        let helper = start(&mut root, &run.cancel).await?;
        helper.wait_for_end().await;
        Ok(())
    });
    let mut stream = handle.stream().unwrap();
    while !matches!(stream.next().await.unwrap().event, AgentEvent::SubagentStart { .. }) {}
    handle.interrupt();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn a_child_never_outlives_its_parent() {
    let (sender, receiver) = oneshot::channel();
    let (runtime, handle) = spawn(|mut root: AgentInternals| async move {
        // A token that is never cancelled.
        sender.send(start(&mut root, &CancellationToken::new()).await?).unwrap();
        Ok(())
    });
    handle.wait_for_end().await;
    assert_eq!(receiver.await.unwrap().state(), AgentState::Done);
    assert!(runtime.list_active().is_empty());
}

#[tokio::test]
async fn shutting_down_a_waiting_parent_ends_a_child_with_another_owner_token() {
    let (runtime, handle) = spawn(|mut root: AgentInternals| async move {
        root.set_state(AgentState::Processing).await?;
        let owner = CancellationToken::new();
        let helper = start(&mut root, &owner).await?;
        root.wait_for_child(&helper, &owner).await?;
        Ok(())
    });
    let mut stream = handle.stream().unwrap();
    while !matches!(stream.next().await.unwrap().event, AgentEvent::SubagentStart { .. }) {}
    let report = runtime.shutdown(handle.session_id(), SOON).await;
    assert_eq!(report, ShutdownReport::default());
}

#[tokio::test(start_paused = true)]
async fn a_child_that_ignores_its_cancellation_is_aborted() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        root.set_state(AgentState::Processing).await?;
        let owner = root.session_token().child_token();
        let helper = root.spawn_child(child("deaf"), &owner, |_| std::future::pending()).await?;
        owner.cancel();
        let end = root.wait_for_child(&helper, &owner).await?;
        assert_eq!(end.result, Err("the agent was aborted".to_owned()));
        Ok(())
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_reports_aborted_children_within_one_timeout() {
    let (runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        for _ in 0..3 {
            root.spawn_child(child("deaf"), &owner, |_| std::future::pending()).await?;
        }
        idle(root).await
    });
    let mut stream = handle.stream().unwrap();
    for _ in 0..3 {
        while !matches!(stream.next().await.unwrap().event, AgentEvent::SubagentStart { .. }) {}
    }
    let report = runtime.shutdown(handle.session_id(), SOON).await;
    assert_eq!((report.aborted.len(), report.stuck), (4, Vec::new()));
    assert!(report.aborted.contains(handle.session_id()));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_unblocks_events_of_a_driven_child() {
    let (done, mut is_done) = oneshot::channel();
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let run = root.start_run(RunId::new("1")).await?;
        let mut partner = root.child(child("partner")).await?;
        while !run.cancel.is_cancelled() {
            partner.emit(notice("more")).await?;
        }
        done.send(()).unwrap();
        idle(root).await
    });
    let _unread = handle.stream().unwrap();
    assert!(tokio::time::timeout(SOON, &mut is_done).await.is_err(), "it was not held up");
    handle.interrupt();
    tokio::time::timeout(SOON, is_done).await.expect("the listener stalled it").unwrap();
}

#[tokio::test]
async fn children_of_a_driven_child_end_with_the_driver() {
    let config = RuntimeConfig {
        children: ChildLimits { depth: 2, running: 4 },
        ..RuntimeConfig::default()
    };
    let (sender, receiver) = oneshot::channel();
    let (runtime, handle) = spawn_with(config, |mut root: AgentInternals| async move {
        let mut partner = root.child(child("partner")).await?;
        sender.send(start(&mut partner, &CancellationToken::new()).await?).unwrap();
        Ok(())
    });
    handle.wait_for_end().await;
    assert_eq!(receiver.await.unwrap().state(), AgentState::Done);
    assert!(runtime.list_active().is_empty());
}

#[tokio::test]
async fn children_run_concurrently_with_their_parent_and_each_other() {
    let config = RuntimeConfig::default();
    let session = create(&config);
    let runtime = CheckedRuntime::new(config);
    let handle = runtime.spawn(session, |mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let mut helpers = Vec::new();
        for _ in 0..4 {
            let agent = |mut helper: AgentInternals| async move {
                emit_notices(&mut helper, MANY / 3).await
            };
            helpers.push(root.spawn_child(child("helper"), &owner, agent).await?);
        }
        emit_notices(&mut root, MANY / 3).await?;
        for helper in helpers {
            assert_eq!(helper.wait_for_end().await.result, Ok(()));
        }
        Ok(())
    });
    let seen = collect_events(handle.stream().unwrap()).await;
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    let seqs: Vec<_> = seen.iter().filter_map(|event| event.seq).collect();
    assert_eq!(seqs, (2..=5 * (MANY as u64 / 3) + 5).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_child_session_cannot_be_opened_but_can_be_forked() {
    let config = RuntimeConfig::default();
    let (_runtime, handle) = spawn_with(config.clone(), |mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let helper = root.spawn_child(child("helper"), &owner, |_| async { Ok(()) }).await?;
        helper.wait_for_end().await;
        idle(root).await
    });
    let mut stream = handle.stream().unwrap();
    while !matches!(stream.next().await.unwrap().event, AgentEvent::SubagentEnd { .. }) {}
    let id = handle.header().children().remove(0);
    let abilities = crow_core::model::Abilities::default();
    let refused = AgentSession::open(&config, &id, abilities);
    let Err(SessionError::IsChild { id: child_id, root }) = refused else { panic!("{refused:?}") };
    assert_eq!((&child_id, &root), (&id, handle.session_id()));
    AgentSession::fork(&config, &id, abilities).unwrap();
}

#[tokio::test]
async fn starting_a_child_after_the_runtime_was_dropped_fails() {
    let (runtime, handle) = spawn(|mut root: AgentInternals| async move {
        root.receive().await?;
        let owner = root.session_token().clone();
        start(&mut root, &owner).await.map(drop)
    });
    drop(runtime);
    handle.send_input(Vec::new()).unwrap();
    let end = handle.wait_for_end().await;
    assert_eq!(end.result, Err("the runtime of the agent is gone".to_owned()));
}
