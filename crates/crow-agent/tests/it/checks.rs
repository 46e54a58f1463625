//! Check commands, which verify `task_complete`.

use std::{fs, path::Path, sync::Arc, time::Duration};

use crow_agent::{
    AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Check, Checks, Coagent, EndTools, TaskComplete,
};
use crow_core::{
    control::{Consensus, ControlFlow},
    event::{AgentEvent, CheckRun, Envelope, RunOutcome},
    permission::{PermissionMode, PermissionPolicy},
    tool::{ToolRegistry, ToolStatus, TypedToolAdapter},
    turn::{RunLimits, TurnEnd},
};
use crow_runtime::{
    ChildEnvironment, RuntimeConfig, SandboxConfig, SnapshotLimits, SnapshotStores,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call, reply, text},
};
use serde_json::json;
use tempfile::TempDir;

use crate::tools::Shell;

/// An agent with checks and snapshots.
pub(crate) struct CheckFixture {
    pub(crate) harness: AgentHarness,
    _data: TempDir,
}

impl CheckFixture {
    pub(crate) fn new(checks: impl IntoIterator<Item = Check>, plays: Vec<Play>) -> Self {
        Self::with_policy(checks, plays, PermissionPolicy::new(PermissionMode::FullAuto))
    }

    pub(crate) fn with_policy(
        checks: impl IntoIterator<Item = Check>,
        plays: Vec<Play>,
        policy: PermissionPolicy,
    ) -> Self {
        let options = HarnessOptions { policy: Some(policy), ..HarnessOptions::default() };
        Self::with_options(checks, plays, options)
    }

    fn with_options(
        checks: impl IntoIterator<Item = Check>,
        plays: Vec<Play>,
        options: HarnessOptions,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let stores =
            SnapshotStores::new(data.path().join("snapshots"), SnapshotLimits::default(), None);
        let runtime = RuntimeConfig {
            snapshots: Some(Arc::new(stores)),
            child_env: path_alone(),
            ..RuntimeConfig::default()
        };
        let mut tools = ToolRegistry::new();
        tools.register(TypedToolAdapter::new(TaskComplete::new(Checks::new(checks))));
        tools.register(Shell);
        let options = HarnessOptions { tools, runtime, ..options };
        Self { harness: AgentHarness::start(ScriptedModel::new(plays), options), _data: data }
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.harness.cwd().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs a prompt and returns a summary of its events.
    pub(crate) async fn run(&mut self) -> RunSummary {
        let events = self.harness.run("do it").await;
        RunSummary::of(&events)
    }
}

pub(crate) fn path_alone() -> ChildEnvironment {
    [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]
        .into_iter()
        .collect::<std::collections::BTreeMap<_, _>>()
        .into()
}

/// Summary of a run, collected from its events.
#[derive(Debug)]
pub(crate) struct RunSummary {
    pub(crate) outcome: RunOutcome,
    /// For each run of the checks: the commands, true if they passed, and the reason why they verify nothing.
    pub(crate) checks: Vec<(Vec<CheckRun>, bool, Option<String>)>,
    /// Status and output of each call of `task_complete`.
    pub(crate) answers: Vec<(ToolStatus, String)>,
}

impl RunSummary {
    pub(crate) fn of(events: &[Arc<Envelope>]) -> Self {
        let mut summary =
            Self { outcome: RunOutcome::NeedsInput, checks: Vec::new(), answers: Vec::new() };
        let mut announced = None;
        for event in events {
            match &event.event {
                AgentEvent::RunEnd { result, .. } => summary.outcome = result.clone(),
                AgentEvent::Checks { checks, passed, unverified } => {
                    summary.checks.push((checks.clone(), *passed, unverified.clone()));
                }
                AgentEvent::CallEnd { tool, result, .. } if tool == "task_complete" => {
                    summary.answers.push((result.status, result.output.clone()));
                }
                AgentEvent::TaskComplete { verified, .. } => announced = Some(*verified),
                _ => {}
            }
        }
        if let RunOutcome::Completed { verified, .. } = summary.outcome {
            assert_eq!(announced, Some(verified), "event and outcome differ");
        }
        summary
    }

