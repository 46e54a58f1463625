//! Random schedules of agents and listeners: what each listener sees must be consistent with the log.

use std::{collections::BTreeMap, sync::Arc};

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::{ReplyId, SessionId},
    message::{Origin, ReplyBlock, ReplyContent},
    model::StopReason,
};
use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, ChildLimits, ObserverItem, RuntimeConfig,
};
use futures_util::{StreamExt as _, future::join_all};
use proptest::prelude::*;
use tokio::task::yield_now;

use crate::support::{child, delta, notice, spawn_with};

/// A step of an agent.
#[derive(Debug, Clone)]
enum Step {
    Notices(usize),
    /// A reply with this many deltas.
    Reply(usize),
    Yield,
}

/// Start and speed of a listener.
#[derive(Debug, Clone)]
struct Listener {
    /// Number of yields before it subscribes.
    delay: usize,
    after: Option<u64>,
    pace: Pace,
}

#[derive(Debug, Clone)]
enum Pace {
    /// Reads `size` items, then yields `pause` times.
    Bursts { size: usize, pause: usize },
    /// Reads everything after the agent has ended.
    AtTheEnd,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..300_usize).prop_map(Step::Notices),
        (0..400_usize).prop_map(Step::Reply),
        Just(Step::Yield),
    ];
    prop::collection::vec(step, 1..8)
}

fn listeners() -> impl Strategy<Value = Vec<Listener>> {
    let pace = prop_oneof![
        3 => (1..200_usize, 0..40_usize).prop_map(|(size, pause)| Pace::Bursts { size, pause }),
        1 => Just(Pace::AtTheEnd),
    ];
    let listener = (0..60_usize, prop::option::of(0..200_u64), pace);
    let listener = listener.prop_map(|(delay, after, pace)| Listener { delay, after, pace });
    prop::collection::vec(listener, 1..5)
}

fn origin() -> Origin {
    Origin {
        dialect: "none".into(),
        provider: "none".into(),
        base_url: String::new(),
        model: "none".into(),
    }
}

async fn run_steps(internals: &mut AgentInternals, steps: Vec<Step>) -> Result<(), AgentError> {
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Notices(count) => {
                for _ in 0..count {
                    internals.emit(notice("n")).await?;
                }
            }
            Step::Reply(count) => {
                let (id, mut text) =
                    (format!("{}-{number}", internals.session_id()), String::new());
                for delta_number in 0..count {
                    let more = format!("{delta_number} ");
                    internals.emit(delta(&id, text.len(), &more)).await?;
                    text.push_str(&more);
                    if delta_number % 50 == 0 {
                        yield_now().await;
                    }
                }
                let event = AgentEvent::Reply {
                    reply_id: ReplyId::new(id),
                    blocks: vec![ReplyBlock::without_native_item(ReplyContent::Text { text })],
                    stop: StopReason::EndTurn,
                    origin: origin(),
                    response_id: None,
                };
                internals.emit(event).await?;
            }
            Step::Yield => yield_now().await,
        }
    }
    Ok(())
}

async fn listen(handle: &AgentHandle, listener: Listener) -> Vec<ObserverItem> {
    for _ in 0..listener.delay {
        yield_now().await;
    }
    let mut observer = match listener.after {
        Some(seq) => handle.subscribe_after(seq),
        None => handle.subscribe(),
    };
    let mut seen = Vec::new();
    let (size, pause) = match listener.pace {
        Pace::Bursts { size, pause } => (size, pause),
        Pace::AtTheEnd => {
            handle.wait_for_end().await;
            (usize::MAX, 0)
        }
    };
    while let Some(observed) = observer.next().await {
        seen.push(observed);
        if seen.len() % size == 0 {
            for _ in 0..pause {
                yield_now().await;
            }
        }
    }
    seen
}

/// State of a listener, built from the items that it saw.
#[derive(Default)]
struct View {
    last_seq: Option<u64>,
    /// True if replies may be complete without a delta seen before.
    gap: bool,
    open: BTreeMap<SessionId, (ReplyId, String)>,
    complete: Vec<ReplyId>,
}

