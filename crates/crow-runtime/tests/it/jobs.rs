//! Jobs: commands that run in the background of an agent.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{
        JobError, JobOutput, JobState, Jobs, OutputFile, OutputLimits, OutputPosition, ProcessEnd,
        ProcessError, ProcessSpec,
    },
    event::AgentEvent,
    ids::{JobId, SessionId},
    model::ModelConfig,
    tool::{Progress, ToolResult},
};
use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, AgentSession, AllowedHosts, ModelCall, Network,
    RuntimeConfig, SandboxConfig, SessionSpec,
};
use crow_testkit::{
    scripted::{ScriptedModel, call, reply, text},
    wait_until,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crow_testkit::processes::{
    has_ended_within_5s, has_own_process, is_running, kill_children, running_children,
};
use crow_testkit::telemetry::CheckedRuntime;

use crate::support::{SOON, create, idle};

const LONG: Duration = Duration::from_secs(20);

fn spec(script: &str) -> ProcessSpec {
    ProcessSpec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        timeout: Duration::MAX,
        output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: false,
    }
}

/// Starts an idle agent and returns it with its jobs.
async fn agent() -> (CheckedRuntime, AgentHandle, Arc<dyn Jobs>) {
    agent_in("/".as_ref(), None).await
}

/// Starts an idle agent in this directory, optionally with a sandbox.
async fn agent_in(
    cwd: &Path,
    sandbox: Option<SandboxConfig>,
) -> (CheckedRuntime, AgentHandle, Arc<dyn Jobs>) {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let child_env = BTreeMap::from([path]).into();
    let config = RuntimeConfig { child_env, sandbox, ..RuntimeConfig::default() };
    let session = SessionSpec::new("own", "none/none".parse().unwrap(), cwd);
    let session = AgentSession::create(&config, session).unwrap();
    let runtime = CheckedRuntime::new(config);
    let (sent, jobs) = oneshot::channel();
    let handle = runtime.spawn(session, |internals: AgentInternals| async {
        drop(sent.send(internals.context().jobs.clone().unwrap()));
        idle(internals).await
    });
    (runtime, handle, jobs.await.unwrap())
}

async fn start(jobs: &Arc<dyn Jobs>, script: &str) -> JobId {
    jobs.start(spec(script), script.to_owned(), &CancellationToken::new()).await.unwrap()
}

async fn wait(jobs: &Arc<dyn Jobs>, id: &JobId, since: OutputPosition) -> JobOutput {
    jobs.wait(id, since, LONG, &CancellationToken::new()).await.unwrap()
}

/// Reads until the job has ended. Returns everything printed since the last read, and the last `JobOutput`.
async fn read_to_end(jobs: &Arc<dyn Jobs>, id: &JobId) -> (String, JobOutput) {
    let mut printed = Vec::new();
    loop {
        let output = wait(jobs, id, OutputPosition::LastRead).await;
        printed.extend_from_slice(&output.bytes);
        if !output.job.state.is_running() {
            return (String::from_utf8(printed).unwrap(), output);
        }
    }
}

async fn first_line(jobs: &Arc<dyn Jobs>, id: &JobId) -> String {
    let output = wait(jobs, id, OutputPosition::LastRead).await;
    String::from_utf8(output.bytes).unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn job_output_can_be_read_while_it_runs_and_after_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let (_runtime, _handle, jobs) = agent().await;
    let script =
        format!("echo one; until [ -e {} ]; do sleep 0.02; done; echo two; exit 3", gate.display());
    let id = start(&jobs, &script).await;
    assert_eq!(id.as_str(), "job-1");
    let output = wait(&jobs, &id, OutputPosition::LastRead).await;
    assert_eq!((output.bytes.as_slice(), output.next), (b"one\n".as_slice(), 4));
    assert_eq!(output.job.state, JobState::Running);
    assert_eq!(jobs.read(&id, OutputPosition::LastRead).unwrap().bytes, b"");
    std::fs::write(gate, "").unwrap();
    let (printed, output) = read_to_end(&jobs, &id).await;
    assert_eq!(printed, "two\n");
    assert_eq!(output.job.state, JobState::Ended(ProcessEnd::Exited(3)));
    assert_eq!(jobs.read(&id, OutputPosition::Offset(2)).unwrap().bytes, b"e\ntwo\n");
}

