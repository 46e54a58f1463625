//! Control characters from the model, from names and from settings, and the exit codes of refusals.

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{
    canaries::{leaked_secrets, raw_characters},
    scene::Scene,
};

const TRICKS: [&str; 6] = [
    "\u{1b}]52;c;cHduZWQ=\u{7}",
    "\u{1b}[2J\u{1b}[1;1H\u{1b}[8m",
    "a\rb\u{8}c\u{7f}",
    "\u{202e}txt\u{2066}x\u{200b}\u{feff}",
    "\u{9b}31m\u{90}q\u{9c}",
    "\u{e0041}\u{2028}\u{2029}\u{85}\u{ad}",
];

/// Runs the program, and returns its exit code and all output.
async fn run(scene: &Scene, args: &[&str], url: &str) -> (Option<i32>, String) {
    let args: Vec<String> = args.iter().map(|arg| scene.fill(arg)).collect();
    let mut command = scene.program(&args);
    command.env("ANTHROPIC_BASE_URL", url);
    let child = command.spawn().unwrap();
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let output = waiting.await.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code(), text)
}

/// Returns a script in which each text and call of the model contains the trick.
fn session(trick: &str) -> Vec<ScriptStep> {
    let name = format!("n{}", trick.replace(['/', '\u{0}'], "-"));
    let call = |id: &str, tool: &str, input| ScriptedReply::new().call(id, tool, &input).into();
    let done = || {
        let text =
            format!("Done {trick}\n# {trick}\n[x](http://{trick})\n```{trick}\n{trick}\n```\n");
        ScriptedReply::new().text(text).into()
    };
    vec![
        ScriptedReply::new()
            .thinking(format!("I think {trick}"), "signature")
            .text(format!("I say {trick} and more"))
            .call("c0", "list_directory", &json!({"path": "."}))
            .into(),
        call("c1", "write_file", json!({"path": name, "content": trick})),
        call("c2", "write_file", json!({"path": "plain.txt", "content": format!("{trick}\n")})),
        call(
            "c3",
            "edit_file",
            json!({"path": "plain.txt", "old_string": trick, "new_string": "x"}),
        ),
        call("c4", "read_file", json!({"path": format!("missing {trick}")})),
        call("c5", "bash", json!({"command": format!("ls '{trick}'"), "description": trick})),
        call("c6", "grep", json!({"pattern": format!("({trick}")})),
        call("c7", "glob", json!({"pattern": format!("*{trick}*")})),
        call(
            "c8",
            "bash",
            json!({"command": "touch pwned", "description": format!("harmless {trick}")}),
        ),
        done(),
        // The first end is answered with the call that was refused.
        done(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_characters_from_the_model_are_never_printed_raw() {
    let mut wrong = Vec::new();
    for trick in TRICKS {
        for output in ["text", "json"] {
            let scene = Scene::new();
            let server = ModelServer::start(session(trick)).await;
            let url = server.base_url(WireDialect::AnthropicMessages);
            let model = "anthropic/claude-sonnet-4-5";
            let task = ["run", "do it", "-m", model, "-p", "accept-edits", "-o", output];
            let (code, printed) = run(&scene, &task, &url).await;
            let mut all = vec![("run", printed)];
            drop(server.violations());
            let id = run(&scene, &["sessions", "list", "-o", "json"], "").await.1;
            let id = serde_json::from_str::<serde_json::Value>(id.lines().next().unwrap_or("null"));
            let id = id.ok().and_then(|value| value["id"].as_str().map(str::to_owned));
            let id = id.unwrap_or_default();
            for args in [
                &["sessions", "list"][..],
                &["sessions", "show", &id],
                &["sessions", "show", &id, "--changes"],
                &["sessions", "export", &id],
                // Only as JSON: the patch itself is raw bytes for other programs, as git writes it.
                &["diff", "-o", "json"],
                &["undo", "--dry-run"],
                &["undo"],
                &["redo"],
                &["restore", &format!("plain{trick}@start")],
                &["undo", "--call", trick],
                &["permissions", "explain", &format!("touch '{trick}'")],
                &["permissions", "explain", trick],
                &["permissions", "explain", &format!("read_file {trick}")],
                &["config", "get", trick],
                &["config", "explain", trick],
                &["agents", "show", trick],
                &["sessions", "show", trick],
                &["mcp", "test", trick],
                &["run", "x", "-m", trick],
                &["run", "x", "-a", trick],
                &["run", "x", "--cwd", trick],
                &["run", "x", "--allow-host", trick],
            ] {
                let args: Vec<&str> = args.to_vec();
                all.push(("a command", format!("{args:?}\n{}", run(&scene, &args, "").await.1)));
            }
            for (source, text) in all {
                let raw = raw_characters(&text);
                if !raw.is_empty() {
                    wrong.push(format!("{source} {output} {trick:?}: {raw:?}: {text:?}"));
                }
            }
            if code != Some(6) {
                wrong.push(format!("{output} {trick:?}: it ends with {code:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_characters_from_settings_are_never_printed_raw() {
    let mut wrong = Vec::new();
    for trick in TRICKS {
        let scene = Scene::new();
        let safe = trick.replace(['/', '\u{0}'], "-");
        let rules = json!({"version": 1, "rules": [
            {"id": trick, "matcher": {"command_prefix": [trick]}, "decision": "deny", "description": trick},
            {"id": "y", "matcher": {"command_prefix": ["touch"]}, "decision": "deny", "description": format!("no {trick}")},
        ]});
        scene.write("{config}/permissions.json", &rules.to_string());
        scene.write(".crow-agent/permissions.json", &rules.to_string());
        scene.write(
            &format!(".crow-agent/agents/{safe}.md"),
            &format!("---\nname: {trick}\n---\n{trick}"),
        );
        scene.write(&format!(".crow-agent/commands/{safe}.md"), trick);
        scene.write(".crow-agent/config.toml", &format!("agent = \"{trick}\"\n{trick}"));
        scene.write(
            ".mcp.json",
            &json!({"mcpServers": {trick: {"command": trick, "args": [trick]}}}).to_string(),
        );
        scene.write(&format!("AGENTS{safe}.md"), trick);
        scene.write("package.json", trick);
        for args in [
            &["permissions", "list"][..],
            &["permissions", "explain", "touch a"],
            &["trust"],
            &["trust", "--yes"],
            &["trust", "--list"],
            &["agents", "list"],
            &["config", "validate"],
            &["config", "explain", "agent"],
            &["mcp", "list"],
            &["models"],
            &["doctor"],
            &["run", "x", "-m", "anthropic/claude-sonnet-4-5", "-o", "json"],
        ] {
            let (_, text) = run(&scene, args, "http://127.0.0.1:9").await;
            let raw = raw_characters(&text);
            if !raw.is_empty() {
                wrong.push(format!("{args:?} {trick:?}: {raw:?}: {text:?}"));
            }
            if !leaked_secrets(&text).is_empty() {
                wrong.push(format!("{args:?} tells a secret: {text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_is_6_after_a_refusal_without_completion() {
    let bash =
        |id: &str, line: &str| ScriptedReply::new().call(id, "bash", &json!({"command": line}));
    let write = |path: &str| {
        ScriptedReply::new().call("w", "write_file", &json!({"path": path, "content": "x"}))
    };
    let done = || ScriptedReply::new().text("Done.");
    let complete = || ScriptedReply::new().call("t", "task_complete", &json!({"summary": "done"}));
    let cases: Vec<(&str, &str, Vec<ScriptedReply>, i32)> = vec![
        ("a refused command", "ask", vec![bash("a", "touch pwned"), done()], 6),
        ("a refused write", "ask", vec![write("a.txt"), done()], 6),
        ("a refused write outside", "accept-edits", vec![write("../out/new"), done()], 6),
        ("a write in a mode that reads", "read-only", vec![write("a.txt"), done()], 6),
        ("a protected file", "full-auto", vec![write(".git/hooks/x"), done()], 6),
        ("a refusal, then a claim", "ask", vec![bash("a", "touch pwned"), complete(), done()], 7),
        ("no refusal", "ask", vec![bash("a", "ls"), done()], 0),
        ("a command that fails", "ask", vec![bash("a", "ls missing"), done()], 0),
        ("not understood", "ask", vec![bash("a", "echo $(("), done()], 6),
    ];
    let mut wrong = Vec::new();
    for (name, mode, replies, expected) in cases {
        for output in ["text", "json"] {
            let scene = Scene::new();
            let steps: Vec<ScriptStep> = replies.iter().cloned().map(ScriptStep::from).collect();
            let server = ModelServer::start(steps).await;
            let url = server.base_url(WireDialect::AnthropicMessages);
            let task = ["run", "x", "-m", "anthropic/claude-sonnet-4-5", "-p", mode, "-o", output];
            let (code, printed) = run(&scene, &task, &url).await;
            drop(server.violations());
            if code != Some(expected) || scene.project().join("pwned").exists() {
                wrong.push(format!("{name} {output}: {code:?} and not {expected}: {printed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
