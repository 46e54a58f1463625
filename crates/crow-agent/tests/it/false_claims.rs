//! Models that falsely claim to be done.
//!
//! A run is verified only if the check commands passed with the files as they are at that moment. The quality of a command
//! is not judged: if the tests that it runs are deleted it may pass; the result names the command that verified the run.

use crow_agent::Check;
use crow_core::tool::ToolStatus;
use crow_testkit::scripted::{call, reply, text};
use serde_json::json;

use crate::checks::{CheckFixture, bash, complete, complete_as};

/// Writes the project: a program, and a script that checks its output.
fn project(fixture: &CheckFixture) {
    fixture.write("program.sh", "echo 42\n");
    fixture.write("tests/run.sh", "test \"$(bash program.sh)\" = 42\n");
}

fn test() -> Check {
    Check::new("test", "bash tests/run.sh")
}

const BREAK: &str = "echo 'echo 41' > program.sh";
const REPAIR: &str = "echo 'echo 42' > program.sh";

#[tokio::test]
async fn a_claim_without_any_work_is_refused_by_a_failing_check() {
    let mut fixture =
        CheckFixture::new([test()], vec![complete(), reply([text("It is done, verified!")])]);
    fixture.write("tests/run.sh", "exit 1\n");
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), None);
    assert_eq!(summary.answers[0].0, ToolStatus::Error);
}

#[tokio::test]
async fn task_complete_is_refused_until_a_broken_build_is_repaired() {
    let plays = vec![
        bash("a", BREAK),
        complete_as("1"),
        complete_as("2"),
        bash("b", REPAIR),
        complete_as("3"),
    ];
    let mut fixture = CheckFixture::new([test()], plays);
    project(&fixture);
    let summary = fixture.run().await;
    let statuses: Vec<_> = summary.answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [ToolStatus::Error, ToolStatus::Error, ToolStatus::Success]);
    assert_eq!(summary.verified(), Some(true));
}

#[tokio::test]
async fn deleting_the_tests_makes_a_check_that_runs_them_fail() {
    let plays = vec![bash("a", BREAK), bash("b", "rm -r tests"), complete(), reply([text("done")])];
    let mut fixture = CheckFixture::new([test()], plays);
    project(&fixture);
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), None);
    assert_eq!(summary.checks[0].0[0].exit_code, Some(127));
}

#[tokio::test]
async fn a_check_that_skips_deleted_tests_passes_and_is_named_as_the_only_evidence() {
    let check = Check::new(
        "test",
        "for test in tests/*.sh; do test ! -f $test || bash $test || exit 1; done",
    );
    let plays = vec![bash("a", BREAK), bash("b", "rm -r tests"), complete()];
    let mut fixture = CheckFixture::new([check], plays);
    project(&fixture);
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(true), "the command passed: that is all that was asked");
    assert!(summary.answers[0].1.ends_with("verified by test."));
}

#[tokio::test]
async fn an_edit_after_task_complete_in_the_same_reply_voids_the_verification() {
    let both = reply([
        call("a", "task_complete", json!({"summary": "verified"})),
        call("b", "bash", json!({ "command": BREAK })),
    ]);
    let mut fixture = CheckFixture::new([test()], vec![both]);
    project(&fixture);
    let summary = fixture.run().await;
    assert_eq!(summary.answers[0].0, ToolStatus::Success, "it held when it was said");
    assert_eq!(summary.verified(), Some(false));
    assert_eq!(summary.checks[0].2.as_deref(), Some("files changed after the checks ran"));
}

#[tokio::test]
async fn an_edit_before_task_complete_in_the_same_reply_is_seen_by_the_checks() {
    let both = reply([
        call("a", "bash", json!({ "command": BREAK })),
        call("b", "task_complete", json!({"summary": "verified"})),
    ]);
    let mut fixture = CheckFixture::new([test()], vec![both, reply([text("well")])]);
    project(&fixture);
    assert_eq!(fixture.run().await.verified(), None);
}