    pub(crate) fn verified(&self) -> Option<bool> {
        match self.outcome {
            RunOutcome::Completed { verified, .. } => Some(verified),
            _ => None,
        }
    }
}

pub(crate) fn complete() -> Play {
    complete_as("done")
}

pub(crate) fn complete_as(id: &str) -> Play {
    reply([call(id, "task_complete", json!({"summary": "All done and verified."}))])
}

pub(crate) fn bash(id: &str, command: &str) -> Play {
    reply([call(id, "bash", json!({ "command": command }))])
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_task_whose_checks_pass_is_verified_by_them() {
    let mut fixture = CheckFixture::new(
        [Check::new("one", "test -f a"), Check::new("two", "echo fine")],
        vec![bash("a", "echo x > a"), complete()],
    );
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(true));
    assert_eq!(
        summary.answers,
        [(ToolStatus::Success, "The task is marked as complete, verified by one, two.".to_owned())]
    );
    let [(checks, true, None)] = &summary.checks[..] else { panic!("{:?}", summary.checks) };
    let ran: Vec<_> = checks
        .iter()
        .map(|check| (check.name.as_str(), check.command.as_str(), check.exit_code, check.fresh))
        .collect();
    assert_eq!(ran, [("one", "test -f a", Some(0), false), ("two", "echo fine", Some(0), false)]);
}

#[tokio::test]
async fn a_failing_check_refuses_task_complete_and_the_turn_continues() {
    let mut fixture = CheckFixture::new(
        [Check::new("test", "echo looking; test -f a || { echo a is missing; exit 3; }")],
        vec![complete_as("first"), bash("a", "echo x > a"), complete()],
    );
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(true));
    let (status, output) = &summary.answers[0];
    assert_eq!(*status, ToolStatus::Error);
    assert!(output.contains("1 of 1 checks failed") && output.contains("exit code 3"), "{output}");
    assert!(output.contains("looking\na is missing"), "{output}");
    assert_eq!(
        summary.checks.iter().map(|(_, passed, _)| *passed).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(summary.checks[0].0[0].exit_code, Some(3));
}

#[tokio::test]
async fn repeatedly_refused_task_complete_without_file_changes_is_a_doom_loop() {
    let say = |id: usize| {
        let summary = json!({"summary": format!("Done for the {id}th time.")});
        reply([call(&format!("c{id}"), "task_complete", summary)])
    };
    let looking = |id: usize| bash(&format!("b{id}"), &format!("echo looking {id}"));
    let failing = || Check::new("test", "echo ran in $$ ms; echo x >> log; exit 3");
    let plays = (0..100).flat_map(|id| [say(id), looking(id)]).collect();
    let summary = CheckFixture::new([failing()], plays).run().await;
    assert_eq!(summary.answers.len(), 5, "{:?}", summary.outcome);
    let RunOutcome::Stopped { reason: TurnEnd::DoomLoop { reason } } = &summary.outcome else {
        panic!("{:?}", summary.outcome)
    };
    assert_eq!(reason, "task_complete was refused 5 times, and no file changed in between");

    let changing = |id: usize| bash(&format!("b{id}"), &format!("echo x > made{id}"));
    let mut plays: Vec<_> = (0..8).flat_map(|id| [say(id), changing(id)]).collect();
    plays.push(reply([text("I cannot.")]));
    let summary = CheckFixture::new([failing()], plays).run().await;
    assert_eq!((summary.answers.len(), summary.outcome), (8, RunOutcome::NeedsInput));
}

#[tokio::test]
async fn all_failing_checks_are_reported_together_with_long_output_cut() {
    let mut fixture = CheckFixture::new(
        [
            Check::new("long", "seq 1 100000; exit 1"),
            Check::new("fine", "true"),
            Check::new("short", "echo no; exit 2"),
        ],
        vec![complete(), reply([text("I cannot.")])],
    );
    let summary = fixture.run().await;
    let (_, output) = &summary.answers[0];
    assert!(output.contains("2 of 3 checks failed") && output.contains("short: `echo no; exit 2`"));
    assert!(output.contains("99999\n100000\n") && output.contains("bytes left out"), "{output}");
    assert!(output.len() < 10_000, "{}", output.len());
    assert_eq!(summary.outcome, RunOutcome::NeedsInput);
}

#[tokio::test]
async fn a_check_that_passed_with_the_same_files_is_not_run_again() {
    let log = tempfile::tempdir().unwrap();
    let count = log.path().join("count");
    let counting = format!("echo ran >> {}", count.display());
    let mut fixture = CheckFixture::new(
        [Check::new("count", counting)],
        vec![complete_as("1"), complete_as("2"), bash("b", "echo x > a"), complete_as("3")],
    );
    assert_eq!(fixture.run().await.verified(), Some(true));
    let again = fixture.run().await;
    assert_eq!((again.verified(), lines(&count)), (Some(true), 1));
    assert!(again.checks[0].0[0].fresh);
    let changed = fixture.run().await;
    assert_eq!((changed.verified(), lines(&count)), (Some(true), 2));
}

#[tokio::test]
async fn a_check_is_run_again_after_a_change_in_a_further_folder() {
    let folder = tempfile::tempdir().unwrap();
    let further = folder.path().canonicalize().unwrap().join("further");
    fs::create_dir(&further).unwrap();
    let count = folder.path().join("count");
    let counting = format!("echo ran >> {}", count.display());
    let change = format!("echo x > {}/a", further.display());
    let plays = vec![complete_as("1"), complete_as("2"), bash("b", &change), complete_as("3")];
    let additional_directories = vec![further];
    let options = HarnessOptions { additional_directories, ..HarnessOptions::default() };
    let mut fixture = CheckFixture::with_options([Check::new("count", counting)], plays, options);
    fixture.run().await;
    assert!(fixture.run().await.checks[0].0[0].fresh);
    let changed = fixture.run().await;
    assert_eq!((changed.verified(), lines(&count)), (Some(true), 2));
}

#[tokio::test]
async fn changes_of_ignored_files_do_not_make_a_check_stale() {
    let mut fixture = CheckFixture::new(
        [Check::new("build", "mkdir -p target && date +%N > target/out")],
        vec![complete_as("1"), bash("b", "echo other > target/out"), complete_as("2")],
    );
    fixture.write(".gitignore", "target\n");
    assert_eq!(fixture.run().await.verified(), Some(true));
    let again = fixture.run().await;
    assert_eq!(again.verified(), Some(true));
    assert!(again.checks[0].0[0].fresh);
}

#[tokio::test]
async fn checks_are_run_once_more_after_one_of_them_changed_files() {
    let log = tempfile::tempdir().unwrap();
    let count = log.path().join("count");
    let first = format!("echo ran >> {}", count.display());
    let mut fixture = CheckFixture::new(
        [Check::new("first", first), Check::new("lock", "test -f lock || echo 1 > lock")],
        vec![complete()],
    );
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(true));
    assert_eq!(lines(&count), 2, "what it passed with is not what is there");
}

