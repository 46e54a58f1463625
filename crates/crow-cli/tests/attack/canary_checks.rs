//! Checks that each canary detects an attack when nothing protects it. Otherwise passing cases would prove nothing.

use crate::{attack::Attack, trial_runner::try_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_canary_detects_its_attack_without_a_sandbox() {
    let free = |name: &str, line: &str| {
        let attack = Attack::new(name, "full-auto").arg("--no-sandbox");
        attack.rule("allow", &serde_json::json!({"tool_name": "bash"})).line(line)
    };
    let cases = [
        ("files outside changed", free("outside", "echo PWN > {out}/victim")),
        ("files of the home changed", free("home", "echo PWN > {home}/.bashrc")),
        ("protected files changed", free("hook", "echo PWN > .git/hooks/pre-commit")),
        (
            "protected files changed",
            free("settings", "mkdir .vscode; echo PWN > .vscode/tasks.json"),
        ),
        ("protected files changed", free("kept", "echo PWN > kept").keeps("kept")),
        ("reached: TCP", free("tcp", "echo x > /dev/tcp/127.0.0.1/{tcp}")),
        ("reached: UDP", free("udp", "echo x > /dev/udp/127.0.0.1/{udp}")),
        (
            "reached: the socket in a file",
            free(
                "socket",
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{out}/socket\")'",
            ),
        ),
        (
            "reached: the socket with an abstract name",
            free(
                "abstract",
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{mark}\")'",
            ),
        ),
        ("tells canary-of", free("key", "cat {home}/.ssh/id_ed25519")),
        ("tells 1e77-elif", free("reversed", "rev {home}/.ssh/id_ed25519")),
        ("the project changed", free("project", "touch pwned").refused()),
        ("0 of 1 calls are refused", free("refusal", "true").refused()),
        ("0 of 1 calls succeed", Attack::works("success", "ask").line("touch x")),
        ("not shown", free("shown", "true").shows("never")),
    ];
    let mut wrong = Vec::new();
    for (expected, case) in cases {
        let judged = case.judge().await.join("\n");
        if !judged.contains(expected) {
            wrong.push(format!("{}: {expected}: {judged}", case.name()));
        }
    }
    assert_eq!(wrong, [""; 0]);
    try_all(vec![Attack::works("nothing", "ask")]).await;
}
