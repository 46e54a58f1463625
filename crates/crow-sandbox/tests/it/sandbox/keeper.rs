//! The keeper process that starts commands, and what happens to commands when it is killed.

use crow_testkit::wait_until;
use std::{
    collections::HashSet,
    fs,
    net::TcpListener,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crow_core::capability::{Containment, ProcessEnd, Processes as _};
use crow_core::network::{AllowedHosts, Network};
use rustix::{
    process::{Pid, Resource, Rlimit, Signal},
    thread::{CapabilitySet, CapabilitySets},
};
use tokio_util::sync::CancellationToken;

use super::sandbox_fixture::{SandboxFixture, printed};
use crow_testkit::processes::{has_own_process, kill_children, running_children};

/// Shell script that prints the namespaces of a command and what they keep it from.
const CONTAINMENT_SCRIPT: &str = "readlink /proc/self/ns/user /proc/self/ns/net; grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status
    echo x 2>/dev/null >../outside/file; echo $?; ls ../home | wc -l
    cat /proc/1/environ 2>/dev/null | wc -c; ls /sys/class/net 2>/dev/null | wc -l; ulimit -u";

/// Shell script that prints the number of processes a command sees.
const COUNT_PROCESSES_SCRIPT: &str = "ls /proc | grep -c '^[0-9]'";

/// Runs a command until its output is as expected: a killed process is visible until it is reaped.
async fn run_until_it_prints(fixture: &SandboxFixture, script: &str, expected: &str) {
    let mut printed = String::new();
    for _ in 0..500 {
        printed = fixture.print(script).await;
        if printed == expected {
            return;
        }
    }
    assert_eq!(printed, expected);
}

/// Returns the keeper of a fixture. No command may be running.
async fn keeper(fixture: &SandboxFixture) -> Pid {
    assert_eq!(fixture.sandbox.containment().await, Containment::Full);
    // The inits of ended commands may still be exiting.
    wait_until(|| running_children().len() == 1).await;
    running_children()[0]
}

async fn kill_keeper(fixture: &SandboxFixture) -> Pid {
    let keeper = keeper(fixture).await;
    kill_children(&[keeper]);
    keeper
}

async fn wait_for_file(path: &Path) {
    wait_until(|| path.exists()).await;
}

#[tokio::test]
async fn a_new_keeper_starts_commands_in_the_same_namespaces() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "{CONTAINMENT_SCRIPT}; (echo >/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached"
    );
    let before = fixture.print(&script).await;
    assert!(!before.contains("reached"), "{before}");
    let process_count = fixture.print(COUNT_PROCESSES_SCRIPT).await;
    for _ in 0..3 {
        let killed = kill_keeper(&fixture).await;
        assert_eq!(fixture.print(&script).await, before);
        run_until_it_prints(&fixture, COUNT_PROCESSES_SCRIPT, &process_count).await;
        assert_ne!(keeper(&fixture).await, killed);
    }
    assert_eq!(fixture.run("kill -9 $$").await.end, ProcessEnd::Signaled(9));
}

#[tokio::test]
async fn concurrent_commands_share_one_new_keeper() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    kill_keeper(&fixture).await;
    let many = (0..8).map(|_| fixture.print("echo fine"));
    assert_eq!(futures_util::future::join_all(many).await, ["fine\n"; 8]);
    keeper(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_of_several_threads_share_one_new_keeper() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    kill_keeper(&fixture).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (runner, spec) = (fixture.runner.clone(), fixture.spec("echo fine"));
        tasks.spawn(async move { runner.run(spec, CancellationToken::new()).await });
    }
    while let Some(outcome) = tasks.join_next().await {
        assert_eq!(printed(&outcome.unwrap().unwrap()), "fine\n");
    }
    keeper(&fixture).await;
}

#[tokio::test]
async fn the_proxy_serves_commands_of_a_new_keeper() {
    if !has_own_process() {
        return;
    }
    let allowed = AllowedHosts::new(["good.example".parse().unwrap()]);
    let fixture = SandboxFixture::with(|config, _| config.network = Network::Hosts(allowed));
    let script = "curl -s -o /dev/null -w '%{http_code}\\n' --noproxy '' http://evil.example/";
    assert_eq!(fixture.print(script).await, "403\n");
    kill_keeper(&fixture).await;
    let outcome = fixture.run(script).await;
    assert_eq!(printed(&outcome), "403\n");
    assert_eq!(outcome.refused_hosts.len(), 1);
}

