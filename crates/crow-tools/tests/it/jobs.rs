//! `bash` in the background, `bash_output` and `bash_kill`.

use std::time::Duration;

use crow_core::{
    capability::{
        HostRefusal, JobInfo, JobOutput, JobState, OriginalState, OutputFile, OutputPosition,
        ProcessEnd, QuarantinedFile, RefusedHost,
    },
    ids::JobId,
    tool::{Effects, Subject, ToolStatus},
};
use serde_json::json;

use crate::bench::Bench;

fn info(state: JobState) -> JobInfo {
    let (id, duration) = (JobId::new("job-1"), Duration::from_millis(2900));
    JobInfo { id, title: "npm start".into(), state, duration }
}

fn output(state: JobState, bytes: &str) -> JobOutput {
    let next = bytes.len() as u64;
    JobOutput {
        job: info(state),
        bytes: bytes.into(),
        next,
        lost: 0,
        spill: None,
        detached_count: 0,
        refused_hosts: Vec::new(),
        quarantined: Vec::new(),
    }
}

fn bench(output: JobOutput) -> Bench {
    let bench = Bench::new();
    *bench.processes.job.lock().unwrap() = Some(output);
    bench
}

#[tokio::test]
async fn a_job_is_planned_like_any_command_and_has_no_default_timeout() {
    let bench = bench(output(JobState::Running, ""));
    let input = json!({"command": "npm start", "run_in_background": true});
    let plan = bench.plan("bash", &input).await.unwrap();
    let foreground = bench.plan("bash", &json!({"command": "npm start"})).await.unwrap();
    assert_eq!(plan, foreground);
    assert!(matches!((plan.effects, plan.subject), (Effects::Unknown, Subject::Command(_))));
    let result = bench.run("bash", input).await;
    assert_eq!(
        result.output,
        "[job-1 runs in the background, until this session ends at the latest]"
    );
    assert_eq!(result.metadata.extra["job_id"], "job-1");
    let specs = bench.processes.specs.lock().unwrap();
    assert_eq!(
        (specs[0].timeout, &specs[0].argv[..]),
        (Duration::MAX, &["bash", "-c", "npm start"].map(str::to_owned)[..])
    );
    assert_eq!(
        specs[0].output.spill,
        bench.ctx.scratch.as_ref().map(|folder| folder.join("c1.log"))
    );
}

#[tokio::test]
async fn a_job_may_be_given_more_time_than_a_command() {
    let bench = bench(output(JobState::Running, ""));
    bench
        .ok("bash", json!({"command": "cd /", "run_in_background": true, "timeout": 7_200_000}))
        .await;
    let specs = bench.processes.specs.lock().unwrap();
    // The folder of a job is not tracked, so its command is not wrapped.
    assert_eq!((specs[0].timeout, specs[0].argv.len()), (Duration::from_hours(2), 3));
}

#[tokio::test]
async fn a_job_runs_in_sh_if_bash_is_missing() {
    let bench = bench(output(JobState::Running, ""));
    *bench.processes.missing_programs.lock().unwrap() = vec!["bash"];
    bench.ok("bash", json!({"command": "true", "run_in_background": true})).await;
    assert_eq!(bench.processes.programs(), ["bash", "sh"]);
}

