//! Hooks in sessions of the host, with real processes and a scripted model.

use std::{fs, path::Path};

use crow_core::{event::AgentEvent, permission::PermissionMode};
use crow_runtime::{AgentHandle, AgentHost as _, SandboxConfig, SessionSetup};
use crow_testkit::scripted::{Play, call, reply, text};
use serde_json::{Value, json};

use super::scene::{Scene, run};

fn hook(command: &str) -> Value {
    json!({ "type": "command", "command": command, "timeout": 20 })
}

/// Writes the user's hooks: for each event a matcher and a command.
fn configure_hooks(scene: &Scene, hooks: &[(&str, &str, &str)]) {
    let folder = scene.home.path().join(".claude");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("settings.json"), settings(hooks)).unwrap();
}

fn settings(hooks: &[(&str, &str, &str)]) -> String {
    let mut events = serde_json::Map::new();
    for (event, matcher, command) in hooks {
        let group = json!({ "matcher": matcher, "hooks": [hook(command)] });
        let groups = events.entry(*event).or_insert_with(|| json!([]));
        groups.as_array_mut().unwrap().push(group);
    }
    json!({ "hooks": events }).to_string()
}

fn play(scene: &Scene, plays: impl IntoIterator<Item = Play>) {
    plays.into_iter().for_each(|play| scene.model.push(play));
}

/// A scene whose commands, and hooks of projects, run in a sandbox.
fn sandboxed() -> Scene {
    Scene::with_sandbox(|home| Some(SandboxConfig::new(home.join("sandbox"))))
}

/// Starts a session in a mode.
async fn start(scene: &Scene, mode: PermissionMode) -> AgentHandle {
    scene.create(SessionSetup { permissions: Some(mode), ..SessionSetup::default() }).await
}

fn events(scene: &Scene, handle: &AgentHandle) -> Vec<AgentEvent> {
    let stored = scene.host.runtime().config().store.read(handle.session_id()).unwrap();
    stored.events.into_iter().map(|envelope| envelope.event).collect()
}

/// Returns the texts of the results of calls.
fn results(scene: &Scene, handle: &AgentHandle) -> Vec<String> {
    let results = events(scene, handle).into_iter().filter_map(|event| match event {
        AgentEvent::CallEnd { result, .. } => {
            Some(format!("{}{}", result.output, result.error.unwrap_or_default()))
        }
        _ => None,
    });
    results.collect()
}

fn notices(scene: &Scene, handle: &AgentHandle) -> Vec<String> {
    let notices = events(scene, handle).into_iter().filter_map(|event| match event {
        AgentEvent::Notice { text, .. } => Some(text),
        _ => None,
    });
    notices.collect()
}

/// Returns everything that the model was sent last.
fn last_request(scene: &Scene) -> String {
    format!("{:?}", scene.model.requests().last().unwrap())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_hook_refuses_a_call_and_the_model_reads_why() {
    let scene = Scene::new();
    configure_hooks(
        &scene,
        &[(
            "PreToolUse",
            "Write",
            "grep -q '\"file_path\":\"[^\"]*secret.txt\"' && { echo 'not that file' >&2; exit 2; }; exit 0",
        )],
    );
    play(
        &scene,
        [
            reply([
                call("c1", "write_file", json!({ "filename": "secret.txt", "content": "x" })),
                call("c2", "write_file", json!({ "path": "open.txt", "content": "x" })),
            ]),
            reply([text("I wrote what I may.")]),
        ],
    );
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write both.").await;
    assert!(!scene.project.join("secret.txt").exists());
    assert_eq!(read(&scene.project.join("open.txt")), "x");
    let results = results(&scene, &handle);
    assert!(results[0].contains("A hook refused this call: not that file"), "{results:?}");
}

#[tokio::test]
async fn a_hook_of_the_user_allows_what_the_mode_asks_about_and_nothing_else() {
    let scene = Scene::new();
    let allow = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#;
    configure_hooks(&scene, &[("PreToolUse", "", allow)]);
    play(
        &scene,
        [
            reply([
                call("c1", "write_file", json!({ "path": "a.txt", "content": "x" })),
                call("c2", "write_file", json!({ "path": ".mcp.json", "content": "x" })),
                call("c3", "write_file", json!({ "path": "../outside.txt", "content": "x" })),
            ]),
            reply([text("I wrote one file.")]),
        ],
    );
    fs::write(scene.project.join(".env"), "KEY=1234").unwrap();
    fs::write(scene.project.parent().unwrap().join("readable.txt"), "outside text").unwrap();
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "Write.").await;
    let all = results(&scene, &handle).join("\n");
    assert!(!all.contains("outside text") && !all.contains("1234"), "{all}");
    assert!(!scene.project.join("AGENTS.md").exists());
    assert!(scene.project.join("a.txt").exists(), "{all}");
    assert!(!scene.project.join(".mcp.json").exists());
    assert!(!scene.project.parent().unwrap().join("outside.txt").exists());
    play(
        &scene,
        [
            reply([call("c7", "write_file", json!({ "path": "b.txt", "content": "x" }))]),
            reply([text("It is read-only.")]),
        ],
    );
    let handle = start(&scene, PermissionMode::ReadOnly).await;
    run(&handle, "Write.").await;
    assert!(!scene.project.join("b.txt").exists());
}

