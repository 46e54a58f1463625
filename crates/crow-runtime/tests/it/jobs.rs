//! Jobs: commands that go on beside an agent's work.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{
        JobError, JobOutput, JobState, Jobs, OutputLimits, ProcessEnd, ProcessError, ProcessSpec,
        Since,
    },
    ids::JobId,
    tool::Progress,
};
use crow_runtime::{AgentHandle, AgentInternals, AgentRuntime, RuntimeConfig};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::support::{SOON, idle, is_gone_soon, is_running, spawn_with};

const LONG: Duration = Duration::from_secs(20);

fn spec(script: &str) -> ProcessSpec {
    ProcessSpec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        timeout: Duration::MAX,
        output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
        progress: Progress::default(),
    }
}

/// An agent that does nothing, and its jobs.
async fn agent() -> (AgentRuntime, AgentHandle, Arc<dyn Jobs>) {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let config =
        RuntimeConfig { child_env: BTreeMap::from([path]).into(), ..RuntimeConfig::default() };
    let (sent, jobs) = oneshot::channel();
    let (runtime, handle) = spawn_with(config, |internals: AgentInternals| async {
        drop(sent.send(internals.context().jobs.clone().unwrap()));
        idle(internals).await
    });
    (runtime, handle, jobs.await.unwrap())
}

async fn start(jobs: &Arc<dyn Jobs>, script: &str) -> JobId {
    jobs.start(spec(script), script.to_owned(), &CancellationToken::new()).await.unwrap()
}

async fn wait(jobs: &Arc<dyn Jobs>, id: &JobId, since: Since) -> JobOutput {
    jobs.wait(id, since, LONG, &CancellationToken::new()).await.unwrap()
}

/// Reads on until the job has ended. Returns all that it printed since the last read, and the last read.
async fn rest(jobs: &Arc<dyn Jobs>, id: &JobId) -> (String, JobOutput) {
    let mut printed = Vec::new();
    loop {
        let output = wait(jobs, id, Since::LastRead).await;
        printed.extend_from_slice(&output.bytes);
        if !output.job.state.is_running() {
            return (String::from_utf8(printed).unwrap(), output);
        }
    }
}

async fn first_line(jobs: &Arc<dyn Jobs>, id: &JobId) -> String {
    let output = wait(jobs, id, Since::LastRead).await;
    String::from_utf8(output.bytes).unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn a_job_is_read_while_it_runs_and_when_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let (_runtime, _handle, jobs) = agent().await;
    let script =
        format!("echo one; until [ -e {} ]; do sleep 0.02; done; echo two; exit 3", gate.display());
    let id = start(&jobs, &script).await;
    assert_eq!(id.as_str(), "job-1");
    let output = wait(&jobs, &id, Since::LastRead).await;
    assert_eq!((output.bytes.as_slice(), output.next), (b"one\n".as_slice(), 4));
    assert_eq!(output.job.state, JobState::Running);
    assert_eq!(jobs.read(&id, Since::LastRead).unwrap().bytes, b"");
    std::fs::write(gate, "").unwrap();
    let (printed, output) = rest(&jobs, &id).await;
    assert_eq!(printed, "two\n");
    assert_eq!(output.job.state, JobState::Ended(ProcessEnd::Exited(3)));
    assert_eq!(jobs.read(&id, Since::Offset(2)).unwrap().bytes, b"e\ntwo\n");
}

#[tokio::test]
async fn a_wait_ends_with_its_patience_and_with_its_cancellation() {
    let (_runtime, _handle, jobs) = agent().await;
    let id = start(&jobs, "sleep 60").await;
    let token = CancellationToken::new();
    let output = jobs.wait(&id, Since::LastRead, Duration::from_millis(20), &token).await.unwrap();
    assert_eq!((output.bytes.len(), output.job.state), (0, JobState::Running));
    token.cancel();
    let begun = Instant::now();
    jobs.wait(&id, Since::LastRead, LONG, &token).await.unwrap();
    assert!(begun.elapsed() < SOON);
}

#[tokio::test]
async fn a_job_that_is_killed_leaves_nothing_of_its_group() {
    let (_runtime, _handle, jobs) = agent().await;
    let id = start(&jobs, "sleep 60 & echo $!; wait").await;
    let child = first_line(&jobs, &id).await;
    jobs.kill(&id).await.unwrap();
    assert!(!is_running(&child));
    let output = jobs.read(&id, Since::LastRead).unwrap();
    assert_eq!(output.job.state, JobState::Ended(ProcessEnd::Cancelled));
}

#[tokio::test]
async fn a_job_ends_when_its_time_is_up() {
    let (_runtime, _handle, jobs) = agent().await;
    let spec = ProcessSpec { timeout: Duration::from_millis(50), ..spec("sleep 60") };
    let id = jobs.start(spec, String::new(), &CancellationToken::new()).await.unwrap();
    assert_eq!(rest(&jobs, &id).await.1.job.state, JobState::Ended(ProcessEnd::TimedOut));
}

