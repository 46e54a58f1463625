//! Processes as tests look at them: which run, which are children of the test, and a process for a test alone.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

/// Whether a process runs; a zombie, which only waits to be reaped, does not.
pub fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"))
        .unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| state != "Z")
}

/// Waits until a process is gone, at most five seconds.
pub async fn is_gone_soon(pid: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while is_running(pid) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    !is_running(pid)
}

/// Returns the children of this process that have not ended.
pub fn living_children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let pids: Vec<i32> = lists.flat_map(|list| words(&list.unwrap_or_default())).collect();
    let is_living = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    pids.into_iter().filter(is_living).filter_map(Pid::from_raw).collect()
}

fn words(list: &str) -> Vec<i32> {
    list.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Kills children of this process, which somebody else waits for, and waits until they have ended, at most ten seconds.
pub fn kill_children(children: &[Pid]) {
    for child in children {
        rustix::process::kill_process(*child, Signal::KILL).unwrap();
    }
    let until = Instant::now() + Duration::from_secs(10);
    while living_children().iter().any(|child| children.contains(child)) {
        assert!(Instant::now() < until, "killed children are still there");
        std::thread::yield_now();
    }
}

/// Says in the child that it is the process of its own.
const OWN_PROCESS: &str = "CROW_TEST_HAS_OWN_PROCESS";

/// Runs a test once more in a process of its own, unless it has one: whose orphan is whose, and what starts commands, concerns
/// a whole process, and `cargo test` runs all tests in one. Returns whether this is that process.
#[expect(clippy::disallowed_methods, reason = "the test itself, started again")]
pub fn has_own_process() -> bool {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| name.contains("::"));
    let Some(name) = name.filter(|_| std::env::var_os(OWN_PROCESS).is_none()) else { return true };
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ran = again.args([name, "--exact"]).env(OWN_PROCESS, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    false
}