#[tokio::test]
async fn a_hook_of_a_trusted_project_can_object_but_not_allow() {
    let scene = sandboxed();
    let allow = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#;
    let claude = scene.project.join(".claude");
    fs::create_dir(&claude).unwrap();
    fs::write(
        claude.join("settings.json"),
        settings(&[("PreToolUse", "Write", allow), ("PreToolUse", "Read", "exit 2")]),
    )
    .unwrap();
    fs::write(scene.project.join("a.txt"), "text").unwrap();
    let script = || {
        [
            reply([
                call("c1", "write_file", json!({ "path": "b.txt", "content": "x" })),
                call("c2", "read_file", json!({ "path": "a.txt" })),
            ]),
            reply([text("I tried.")]),
        ]
    };
    // Before trust they do not run.
    play(&scene, script());
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "Try.").await;
    assert!(results(&scene, &handle)[1].contains("text"));
    scene.trust(&scene.project);
    play(&scene, script());
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "Try.").await;
    let results = results(&scene, &handle);
    assert!(!scene.project.join("b.txt").exists(), "{results:?}");
    assert!(results[1].contains("A hook refused this call"), "{results:?}");
}

#[tokio::test]
async fn a_hook_of_a_project_does_not_run_once_its_script_has_changed() {
    let scene = sandboxed();
    let claude = scene.project.join(".claude");
    fs::create_dir_all(claude.join("hooks")).unwrap();
    fs::write(claude.join("hooks/check.sh"), "exit 2").unwrap();
    let command = "sh \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/check.sh";
    fs::write(claude.join("settings.json"), settings(&[("PreToolUse", "", command)])).unwrap();
    scene.trust(&scene.project);
    let handle = start(&scene, PermissionMode::FullAuto).await;
    let script = || {
        [
            reply([call("c1", "write_file", json!({ "path": "b.txt", "content": "x" }))]),
            reply([text("I tried.")]),
        ]
    };
    play(&scene, script());
    run(&handle, "Try.").await;
    assert!(!scene.project.join("b.txt").exists());
    let pwned = scene.home.path().join("pwned");
    fs::write(claude.join("hooks/check.sh"), format!("touch {}", pwned.display())).unwrap();
    play(&scene, script());
    run(&handle, "Try.").await;
    assert!(!pwned.exists());
    let notices = notices(&scene, &handle).join("\n");
    assert!(notices.contains("changed since you trusted it"), "{notices}");
}

#[tokio::test]
async fn a_hook_changes_the_input_and_all_hooks_see_the_call_that_runs() {
    let scene = Scene::new();
    let change = r#"printf '%s' '{"hookSpecificOutput":{"updatedInput":{"file_path":"renamed.txt","content":"changed"}}}'"#;
    let seen = "cat >> seen.jsonl";
    configure_hooks(&scene, &[("PreToolUse", "Write", change), ("PreToolUse", "Write", seen)]);
    play(
        &scene,
        [
            reply([call("c1", "write_file", json!({ "path": "a.txt", "content": "x" }))]),
            reply([text("I wrote it.")]),
        ],
    );
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write.").await;
    assert!(!scene.project.join("a.txt").exists());
    assert_eq!(read(&scene.project.join("renamed.txt")), "changed");
    let results = results(&scene, &handle);
    assert!(results[0].contains("[a hook changed the input to"), "{results:?}");
    let seen = read(&scene.project.join("seen.jsonl"));
    let last: Value = serde_json::from_str(seen.lines().last().unwrap()).unwrap();
    assert!(last["tool_input"]["file_path"].as_str().unwrap().ends_with("/renamed.txt"), "{seen}");
}

