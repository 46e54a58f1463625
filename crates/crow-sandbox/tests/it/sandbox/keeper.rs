//! What starts commands, and what becomes of them when it is killed.

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
use crow_sandbox::{AllowedHosts, Network};
use rustix::{
    process::{Pid, Resource, Rlimit, Signal},
    thread::{CapabilitySet, CapabilitySets},
};
use tokio_util::sync::CancellationToken;

use super::stage::{Stage, printed};
use crow_testkit::processes::{has_own_process, kill_children, living_children};

/// Says in which namespaces a command is, and what it could not be without them.
const HELD: &str = "readlink /proc/self/ns/user /proc/self/ns/net; grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status
    echo x 2>/dev/null >../outside/file; echo $?; ls ../home | wc -l
    cat /proc/1/environ 2>/dev/null | wc -c; ls /sys/class/net 2>/dev/null | wc -l; ulimit -u";

/// How many processes a command sees.
const SEEN: &str = "ls /proc | grep -c '^[0-9]'";

/// Runs a command until it prints what is expected: one that was killed is seen until it is reaped.
async fn until_it_prints(stage: &Stage, script: &str, expected: &str) {
    let mut printed = String::new();
    for _ in 0..500 {
        printed = stage.print(script).await;
        if printed == expected {
            return;
        }
    }
    assert_eq!(printed, expected);
}

/// Returns the process that starts a stage's commands, as long as none runs.
async fn keeper(stage: &Stage) -> Pid {
    assert_eq!(stage.sandbox.containment().await, Containment::Full);
    let children = living_children();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

async fn kill_keeper(stage: &Stage) -> Pid {
    let keeper = keeper(stage).await;
    kill_children(&[keeper]);
    keeper
}

async fn until_there_is(path: &Path) {
    wait_until(|| path.exists()).await;
}

#[tokio::test]
async fn a_new_keeper_starts_commands_in_the_same_namespaces() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("{HELD}; (echo >/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached");
    let before = stage.print(&script).await;
    assert!(!before.contains("reached"), "{before}");
    let seen = stage.print(SEEN).await;
    for _ in 0..3 {
        let killed = kill_keeper(&stage).await;
        assert_eq!(stage.print(&script).await, before);
        until_it_prints(&stage, SEEN, &seen).await;
        assert_ne!(keeper(&stage).await, killed);
    }
    assert_eq!(stage.run("kill -9 $$").await.end, ProcessEnd::Signaled(9));
}

#[tokio::test]
async fn concurrent_commands_share_one_new_keeper() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    kill_keeper(&stage).await;
    let many = (0..8).map(|_| stage.print("echo fine"));
    assert_eq!(futures_util::future::join_all(many).await, ["fine\n"; 8]);
    keeper(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commands_of_several_threads_share_one_new_keeper() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    kill_keeper(&stage).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (runner, spec) = (stage.runner.clone(), stage.spec("echo fine"));
        tasks.spawn(async move { runner.run(spec, CancellationToken::new()).await });
    }
    while let Some(outcome) = tasks.join_next().await {
        assert_eq!(printed(&outcome.unwrap().unwrap()), "fine\n");
    }
    keeper(&stage).await;
}

#[tokio::test]
async fn the_proxy_serves_commands_of_a_new_keeper() {
    if !has_own_process() {
        return;
    }
    let allowed = AllowedHosts::new(["good.example".parse().unwrap()]);
    let stage = Stage::with(|config, _| config.network = Network::Hosts(allowed));
    let script = "curl -s -o /dev/null -w '%{http_code}\\n' --noproxy '' http://evil.example/";
    assert_eq!(stage.print(script).await, "403\n");
    kill_keeper(&stage).await;
    let outcome = stage.run(script).await;
    assert_eq!(printed(&outcome), "403\n");
    assert_eq!(outcome.refused_hosts.len(), 1);
}

