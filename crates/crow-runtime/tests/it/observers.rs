//! Observers and the main stream.

use std::sync::Arc;

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::RunId,
};
use crow_runtime::{AgentInternals, ObserverItem, RuntimeConfig};
use crow_testkit::telemetry::CheckedRuntime;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;

use crate::support::{
    MANY, SOON, child, collect_events, collect_items, create, delta, emit_notices, events, idle,
    notice, seqs, spawn, spawn_with,
};

/// Spawns an agent that emits these events when the returned sender fires, and then ends.
fn emitting(
    events: Vec<AgentEvent>,
) -> (CheckedRuntime, crow_runtime::AgentHandle, oneshot::Sender<()>) {
    let (go, start_signal) = oneshot::channel();
    let (runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        start_signal.await.unwrap();
        for event in events {
            internals.emit(event).await?;
        }
        Ok(())
    });
    (runtime, handle, go)
}

fn notices(count: usize) -> Vec<AgentEvent> {
    (0..count).map(|number| notice(number.to_string())).collect()
}

#[tokio::test]
async fn every_observer_sees_all_events_after_its_subscription() {
    let (_runtime, handle, go) = emitting(notices(5));
    let (first, second) = (handle.subscribe(), handle.subscribe());
    go.send(()).unwrap();
    assert_eq!(seqs(&collect_items(first).await), [2, 3, 4, 5, 6]);
    assert_eq!(seqs(&collect_items(second).await), [2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_lagging_observer_is_informed_and_misses_no_durable_event() {
    let (_runtime, handle, go) = emitting(notices(MANY));
    let observer = handle.subscribe();
    go.send(()).unwrap();
    handle.wait_for_end().await;
    let seen = collect_items(observer).await;
    assert!(
        matches!(seen[0], ObserverItem::Lagged { missed } if missed >= MANY as u64),
        "{:?}",
        seen[0]
    );
    assert_eq!(seqs(&seen), (2..MANY as u64 + 2).collect::<Vec<_>>());
}

#[tokio::test]
async fn subscribe_after_returns_exactly_the_later_durable_events() {
    let (_runtime, handle, go) = emitting(notices(10));
    let early = handle.subscribe_after(4);
    go.send(()).unwrap();
    handle.wait_for_end().await;
    let late = handle.subscribe_after(4);
    assert_eq!(seqs(&collect_items(early).await), [5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(seqs(&collect_items(late).await), [5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(seqs(&collect_items(handle.subscribe_after(0)).await)[0], 1);
}

#[tokio::test]
async fn subscribe_after_includes_events_emitted_before_the_first_read() {
    let state = AgentEvent::StateChange { state: AgentState::Processing };
    let (_runtime, handle, go) = emitting(vec![state.clone(), notice("a")]);
    let observer = handle.subscribe_after(0);
    go.send(()).unwrap();
    handle.wait_for_end().await;
    let seen = collect_items(observer).await;
    assert!(events(&seen).iter().any(|event| event.event == state), "{seen:?}");
}

#[tokio::test]
async fn a_late_observer_gets_the_open_reply_and_matching_deltas() {
    let (half_sent, half_received) = oneshot::channel();
    let (go, start_signal) = oneshot::channel::<()>();
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        internals.emit(delta("r", 0, "Hello ")).await?;
        internals.emit(delta("r", 6, "wor")).await?;
        half_sent.send(()).unwrap();
        start_signal.await.unwrap();
        internals.emit(delta("r", 9, "ld")).await
    });
    half_received.await.unwrap();
    let mut observer = handle.subscribe();
    let Some(ObserverItem::OpenReply(open)) = observer.next().await else {
        panic!("no open reply")
    };
    assert_eq!(open.text, "Hello wor");
    go.send(()).unwrap();
    let Some(ObserverItem::Event(event)) = observer.next().await else { panic!("no delta") };
    assert_eq!(event.event, delta("r", 9, "ld"));
}

#[tokio::test]
async fn the_unfinished_reply_of_an_ended_agent_is_not_open() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let talker = root
            .spawn_child(child("talker"), &owner, |mut internals| async move {
                internals.emit(delta("r", 0, "I was just")).await
            })
            .await?;
        talker.wait_for_end().await;
        root.emit(notice("it ended")).await?;
        idle(root).await
    });
    let mut stream = handle.stream().unwrap();
    while !matches!(stream.next().await.unwrap().event, AgentEvent::Notice { .. }) {}
    assert!(handle.subscribe().next().now_or_never().is_none(), "nothing is open");
}

#[tokio::test]
async fn a_cancelled_read_of_the_log_continues_where_it_stopped() {
    let (_runtime, handle, go) = emitting(notices(MANY));
    let mut observer = handle.subscribe();
    go.send(()).unwrap();
    handle.wait_for_end().await;
    let mut seen = Vec::new();
    let mut dropped = 0;
    loop {
        match observer.next().now_or_never() {
            Some(Some(next)) => seen.push(next),
            Some(None) => break,
            None => {
                dropped += 1;
                tokio::task::yield_now().await;
            }
        }
    }
    assert!(dropped > 0, "the log was never read");
    assert_eq!(seqs(&seen), (2..MANY as u64 + 2).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_observer_of_a_child_sees_only_that_child_and_ends_with_it() {
    let (sender, receiver) = oneshot::channel();
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let owner = root.session_token().clone();
        let helper = root
            .spawn_child(child("helper"), &owner, |mut internals| async move {
                internals.receive().await?;
                internals.emit(notice("mine")).await
            })
            .await?;
        root.emit(notice("not its")).await?;
        sender.send(helper).unwrap();
        idle(root).await
    });
    let helper = receiver.await.unwrap();
    let observer = helper.subscribe();
    helper.send_input(Vec::new()).unwrap();
    let seen = collect_items(observer).await;
    assert!(events(&seen).iter().all(|event| event.session_id == *helper.session_id()));
    assert_eq!(seqs(&seen).len(), 1);
    assert!(!handle.state().is_end());
}

#[tokio::test]
async fn an_observer_reports_a_log_that_cannot_be_read() {
    let config = RuntimeConfig::default();
    let store = std::sync::Arc::clone(&config.store);
    let (_runtime, handle) = spawn_with(config, |_internals| async { Ok(()) });
    handle.wait_for_end().await;
    store.remove(handle.session_id()).unwrap();
    let seen = collect_items(handle.subscribe_after(0)).await;
    assert!(matches!(seen.as_slice(), [ObserverItem::Lost(_)]), "{seen:?}");
}

#[tokio::test]
async fn an_unread_observer_does_not_block_the_agent() {
    let (_runtime, handle, go) = emitting(notices(MANY));
    let _unread = handle.subscribe();
    go.send(()).unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn an_unread_main_stream_blocks_the_agent_and_loses_nothing() {
    let (_runtime, handle, go) = emitting(notices(MANY));
    let stream = handle.stream().unwrap();
    go.send(()).unwrap();
    assert!(
        tokio::time::timeout(SOON / 20, handle.wait_for_end()).await.is_err(),
        "it was not held up"
    );
    let seen = collect_events(stream).await;
    let seen: Vec<_> = seen.iter().filter_map(|event| event.seq).collect();
    assert_eq!(seen, (2..MANY as u64 + 2).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dropped_main_stream_does_not_block_the_agent() {
    let (_runtime, handle, go) = emitting(notices(MANY));
    drop(handle.stream());
    go.send(()).unwrap();
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
}

#[tokio::test]
async fn a_main_stream_taken_late_counts_the_missed_events() {
    let (_runtime, handle, go) = emitting(notices(MANY));
    go.send(()).unwrap();
    handle.wait_for_end().await;
    let mut stream = handle.stream().unwrap();
    let read_count = std::iter::from_fn(|| stream.try_next()).count() as u64;
    // There is one event besides the notices: the change of state.
    assert_eq!(read_count + stream.missed(), MANY as u64 + 1);
}

#[tokio::test(start_paused = true)]
async fn an_unread_main_stream_does_not_stall_an_interrupt() {
    let (done, mut is_done) = oneshot::channel();
    let (_runtime, handle) = spawn(|mut internals: AgentInternals| async move {
        let run = internals.start_run(RunId::new("1")).await?;
        while !run.cancel.is_cancelled() {
            internals.emit(notice("more")).await?;
        }
        internals.emit(AgentEvent::Cancelled).await?;
        done.send(internals.history().last_seq()).unwrap();
        idle(internals).await
    });
    let stream = handle.stream().unwrap();
    assert!(tokio::time::timeout(SOON, &mut is_done).await.is_err(), "it was not held up");
    handle.interrupt();
    let last = tokio::time::timeout(SOON, is_done).await.expect("the listener stalled it").unwrap();
    assert!(stream.missed() > 0);
    handle.shutdown();
    assert_eq!(
        seqs(&collect_items(handle.subscribe_after(0)).await),
        (1..=last).collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_abandoned_by_a_cancelled_child_misses_no_events_of_the_root() {
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let owner = root.session_token().child_token();
        let talker = root
            .spawn_child(child("talker"), &owner, |mut internals| async move {
                emit_notices(&mut internals, MANY).await
            })
            .await?;
        owner.cancel();
        talker.wait_for_end().await;
        emit_notices(&mut root, 10).await
    });
    let stream = handle.stream().unwrap();
    // The talker stopped waiting for the stream and has ended; the root still waits for its reader.
    assert!(tokio::time::timeout(SOON, handle.wait_for_end()).await.is_err(), "it was not held up");
    let seen = collect_events(stream).await;
    let of_root =
        seen.iter().filter(|event| event.seq.is_some() && event.session_id == *handle.session_id());
    assert_eq!(of_root.count(), 10);
}

#[tokio::test]
async fn an_observer_that_outlives_the_agent_reads_to_the_end() {
    let config = RuntimeConfig::default();
    let session = create(&config);
    let runtime = CheckedRuntime::new(config);
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        emit_notices(&mut internals, 3).await
    });
    let observer = handle.subscribe_after(1);
    handle.wait_for_end().await;
    drop((handle, runtime));
    assert_eq!(seqs(&collect_items(observer).await), [2, 3, 4]);
}

#[tokio::test]
async fn the_open_reply_of_a_dropped_driven_child_is_not_shown() {
    let (is_gone, gone) = tokio::sync::oneshot::channel();
    let (_runtime, handle) = spawn(|mut root: AgentInternals| async move {
        let mut voice = root.child(child("voice")).await?;
        voice.emit(delta("r", 0, "half a sentence")).await?;
        drop(voice);
        is_gone.send(()).unwrap();
        root.receive().await.map(drop)
    });
    gone.await.unwrap();
    let observer = handle.subscribe();
    handle.send_input(Vec::new()).unwrap();
    let seen = collect_items(observer).await;
    assert!(!seen.iter().any(|seen| matches!(seen, ObserverItem::OpenReply(_))), "{seen:?}");
}

#[tokio::test]
async fn a_lagging_observer_does_not_read_logs_without_missed_events() {
    let config = RuntimeConfig::default();
    let store = Arc::clone(&config.store);
    let (_runtime, handle) = spawn_with(config, |mut root: AgentInternals| async move {
        let voice = root.child(child("voice")).await?;
        drop(voice);
        root.receive().await?;
        emit_notices(&mut root, MANY).await
    });
    while handle.header().children().is_empty()
        || store.remove(&handle.header().children()[0]).is_err()
    {
        tokio::task::yield_now().await;
    }
    let observer = handle.subscribe();
    handle.send_input(Vec::new()).unwrap();
    handle.wait_for_end().await;
    let seen = collect_items(observer).await;
    assert!(seen.iter().any(|seen| matches!(seen, ObserverItem::Lagged { .. })));
    assert!(!seen.iter().any(|seen| matches!(seen, ObserverItem::Lost(_))), "a log was missed");
}
