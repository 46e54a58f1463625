//! Memory and time that idle sessions take.

use std::{
    fs,
    time::{Duration, Instant},
};

use crow_runtime::{AgentHost as _, NewSession, SessionSetup};
use crow_testkit::scripted::{reply, text};

use super::scene::{Scene, run};

/// Number of sessions that are opened.
const SESSIONS: u64 = 200;
/// Maximum memory of all sessions together, in KiB, in an unoptimised build.
const MOST_MEMORY: u64 = 100 * 1024;
/// Maximum time for the first session, which reads the agents.
const MOST_FIRST: Duration = Duration::from_secs(1);
/// Maximum time for each further session, in an unoptimised build.
const MOST_TIME: Duration = Duration::from_millis(50);

/// Number of memory measurements. Tests running in the same process need memory as well, so the minimum counts.
const TRIES: u32 = 4;

/// Returns the proportional set size of this process in KiB: its own memory and its share of shared pages.
fn memory() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn two_hundred_idle_sessions_stay_small_and_start_fast() {
    let scene = Scene::new();
    fs::write(scene.project.join("AGENTS.md"), "Be kind.\n".repeat(100)).unwrap();
    let new = || NewSession { cwd: scene.project.clone(), ..NewSession::default() };
    let began = Instant::now();
    let mut handles = vec![scene.host.create(new()).await.unwrap()];
    let first = began.elapsed();
    let before = memory();
    let mut took = Vec::new();
    for _ in 0..SESSIONS {
        let began = Instant::now();
        handles.push(scene.host.create(new()).await.unwrap());
        took.push(began.elapsed());
    }
    let grown = memory().saturating_sub(before);
    took.sort();
    let median = took[took.len() / 2];
    let figures = format!("first {first:?}, then {median:?} each; {} KiB each", grown / SESSIONS);
    assert!(grown < MOST_MEMORY && median < MOST_TIME && first < MOST_FIRST, "{figures}");
}

#[tokio::test]
async fn sessions_with_one_turn_stay_small() {
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        least = least.min(memory_of_sessions_with_one_turn().await);
        if least < MOST_MEMORY / 4 {
            return;
        }
    }
    panic!("{least} KiB");
}

/// Returns the memory in KiB that 50 sessions with one turn each need together.
async fn memory_of_sessions_with_one_turn() -> u64 {
    let scene = Scene::new();
    let mut handles = Vec::new();
    let mut before = 0;
    for number in 0..=SESSIONS / 4 {
        let handle = scene.create(SessionSetup::default()).await;
        scene.model.push(reply([text("Good day.")]));
        run(&handle, "hello").await;
        handles.push(handle);
        if number == 0 {
            before = memory();
        }
    }
    memory().saturating_sub(before)
}
