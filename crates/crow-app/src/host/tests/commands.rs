//! Slash commands of the host.

use std::fs;

use crow_core::{event::AgentEvent, message::Block};
use crow_runtime::{
    AgentHandle, AgentHost as _, CommandOutcome, ObserverItem, SandboxConfig, SessionSetup,
};
use crow_testkit::scripted::{call, reply, text};
use serde_json::json;

use super::scene::{Scene, run};

async fn shown(
    scene: &Scene,
    handle: &crow_runtime::AgentHandle,
    name: &str,
    argument: &str,
) -> String {
    match scene.host.run_command(handle.session_id(), name, argument).await.unwrap() {
        CommandOutcome::Shown(text) => text,
        CommandOutcome::Prompt(prompt) => Block::text_of(&prompt.content),
        CommandOutcome::Started(run) => run.to_string(),
    }
}

#[tokio::test]
async fn the_status_command_shows_settings_and_usage() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    scene.model.push(reply([text("Good day.")]));
    run(&handle, "hello").await;
    scene.set(&handle, "mode", "smart").await;
    let status = shown(&scene, &handle, "status", "").await;
    for part in [
        "BUILD-HITL",
        "smart, reviewed by reviewer",
        "scripted/model",
        "ask",
        "100 of 100000 tokens (0 %)",
        "hello",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
}

#[tokio::test]
async fn the_review_command_starts_a_reviewer_that_only_reads() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let prompt = shown(&scene, &handle, "review", "the tests").await;
    assert!(prompt.contains("`reviewer`") && prompt.contains("the tests"), "{prompt}");
    let task = json!({"agent": "reviewer", "prompt": "Look at it.", "description": "review"});
    scene.model.push(reply([call("c1", "task", task)]));
    scene.model.push(reply([text("There is a defect.")]));
    scene.model.push(reply([text("It found a defect.")]));
    run(&handle, &prompt).await;
    let requests = scene.model.requests();
    let review = &requests[1];
    assert!(review.system.contains("You are reviewer"), "{}", review.system);
    assert!(review.system.contains("You cannot change files"));
    let changes = ["edit_file", "write_file", "task"];
    assert!(
        review.tools.iter().all(|tool| !changes.contains(&tool.as_str())),
        "{:?}",
        review.tools
    );
    assert!(requests[2].outline().last().unwrap().contains("There is a defect."));
    scene.set(&handle, "agent", "PLAN").await;
    let commands = scene.host.commands(handle.session_id()).await.unwrap();
    assert!(commands.iter().all(|command| command.name != "review"), "it starts nobody");
}

#[tokio::test]
async fn a_prompt_file_of_the_user_is_a_command_in_every_project() {
    let scene = Scene::new();
    let folder = scene.home.path().join(".config/crow-agent/prompts/commands");
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        "---\ndescription: greets somebody\nargument-hint: NAME\n---\nGreet $1, then $ARGUMENTS.";
    std::fs::write(folder.join("greet.md"), text).unwrap();
    std::fs::write(folder.join("output.md"), "not this one").unwrap();
    let handle = scene.create(SessionSetup::default()).await;
    let commands = scene.host.commands(handle.session_id()).await.unwrap();
    let greet = commands.iter().find(|command| command.name == "greet").unwrap();
    assert_eq!((greet.argument.as_ref(), greet.description.as_ref()), ("NAME", "greets somebody"));
    assert_eq!(commands.iter().filter(|command| command.name == "output").count(), 1);
    assert_eq!(shown(&scene, &handle, "greet", "Ada now").await, "Greet Ada, then Ada now.");
}

#[tokio::test]
async fn a_skill_is_a_command_that_sends_its_instructions() {
    let scene = Scene::new();
    let folder = scene.home.path().join(".claude/skills/greet");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: greet\ndescription: Greets somebody.\n---\nGreet $ARGUMENTS.\n";
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    let handle = scene.create(SessionSetup::default()).await;
    let commands = scene.host.commands(handle.session_id()).await.unwrap();
    assert!(commands.iter().any(|command| command.name == "greet"));
    let prompt = shown(&scene, &handle, "greet", "Ada").await;
    assert!(prompt.starts_with("<skill name=\"greet\" folder=\""), "{prompt}");
    assert!(prompt.ends_with("Greet Ada.\n</skill>"), "{prompt}");
}