#[tokio::test]
async fn a_wait_ends_on_its_timeout_and_on_cancellation() {
    let (_runtime, _handle, jobs) = agent().await;
    let id = start(&jobs, "sleep 60").await;
    let token = CancellationToken::new();
    let output =
        jobs.wait(&id, OutputPosition::LastRead, Duration::from_millis(20), &token).await.unwrap();
    assert_eq!((output.bytes.len(), output.job.state), (0, JobState::Running));
    token.cancel();
    let started = Instant::now();
    jobs.wait(&id, OutputPosition::LastRead, LONG, &token).await.unwrap();
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn killing_a_job_ends_its_whole_process_group() {
    let (_runtime, _handle, jobs) = agent().await;
    let id = start(&jobs, "sleep 60 & echo $!; wait").await;
    let child = first_line(&jobs, &id).await;
    jobs.kill(&id).await.unwrap();
    assert!(!is_running(&child));
    let output = jobs.read(&id, OutputPosition::LastRead).unwrap();
    assert_eq!(output.job.state, JobState::Ended(ProcessEnd::Cancelled));
}

#[tokio::test]
async fn a_job_ends_on_its_timeout() {
    let (_runtime, _handle, jobs) = agent().await;
    let spec = ProcessSpec { timeout: Duration::from_millis(50), ..spec("sleep 60") };
    let id = jobs.start(spec, String::new(), &CancellationToken::new()).await.unwrap();
    assert_eq!(read_to_end(&jobs, &id).await.1.job.state, JobState::Ended(ProcessEnd::TimedOut));
}

#[tokio::test]
async fn an_agent_ends_only_after_its_jobs_were_killed() {
    let (_runtime, handle, jobs) = agent().await;
    let id = start(&jobs, "trap '' TERM; echo $$; while :; do sleep 1; done").await;
    let pid = first_line(&jobs, &id).await;
    handle.shutdown();
    handle.wait_for_end().await;
    assert!(!is_running(&pid));
    let refused = jobs.start(spec("true"), String::new(), &CancellationToken::new()).await;
    assert!(matches!(refused, Err(ProcessError::Closed)), "{refused:?}");
}

#[tokio::test]
async fn aborting_an_agent_ends_its_jobs() {
    let (_runtime, handle, jobs) = agent().await;
    let id = start(&jobs, "echo $$; sleep 60").await;
    let pid = first_line(&jobs, &id).await;
    handle.abort();
    handle.wait_for_end().await;
    assert!(has_ended_within_5s(&pid).await);
}

#[tokio::test]
async fn jobs_beyond_the_limit_are_refused_until_one_ends() {
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
async fn the_error_for_an_unknown_job_lists_the_known_ones() {
    let (_runtime, _handle, jobs) = agent().await;
    let error = jobs.read(&JobId::new("job-7"), OutputPosition::LastRead).unwrap_err();
    assert_eq!(error.to_string(), "there is no job job-7; there are none");
    start(&jobs, "true").await;
    start(&jobs, "true").await;
    let error = jobs.kill(&JobId::new("3")).await.unwrap_err();
    let known = ["job-1", "job-2"].map(JobId::new).to_vec();
    assert_eq!(error, JobError::Unknown { id: JobId::new("3"), known });
    assert_eq!(error.to_string(), "there is no job 3; known: job-1, job-2");
}

#[tokio::test]
async fn only_the_most_recent_ended_jobs_stay_listed() {
    let (_runtime, _handle, jobs) = agent().await;
    for _ in 0..34 {
        let id = start(&jobs, "true").await;
        read_to_end(&jobs, &id).await;
    }
    let listed = jobs.list();
    assert_eq!(listed.len(), 33);
    assert_eq!(listed[0].id.as_str(), "job-2");
}

#[tokio::test]
async fn the_end_of_a_job_is_reported_once_and_only_if_it_was_not_read() {
    let (_runtime, _handle, jobs) = agent().await;
    let (read, unread) = (start(&jobs, "true").await, start(&jobs, "exit 2").await);
    read_to_end(&jobs, &read).await;
    // Offset 1 is never reached: only the end of the job ends this wait, and it counts as read.
    let third = start(&jobs, "true").await;
    wait(&jobs, &third, OutputPosition::Offset(1)).await;
    let until = Instant::now() + LONG;
    while jobs.list().iter().any(|job| job.state.is_running()) && Instant::now() < until {
        tokio::task::yield_now().await;
    }
    let ended: Vec<_> = jobs.take_ended().into_iter().map(|job| (job.id, job.state)).collect();
    assert_eq!(ended, [(unread, JobState::Ended(ProcessEnd::Exited(2)))]);
    assert_eq!(jobs.take_ended(), []);
}

#[tokio::test]
async fn a_long_output_keeps_its_start_in_the_spill_file_and_its_end_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("job.log");
    let (_runtime, _handle, jobs) = agent().await;
    let mut long = spec("head -c 100000 /dev/zero | tr '\\0' x; echo end");
    long.output = OutputLimits { spill: Some(path.clone()), spill_cap: 50_000, ..long.output };
    let id = jobs.start(long, String::new(), &CancellationToken::new()).await.unwrap();
    wait(&jobs, &id, OutputPosition::Offset(u64::MAX)).await;
    let output = jobs.read(&id, OutputPosition::Offset(0)).unwrap();
    assert_eq!((output.bytes.len(), output.lost, output.next), (2048, 97_956, 100_004));
    assert!(output.bytes.ends_with(b"xend\n"));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 50_000);
    assert_eq!(output.spill, Some(OutputFile { path, bytes: 50_000, missing: 50_004 }));
}