#[tokio::test]
async fn the_end_of_the_agent_waits_for_its_jobs() {
    let (_runtime, handle, jobs) = agent().await;
    let id = start(&jobs, "trap '' TERM; echo $$; while :; do sleep 1; done").await;
    let pid = first_line(&jobs, &id).await;
    handle.shutdown();
    handle.ended().await;
    assert!(!is_running(&pid));
    let refused = jobs.start(spec("true"), String::new(), &CancellationToken::new()).await;
    assert!(matches!(refused, Err(ProcessError::Closed)), "{refused:?}");
}

#[tokio::test]
async fn the_jobs_of_an_aborted_agent_are_ended() {
    let (_runtime, handle, jobs) = agent().await;
    let id = start(&jobs, "echo $$; sleep 60").await;
    let pid = first_line(&jobs, &id).await;
    handle.abort();
    handle.ended().await;
    assert!(is_gone_soon(&pid).await);
}

#[tokio::test]
async fn no_more_jobs_run_than_may_and_an_ended_one_makes_room() {
    let (_runtime, _handle, jobs) = agent().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(start(&jobs, "sleep 60").await);
    }
    let ninth = async || jobs.start(spec("true"), String::new(), &CancellationToken::new()).await;
    let refused = ninth().await;
    assert!(matches!(refused, Err(ProcessError::TooManyJobs { limit: 8 })), "{refused:?}");
    jobs.kill(&ids[0]).await.unwrap();
    assert_eq!(ninth().await.unwrap().as_str(), "job-9");
}

#[tokio::test]
async fn an_unknown_job_is_answered_with_those_that_there_are() {
    let (_runtime, _handle, jobs) = agent().await;
    let error = jobs.read(&JobId::new("job-7"), Since::LastRead).unwrap_err();
    assert_eq!(error.to_string(), "there is no job job-7; there are none");
    start(&jobs, "true").await;
    start(&jobs, "true").await;
    let error = jobs.kill(&JobId::new("3")).await.unwrap_err();
    let known = ["job-1", "job-2"].map(JobId::new).to_vec();
    assert_eq!(error, JobError::Unknown { id: JobId::new("3"), known });
    assert_eq!(error.to_string(), "there is no job 3; known: job-1, job-2");
}

#[tokio::test]
async fn of_many_ended_jobs_the_last_ones_are_known() {
    let (_runtime, _handle, jobs) = agent().await;
    for _ in 0..34 {
        let id = start(&jobs, "true").await;
        rest(&jobs, &id).await;
    }
    let known = jobs.list();
    assert_eq!(known.len(), 33);
    assert_eq!(known[0].id.as_str(), "job-2");
}

#[tokio::test]
async fn an_end_is_told_once_and_not_if_it_was_read() {
    let (_runtime, _handle, jobs) = agent().await;
    let (read, unread) = (start(&jobs, "true").await, start(&jobs, "exit 2").await);
    rest(&jobs, &read).await;
    // Offset 1 is never reached: only the end of the job ends this wait, and it counts as read.
    let third = start(&jobs, "true").await;
    wait(&jobs, &third, Since::Offset(1)).await;
    let until = Instant::now() + LONG;
    while jobs.list().iter().any(|job| job.state.is_running()) && Instant::now() < until {
        tokio::task::yield_now().await;
    }
    let told: Vec<_> = jobs.take_ended().into_iter().map(|job| (job.id, job.state)).collect();
    assert_eq!(told, [(unread, JobState::Ended(ProcessEnd::Exited(2)))]);
    assert_eq!(jobs.take_ended(), []);
}

#[tokio::test]
async fn a_long_output_is_whole_in_its_file_and_its_end_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("job.log");
    let (_runtime, _handle, jobs) = agent().await;
    let mut long = spec("head -c 100000 /dev/zero | tr '\\0' x; echo end");
    long.output = OutputLimits { spill: Some(path.clone()), spill_cap: 50_000, ..long.output };
    let id = jobs.start(long, String::new(), &CancellationToken::new()).await.unwrap();
    wait(&jobs, &id, Since::Offset(u64::MAX)).await;
    let output = jobs.read(&id, Since::Offset(0)).unwrap();
    assert_eq!((output.bytes.len(), output.lost, output.next), (2048, 97_956, 100_004));
    assert!(output.bytes.ends_with(b"xend\n"));
    assert_eq!(output.spill.as_deref(), Some(path.as_path()));
    assert_eq!(std::fs::metadata(path).unwrap().len(), 50_000);
}

#[tokio::test]
async fn no_character_is_torn_between_two_reads() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let (_runtime, _handle, jobs) = agent().await;
    let script = format!(
        "printf 'a\\303'; until [ -e {} ]; do sleep 0.02; done; printf '\\244b\\303'",
        gate.display()
    );
    let id = start(&jobs, &script).await;
    assert_eq!(wait(&jobs, &id, Since::LastRead).await.bytes, b"a");
    std::fs::write(gate, "").unwrap();
    wait(&jobs, &id, Since::Offset(u64::MAX)).await;
    assert_eq!(jobs.read(&id, Since::Offset(1)).unwrap().bytes, b"\xc3\xa4b\xc3");
}