#[tokio::test]
async fn options_are_shown_and_set_by_commands() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let listed = shown(&scene, &handle, "agents", "").await;
    assert!(listed.contains("* BUILD-HITL") && listed.contains("  PLAN"), "{listed}");
    assert_eq!(shown(&scene, &handle, "agents", "PLAN").await, "agent: PLAN");
    assert_eq!(shown(&scene, &handle, "mode", "loop").await, "mode: loop");
    assert!(shown(&scene, &handle, "mode", "").await.contains("* loop"));
    assert_eq!(shown(&scene, &handle, "thinking", "low").await, "thinking: low");
}

#[tokio::test]
async fn the_output_command_shows_the_complete_output_of_a_call() {
    let scene = Scene::new();
    let permissions = Some(crow_core::permission::PermissionMode::FullAuto);
    let setup = SessionSetup { permissions, ..SessionSetup::default() };
    let handle = scene.create(setup).await;
    assert_eq!(shown(&scene, &handle, "output", "").await, "no command was run in this session");
    for (id, command) in [("c-first", "seq 100"), ("c-second", "seq 200 300; false")] {
        scene.model.push(reply([call(id, "bash", json!({"command": command}))]));
    }
    scene.model.push(reply([text("Counted.")]));
    run(&handle, "count").await;
    let last = shown(&scene, &handle, "output", "").await;
    assert!(last.starts_with("200\n201\n") && last.contains("\n300\n[exit code 1]"), "{last}");
    let first = shown(&scene, &handle, "output", "c-f").await;
    assert_eq!(first.lines().count(), 101, "{first}");
    assert_eq!(shown(&scene, &handle, "output", "1").await, last);
    assert_eq!(shown(&scene, &handle, "output", "2").await, first);
    for unknown in ["3", "0", "x"] {
        let listed = shown(&scene, &handle, "output", unknown).await;
        let commands = "the commands of this session:\n  2  seq 100\n  1  seq 200 300; false";
        assert_eq!(listed, format!("no command has the number or id {unknown}; {commands}"));
    }
}

/// Writes a command of Claude Code into the home.
fn write_command(scene: &Scene, name: &str, text: &str) {
    let folder = scene.home.path().join(".claude/commands/team");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.md")), text).unwrap();
}

/// Runs a command that is a prompt, and returns what the model was sent for it.
async fn run_prompt(scene: &Scene, handle: &AgentHandle, name: &str, argument: &str) -> String {
    let outcome = scene.host.run_command(handle.session_id(), name, argument).await.unwrap();
    let CommandOutcome::Prompt(prompt) = outcome else { panic!("{outcome:?}") };
    scene.model.push(reply([text("I see.")]));
    let mut events = handle.subscribe();
    handle.send_prompt(prompt).unwrap();
    while let Some(item) = events.next().await {
        if let ObserverItem::Event(event) = item
            && matches!(event.event, AgentEvent::RunEnd { .. })
        {
            break;
        }
    }
    format!("{:?}", scene.model.requests().last().unwrap())
}

#[tokio::test]
async fn commands_in_a_prompt_run_before_the_model_reads_it() {
    let scene = Scene::with_sandbox(|home| Some(SandboxConfig::new(home.join("sandbox"))));
    write_command(
        &scene,
        "look",
        "---\ndescription: Looks\n---\nThe file: !`cat $1`\nGone: !`cat gone`\nAnd @b.txt for $1.",
    );
    fs::write(scene.project.join("a.txt"), "content of a").unwrap();
    fs::write(scene.project.join("b.txt"), "content of b").unwrap();
    let handle = scene.create(SessionSetup::default()).await;
    let sent = run_prompt(&scene, &handle, "look", "a.txt").await;
    for part in ["content of a", "exit status 1", "content of b", "for a.txt."] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
}

#[tokio::test]
async fn an_argument_is_never_part_of_a_command() {
    let scene = Scene::new();
    write_command(&scene, "look", "!`cat $1 $ARGUMENTS` and $ARGUMENTS");
    let handle = scene.create(SessionSetup::default()).await;
    for argument in
        ["x; touch pwned", "$(touch pwned)", "`touch pwned`", "!`touch pwned`", "'; touch pwned; '"]
    {
        run_prompt(&scene, &handle, "look", argument).await;
        assert!(!scene.project.join("pwned").exists(), "{argument}");
    }
}