#[tokio::test]
async fn a_read_does_not_split_a_character() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let (_runtime, _handle, jobs) = agent().await;
    let script = format!(
        "printf 'a\\303'; until [ -e {} ]; do sleep 0.02; done; printf '\\244b\\303'",
        gate.display()
    );
    let id = start(&jobs, &script).await;
    assert_eq!(wait(&jobs, &id, OutputPosition::LastRead).await.bytes, b"a");
    std::fs::write(gate, "").unwrap();
    wait(&jobs, &id, OutputPosition::Offset(u64::MAX)).await;
    assert_eq!(jobs.read(&id, OutputPosition::Offset(1)).unwrap().bytes, b"\xc3\xa4b\xc3");
}

#[tokio::test]
async fn two_calls_with_the_same_id_write_to_different_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (_runtime, _handle, jobs) = agent().await;
    // Ids come from models: some providers send none, so each reply starts again with the id `call`.
    let limits =
        || OutputLimits { head: 10, tail: 10, spill: Some(path("call.log")), spill_cap: 1 << 20 };
    let part = "head -c 5000 /dev/zero | tr '\\0' j";
    let script = format!("{part}; touch first; until [ -e go ]; do sleep 0.01; done; {part}");
    let work_dir = folder.path().to_owned();
    let first = ProcessSpec { cwd: work_dir.clone(), output: limits(), ..spec(&script) };
    let first = jobs.start(first, String::new(), &CancellationToken::new()).await.unwrap();
    wait_until(|| path("first").exists()).await;
    let script = "head -c 3000 /dev/zero | tr '\\0' c";
    let second = ProcessSpec { cwd: work_dir, output: limits(), ..spec(script) };
    let second = jobs.start(second, String::new(), &CancellationToken::new()).await.unwrap();
    read_to_end(&jobs, &second).await;
    std::fs::write(path("go"), "").unwrap();
    read_to_end(&jobs, &first).await;
    assert!(std::fs::read(path("call.log")).unwrap() == [b'j'; 10_000]);
    assert!(std::fs::read(path("call-2.log")).unwrap() == [b'c'; 3000]);
}

/// Calls the model and ends its calls in order, each result with one of these `extra` values.
async fn ask(
    internals: &mut AgentInternals,
    model: &ScriptedModel,
    extras: &[Value],
) -> Result<(), AgentError> {
    let (model, config) = (model.resolved(), ModelConfig::default());
    let model_call = ModelCall::new(&model, "", &[], &config);
    let (reply_id, reply) = internals.call_model(model_call, &CancellationToken::new()).await?;
    let calls: Vec<_> = reply.calls().cloned().collect();
    assert_eq!(calls.len(), extras.len());
    for (call, extra) in calls.into_iter().zip(extras) {
        let mut result = ToolResult::success("done");
        result.metadata.extra = extra.clone();
        let (reply_id, tool) = (reply_id.clone(), call.name);
        let end = AgentEvent::CallEnd { call_id: call.id, reply_id, tool, result, denial: None };
        internals.emit(end).await?;
    }
    Ok(())
}

