//! `bash` in the foreground: the request to the runtime, and the text of the result.

use std::time::Duration;

use crow_core::{
    capability::{CapturedOutput, Containment, HostRefusal, OutputFile, ProcessEnd, RefusedHost},
    ids::CallId,
    tool::{Effects, Subject, ToolStatus},
};
use serde_json::{Value, json};

use crate::bench::Bench;

fn printed(text: &str) -> CapturedOutput {
    CapturedOutput { head: text.into(), tail: Vec::new(), total: text.len() as u64, spill: None }
}

async fn answer(
    end: ProcessEnd,
    output: CapturedOutput,
    input: Value,
) -> (Bench, crow_core::tool::ToolResult) {
    let bench = Bench::new();
    bench.processes.answers(end, output);
    let result = bench.run("bash", input).await;
    (bench, result)
}

#[tokio::test]
async fn the_command_runs_in_a_non_interactive_shell_with_limits() {
    let (bench, result) =
        answer(ProcessEnd::Exited(0), printed("hi\n"), json!({"command": "echo hi"})).await;
    assert_eq!((result.status, result.output.as_str()), (ToolStatus::Success, "hi\n[exit code 0]"));
    assert_eq!(result.metadata.extra["exit_code"], 0);
    let specs = bench.processes.specs.lock().unwrap();
    let spec = &specs[0];
    assert_eq!(spec.argv, ["bash", "-c", "echo hi"]);
    assert_eq!(spec.cwd, bench.path(""));
    assert_eq!(spec.timeout, Duration::from_mins(2));
    let env: Vec<String> = spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        env,
        ["GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "NO_COLOR=1", "PAGER=cat", "TERM=dumb"]
    );
    assert_eq!((spec.output.head, spec.output.tail), (10 * 1024, 20 * 1024));
    assert_eq!(spec.output.spill, bench.ctx.scratch.as_ref().map(|folder| folder.join("c1.log")));
    assert_eq!(spec.output.spill_cap, 64 << 20);
}

#[tokio::test]
async fn each_way_a_command_ends_is_reported() {
    for (end, input, status, error, text) in [
        (
            ProcessEnd::Exited(3),
            json!({}),
            ToolStatus::Error,
            Some("exit code 3"),
            "out\n[exit code 3]",
        ),
        (
            ProcessEnd::Signaled(9),
            json!({}),
            ToolStatus::Error,
            Some("killed by signal 9 (SIGKILL), exit code 137"),
            "out\n[killed by signal 9 (SIGKILL), exit code 137]",
        ),
        (
            ProcessEnd::TimedOut,
            json!({"timeout": 5000}),
            ToolStatus::Error,
            Some("timed out after 5000 ms"),
            "out\n[timed out after 5000 ms and was stopped with the processes of its group, no exit code; give a longer timeout, up to 600000, or run_in_background]",
        ),
        (
            ProcessEnd::TimedOut,
            json!({"timeout": 60}),
            ToolStatus::Error,
            Some("timed out after 60 ms"),
            "out\n[timed out after 60 ms and was stopped with the processes of its group, no exit code; timeout is in milliseconds]",
        ),
        (
            ProcessEnd::TimedOut,
            json!({"timeout": 900_000}),
            ToolStatus::Error,
            Some("timed out after 600000 ms"),
            "out\n[timed out after 600000 ms and was stopped with the processes of its group, no exit code; split the work, or run_in_background]",
        ),
        (
            ProcessEnd::Cancelled,
            json!({}),
            ToolStatus::Cancelled,
            None,
            "out\n[cancelled; the command was stopped, what it did until then was not undone]",
        ),
    ] {
        let mut call = json!({"command": "x"});
        call.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        let (_, result) = answer(end, printed("out\n"), call).await;
        assert_eq!((result.status, result.error.as_deref()), (status, error));
        assert_eq!(result.output, text);
    }
}

#[tokio::test]
async fn empty_output_and_processes_left_running_are_reported() {
    let bench = Bench::new();
    bench.processes.answers(ProcessEnd::Exited(0), CapturedOutput::default());
    bench.processes.outcome.lock().unwrap().as_mut().unwrap().left_running = true;
    let output = bench.ok("bash", json!({"command": "sleep 60 &"})).await;
    assert_eq!(
        output,
        "(no output)\n[exit code 0]\n[a process that the command started was still running when its shell ended, and was killed: only jobs outlive a call, see run_in_background]"
    );
}

#[tokio::test]
async fn refused_hosts_are_reported_with_the_option_that_allows_them() {
    let bench = Bench::new();
    bench.processes.answers(ProcessEnd::Exited(0), printed("out\n"));
    let refused = |host: &str, port, reason| RefusedHost { host: host.to_owned(), port, reason };
    {
        let mut outcome = bench.processes.outcome.lock().unwrap();
        let outcome = outcome.as_mut().unwrap();
        outcome.containment = Containment::Full;
        outcome.refused_hosts = vec![
            refused("crates.io", 443, HostRefusal::NotAllowed),
            refused("intranet.example", 8080, HostRefusal::NotPublic),
        ];
    }
    let output = bench.ok("bash", json!({"command": "x"})).await;
    assert!(
        output.contains("crates.io:443; the user can allow it with --allow-host crates.io]"),
        "{output}"
    );
    assert!(
        output.contains("intranet.example:8080: the name resolves to a local address]"),
        "{output}"
    );
}