#[tokio::test]
async fn a_command_in_a_prompt_that_could_change_something_does_not_run() {
    let scene = Scene::new();
    write_command(&scene, "change", "!`touch made` and go on");
    let handle = scene.create(SessionSetup::default()).await;
    let sent = run_prompt(&scene, &handle, "change", "").await;
    assert!(sent.contains("`touch made` was not run"), "{sent}");
    assert!(!scene.project.join("made").exists());
    let typed = "look at !`touch made`";
    scene.model.push(reply([text("I see.")]));
    run(&handle, typed).await;
    assert!(!scene.project.join("made").exists());
}

#[tokio::test]
async fn two_commands_of_one_name_are_told() {
    let scene = Scene::new();
    write_command(&scene, "ship", "mine");
    write_command(&scene, "help", "mine");
    Scene::configure(&scene.project, "commands/ship.md", "theirs");
    scene.trust(&scene.project);
    let handle = scene.create(SessionSetup::default()).await;
    assert_eq!(shown(&scene, &handle, "ship", "").await, "theirs");
    let warnings = scene.host.warnings(handle.session_id(), None).join("\n");
    assert!(warnings.contains("there are two commands named /ship"), "{warnings}");
    assert!(warnings.contains("the command /help of"), "{warnings}");
}

#[tokio::test]
async fn a_command_of_claude_code_in_a_project_counts_after_trust() {
    let scene = Scene::new();
    let folder = scene.project.join(".claude/commands");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("deploy.md"), "Deploy: !`git log -1`").unwrap();
    let handle = scene.create(SessionSetup::default()).await;
    let names = |commands: Vec<crow_runtime::HostCommand>| {
        commands.into_iter().map(|command| command.name.into_owned()).collect::<Vec<_>>()
    };
    let before = names(scene.host.commands(handle.session_id()).await.unwrap());
    scene.trust(&scene.project);
    let handle = scene.create(SessionSetup::default()).await;
    let after = names(scene.host.commands(handle.session_id()).await.unwrap());
    let has = |names: &[String]| names.iter().any(|name| name == "deploy");
    assert_eq!((has(&before), has(&after)), (false, true));
}

#[tokio::test]
async fn a_plan_is_approved_and_carried_out_in_the_same_session() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let agent = scene.value(&handle, "agent").await;
    let planned = run_prompt(&scene, &handle, "plan", "Add a cache.").await;
    assert!(planned.contains("Add a cache."));
    assert_eq!(scene.value(&handle, "agent").await, "PLAN");
    let tools = scene.model.requests().last().unwrap().tools.clone();
    assert!(!tools.iter().any(|tool| tool == "write_file"), "{tools:?}");
    scene.model.allow_rewind(); // another agent has another system prompt
    let built = run_prompt(&scene, &handle, "build", "Without the second step.").await;
    assert!(built.contains("I approve the plan.") && built.contains("Without the second step."));
    assert!(built.contains("Add a cache."), "the conversation goes on");
    assert_eq!(scene.value(&handle, "agent").await, agent);
    let tools = scene.model.requests().last().unwrap().tools.clone();
    assert!(tools.iter().any(|tool| tool == "write_file"), "{tools:?}");
}

#[tokio::test]
async fn a_prompt_file_does_not_take_the_place_of_build() {
    let scene = Scene::new();
    write_command(&scene, "build", "Build the project.");
    let handle = scene.create(SessionSetup::default()).await;
    let agent = scene.value(&handle, "agent").await;
    let refused = scene.host.run_command(handle.session_id(), "build", "").await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(scene.value(&handle, "agent").await, agent);
}

#[tokio::test]
async fn a_setting_that_is_chosen_while_planning_stays_for_the_work() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let id = handle.session_id();
    let agent = scene.value(&handle, "agent").await;
    scene.host.run_command(id, "plan", "").await.unwrap();
    scene.host.set_option(id, "thinking", "high").await.unwrap();
    let thinking = scene.value(&handle, "thinking").await;
    scene.host.run_command(id, "build", "").await.unwrap();
    assert_eq!(scene.value(&handle, "agent").await, agent);
    assert_eq!(scene.value(&handle, "thinking").await, thinking);
}