#[tokio::test]
async fn a_command_runs_to_its_end_when_its_keeper_is_killed() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    let keeper = keeper(&stage).await;
    let script = "touch ready; while ! [ -e go ]; do sleep 0.01; done; (setsid sleep 965 &); echo on; exit 3";
    let kill = async {
        until_there_is(&stage.project().join("ready")).await;
        kill_children(&[keeper]);
        // One beside it is started by another one.
        assert_eq!(stage.print("echo beside").await, "beside\n");
        fs::write(stage.project().join("go"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(stage.run(script), kill);
    assert_eq!((printed(&outcome).as_str(), outcome.end), ("on\n", ProcessEnd::Exited(3)));
    assert!(outcome.left_running);
    assert!(!is_any_running("sleep\x00965"), "it runs outside");
}

#[tokio::test]
async fn a_call_dropped_after_its_keeper_was_killed_leaves_no_processes() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    let keeper = keeper(&stage).await;
    let run = stage.run("setsid sleep 964 & touch ready; exec sleep 964");
    let ready = stage.project().join("ready");
    tokio::select! {
        outcome = run => panic!("{outcome:?}"),
        () = until_there_is(&ready) => kill_children(&[keeper]),
    }
    drop(stage);
    let until = Instant::now() + Duration::from_secs(10);
    while is_any_running("sleep\x00964") {
        assert!(Instant::now() < until, "it goes on");
        tokio::task::yield_now().await;
    }
    assert_eq!(living_children(), []);
}

fn is_any_running(arguments: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline"));
        line.is_ok_and(|line| line.starts_with(arguments))
    })
}

/// Kills what starts commands, and nothing else, again and again until it is told to stop. Returns how many it has killed.
fn kill_keepers(stop: &AtomicBool) -> usize {
    let mut killed = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        for child in living_children() {
            // An init has a second number, in its own namespace.
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
    let stage = Stage::new();
    stage.run("touch log").await;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let killer = std::thread::spawn(move || kill_keepers(&stopped));
    let mut expected = Vec::new();
    for number in 0..150 {
        let spec = stage.spec(&format!("echo {number} >>log"));
        match stage.runner.run(spec, CancellationToken::new()).await {
            Ok(outcome) => {
                assert_eq!(outcome.end, ProcessEnd::Exited(0));
                expected.push(number.to_string());
            }
            Err(error) => {
                let text = std::error::Error::source(&error).unwrap().to_string();
                assert!(text.starts_with("what starts commands has ended, and "), "{text}");
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(killer.join().unwrap() > 5);
    let log = fs::read_to_string(stage.project().join("log")).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    assert_eq!(stage.print("echo fine").await, "fine\n");
}

#[tokio::test]
async fn a_command_fails_with_the_reason_if_no_new_keeper_can_be_made() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    kill_keeper(&stage).await;
    // Root may make no process in the session's network any more, and others none at all.
    if rustix::process::geteuid().is_root() {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
    } else {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(Resource::Nproc, none).unwrap();
    }
    for _ in 0..2 {
        let run = stage.runner.run(stage.spec("echo"), CancellationToken::new());
        let text = std::error::Error::source(&run.await.unwrap_err()).unwrap().to_string();
        let start = "what starts commands has ended, and cannot be made anew: ";
        assert!(text.starts_with(start), "{text}");
    }
}

/// Counts the descriptors of a process. None of one whose memory this user may not see.
fn descriptors(process: &str) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{process}/fd")).ok()?.count())
}

#[tokio::test]
async fn many_commands_leave_no_descriptors_behind() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    let keeper = keeper(&stage).await;
    let pid = keeper.as_raw_nonzero().to_string();
    // Whoever may not count them: with this few it starts no more commands than that if it keeps one of each.
    let few = Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::prlimit(Some(keeper), Resource::Nofile, few).unwrap();
    // The runtime opens some with its first command.
    stage.run("true").await;
    let before = (descriptors("self").unwrap(), descriptors(&pid));
    for _ in 0..200 {
        assert_eq!(stage.run("true").await.end, ProcessEnd::Exited(0));
    }
    assert_eq!((descriptors("self").unwrap(), descriptors(&pid)), before);
    assert_eq!(living_children(), [keeper], "another one was needed");
}

#[tokio::test]
async fn new_keepers_leave_no_descriptors_behind() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new();
    stage.run("true").await;
    let before = descriptors("self").unwrap();
    for _ in 0..5 {
        kill_keeper(&stage).await;
        assert_eq!(stage.run("true").await.end, ProcessEnd::Exited(0));
    }
    assert_eq!(descriptors("self").unwrap(), before);
}