#[tokio::test]
async fn an_input_that_a_hook_makes_invalid_or_changes_without_end_is_refused() {
    let scene = Scene::new();
    let invalid = r#"printf '%s' '{"hookSpecificOutput":{"updatedInput":{"file_path":5}}}'"#;
    let endless =
        r#"printf '{"hookSpecificOutput":{"updatedInput":{"file_path":"%s"}}}' "$(date +%s%N)""#;
    configure_hooks(&scene, &[("PreToolUse", "Write", invalid), ("PreToolUse", "Read", endless)]);
    play(
        &scene,
        [
            reply([
                call("c1", "write_file", json!({ "path": "a.txt", "content": "x" })),
                call("c2", "read_file", json!({ "path": "a.txt" })),
            ]),
            reply([text("I tried.")]),
        ],
    );
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Try.").await;
    let notices = notices(&scene, &handle).join("\n");
    assert!(notices.contains("to one that is invalid"), "{notices}");
    assert!(!scene.project.join("a.txt").exists());
}

#[tokio::test]
async fn a_formatter_after_an_edit_is_part_of_the_edit() {
    let scene = Scene::new();
    let format = "sed -i 's/  */ /g' \"$(sed 's/.*\"file_path\":\"\\([^\"]*\\)\".*/\\1/')\"";
    configure_hooks(&scene, &[("PostToolUse", "Edit|Write", format)]);
    play(
        &scene,
        [
            reply([call(
                "c1",
                "write_file",
                json!({ "path": "a.txt", "content": "one    two\n" }),
            )]),
            reply([call(
                "c2",
                "edit_file",
                json!({ "path": "a.txt", "old_string": "one two", "new_string": "one    three" }),
            )]),
            reply([text("I wrote it.")]),
        ],
    );
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write.").await;
    let results = results(&scene, &handle);
    assert!(results[0].contains("[a hook changed a.txt after this call]"), "{results:?}");
    assert_eq!(read(&scene.project.join("a.txt")), "one three\n", "{results:?}");
}

#[tokio::test]
async fn what_a_hook_says_after_a_call_is_in_its_result() {
    let scene = Scene::new();
    let object = "echo 'line too long' >&2; exit 2";
    configure_hooks(&scene, &[("PostToolUse", "Write", object)]);
    play(
        &scene,
        [
            reply([call("c1", "write_file", json!({ "path": "a.txt", "content": "x" }))]),
            reply([text("I wrote it.")]),
        ],
    );
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write.").await;
    let results = results(&scene, &handle);
    assert!(results[0].ends_with("[a hook says: line too long]"), "{results:?}");
}

#[tokio::test]
async fn a_prompt_is_refused_before_the_model_reads_it() {
    let scene = Scene::new();
    let refuse = "grep -q sk-secret && { echo 'it has a key' >&2; exit 2; }; exit 0";
    configure_hooks(&scene, &[("UserPromptSubmit", "", refuse)]);
    play(&scene, [reply([text("Hello.")])]);
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "My key is sk-secret.").await;
    assert!(scene.model.requests().is_empty());
    run(&handle, "Hello.").await;
    let request = last_request(&scene);
    assert!(request.contains("Hello.") && !request.contains("sk-secret"), "{request}");
    let refused = events(&scene, &handle).into_iter().any(|event| {
        matches!(&event, AgentEvent::RunEnd { result, .. } if format!("{result:?}").contains("a hook refused the prompt: it has a key"))
    });
    assert!(refused);
}

