//! Processes in tests: liveness, children of the test process, and a separate process for a test.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

/// Returns true if a process runs. A zombie, which only waits to be reaped, does not.
pub fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"))
        .unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| state != "Z")
}

/// Waits until a process has ended, at most five seconds. Returns true if it has.
pub async fn has_ended_within_5s(pid: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_running(pid) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    !is_running(pid)
}

/// Returns the children of this process that have not ended.
pub fn running_children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let pids: Vec<i32> = lists.flat_map(|list| parse_pids(&list.unwrap_or_default())).collect();
    let is_living = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    pids.into_iter().filter(is_living).filter_map(Pid::from_raw).collect()
}

/// Parses a list of process ids.
fn parse_pids(list: &str) -> Vec<i32> {
    list.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Kills children of this process, which must be reaped elsewhere, and waits until they have ended. Panics after ten
/// seconds.
pub fn kill_children(children: &[Pid]) {
    for child in children {
        rustix::process::kill_process(*child, Signal::KILL).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while running_children().iter().any(|child| children.contains(child)) {
        assert!(Instant::now() < deadline, "killed children are still there");
        std::thread::yield_now();
    }
}

/// Variable that marks the separate process of a test.
const OWN_PROCESS: &str = "CROW_TEST_HAS_OWN_PROCESS";

/// Runs the current test again in a separate process, unless this is one. Returns true in that process, where the test
/// must do its work. For tests of process-wide state, such as orphans and the starter of commands: `cargo test` runs
/// all tests in one process.
#[expect(clippy::disallowed_methods, reason = "the test itself, started again")]
pub fn has_own_process() -> bool {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| name.contains("::"));
    let Some(name) = name.filter(|_| std::env::var_os(OWN_PROCESS).is_none()) else { return true };
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact"]).env(OWN_PROCESS, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
    false
}