#[tokio::test]
async fn a_command_runs_to_its_end_when_its_keeper_is_killed() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    let keeper = keeper(&fixture).await;
    let script = "touch ready; while ! [ -e go ]; do sleep 0.01; done; (setsid sleep 965 &); echo on; exit 3";
    let kill = async {
        wait_for_file(&fixture.project().join("ready")).await;
        kill_children(&[keeper]);
        // A concurrent command is started by a new keeper.
        assert_eq!(fixture.print("echo beside").await, "beside\n");
        fs::write(fixture.project().join("go"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(fixture.run(script), kill);
    assert_eq!((printed(&outcome).as_str(), outcome.end), ("on\n", ProcessEnd::Exited(3)));
    assert!(outcome.left_running);
    assert!(!is_any_running("sleep\x00965"), "it runs outside");
}

#[tokio::test]
async fn a_call_dropped_after_its_keeper_was_killed_leaves_no_processes() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    let keeper = keeper(&fixture).await;
    let run = fixture.run("setsid sleep 964 & touch ready; exec sleep 964");
    let ready = fixture.project().join("ready");
    tokio::select! {
        outcome = run => panic!("{outcome:?}"),
        () = wait_for_file(&ready) => kill_children(&[keeper]),
    }
    drop(fixture);
    let until = Instant::now() + Duration::from_secs(10);
    while is_any_running("sleep\x00964") {
        assert!(Instant::now() < until, "it goes on");
        tokio::task::yield_now().await;
    }
    wait_until(|| running_children().is_empty()).await;
}

fn is_any_running(arguments: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline"));
        line.is_ok_and(|line| line.starts_with(arguments))
    })
}

/// Kills keepers, and no other child, until `stop` is set. Returns the number of killed keepers.
fn kill_keepers(stop: &AtomicBool) -> usize {
    let mut killed = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        for child in running_children() {
            // The init of a sandbox has a second process id, in its own namespace; a keeper has one.
            let status = fs::read_to_string(format!("/proc/{}/status", child.as_raw_nonzero()));
            let status = status.unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            if numbers.is_some_and(|numbers| numbers.split_whitespace().count() == 1) {
                let _ = rustix::process::kill_process(child, Signal::KILL);
                killed.insert(child);
            }
        }
    }
    killed.len()
}

#[tokio::test]
async fn a_command_runs_once_or_fails_while_keepers_are_killed() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    fixture.run("touch log").await;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let killer = std::thread::spawn(move || kill_keepers(&stopped));
    let mut expected = Vec::new();
    for number in 0..150 {
        let spec = fixture.spec(&format!("echo {number} >>log"));
        match fixture.runner.run(spec, CancellationToken::new()).await {
            Ok(outcome) => {
                assert_eq!(outcome.end, ProcessEnd::Exited(0));
                expected.push(number.to_string());
            }
            Err(error) => {
                let text = std::error::Error::source(&error).unwrap().to_string();
                assert!(
                    text.starts_with("the process that starts commands has ended, and "),
                    "{text}"
                );
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(killer.join().unwrap() > 5);
    let log = fs::read_to_string(fixture.project().join("log")).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    assert_eq!(fixture.print("echo fine").await, "fine\n");
}

#[tokio::test]
async fn a_command_fails_with_the_reason_if_no_new_keeper_can_be_made() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    kill_keeper(&fixture).await;
    // Root loses the rights to enter the session's network; other users may start no processes at all.
    if rustix::process::geteuid().is_root() {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
    } else {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(Resource::Nproc, none).unwrap();
    }
    for _ in 0..2 {
        let run = fixture.runner.run(fixture.spec("echo"), CancellationToken::new());
        let text = std::error::Error::source(&run.await.unwrap_err()).unwrap().to_string();
        let start = "the process that starts commands has ended, and cannot be restarted: ";
        assert!(text.starts_with(start), "{text}");
    }
}

/// Returns the number of open descriptors of a process, or `None` if this user may not inspect it.
fn descriptors(process: &str) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{process}/fd")).ok()?.count())
}

#[tokio::test]
async fn many_commands_leave_no_descriptors_behind() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    let keeper = keeper(&fixture).await;
    let pid = keeper.as_raw_nonzero().to_string();
    // For users who may not count them: a keeper that leaked one per command would run out at this limit.
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::prlimit(Some(keeper), Resource::Nofile, limit).unwrap();
    // The runtime opens some descriptors with its first command.
    fixture.run("true").await;
    wait_until(|| running_children() == [keeper]).await;
    // The descriptor of the first command may still be among them; a leak would add 200.
    let before = (descriptors("self").unwrap(), descriptors(&pid));
    for _ in 0..200 {
        assert_eq!(fixture.run("true").await.end, ProcessEnd::Exited(0));
    }
    wait_until(|| running_children() == [keeper]).await;
    wait_until(|| descriptors("self").unwrap() <= before.0 && descriptors(&pid) <= before.1).await;
}

#[tokio::test]
async fn new_keepers_leave_no_descriptors_behind() {
    if !has_own_process() {
        return;
    }
    let fixture = SandboxFixture::new();
    fixture.run("true").await;
    keeper(&fixture).await;
    let before = descriptors("self").unwrap();
    for _ in 0..5 {
        kill_keeper(&fixture).await;
        assert_eq!(fixture.run("true").await.end, ProcessEnd::Exited(0));
    }
    wait_until(|| descriptors("self").unwrap() <= before).await;
}