impl View {
    fn see(&mut self, observed: &ObserverItem) {
        match observed {
            ObserverItem::Event(event) => self.see_event(event),
            ObserverItem::Lagged { missed } => {
                assert!(*missed > 0);
                self.gap = true;
                self.open.clear();
            }
            ObserverItem::OpenReply(reply) => {
                assert!(!self.complete.contains(&reply.reply_id), "{reply:?} is out of date");
                let open = (reply.reply_id.clone(), reply.text.clone());
                self.open.insert(reply.session_id.clone(), open);
            }
            ObserverItem::Lost(error) => panic!("{error}"),
        }
    }

    fn see_event(&mut self, envelope: &Envelope) {
        if let Some(seq) = envelope.seq {
            assert_eq!(self.last_seq.map_or(seq, |last| last + 1), seq, "a hole");
            self.last_seq = Some(seq);
        }
        let session = &envelope.session_id;
        if let AgentEvent::TextDelta { reply_id, offset, delta } = &envelope.event {
            assert!(!self.complete.contains(reply_id), "{envelope:?} is out of date");
            if *offset == 0 {
                self.open.insert(session.clone(), (reply_id.clone(), String::new()));
            }
            let (open, text) = self.open.get_mut(session).expect("a delta of a reply unseen");
            assert_eq!((&*open, text.len() as u64), (reply_id, *offset));
            text.push_str(delta);
        }
        if let AgentEvent::Reply { reply_id, blocks, .. } = &envelope.event {
            let ReplyContent::Text { text } = &blocks[0].content else { panic!("{blocks:?}") };
            match self.open.remove(session) {
                Some((open, seen)) => assert_eq!((&open, &seen), (reply_id, text)),
                None => assert!(self.gap || text.is_empty(), "no delta of {reply_id} was seen"),
            }
            self.complete.push(reply_id.clone());
        }
    }
}

async fn check(root: Vec<Step>, children: Vec<Vec<Step>>, listeners: Vec<Listener>) {
    let config = RuntimeConfig {
        children: ChildLimits { depth: 1, running: 4 },
        ..RuntimeConfig::default()
    };
    let (_runtime, handle) = spawn_with(config, |mut internals: AgentInternals| async move {
        let owner = internals.session_token().clone();
        let mut helpers = Vec::new();
        for steps in children {
            let agent =
                |mut child: AgentInternals| async move { run_steps(&mut child, steps).await };
            helpers.push(internals.spawn_child(child("helper"), &owner, agent).await?);
        }
        run_steps(&mut internals, root).await?;
        for helper in helpers {
            helper.wait_for_end().await;
        }
        Ok(())
    });
    // The main stream and all listeners read at the same time.
    let mut stream = handle.stream().unwrap();
    let main = async {
        let mut view = View { last_seq: Some(1), ..View::default() };
        while let Some(event) = stream.next().await {
            view.see(&ObserverItem::Event(Arc::clone(&event)));
        }
        assert_eq!(stream.missed(), 0);
        view.last_seq
    };
    let reads = listeners.iter().map(|listener| listen(&handle, listener.clone()));
    let (last, seen) = tokio::join!(main, join_all(reads));
    // Replay the items of each listener; `View` asserts their consistency.
    for (seen, listener) in seen.iter().zip(&listeners) {
        let first = listener.after.filter(|after| Some(*after) < last);
        let mut view = View { last_seq: first, gap: first.is_some(), ..View::default() };
        for observed in seen {
            view.see(observed);
        }
        if first.is_some() || view.last_seq.is_some() {
            assert_eq!(view.last_seq, last, "{listener:?} did not see the end");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_listener_sees_a_consistent_view_of_the_log(
        root in steps(),
        children in prop::collection::vec(steps(), 0..4),
        listeners in listeners(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(root, children, listeners));
    }
}
