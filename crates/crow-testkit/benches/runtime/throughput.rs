//! How fast events come through a handle's main stream.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::Clock as _,
    event::{AgentEvent, AgentRole, Envelope},
    ids::{ReplyId, SessionId},
};
use crow_runtime::{
    AgentInternals, AgentRuntime, FileStore, MemoryStore, ObserverItem, RuntimeConfig,
    SessionStore, SystemClock,
};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::{
    agents::{create, notice},
    proc::Proc,
    table::TableRow,
};

const DELTAS: usize = 500_000;
const NOTICES: usize = 100_000;
/// The capacity of a main stream.
const CAPACITY: usize = 1024;

/// Whether somebody watches beside the main stream.
#[derive(Clone, Copy, PartialEq)]
enum Watch {
    Nobody,
    OneObserver,
}

pub(crate) async fn all() -> Vec<TableRow> {
    let folder = tempfile::tempdir().unwrap();
    let memory = || Arc::new(MemoryStore::default());
    let file = || Arc::new(FileStore::new(folder.path()));
    let (plain_deltas, plain_notices) =
        (plain(DELTAS, delta).await, plain(NOTICES, |_| notice()).await);
    let row = |what, bound, ours, reference: &String| TableRow {
        what,
        bound,
        ours,
        reference: reference.clone(),
    };
    vec![
        row(
            "deltas through the main stream",
            "≥ 500k/s",
            ours(memory(), DELTAS, delta, Watch::Nobody).await,
            &plain_deltas,
        ),
        row(
            "the same with one observer",
            "≥ 500k/s",
            ours(memory(), DELTAS, delta, Watch::OneObserver).await,
            &plain_deltas,
        ),
        row(
            "durable events, kept in memory",
            "≥ 50k/s",
            ours(memory(), NOTICES, |_| notice(), Watch::Nobody).await,
            &plain_notices,
        ),
        row(
            "the same with one observer",
            "≥ 50k/s",
            ours(memory(), NOTICES, |_| notice(), Watch::OneObserver).await,
            &plain_notices,
        ),
        row(
            "durable events, kept in files",
            "≥ 50k/s",
            ours(file(), NOTICES, |_| notice(), Watch::Nobody).await,
            &plain_notices,
        ),
        row(
            "the same with one observer",
            "≥ 50k/s",
            ours(file(), NOTICES, |_| notice(), Watch::OneObserver).await,
            &plain_notices,
        ),
    ]
}

fn delta(number: usize) -> AgentEvent {
    let (reply_id, offset) = (ReplyId::new("r"), number as u64 * 5);
    AgentEvent::TextDelta { reply_id, offset, delta: "word ".to_owned() }
}

async fn ours(
    store: Arc<dyn SessionStore>,
    count: usize,
    event: fn(usize) -> AgentEvent,
    watch: Watch,
) -> String {
    let config = RuntimeConfig { store, ..RuntimeConfig::default() };
    let session = create(&config);
    let runtime = AgentRuntime::new(config);
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let handle = runtime.spawn(session, move |mut internals: AgentInternals| async move {
        gone.await.unwrap();
        for number in 0..count {
            internals.emit(event(number)).await?;
        }
        Ok(())
    });
    let mut stream = handle.stream().unwrap();
    let mut observer = (watch == Watch::OneObserver).then(|| handle.subscribe());
    let meter = Meter::start();
    go.send(()).unwrap();
    let observing = tokio::spawn(async move {
        let mut lags = 0;
        while let Some(observer) = &mut observer
            && let Some(observed) = observer.next().await
        {
            lags += u64::from(matches!(observed, ObserverItem::Lagged { .. }));
        }
        lags
    });
    let mut seen = 0;
    while stream.next().await.is_some() {
        seen += 1;
    }
    let lags = observing.await.unwrap();
    let text = meter.stop(count);
    assert!(seen >= count, "{seen} of {count} events came");
    runtime.shutdown_all(Duration::from_secs(5)).await;
    if lags > 0 { format!("{text}, lagged {lags} times") } else { text }
}

/// The same events, made and sent by a task through a channel of the same capacity.
async fn plain(count: usize, event: fn(usize) -> AgentEvent) -> String {
    let (sender, mut receiver) = mpsc::channel(CAPACITY);
    let meter = Meter::start();
    let sending = tokio::spawn(async move {
        let (id, clock) = (SessionId::new("s"), SystemClock::default());
        for number in 0..count {
            let envelope = Envelope {
                seq: None,
                time: clock.now(),
                session_id: id.clone(),
                root_id: id.clone(),
                agent: "bench".to_owned(),
                role: AgentRole::Primary,
                parent: None,
                round: 0,
                event: event(number),
            };
            sender.send(Arc::new(envelope)).await.unwrap();
        }
    });
    let mut seen = 0;
    while receiver.recv().await.is_some() {
        seen += 1;
    }
    sending.await.unwrap();
    assert_eq!(seen, count);
    meter.stop(count)
}

/// Measures time, and time on a processor.
struct Meter {
    own: Proc,
    cpu: Duration,
    started: Instant,
}

impl Meter {
    fn start() -> Self {
        let own = Proc::new(std::process::id());
        Self { cpu: own.cpu(), own, started: Instant::now() }
    }

    fn stop(self, count: usize) -> String {
        let taken = self.started.elapsed();
        let cpu = self.own.cpu().saturating_sub(self.cpu);
        let rate = count as f64 / taken.as_secs_f64() / 1e3;
        format!("{rate:.0}k/s ({:.2} µs of CPU each)", cpu.as_secs_f64() * 1e6 / count as f64)
    }
}
