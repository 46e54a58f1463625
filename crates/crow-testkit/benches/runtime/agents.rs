//! Agents that work at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crow_core::event::{AgentEvent, Envelope, NoticeAudience, NoticeLevel};
use crow_runtime::{AgentRuntime, AgentSession, RuntimeConfig, SessionSpec};
use tokio::{sync::mpsc, task::JoinSet};

use crate::table::TableRow;

/// How many agents work at once.
const AGENTS: usize = 100;
/// How long they do.
const WINDOW: Duration = Duration::from_millis(500);

pub(crate) fn create(config: &RuntimeConfig) -> AgentSession {
    let spec = SessionSpec::new("bench", "none/none".parse().unwrap(), "/");
    AgentSession::create(config, spec).unwrap()
}

/// A durable event.
pub(crate) fn notice() -> AgentEvent {
    let (level, audience) = (NoticeLevel::Info, NoticeAudience::User);
    AgentEvent::Notice { level, audience, text: "some text of a usual length".to_owned() }
}

/// The steps of agents of which none ever waits: the busiest one to the middle one, and the middle one to the laziest.
pub(crate) async fn fairness() -> TableRow {
    let config = RuntimeConfig::default();
    let runtime = AgentRuntime::new(config.clone());
    let stop = Arc::new(AtomicBool::new(false));
    let mut counts = Vec::new();
    let mut handles = Vec::new();
    for _ in 0..AGENTS {
        let (stop, count) = (Arc::clone(&stop), Arc::new(AtomicU64::new(0)));
        counts.push(Arc::clone(&count));
        handles.push(runtime.spawn(create(&config), |mut internals| async move {
            while !stop.load(Ordering::Relaxed) {
                internals.emit(notice()).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
    }
    tokio::time::sleep(WINDOW).await;
    let ours = spread(&counts);
    stop.store(true, Ordering::Relaxed);
    runtime.shutdown_all(Duration::from_secs(5)).await;
    let bound = "≤ 2; ≥ 1 step each";
    let what = "100 agents that never wait: most / median / fewest steps";
    TableRow { what, bound, ours, reference: plain_fairness().await }
}

async fn plain_fairness() -> String {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut tasks, mut counts) = (JoinSet::new(), Vec::new());
    for _ in 0..AGENTS {
        let (stop, count) = (Arc::clone(&stop), Arc::new(AtomicU64::new(0)));
        counts.push(Arc::clone(&count));
        tasks.spawn(async move {
            let (sender, mut receiver) = mpsc::channel::<Arc<Envelope>>(1);
            while !stop.load(Ordering::Relaxed) {
                drop(sender.reserve().await);
                assert!(receiver.try_recv().is_err());
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tokio::time::sleep(WINDOW).await;
    let spread = spread(&counts);
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    spread
}

fn spread(counts: &[Arc<AtomicU64>]) -> String {
    let mut counts: Vec<_> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    counts.sort_unstable();
    let (most, median, fewest) = (counts[counts.len() - 1], counts[counts.len() / 2], counts[0]);
    format!("{most} / {median} / {fewest} ({:.2})", most as f64 / median.max(1) as f64)
}