#[tokio::test]
async fn job_output_is_formatted_like_command_output() {
    let spill = |missing| Some(OutputFile { path: "/scratch/c1.log".into(), bytes: 1005, missing });
    let running = JobState::Running;
    let ended = |end| JobState::Ended(end);
    for (read, text) in [
        (output(running.clone(), ""), "(nothing new)\n[job-1 running for 2 s, 0 bytes so far]"),
        (
            output(running.clone(), "1%\r2%\n\u{1b}[32mok\u{1b}[0m\n"),
            "2%\nok\n[job-1 running for 2 s, 18 bytes so far]",
        ),
        (
            JobOutput {
                lost: 1000,
                next: 1005,
                spill: spill(0),
                ..output(running.clone(), "b\ncd\n")
            },
            "[cut in the middle: 1002 bytes omitted; whole output in /scratch/c1.log]\n[… 1002 bytes omitted …]\ncd\n[job-1 running for 2 s, 1005 bytes so far]",
        ),
        (
            JobOutput { lost: 1, next: 9000, spill: spill(7995), ..output(running, "cd\n") },
            "[cut in the middle: 1 bytes omitted; the first 1005 bytes are in /scratch/c1.log]\n[… 1 bytes omitted …]\ncd\n[job-1 running for 2 s, 9000 bytes so far]",
        ),
        (
            output(ended(ProcessEnd::Exited(1)), "x\n"),
            "x\n[job-1 ended with exit code 1 after 2 s, 2 bytes so far]",
        ),
        (
            JobOutput { detached_count: 2, ..output(ended(ProcessEnd::Cancelled), "") },
            "(nothing new)\n[job-1 was stopped after 2 s, 0 bytes so far]\n[2 detached processes were ended with it: only jobs outlive a call, see run_in_background]",
        ),
        (
            JobOutput {
                refused_hosts: vec![RefusedHost {
                    host: "crates.io".to_owned(),
                    port: 443,
                    reason: HostRefusal::NotAllowed,
                }],
                ..output(JobState::Running, "")
            },
            "(nothing new)\n[job-1 running for 2 s, 0 bytes so far]\n[the sandbox blocked the connection to crates.io:443; the user can allow it with --allow-host crates.io]",
        ),
        (
            JobOutput {
                quarantined: vec![QuarantinedFile {
                    path: "/x/.envrc".into(),
                    moved_to: None,
                    original: OriginalState::Absent,
                    running_commands: Vec::new(),
                }],
                ..output(ended(ProcessEnd::Exited(0)), "")
            },
            "(nothing new)\n[job-1 ended with exit code 0 after 2 s, 0 bytes so far]\n[/x/.envrc can start programs and should not be there; it could not be moved away]",
        ),
        (
            JobOutput {
                quarantined: vec![QuarantinedFile {
                    path: "/x/.envrc".into(),
                    moved_to: None,
                    original: OriginalState::Absent,
                    running_commands: vec!["npm start".to_owned(), "make".to_owned()],
                }],
                ..output(ended(ProcessEnd::Exited(0)), "")
            },
            "(nothing new)\n[job-1 ended with exit code 0 after 2 s, 0 bytes so far]\n[/x/.envrc appeared or was changed while these ran: `npm start`, `make`. It can start programs and should not be there; it could not be moved away]",
        ),
    ] {
        let bench = bench(read);
        assert_eq!(bench.ok("bash_output", json!({"job_id": "job-1"})).await, text);
    }
}

#[tokio::test]
async fn the_metadata_of_bash_output_holds_the_exit_code() {
    let bench = bench(output(JobState::Ended(ProcessEnd::Exited(3)), ""));
    let result = bench.run("bash_output", json!({"job_id": "job-1"})).await;
    assert_eq!(result.status, ToolStatus::Success);
    assert_eq!(result.metadata.extra, json!({"job_id": "job-1", "running": false, "exit_code": 3}));
}

#[tokio::test]
async fn the_job_id_is_accepted_under_parameter_names_of_other_agents() {
    for name in ["job_id", "bash_id", "shell_id", "task_id", "id", "job"] {
        let bench = bench(output(JobState::Running, ""));
        bench.ok("bash_output", json!({name: "job-1"})).await;
        bench.ok("bash_kill", json!({name: "job-1"})).await;
    }
}

#[tokio::test]
async fn bash_output_waits_only_on_request_and_at_most_a_minute() {
    let bench = bench(output(JobState::Running, ""));
    bench.ok("bash_output", json!({"job_id": "job-1"})).await;
    bench.ok("bash_output", json!({"job_id": "job-1", "wait_ms": 50, "since": 7})).await;
    bench.ok("bash_output", json!({"job_id": "job-1", "wait_ms": 900_000})).await;
    let reads = bench.processes.reads.lock().unwrap().clone();
    let expected = [
        (OutputPosition::LastRead, None),
        (OutputPosition::Offset(7), Some(Duration::from_millis(50))),
        (OutputPosition::LastRead, Some(Duration::from_mins(1))),
    ];
    assert_eq!(reads, expected);
}

#[tokio::test]
async fn bash_output_without_a_job_id_lists_the_jobs() {
    assert_eq!(Bench::new().ok("bash_output", json!({})).await, "There are no jobs.");
    let bench = bench(output(JobState::Running, ""));
    assert_eq!(bench.ok("bash_output", json!({})).await, "job-1 running for 2 s: npm start");
}

#[tokio::test]
async fn an_unknown_job_is_an_error_that_lists_the_known_jobs() {
    let bench = bench(output(JobState::Running, ""));
    for tool in ["bash_output", "bash_kill"] {
        let error = bench.fails(tool, json!({"job_id": "7"})).await;
        assert_eq!(error, "there is no job 7; known: job-1");
    }
}

#[tokio::test]
async fn bash_kill_returns_the_last_output_of_the_job() {
    let bench = bench(output(JobState::Ended(ProcessEnd::Cancelled), "bye\n"));
    let text = bench.ok("bash_kill", json!({"job_id": "job-1"})).await;
    assert_eq!(text, "bye\n[job-1 was stopped after 2 s, 4 bytes so far]");
    assert_eq!(*bench.processes.kills.lock().unwrap(), [JobId::new("job-1")]);
}

#[tokio::test]
async fn a_background_command_that_ends_with_an_ampersand_is_refused() {
    let bench = bench(output(JobState::Running, ""));
    let input = json!({"command": "npm start & ", "run_in_background": true});
    assert!(bench.fails("bash", input).await.starts_with("leave out the & at the end"));
    assert!(bench.processes.specs.lock().unwrap().is_empty());
}
