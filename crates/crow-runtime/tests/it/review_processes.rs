//! Findings of a review: each of these states what should hold.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{Jobs, OutputLimits, ProcessOutcome, ProcessSpec, Processes as _},
    tool::Progress,
};
use crow_runtime::{AgentInternals, ProcessRunner, RuntimeConfig, adopt_orphans};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::support::{idle, is_running, spawn_with};

const LONG: Duration = Duration::from_secs(20);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
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
        }
    }

    async fn run(&self, script: &str) -> ProcessOutcome {
        runner().run(self.spec(script), CancellationToken::new()).await.unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

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

async fn jobs() -> (impl Sized, Arc<dyn Jobs>) {
    let config = RuntimeConfig { child_env: env().into(), ..RuntimeConfig::default() };
    let (sent, jobs) = oneshot::channel();
    let kept = spawn_with(config, |internals: AgentInternals| async {
        drop(sent.send(internals.context().jobs.clone().unwrap()));
        idle(internals).await
    });
    (kept, jobs.await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_child_prints_without_end_ends_with_its_shell() {
    let place = Place::new();
    let begun = Instant::now();
    let outcome = place.run("yes & exit 0").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{outcome:?}");
}

/// What a job has started and what bears no mark (`sudo`, `env -i`, a title of its own) may be that job's.
#[tokio::test]
async fn what_a_living_job_detached_without_its_environment_outlives_another_command() {
    adopt_orphans().unwrap();
    let place = Place::new();
    let (_kept, jobs) = jobs().await;
    let script = "env -i /usr/bin/setsid -f /bin/sh -c 'echo $$ > pid; exec /bin/sleep 1000' > /dev/null 2>&1; sleep 1000";
    let spec = ProcessSpec { timeout: Duration::MAX, ..place.spec(script) };
    let id = jobs.start(spec, "server".to_owned(), &CancellationToken::new()).await.unwrap();
    let server = place.pid("pid").await;
    let outcome = place.run("true").await;
    let lives = is_running(&server);
    jobs.kill(&id).await.unwrap();
    assert!(lives, "`true` ended the server of a job: {outcome:?}");
}

#[tokio::test]
async fn a_file_that_does_not_hold_the_whole_output_is_not_said_to() {
    let place = Place::new();
    let spill = place.path("out.log");
    let output = OutputLimits { head: 10, tail: 10, spill: Some(spill.clone()), spill_cap: 1000 };
    let spec = ProcessSpec { output, ..place.spec("head -c 5000 /dev/zero") };
    let outcome = runner().run(spec, CancellationToken::new()).await.unwrap();
    let kept = std::fs::metadata(&spill).map_or(0, |metadata| metadata.len());
    // The tools say of `spill`: "whole output in …".
    assert!(outcome.output.spill.is_none() || kept == 5000, "{kept} of 5000 bytes");
}

#[tokio::test]
async fn two_calls_with_one_id_do_not_write_into_one_file() {
    let place = Place::new();
    let (_kept, jobs) = jobs().await;
    // Ids come from models: some providers give none, and each reply begins with `call` again.
    let spill = Some(place.path("call.log"));
    let output = OutputLimits { head: 10, tail: 10, spill, spill_cap: 1 << 20 };
    let script = "head -c 5000 /dev/zero | tr '\\0' j; touch first; until [ -e go ]; do sleep 0.01; done; head -c 5000 /dev/zero | tr '\\0' j";
    let spec = ProcessSpec { output: output.clone(), timeout: LONG, ..place.spec(script) };
    let id = jobs.start(spec, "job".to_owned(), &CancellationToken::new()).await.unwrap();
    while !place.path("first").exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let call = ProcessSpec { output, ..place.spec("head -c 3000 /dev/zero | tr '\\0' c") };
    runner().run(call, CancellationToken::new()).await.unwrap();
    std::fs::write(place.path("go"), "").unwrap();
    let token = CancellationToken::new();
    while jobs
        .wait(&id, crow_core::capability::Since::LastRead, LONG, &token)
        .await
        .unwrap()
        .job
        .state
        .is_running()
    {}
    let whole = std::fs::read(place.path("call.log")).unwrap();
    let is_whole = whole == vec![b'j'; 10_000];
    assert!(is_whole, "{} bytes, NUL among them: {}", whole.len(), whole.contains(&0));
}