#[tokio::test]
async fn a_check_that_always_changes_files_leaves_the_task_unverified() {
    let mut fixture = CheckFixture::new(
        [Check::new("stamp", "date +%N >> stamp"), Check::new("ok", "true")],
        vec![complete()],
    );
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(false));
    let reason = summary.checks[0].2.as_deref().unwrap();
    assert!(reason.contains("files changed each time") && reason.contains("stamp"), "{reason}");
}

#[tokio::test]
async fn a_check_that_hangs_is_timed_out_and_later_checks_are_not_run() {
    let hang = Check {
        timeout: Duration::from_millis(300),
        ..Check::new("hang", "echo begun; sleep 1000")
    };
    let mut fixture = CheckFixture::new(
        [hang, Check::new("next", "true")],
        vec![complete(), reply([text("it hangs")])],
    );
    let summary = fixture.run().await;
    let (status, output) = &summary.answers[0];
    assert_eq!(*status, ToolStatus::Error);
    assert!(output.contains("timed out after 300 ms") && output.contains("begun"), "{output}");
    assert_eq!(summary.checks[0].0.len(), 1);
    assert_eq!(summary.checks[0].0[0].exit_code, None);
}

#[tokio::test]
async fn a_cancel_ends_a_running_check_within_two_seconds() {
    let mut fixture =
        CheckFixture::new([Check::new("hang", "echo begun; sleep 1000")], vec![complete()]);
    fixture.harness.handle.send_input(vec![crow_core::message::Block::text("go")]).unwrap();
    fixture
        .harness
        .until(|event| {
            matches!(event, AgentEvent::CallProgress { output, .. } if output.contains("begun"))
        })
        .await;
    let cancelled = std::time::Instant::now();
    fixture.harness.handle.interrupt();
    let events = fixture.harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert!(cancelled.elapsed() < Duration::from_secs(2), "{:?}", cancelled.elapsed());
    let summary = RunSummary::of(&events);
    assert_eq!(summary.outcome, RunOutcome::Cancelled);
    assert_eq!(summary.answers[0].0, ToolStatus::Cancelled);
}

