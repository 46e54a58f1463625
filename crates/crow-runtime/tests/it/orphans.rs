//! Processes that left the process group of their command. Each test needs a process of its own, which adopts orphans.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{
        Jobs, OutputLimits, OutputPosition, ProcessEnd, ProcessOutcome, ProcessSpec, Processes as _,
    },
    tool::Progress,
};
use crow_runtime::{AgentInternals, ProcessRunner, RuntimeConfig, adopt_orphans};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crow_testkit::processes::{has_own_process, is_running};

use crate::support::{idle, spawn_with};

const LONG: Duration = Duration::from_secs(20);

/// A directory to which scripts write their process ids, in a process that adopts orphans.
struct ScratchDir(TempDir);

impl ScratchDir {
    fn new() -> Self {
        adopt_orphans().unwrap();
        Self(tempfile::tempdir().unwrap())
    }

    fn spec(&self, script: &str) -> ProcessSpec {
        ProcessSpec {
            argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
            cwd: self.0.path().to_owned(),
            env: BTreeMap::new(),
            timeout: LONG,
            output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
            progress: Progress::default(),
            only_reads: false,
        }
    }

    async fn run(&self, script: &str) -> ProcessOutcome {
        runner().run(self.spec(script), CancellationToken::new()).await.unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Waits for the process id that a script writes to this file.
    async fn pid(&self, name: &str) -> String {
        let until = Instant::now() + LONG;
        loop {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            assert!(Instant::now() < until, "no {name}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn env() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())])
}

fn runner() -> ProcessRunner {
    ProcessRunner::new(env())
}

/// Shell command that keeps running after its script and writes its process id to `pid`.
const SLEEPER: &str = "sh -c 'echo $$ > pid; exec sleep 1000'";
/// Shell loop that waits until `pid` is written.
const UNTIL: &str = "until [ -s pid ]; do sleep 0.01; done";

#[tokio::test]
async fn a_process_that_leaves_its_group_in_any_way_ends_with_its_command() {
    if !has_own_process() {
        return;
    }
    for (line, detached) in [
        (format!("setsid {SLEEPER} > out 2>&1 &"), 1),
        (format!("setsid -f {SLEEPER} > out 2>&1"), 1),
        (format!("(setsid {SLEEPER} > out 2>&1 &)"), 1),
        (format!("setsid sh -c \"setsid -f {}\" > out 2>&1 &", SLEEPER.replace('$', "\\$")), 1),
        (format!("nohup {SLEEPER} > out 2>&1 &"), 0),
        (format!("set -m; {SLEEPER} > out 2>&1 &"), 1),
        (format!("env -i PATH=$PATH setsid -f {SLEEPER} > out 2>&1"), 1),
        // This one keeps the output pipe open.
        (format!("setsid {SLEEPER} &"), 1),
    ] {
        let scratch = ScratchDir::new();
        let outcome = scratch.run(&format!("{line}\n{UNTIL}; echo done")).await;
        assert_eq!((outcome.end, outcome.output.head), (ProcessEnd::Exited(0), b"done\n".into()));
        assert!(!is_running(&scratch.pid("pid").await), "{line}");
        assert_eq!((outcome.left_running, outcome.detached_count), (true, detached), "{line}");
        assert!(outcome.duration < LONG, "{line}: {:?}", outcome.duration);
    }
}

#[tokio::test]
async fn an_orphan_that_ignores_sigterm_is_killed() {
    if !has_own_process() {
        return;
    }
    let scratch = ScratchDir::new();
    let stubborn = "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1; done'";
    let outcome = scratch.run(&format!("setsid {stubborn} > out 2>&1 & {UNTIL}")).await;
    assert!(!is_running(&scratch.pid("pid").await));
    assert_eq!(outcome.detached_count, 1);
    assert!(outcome.duration < LONG, "{:?}", outcome.duration);
}

#[tokio::test]
async fn processes_started_by_an_orphan_end_with_it() {
    if !has_own_process() {
        return;
    }
    let scratch = ScratchDir::new();
    let family =
        "sh -c 'setsid sh -c \"echo \\$\\$ > child; exec sleep 1000\" & echo $$ > pid; wait'";
    scratch
        .run(&format!("setsid {family} > out 2>&1 & {UNTIL}; until [ -s child ]; do :; done"))
        .await;
    assert!(!is_running(&scratch.pid("pid").await));
    assert!(!is_running(&scratch.pid("child").await));
}

#[tokio::test]
async fn an_orphan_ends_when_its_command_times_out_or_is_cancelled() {
    if !has_own_process() {
        return;
    }
    for is_cancelled in [true, false] {
        let scratch = ScratchDir::new();
        let timeout = if is_cancelled { LONG } else { Duration::from_millis(300) };
        let script = format!("setsid -f {SLEEPER}; sleep 1000");
        let spec = ProcessSpec { timeout, ..scratch.spec(&script) };
        let token = CancellationToken::new();
        let runner = runner();
        let cancel = async {
            let pid = scratch.pid("pid").await;
            if is_cancelled {
                token.cancel();
            }
            pid
        };
        let (outcome, pid) = tokio::join!(runner.run(spec, token.clone()), cancel);
        let outcome = outcome.unwrap();
        let end = if is_cancelled { ProcessEnd::Cancelled } else { ProcessEnd::TimedOut };
        assert_eq!((outcome.end, outcome.detached_count), (end, 1));
        assert!(!is_running(&pid));
    }
}

#[tokio::test]
async fn concurrent_commands_leave_each_others_orphans_alone() {
    if !has_own_process() {
        return;
    }
    let scratch = ScratchDir::new();
    let runner = runner();
    let first = format!("setsid -f {SLEEPER} > out 2>&1; until [ -e gate ]; do sleep 0.01; done");
    let (first, ()) =
        tokio::join!(runner.run(scratch.spec(&first), CancellationToken::new()), async {
            let pid = scratch.pid("pid").await;
            let second = "setsid -f sh -c 'touch away; exec sleep 1000' > out 2>&1
             until [ -e away ]; do sleep 0.01; done";
            let second = scratch.run(second).await;
            assert_eq!(second.detached_count, 1);
            assert!(is_running(&pid));
            std::fs::write(scratch.path("gate"), "").unwrap();
        });
    assert_eq!(first.unwrap().detached_count, 1);
    assert!(!is_running(&scratch.pid("pid").await));
}

/// Starts an idle agent. Returns a guard that keeps it alive, and its jobs.
async fn jobs() -> (impl Sized, Arc<dyn Jobs>) {
    let config = RuntimeConfig { child_env: env().into(), ..RuntimeConfig::default() };
    let (sent, jobs) = oneshot::channel();
    let guard = spawn_with(config, |internals: AgentInternals| async {
        drop(sent.send(Arc::clone(internals.context().jobs.as_ref().unwrap())));
        idle(internals).await
    });
    (guard, jobs.await.unwrap())
}

#[tokio::test]
async fn orphans_of_a_job_outlive_other_commands_and_end_with_the_job() {
    if !has_own_process() {
        return;
    }
    let scratch = ScratchDir::new();
    let (_guard, jobs) = jobs().await;
    // One orphan in the job's group, one outside.
    let script =
        format!("(sh -c 'echo $$ > inside; exec sleep 1000' &); setsid -f {SLEEPER}; sleep 1000");
    let token = CancellationToken::new();
    let id = jobs.start(scratch.spec(&script), String::new(), &token).await.unwrap();
    let (outside, inside) = (scratch.pid("pid").await, scratch.pid("inside").await);
    assert_eq!(scratch.run("true").await.detached_count, 0);
    assert!(is_running(&outside) && is_running(&inside));
    jobs.kill(&id).await.unwrap();
    assert!(!is_running(&outside) && !is_running(&inside));
    assert_eq!(jobs.read(&id, OutputPosition::LastRead).unwrap().detached_count, 1);
}

#[tokio::test]
async fn an_unmarked_orphan_ends_with_the_last_command_or_job_that_may_have_started_it() {
    if !has_own_process() {
        return;
    }
    let unmarked = format!("env -i PATH=$PATH setsid -f {SLEEPER} > out 2>&1; {UNTIL}");
    let wait = "echo $$ > ready; exec sleep 1000";
    for is_started_by_job in [true, false] {
        let scratch = ScratchDir::new();
        let (_guard, jobs) = jobs().await;
        let (job_line, command_line) =
            if is_started_by_job { (&*unmarked, "true") } else { ("true", &*unmarked) };
        let token = CancellationToken::new();
        let start = async |script: String| {
            jobs.start(scratch.spec(&script), String::new(), &token).await.unwrap()
        };
        let job = start(format!("{job_line}; {wait}")).await;
        scratch.pid("ready").await;
        if is_started_by_job {
            scratch.pid("pid").await;
        }
        let outcome = scratch.run(command_line).await;
        let pid = scratch.pid("pid").await;
        assert!(is_running(&pid) && outcome.detached_count == 0, "{outcome:?}");
        // A job that started later cannot have started the orphan.
        let later = start("sleep 1000".to_owned()).await;
        scratch.run("true").await;
        assert!(is_running(&pid));
        jobs.kill(&job).await.unwrap();
        assert!(!is_running(&pid));
        assert_eq!(jobs.read(&job, OutputPosition::LastRead).unwrap().detached_count, 1);
        jobs.kill(&later).await.unwrap();
    }
}

#[tokio::test]
async fn an_orphan_of_a_dropped_command_ends_with_the_next_command_at_the_latest() {
    if !has_own_process() {
        return;
    }
    let scratch = ScratchDir::new();
    let script = format!("setsid -f {SLEEPER}; sleep 1000");
    let runner = runner();
    tokio::select! {
        outcome = runner.run(scratch.spec(&script), CancellationToken::new()) => panic!("{outcome:?}"),
        _ = scratch.pid("pid") => {}
    }
    scratch.run("true").await;
    assert!(!is_running(&scratch.pid("pid").await));
}

#[tokio::test]
async fn commands_leave_no_zombies() {
    if !has_own_process() {
        return;
    }
    let scratch = ScratchDir::new();
    for _ in 0..20 {
        scratch.run("for i in 1 2 3; do setsid -f true; (sleep 0.001 &); done").await;
    }
    let own_pid = std::process::id();
    let zombies = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields.first() == Some(&"Z")
            && fields.get(1).is_some_and(|parent| *parent == own_pid.to_string())
    });
    assert_eq!(zombies.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_concurrent_commands_end_only_their_own_orphans() {
    if !has_own_process() {
        return;
    }
    let scratch = Arc::new(ScratchDir::new());
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..6 {
        let scratch = Arc::clone(&scratch);
        workers.spawn(async move {
            for _ in 0..15 {
                let script = format!(
                    "setsid -f sh -c 'echo $$ >> pids.{worker}; exec sleep 1000' > /dev/null 2>&1
                     for i in 1 2 3; do setsid sh -c 'exit 7'; [ $? = 7 ] || exit 1; done
                     (sleep 0.002; echo late) & wait $!; echo done"
                );
                let outcome = scratch.run(&script).await;
                assert_eq!(outcome.end, ProcessEnd::Exited(0));
                assert_eq!(outcome.output.head, b"late\ndone\n");
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    for worker in 0..6 {
        let pids = std::fs::read_to_string(scratch.path(&format!("pids.{worker}"))).unwrap();
        let survivors: Vec<_> = pids.lines().filter(|pid| is_running(pid)).collect();
        assert_eq!(survivors, Vec::<&str>::new());
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a child that no runner started")]
async fn unmarked_orphans_survive_while_the_process_has_children_of_its_own() {
    if !has_own_process() {
        return;
    }
    let mut own_child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let scratch = ScratchDir::new();
    let script = format!(
        "env -i PATH=$PATH setsid -f {SLEEPER}; setsid -f sh -c 'echo $$ > marked; exec sleep 1000'
         {UNTIL}; until [ -s marked ]; do sleep 0.01; done"
    );
    let outcome = scratch.run(&script).await;
    assert_eq!(outcome.detached_count, 1);
    assert!(!is_running(&scratch.pid("marked").await));
    let unmarked = scratch.pid("pid").await;
    assert!(is_running(&unmarked) && is_running(&own_child.id().to_string()));
    own_child.kill().unwrap();
    own_child.wait().unwrap();
    let killed = std::process::Command::new("kill").args(["-9", &unmarked]).status();
    assert!(killed.unwrap().success());
}