#[tokio::test]
async fn detached_processes_that_were_ended_are_reported() {
    let bench = Bench::new();
    bench.processes.answers(ProcessEnd::Exited(0), CapturedOutput::default());
    bench.processes.outcome.lock().unwrap().as_mut().unwrap().detached_count = 1;
    let output = bench.ok("bash", json!({"command": "setsid sleep 60 &"})).await;
    assert_eq!(
        output,
        "(no output)\n[exit code 0]\n[1 detached process was ended with it: only jobs outlive a call, see run_in_background]"
    );
}

#[tokio::test]
async fn long_output_names_the_file_with_all_of_it() {
    let bench = Bench::new();
    let path = bench.ctx.scratch.as_ref().unwrap().join("c1.log");
    let spill = Some(OutputFile { path, bytes: 1000, missing: 0 });
    let output =
        CapturedOutput { head: b"a\nb".into(), tail: b"y\nz\n".into(), total: 1000, spill };
    bench.processes.answers(ProcessEnd::Exited(0), output);
    let output = bench.ok("bash", json!({"command": "x"})).await;
    let file = bench.ctx.scratch.as_ref().unwrap().join("c1.log");
    assert_eq!(
        output,
        format!(
            "[cut in the middle: 996 bytes omitted; whole output in {}]\na\n[… 996 bytes omitted …]\nz\n[exit code 0]",
            file.display()
        )
    );
}

#[tokio::test]
async fn colours_progress_and_broken_characters_are_cleaned() {
    let (_, result) = answer(
        ProcessEnd::Exited(0),
        CapturedOutput {
            head: b"\x1b[32mok\x1b[0m\n1%\r100%\n\xff".into(),
            tail: Vec::new(),
            total: 20,
            spill: None,
        },
        json!({"command": "x"}),
    )
    .await;
    assert_eq!(result.output, "ok\n100%\n\u{fffd}\n[exit code 0]");
}

#[tokio::test]
async fn the_plan_holds_the_whole_command_and_a_short_title() {
    let bench = Bench::new();
    let command = format!("cargo test {}\nsecond line", "x".repeat(100));
    let plan = bench.plan("bash", &json!({"cmd": command})).await.unwrap();
    assert_eq!(plan.title.chars().count(), 81);
    assert!(plan.title.starts_with("cargo test xx") && plan.title.ends_with('…'));
    let Subject::Command(line) = plan.subject else { panic!("{:?}", plan.subject) };
    assert_eq!((plan.effects, line.text), (Effects::Unknown, command));
    assert_eq!(bench.plan("bash", &json!({"command": " ls \n"})).await.unwrap().title, "ls");
}

#[tokio::test]
async fn workdir_must_be_an_existing_folder() {
    let bench = Bench::new();
    bench.write("sub/a.txt", "");
    bench.processes.answers(ProcessEnd::Exited(0), printed(""));
    bench.ok("bash", json!({"command": "x", "workdir": "sub"})).await;
    assert_eq!(bench.processes.specs.lock().unwrap()[0].cwd, bench.path("sub"));
    let output = bench.fails("bash", json!({"command": "x", "workdir": "none"})).await;
    assert_eq!(output, "workdir none does not exist");
    let output = bench.fails("bash", json!({"command": "x", "workdir": "sub/a.txt"})).await;
    assert_eq!(output, "workdir sub/a.txt is not a folder");
}

#[tokio::test]
async fn commands_that_cannot_run_are_refused() {
    let bench = Bench::new();
    for input in [
        json!({"command": "  "}),
        json!({"command": "a\0b"}),
        json!({"command": "x", "timeout": 0}),
        json!({}),
    ] {
        bench.fails("bash", input).await;
    }
    let output = bench.fails("bash", json!({"command": "x"})).await;
    assert_eq!(output, "the command was not run: this runtime runs no processes");
}

#[tokio::test]
async fn sh_runs_the_command_if_bash_is_missing() {
    let bench = Bench::new();
    *bench.processes.missing_programs.lock().unwrap() = vec!["bash"];
    bench.processes.answers(ProcessEnd::Exited(0), printed("x"));
    for _ in 0..2 {
        bench.ok("bash", json!({"command": "x"})).await;
    }
    assert_eq!(bench.processes.programs(), ["bash", "sh", "sh"]);
}

#[tokio::test]
async fn bash_is_tried_again_if_sh_was_missing_too() {
    let bench = Bench::new();
    bench.processes.answers(ProcessEnd::Exited(0), printed("x"));
    for missing in [vec!["bash", "sh"], vec![]] {
        *bench.processes.missing_programs.lock().unwrap() = missing;
        bench.run("bash", json!({"command": "x"})).await;
    }
    assert_eq!(bench.processes.programs(), ["bash", "sh", "bash"]);
}

#[tokio::test]
async fn a_call_id_cannot_move_the_output_file_elsewhere() {
    let bench = Bench::new();
    bench.processes.answers(ProcessEnd::Exited(0), printed("x"));
    for id in ["../../etc/x", "", "a b", "toolu_01AbC-9"] {
        let mut ctx = bench.ctx.clone();
        ctx.call_id = CallId::new(id);
        bench.run_in("bash", json!({"command": "x"}), &ctx).await;
    }
    for spec in bench.processes.specs.lock().unwrap().iter() {
        let spill = spec.output.spill.as_ref().unwrap();
        assert_eq!(spill.parent(), bench.ctx.scratch.as_deref());
    }
    let specs = bench.processes.specs.lock().unwrap();
    assert!(specs[3].output.spill.as_ref().unwrap().ends_with("toolu_01AbC-9.log"));
}
