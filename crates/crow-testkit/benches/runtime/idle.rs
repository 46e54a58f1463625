//! Agents that wait.

use std::time::{Duration, Instant};

use crow_core::event::AgentEvent;
use crow_runtime::{AgentInternals, AgentRuntime, RuntimeConfig};
use futures_util::StreamExt as _;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    agents::{create, notice},
    proc::Proc,
    table::TableRow,
};

const AGENTS: usize = 1000;
const TIMES: usize = 500;

/// What a thousand agents take that have said that they are ready and wait for input.
pub(crate) async fn memory() -> TableRow {
    let own = Proc::new(std::process::id());
    let before = own.pss_mb();
    let mut tasks = JoinSet::new();
    let mut senders = Vec::new();
    for _ in 0..AGENTS {
        let (sender, mut receiver) = mpsc::channel::<String>(16);
        senders.push(sender);
        tasks.spawn(async move { receiver.recv().await });
    }
    let reference = own.pss_mb() - before;
    drop(senders);
    tasks.join_all().await;
    let before = own.pss_mb();
    let config = RuntimeConfig::default();
    let runtime = AgentRuntime::new(config.clone());
    let mut handles = Vec::new();
    for _ in 0..AGENTS {
        let handle = runtime.spawn(create(&config), |mut internals: AgentInternals| async move {
            internals.emit(notice()).await?;
            loop {
                internals.receive().await?;
            }
        });
        handles.push((handle.stream().unwrap(), handle));
    }
    for (events, _) in &mut handles {
        events.next().await.unwrap();
    }
    let ours = own.pss_mb() - before;
    runtime.shutdown_all(Duration::from_secs(5)).await;
    let show = |mb: f64| format!("{mb:.1} MB");
    TableRow {
        what: "memory (PSS) of 1,000 idle agents",
        bound: "≤ 100 MB",
        ours: show(ours),
        reference: show(reference),
    }
}

/// From the start of an agent in a session to its first event in the hands of a listener.
pub(crate) async fn first_event() -> TableRow {
    let config = RuntimeConfig::default();
    let runtime = AgentRuntime::new(config.clone());
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let session = create(&config);
        let started = Instant::now();
        let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
            internals.emit(AgentEvent::RoundStart).await
        });
        handle.stream().unwrap().next().await.unwrap();
        ours.push(started.elapsed());
        handle.wait_for_end().await;
        let started = Instant::now();
        let (sender, mut receiver) = mpsc::channel(1024);
        let task = tokio::spawn(async move { sender.send(1).await });
        receiver.recv().await.unwrap();
        plain.push(started.elapsed());
        task.await.unwrap().unwrap();
    }
    let show = |mut times: Vec<Duration>| {
        times.sort();
        let (median, late) = (times[TIMES / 2], times[TIMES * 99 / 100]);
        format!("{:.3} ms, {:.3} ms", median.as_secs_f64() * 1e3, late.as_secs_f64() * 1e3)
    };
    TableRow {
        what: "start of an agent to its first event, median and 99th of 100",
        bound: "≤ 1 ms",
        ours: show(ours),
        reference: show(plain),
    }
}