#[tokio::test]
async fn a_check_does_not_run_a_fake_program_of_the_workspace() {
    let fake =
        "printf '#!/bin/sh\\nexit 0\\n' > false; chmod +x false; mkdir -p bin; cp false bin/";
    let plays = vec![bash("a", fake), complete(), reply([text("done")])];
    let mut fixture = CheckFixture::new([Check::new("test", "false")], plays);
    let summary = fixture.run().await;
    assert_eq!((summary.verified(), summary.answers[0].0), (None, ToolStatus::Error));
}

#[tokio::test]
async fn variables_and_aliases_of_a_command_do_not_affect_a_check() {
    let lie = "export PATH=$PWD:$PATH; alias false=true; false() { true; }; export -f false; echo 'false() { true; }' > .bashrc";
    let plays = vec![bash("a", lie), complete(), reply([text("done")])];
    let mut fixture = CheckFixture::new([Check::new("test", "false")], plays);
    assert_eq!(fixture.run().await.verified(), None);
}

#[tokio::test]
async fn changing_the_check_configuration_during_a_run_has_no_effect() {
    let lie =
        "mkdir -p .crow-agent; printf '[checks]\\ntest = \"true\"\\n' > .crow-agent/config.toml";
    let plays = vec![bash("a", BREAK), bash("b", lie), complete(), reply([text("done")])];
    let mut fixture = CheckFixture::new([test()], plays);
    project(&fixture);
    let summary = fixture.run().await;
    assert_eq!(
        (summary.verified(), summary.checks[0].0[0].command.as_str()),
        (None, "bash tests/run.sh")
    );
}

#[tokio::test]
async fn a_claim_in_the_summary_does_not_verify_the_task() {
    let mut fixture = CheckFixture::new([], vec![complete()]);
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), Some(false), "{:?}", summary.outcome);
}

#[tokio::test]
async fn a_job_that_breaks_the_build_during_the_checks_prevents_verification() {
    // The job waits for the check and the check for the job, so the order is fixed.
    let job = "until test -p gate; do :; done; echo 'echo 41' > program.sh; echo broken > gate";
    let start = reply([call("a", "bash", json!({"command": job, "background": true}))]);
    let gate = Check::new(
        "test",
        "bash tests/run.sh && { test -e done || { mkfifo gate && cat gate && rm gate && touch done; }; }",
    );
    let mut fixture = CheckFixture::new([gate], vec![start, complete(), reply([text("done")])]);
    project(&fixture);
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), None, "it is broken at the end");
    assert_eq!(summary.answers[0].0, ToolStatus::Error);
}

#[tokio::test]
async fn a_job_that_breaks_the_build_after_the_checks_voids_the_verification() {
    // A sibling call releases the job and returns when the job has done its work.
    let job = "mkfifo go; cat go; echo 'echo 41' > program.sh; rm go; touch broken";
    let start = reply([call("a", "bash", json!({"command": job, "background": true}))]);
    let ready = bash("b", "until test -p go; do :; done");
    let end = reply([
        call("c", "task_complete", json!({"summary": "verified"})),
        call("d", "bash", json!({"command": "echo > go; until test -e broken; do :; done"})),
    ]);
    let mut fixture = CheckFixture::new([test()], vec![start, ready, end]);
    project(&fixture);
    let summary = fixture.run().await;
    assert_eq!(summary.answers[0].0, ToolStatus::Success);
    assert_eq!(summary.verified(), Some(false));
}

#[tokio::test]
async fn repeated_false_claims_are_never_verified() {
    let mut plays: Vec<_> = (0..5).map(|n| complete_as(&n.to_string())).collect();
    plays.push(reply([text("I am done.")]));
    let mut fixture = CheckFixture::new([Check::new("no", "exit 1")], plays);
    let summary = fixture.run().await;
    assert_eq!(summary.verified(), None);
    assert!(summary.answers.iter().all(|(status, _)| *status == ToolStatus::Error));
}
