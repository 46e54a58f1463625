//! Commands cannot read the environment or memory of the agent that starts them.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::Path,
    process::Command,
};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::{Fixture, RunOutput, finish};

/// User id for the program if the test runs as root, which could read every process.
const NOBODY: u32 = 65534;

/// Runs the program as an unprivileged user.
async fn run_unprivileged(fixture: &Fixture, args: &[&str]) -> RunOutput {
    let mut command = fixture.command(args);
    if rustix::process::geteuid().is_root() {
        let program = fixture.project("crow-agent");
        let built = Path::new(env!("CARGO_BIN_EXE_crow-agent"));
        fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();
        let variables = fixture.variables();
        command = Command::new(&program);
        command
            .args(args)
            .current_dir(fixture.project(""))
            .env_clear()
            .envs(variables)
            .uid(NOBODY)
            .gid(NOBODY);
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        for folder in
            [fixture.project("").parent().unwrap(), &fixture.project(""), &fixture.home("")]
        {
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    finish(command.spawn().unwrap()).await
}

#[tokio::test]
async fn a_command_cannot_read_environment_or_memory_of_the_agent_nor_dump_its_core() {
    let look = "cat /proc/$PPID/environ | tr '\\0' '\\n'; head -c 1 /proc/$PPID/mem; ls /proc/$PPID/fd; \
                cat /proc/$PPID/limits; tr '\\0' '\\n' < /proc/$$/environ; id -u; true";
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({ "command": look })),
        ScriptedReply::new().text("seen"),
    ])
    .await;
    let mut fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    // The name does not look like a secret, so redaction would not hide a leak.
    fixture.set_env("CANARY", "in-the-environment");
    fixture.set_env("LANG", "C.UTF-8");
    let model = "anthropic/claude-sonnet-4-5";
    let ran =
        run_unprivileged(&fixture, &["run", "look", "-m", model, "-p", "full-auto", "-o", "json"])
            .await;
    ran.exited(0);
    let end = ran.lines().into_iter().find(|line| line["type"] == "call_end").unwrap();
    let output = end["result"]["output"].as_str().unwrap();
    for file in ["environ", "mem", "fd"] {
        let refused =
            output.lines().any(|line| line.contains(file) && line.contains("Permission denied"));
        assert!(refused, "{file}: {output}");
    }
    assert!(!output.contains("in-the-environment"), "{output}");
    let limit = output.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(limit.split_whitespace().nth(4), Some("0"), "{limit}");
    // The command's own environment stays readable: the runtime finds leftover processes by it.
    assert!(output.contains("CROW_CALL=") || output.contains("PATH="), "{output}");
    let user = output.lines().rev().find_map(|line| line.trim().parse::<u32>().ok());
    assert_ne!(user, Some(0), "root reads everything: {output}");
    server.finish().await.unwrap();
}