#[tokio::test]
async fn hooks_add_context_to_the_start_of_a_session_and_to_prompts() {
    let scene = Scene::new();
    configure_hooks(
        &scene,
        &[
            ("SessionStart", "startup", "echo 'the sprint ends on Friday'"),
            ("SessionStart", "resume", "echo 'resumed'"),
            ("UserPromptSubmit", "", "echo 'the branch is main'"),
        ],
    );
    play(&scene, [reply([text("Hello.")]), reply([text("Again.")])]);
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "Hello.").await;
    let first = last_request(&scene);
    assert!(first.contains("the sprint ends on Friday") && first.contains("the branch is main"));
    assert!(!first.contains("resumed"));
    run(&handle, "Again.").await;
    assert_eq!(last_request(&scene).matches("the sprint ends on Friday").count(), 1);
    // Another process would see it as resumed.
    let id = handle.session_id().clone();
    scene.host.close(&id).await.unwrap();
    play(&scene, [reply([text("Back.")])]);
    let handle = scene.host.open(&id, SessionSetup::default()).await.unwrap();
    run(&handle, "Back.").await;
    assert!(last_request(&scene).contains("resumed"));
}

#[tokio::test]
async fn a_hook_lets_a_turn_go_on_at_most_three_times() {
    let scene = Scene::new();
    let seen = scene.home.path().join("stop.jsonl");
    let object = format!("cat >> {}; echo 'the tests fail' >&2; exit 2", seen.display());
    configure_hooks(&scene, &[("Stop", "", &object)]);
    play(&scene, (0..4).map(|number| reply([text(&format!("Here I am, {number}."))])));
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Hello.").await;
    assert_eq!(scene.model.requests().len(), 4);
    assert!(
        last_request(&scene).contains("A hook objects to the end of your work: the tests fail")
    );
    let notices = notices(&scene, &handle).join("\n");
    assert!(notices.contains("for the 4th time, which ends all the same"), "{notices}");
    let seen = read(&seen);
    let active: Vec<Value> = seen
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["stop_hook_active"].clone())
        .collect();
    assert_eq!(active, [json!(false), json!(true), json!(true), json!(true)]);
}

#[tokio::test]
async fn a_hook_ends_the_turn() {
    let scene = Scene::new();
    let stop = r#"echo '{"continue":false,"stopReason":"the budget is spent"}'"#;
    configure_hooks(&scene, &[("PostToolUse", "", stop)]);
    play(&scene, [reply([call("c1", "write_file", json!({ "path": "a", "content": "x" }))])]);
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write.").await;
    assert_eq!(scene.model.requests().len(), 1);
    let has_reason = events(&scene, &handle).into_iter().any(|event| {
        matches!(&event, AgentEvent::RunEnd { result, .. } if format!("{result:?}").contains("the budget is spent"))
    });
    assert!(has_reason);
}

#[tokio::test]
async fn the_end_of_a_session_is_told_to_hooks() {
    let scene = Scene::new();
    let seen = scene.home.path().join("end.json");
    configure_hooks(&scene, &[("SessionEnd", "", &format!("cat > {}", seen.display()))]);
    play(&scene, [reply([text("Hello.")])]);
    let unused = start(&scene, PermissionMode::Ask).await;
    scene.host.close(unused.session_id()).await.unwrap();
    assert!(!seen.exists(), "no prompt was given");
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "Hello.").await;
    scene.host.close(handle.session_id()).await.unwrap();
    let told: Value = serde_json::from_str(&read(&seen)).unwrap();
    assert_eq!(told["hook_event_name"], "SessionEnd");
    assert_eq!(told["session_id"], handle.session_id().as_str());
}

#[tokio::test]
async fn a_compaction_on_request_can_be_refused() {
    let scene = Scene::new();
    let refuse = "grep -q '\"trigger\":\"manual\"' && exit 2; exit 0";
    configure_hooks(&scene, &[("PreCompact", "manual", refuse)]);
    play(&scene, [reply([text("One.")]), reply([text("Two.")])]);
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "One.").await;
    run(&handle, "Two.").await;
    let mut seen = handle.subscribe();
    handle.compact(None).unwrap();
    while let Some(item) = seen.next().await {
        if let crow_runtime::ObserverItem::Event(event) = item
            && matches!(event.event, AgentEvent::RunEnd { .. })
        {
            break;
        }
    }
    let notices = notices(&scene, &handle).join("\n");
    assert!(notices.contains("a hook refused to compact the conversation"), "{notices}");
    assert_eq!(scene.model.requests().len(), 2);
}