#[tokio::test]
async fn a_read_only_run_completes_unverified_and_runs_no_check() {
    let mut fixture = CheckFixture::with_policy(
        [Check::new("write", "touch made")],
        vec![complete()],
        PermissionPolicy::new(PermissionMode::ReadOnly),
    );
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(false));
    assert!(summary.answers[0].1.contains("checks are not run in read-only mode"));
    assert!(!fixture.harness.cwd().join("made").exists());
}

#[tokio::test]
async fn checks_run_without_a_permission_question() {
    let mut fixture = CheckFixture::with_policy(
        [Check::new("write", "touch made")],
        vec![complete()],
        PermissionPolicy::new(PermissionMode::Ask),
    );
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(true));
    assert!(fixture.harness.cwd().join("made").exists());
}

#[tokio::test]
async fn without_checks_a_task_is_done_unverified() {
    let mut fixture = CheckFixture::new([], vec![complete()]);
    let summary = fixture.run().await;
    assert_eq!((summary.verified(), summary.checks.len()), (Some(false), 0));
    assert!(summary.answers[0].1.contains("unverified: no checks are configured"));
}

#[tokio::test]
async fn without_snapshots_nothing_is_verified() {
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(TaskComplete::new(Checks::new([Check::new(
        "ok", "true",
    )]))));
    let runtime = RuntimeConfig { child_env: path_alone(), ..RuntimeConfig::default() };
    let options = HarnessOptions { tools, runtime, ..HarnessOptions::default() };
    let mut harness = AgentHarness::start(ScriptedModel::new([complete()]), options);
    let summary = RunSummary::of(&harness.run("go").await);
    assert_eq!(summary.verified(), Some(false));
    assert!(
        summary.checks[0].1
            && summary.checks[0].2.as_deref().unwrap().contains("keeps no snapshots")
    );
}

#[tokio::test]
async fn changes_of_a_check_are_recorded_with_the_call() {
    let mut fixture =
        CheckFixture::new([Check::new("fmt", "test -f made || echo 1 > made")], vec![complete()]);
    let events = fixture.harness.run("go").await;
    let made = fixture.harness.cwd().join("made");
    let changed = events.iter().any(|event| {
        matches!(&event.event, AgentEvent::FilesChanged { files, .. } if files.contains(&made))
    });
    assert!(changed, "{events:#?}");
}

#[tokio::test]
async fn a_read_only_reviewer_ends_the_run_only_if_the_checks_pass() {
    let data = tempfile::tempdir().unwrap();
    let stores = SnapshotStores::new(data.path().join("s"), SnapshotLimits::default(), None);
    let runtime = RuntimeConfig {
        snapshots: Some(Arc::new(stores)),
        child_env: path_alone(),
        // On a system without one, the reviewer's command is refused instead.
        sandbox: Some(SandboxConfig::new(data.path().join("private"))),
        ..RuntimeConfig::default()
    };
    let mut tools = ToolRegistry::new();
    tools.register(Shell);
    let options = HarnessOptions { tools: tools.clone(), runtime, ..HarnessOptions::default() };
    // The reviewer may not change files, but the check writes.
    let check = Check::new("build", "test -f made && echo built > out");
    let reviewer = ScriptedModel::new([
        bash("w", "touch forbidden"),
        complete_as("1"),
        reply([text("made is missing")]),
        complete_as("2"),
    ]);
    let coagent = BaseAgent::new("reviewer", AgentConfig::default(), reviewer.resolved(), tools);
    let submit =
        |id: &str| reply([call(id, "submit_for_review", json!({"summary": "all is done"}))]);
    let script = ScriptedModel::new([submit("s"), bash("b", "touch made"), submit("t")]);
    let mut harness = AgentHarness::start_composed(script, options, |primary| {
        AcpAgent::new(AcpAgentParts {
            name: "JUDGE".to_owned(),
            description: String::new(),
            primary,
            coagents: vec![Coagent::Base(Box::new(coagent))],
            control_flow: ControlFlow::judge(),
            consensus: Consensus::default(),
            handoff: None,
            limits: RunLimits::default(),
            end_tools: EndTools {
                task_complete: Arc::new(TypedToolAdapter::new(TaskComplete::new(Checks::new([
                    check,
                ])))),
                ..EndTools::default()
            },
        })
        .unwrap()
    });
    let summary = RunSummary::of(&harness.run("go").await);
    let statuses: Vec<_> = summary.answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [ToolStatus::Error, ToolStatus::Success]);
    assert_eq!(summary.verified(), Some(true));
    assert!(harness.cwd().join("out").exists() && !harness.cwd().join("forbidden").exists());
}
