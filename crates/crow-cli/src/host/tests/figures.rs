//! What sessions cost that only wait.

use std::{
    fs,
    time::{Duration, Instant},
};

use crow_runtime::{AgentHost as _, NewSession, SessionSetup};
use crow_testkit::scripted::{reply, text};

use super::scene::{Scene, run};

/// How many sessions are opened.
const SESSIONS: u64 = 200;
/// The most that they may need together, in KiB, in a build that is not optimised.
const MOST_MEMORY: u64 = 100 * 1024;
/// The most that the first session may take, which reads the agents.
const MOST_FIRST: Duration = Duration::from_secs(1);
/// The most that another one may take, in a build that is not optimised.
const MOST_TIME: Duration = Duration::from_millis(50);

/// How often memory is measured. Tests beside this one in the process need some as well: the least counts.
const TRIES: u32 = 4;

/// Returns the memory of this process in KiB, with its share of what it has in common with others.
fn memory() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn two_hundred_sessions_that_wait_stay_small_and_are_made_at_once() {
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
    let told = format!("first {first:?}, then {median:?} each; {} KiB each", grown / SESSIONS);
    assert!(grown < MOST_MEMORY && median < MOST_TIME && first < MOST_FIRST, "{told}");
}

#[tokio::test]
async fn sessions_that_said_something_stay_small() {
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        least = least.min(grown_by_sessions_that_said_something().await);
        if least < MOST_MEMORY / 4 {
            return;
        }
    }
    panic!("{least} KiB");
}

/// Returns what many sessions with a turn each need, in KiB.
async fn grown_by_sessions_that_said_something() -> u64 {
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