#[tokio::test]
async fn hooks_of_a_project_do_not_run_without_a_sandbox() {
    let scene = Scene::new();
    let claude = scene.project.join(".claude");
    fs::create_dir(&claude).unwrap();
    let made = scene.project.join("made");
    fs::write(claude.join("settings.json"), settings(&[("PreToolUse", "", "touch made")])).unwrap();
    scene.trust(&scene.project);
    scene.model.push(reply([call("c1", "glob", json!({ "pattern": "*" }))]));
    scene.model.push(reply([text("I looked.")]));
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Look.").await;
    assert!(!made.exists());
    let notices = notices(&scene, &handle).join("\n");
    assert!(notices.contains("there is no sandbox, in which hooks of projects run"), "{notices}");
}

#[tokio::test]
async fn a_hook_of_a_project_runs_in_the_sandbox_and_in_its_root() {
    let scene = sandboxed();
    let claude = scene.project.join(".claude");
    fs::create_dir(&claude).unwrap();
    let outside = scene.project.parent().unwrap().join("outside");
    let command = format!("pwd > where; touch {} 2>/dev/null; exit 0", outside.display());
    fs::write(claude.join("settings.json"), settings(&[("PreToolUse", "", &command)])).unwrap();
    scene.trust(&scene.project);
    scene.model.push(reply([call("c1", "glob", json!({ "pattern": "*" }))]));
    scene.model.push(reply([text("I looked.")]));
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Look.").await;
    let where_it_ran = read(&scene.project.join("where"));
    assert_eq!(Path::new(where_it_ran.trim()), scene.project);
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_question_of_one_hook_survives_the_change_of_another() {
    let scene = Scene::new();
    let ask = r#"grep -q '"content":"x"' && printf '%s' '{"hookSpecificOutput":{"permissionDecision":"ask"}}'; exit 0"#;
    let change = r#"printf '%s' '{"hookSpecificOutput":{"updatedInput":{"file_path":"a.txt","content":"y"}}}'"#;
    configure_hooks(&scene, &[("PreToolUse", "Write", ask), ("PreToolUse", "Write", change)]);
    scene.model.push(reply([call("c1", "write_file", json!({ "path": "a.txt", "content": "x" }))]));
    scene.model.push(reply([text("I tried.")]));
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write.").await;
    // Nobody is there to be asked.
    assert!(!scene.project.join("a.txt").exists(), "{:?}", results(&scene, &handle));
}

#[tokio::test]
async fn a_hook_that_ends_the_turn_before_a_call_stops_this_call_and_the_others() {
    let scene = Scene::new();
    let stop = r#"printf '%s' '{"continue":false,"stopReason":"enough"}'"#;
    configure_hooks(&scene, &[("PreToolUse", "Write", stop)]);
    scene.model.push(reply([
        call("c1", "write_file", json!({ "path": "a.txt", "content": "x" })),
        call("c2", "glob", json!({ "pattern": "*" })),
    ]));
    let handle = start(&scene, PermissionMode::FullAuto).await;
    run(&handle, "Write.").await;
    assert!(!scene.project.join("a.txt").exists());
    let results = results(&scene, &handle);
    assert!(results[1].contains("a hook ended the turn: enough"), "{results:?}");
    assert_eq!(scene.model.requests().len(), 1);
}

#[tokio::test]
async fn the_context_of_the_start_of_a_session_waits_for_a_prompt_that_is_taken() {
    let scene = Scene::new();
    let refuse = "grep -q refused && exit 2; exit 0";
    configure_hooks(
        &scene,
        &[
            ("SessionStart", "", "echo 'the sprint ends on Friday'"),
            ("UserPromptSubmit", "", refuse),
        ],
    );
    scene.model.push(reply([text("Hello.")]));
    let handle = start(&scene, PermissionMode::Ask).await;
    run(&handle, "refused").await;
    run(&handle, "Hello.").await;
    assert!(last_request(&scene).contains("the sprint ends on Friday"));
}