/// Returns the lines about jobs in the last request to the model.
fn job_lines(model: &ScriptedModel) -> Vec<String> {
    let outline = model.requests().last().unwrap().outline().join("\n");
    outline.lines().filter(|line| line.contains("job-")).map(str::to_owned).collect()
}

/// Opens the session as the next process does.
fn open(config: &RuntimeConfig, id: &SessionId, model: &ScriptedModel) -> AgentSession {
    AgentSession::open(config, id, model.resolved().info.abilities).unwrap()
}

#[tokio::test]
async fn a_resumed_session_is_told_once_which_jobs_are_gone() {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let config =
        RuntimeConfig { child_env: BTreeMap::from([path]).into(), ..RuntimeConfig::default() };
    let runtime = CheckedRuntime::new(config.clone());
    let session = create(&config);
    let id = session.id().clone();
    let bash = |id: &str| call(id, "bash", json!({}));
    let done = || reply([text("done")]);

    let model = ScriptedModel::new([reply(["c1", "c2", "c3", "c4"].map(bash))]);
    let handle = runtime.spawn(session, async move |mut internals: AgentInternals| {
        let running = json!({"job_id": "job-1", "running": true});
        let ended = json!({"job_id": "job-2", "running": false});
        let extras = [json!({"job_id": "job-1"}), json!({"job_id": "job-2"}), running, ended];
        ask(&mut internals, &model, &extras).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));

    let model = ScriptedModel::new([done(), reply([bash("c1")]), done()]);
    let session = open(&config, &id, &model);
    let agent_model = model.clone();
    let handle = runtime.spawn(session, async move |mut internals: AgentInternals| {
        ask(&mut internals, &agent_model, &[]).await?;
        assert_eq!(job_lines(&agent_model).len(), 1);
        let jobs = internals.context().jobs.clone().unwrap();
        // Its number continues after those of the lost jobs.
        let job = start(&jobs, "exit 3").await;
        assert_eq!(job.as_str(), "job-3");
        ask(&mut internals, &agent_model, &[json!({"job_id": job})]).await?;
        wait_until(|| !jobs.list()[0].state.is_running()).await;
        ask(&mut internals, &agent_model, &[]).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    let lines = job_lines(&model);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("job-1 no longer exists"), "{lines:?}");
    assert!(lines[1].contains("job-3 (exit 3) ended with exit code 3"), "{lines:?}");

    let model = ScriptedModel::new([done()]);
    let session = open(&config, &id, &model);
    let agent_model = model.clone();
    let handle = runtime.spawn(session, async move |mut internals: AgentInternals| {
        ask(&mut internals, &agent_model, &[]).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert_eq!(job_lines(&model), lines);
}

#[tokio::test]
async fn a_job_reports_refused_hosts_once_and_forbidden_files_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    std::fs::create_dir(base.join("project")).unwrap();
    let allowed = AllowedHosts::new(["good.example".parse().unwrap()]);
    let config =
        SandboxConfig { network: Network::Hosts(allowed), ..SandboxConfig::new(base.join("own")) };
    let (_runtime, _handle, jobs) = agent_in(&base.join("project"), Some(config)).await;
    let script = "curl -s -o /dev/null http://evil.example/; echo tried; mkdir .github; echo evil >.github/x; sleep 60";
    let spec = ProcessSpec { cwd: base.join("project"), ..spec(script) };
    let token = CancellationToken::new();
    let id = jobs.start(spec, script.to_owned(), &token).await.unwrap();
    let output = wait(&jobs, &id, OutputPosition::LastRead).await;
    assert_eq!(output.job.state, JobState::Running);
    let hosts: Vec<_> = output.refused_hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["evil.example:80"]);
    assert_eq!(jobs.read(&id, OutputPosition::LastRead).unwrap().refused_hosts, []);
    jobs.kill(&id).await.unwrap();
    let output = jobs.read(&id, OutputPosition::LastRead).unwrap();
    assert_eq!(output.quarantined[0].path, base.join("project/.github"));
}

#[tokio::test]
async fn a_job_cannot_change_a_git_config_replaced_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let project = base.join("project");
    std::fs::create_dir(&project).unwrap();
    let git = |args: &[&str]| run_git(&project, args);
    git(&["init", "-q", "."]);
    let config = SandboxConfig::new(base.join("own"));
    let (_runtime, _handle, jobs) = agent_in(&project, Some(config)).await;
    let script = "echo ready; while [ ! -e go ]; do sleep 0.05; done; git config core.fsmonitor evil; echo x >>.git/config; \
         echo tried; sleep 60";
    let spec = ProcessSpec { cwd: project.clone(), ..spec(script) };
    let token = CancellationToken::new();
    let id = jobs.start(spec, script.to_owned(), &token).await.unwrap();
    let until = async |text: &str| {
        let mut printed = String::new();
        while !printed.contains(text) {
            printed.push_str(
                &String::from_utf8(wait(&jobs, &id, OutputPosition::LastRead).await.bytes).unwrap(),
            );
        }
    };
    until("ready").await;
    // Git writes a new file and renames it over the old one, which detaches a mount on the old one.
    git(&["config", "user.nick", "x"]);
    std::fs::write(project.join("go"), "").unwrap();
    until("tried").await;
    jobs.kill(&id).await.unwrap();
    let settings = std::fs::read_to_string(project.join(".git/config")).unwrap();
    assert!(settings.contains("nick = x"), "{settings}");
    assert!(!settings.contains("fsmonitor") && !settings.contains("\nx"), "{settings}");
}

