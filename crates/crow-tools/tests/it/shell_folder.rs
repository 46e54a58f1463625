//! `bash`: the next command starts in the folder where the last one ended. These tests run a real shell.

use std::{fs, sync::atomic::Ordering, time::Duration};

use crow_core::{tool::ToolStatus, workspace::ShellFolder};
use serde_json::json;

use crate::bench::Bench;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.processes.is_real.store(true, Ordering::Relaxed);
    bench.write("sub/deep/a.txt", "");
    bench
}

async fn output(bench: &Bench, command: &str) -> String {
    bench.run("bash", json!({"command": command})).await.output
}

async fn pwd(bench: &Bench) -> String {
    let output = output(bench, "pwd -P").await;
    let folder = output.lines().next().unwrap();
    folder.strip_prefix(&*bench.path("").to_string_lossy()).unwrap_or(folder).to_owned()
}

#[tokio::test]
async fn the_next_command_starts_where_the_last_one_ended() {
    let bench = bench();
    let result = bench.run("bash", json!({"command": "cd sub && echo hi"})).await;
    assert_eq!(result.output, "hi\n[exit code 0]\n[now in sub]");
    assert_eq!(result.metadata.extra[ShellFolder::EXTRA_KEY], json!(bench.path("sub")));
    let plan = bench.plan("bash", &json!({"command": "ls"})).await.unwrap();
    assert_eq!(plan.title, "ls (in sub)");
    assert_eq!(output(&bench, "ls").await, "deep\n[exit code 0]");
    assert_eq!(
        output(&bench, "cd deep; exit 3").await,
        "(no output)\n[exit code 3]\n[now in sub/deep]"
    );
    assert_eq!(output(&bench, "cd ../..").await, "(no output)\n[exit code 0]\n[now in .]");
    assert_eq!(bench.plan("bash", &json!({"command": "ls"})).await.unwrap().title, "ls");
}

#[tokio::test]
async fn tracking_the_folder_does_not_change_how_a_command_ends() {
    for (command, text) in [
        ("cd sub; false", "(no output)\n[exit code 1]\n[now in sub]"),
        ("cd sub; set -e; false; echo no", "(no output)\n[exit code 1]\n[now in sub]"),
        ("cd sub; echo $# \"$*\"", "0\n[exit code 0]\n[now in sub]"),
        ("cd sub; exec 1>&- 2>&-", "(no output)\n[exit code 0]\n[now in sub]"),
        ("cd sub\necho $LINENO", "2\n[exit code 0]\n[now in sub]"),
        ("cd sub; exec echo x", "x\n[exit code 0]"),
        ("trap 'echo bye' EXIT; cd sub", "bye\n[exit code 0]"),
        ("(cd sub)", "(no output)\n[exit code 0]"),
        ("cd sub; kill -9 $$", "(no output)\n[killed by signal 9 (SIGKILL), exit code 137]"),
    ] {
        assert_eq!(output(&bench(), command).await, text, "{command}");
    }
}

#[tokio::test]
async fn a_folder_outside_the_project_is_not_used_for_the_next_command() {
    let bench = bench();
    output(&bench, "cd sub").await;
    let outside = bench.outside("");
    let text = output(&bench, "cd ../..").await;
    let end = format!(
        "[ended in {}, outside the project; the next command starts in sub again]",
        outside.to_string_lossy().trim_end_matches('/')
    );
    assert!(text.ends_with(&end), "{text}");
    assert_eq!(pwd(&bench).await, "sub");
}

#[tokio::test]
async fn a_deleted_folder_is_reported_once() {
    let bench = bench();
    output(&bench, "cd sub/deep").await;
    fs::remove_dir_all(bench.path("sub")).unwrap();
    let text = output(&bench, "echo x").await;
    assert_eq!(text, "x\n[exit code 0]\n[sub/deep is gone, so this ran in .]");
    assert_eq!(output(&bench, "echo x").await, "x\n[exit code 0]");
}

#[tokio::test]
async fn workdir_sets_the_folder_of_one_call_only() {
    let bench = bench();
    output(&bench, "cd sub").await;
    let result = bench.run("bash", json!({"command": "ls", "workdir": "sub/deep"})).await;
    assert_eq!(result.output, "a.txt\n[exit code 0]");
    assert_eq!(pwd(&bench).await, "sub");
}

#[tokio::test]
async fn a_command_that_was_planned_for_another_folder_is_not_run() {
    let bench = bench();
    let (tool, input) = (bench.tool("bash"), json!({"command": "touch made"}));
    let plan = tool.plan(&input, &bench.ctx).await.unwrap();
    output(&bench, "cd sub").await;
    let result = tool.execute(input, &plan, &bench.ctx).await;
    assert_eq!(result.status, ToolStatus::Error);
    assert_eq!(
        result.output,
        "the command was not run: a call before it moved the shell to sub; make the call again"
    );
    assert!(!bench.path("made").exists() && !bench.path("sub/made").exists());
}

#[tokio::test]
async fn a_command_without_a_change_of_folder_is_run_unwrapped() {
    let bench = bench();
    for command in ["true; ls", "cd sub"] {
        output(&bench, command).await;
    }
    let specs = bench.processes.specs.lock().unwrap();
    assert_eq!(specs[0].argv, ["bash", "-c", "true; ls"]);
    assert_eq!(specs[1].argv[4], "cd sub");
    assert_eq!(fs::read_dir(bench.ctx.scratch.as_ref().unwrap()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_link_or_pipe_at_the_folder_file_is_neither_followed_nor_waited_for() {
    let bench = bench();
    let private = bench.outside("private");
    fs::write(&private, format!("{}\n", bench.path("sub").display())).unwrap();
    for replacement in ["ln -s \"$private\" \"$__crow_folder\"", "mkfifo \"$__crow_folder\""] {
        let command =
            format!("cd sub; private='{}'; trap - EXIT; {replacement}", private.display());
        let run = tokio::time::timeout(Duration::from_secs(30), output(&bench, &command));
        assert_eq!(run.await.unwrap(), "(no output)\n[exit code 0]", "{replacement}");
    }
    assert!(private.exists());
}