/// Runs git as the user does, outside of the sandbox.
#[expect(clippy::disallowed_methods, reason = "the user works beside the job")]
fn run_git(project: &std::path::Path, args: &[&str]) {
    let status = std::process::Command::new("git")
        .args(args)
        .current_dir(project)
        .env("HOME", project)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status();
    assert!(status.unwrap().success(), "git {args:?}");
}

#[tokio::test]
async fn a_server_is_reachable_by_commands_of_a_new_keeper() {
    if !has_own_process() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    std::fs::create_dir(base.join("project")).unwrap();
    let config = SandboxConfig::new(base.join("own"));
    let (_runtime, _handle, jobs) = agent_in(&base.join("project"), Some(config)).await;
    let token = CancellationToken::new();
    let start = async |script: &str| {
        let spec = ProcessSpec { cwd: base.join("project"), ..spec(script) };
        jobs.start(spec, script.to_owned(), &token).await.unwrap()
    };
    // The first command starts the keeper.
    let first = start("true").await;
    read_to_end(&jobs, &first).await;
    // The init of the first command may still be exiting.
    wait_until(|| running_children().len() == 1).await;
    let keeper = running_children();
    let server =
        start("echo here >file; exec python3 -u -m http.server --bind 127.0.0.1 8766").await;
    wait(&jobs, &server, OutputPosition::LastRead).await;
    kill_children(&keeper);
    let client = start("curl -s http://127.0.0.1:8766/file").await;
    assert_eq!(read_to_end(&jobs, &client).await.0, "here\n");
    assert_eq!(jobs.read(&server, OutputPosition::LastRead).unwrap().job.state, JobState::Running);
    jobs.kill(&server).await.unwrap();
}

#[tokio::test]
async fn a_resumed_session_is_told_once_which_tasks_are_gone() {
    let config = RuntimeConfig::default();
    let runtime = CheckedRuntime::new(config.clone());
    let session = create(&config);
    let id = session.id().clone();
    let done = || reply([text("done")]);
    let model =
        ScriptedModel::new([reply(["c1", "c2", "c3"].map(|id| call(id, "task", json!({}))))]);
    let handle = runtime.spawn(session, async move |mut internals: AgentInternals| {
        let collected = json!({"task_id": "task-2", "running": false});
        let extras = [json!({"task_id": "task-1"}), json!({"task_id": "task-2"}), collected];
        ask(&mut internals, &model, &extras).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));

    let model = ScriptedModel::new([done(), done()]);
    let agent_model = model.clone();
    let session = open(&config, &id, &model);
    let handle = runtime.spawn(session, async move |mut internals: AgentInternals| {
        ask(&mut internals, &agent_model, &[]).await?;
        ask(&mut internals, &agent_model, &[]).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    let outline = model.requests().last().unwrap().outline().join("\n");
    assert_eq!(outline.matches("task-1 no longer exists").count(), 1, "{outline}");
    assert_eq!(outline.matches("task-2 no longer exists").count(), 0, "{outline}");
}
