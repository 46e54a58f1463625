//! Changing options of an open session, and remembering them.

use crow_core::permission::PermissionMode;
use crow_runtime::{AgentHost as _, HostError, SessionSetup, SystemPrompt};
use crow_testkit::scripted::{call, reply, text};
use serde_json::json;

use super::scene::{Scene, run};

#[tokio::test]
async fn another_agent_brings_its_tools_and_prompt_from_the_next_run_on() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    scene.model.push(reply([text("One.")]));
    run(&handle, "first").await;
    scene.set(&handle, "agent", "PLAN").await;
    scene.model.allow_rewind();
    scene.model.push(reply([text("Two.")]));
    run(&handle, "second").await;
    let requests = scene.model.requests();
    let has = |at: usize, tool: &str| requests[at].tools.iter().any(|name| name == tool);
    assert!(has(0, "bash") && !has(1, "bash") && has(1, "read_file"));
    assert!(requests[1].system.contains("You are planner"), "{}", requests[1].system);
    assert_eq!(scene.switches(&handle), ["agent: BUILD-HITL -> PLAN"]);
    assert_eq!(handle.metadata().agent_type, "planner");
    assert_eq!(
        handle.permissions().policy().mode(),
        PermissionMode::Ask,
        "permissions are another matter"
    );
}

#[tokio::test]
async fn a_mode_that_needs_a_reviewer_adds_one_that_ends_the_run() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    assert_eq!(scene.value(&handle, "mode").await, "hitl");
    assert_eq!(scene.value(&handle, "reviewer").await, "none");
    scene.set(&handle, "mode", "judge").await;
    assert_eq!(scene.value(&handle, "reviewer").await, "reviewer");
    scene.model.push(reply([text("It is done.")]));
    let approval = json!({"summary": "I looked."});
    scene.model.push(reply([call("c1", "task_complete", approval)]));
    run(&handle, "do it").await;
    let requests = scene.model.requests();
    assert!(requests[0].tools.iter().any(|tool| tool == "submit_for_review"));
    assert!(requests[1].system.contains("You are reviewer"));
    assert!(requests[1].tools.iter().all(|tool| tool != "write_file"), "it changes nothing");
    assert_eq!(scene.switches(&handle), ["mode: the agent's own -> judge"]);
}

#[tokio::test]
async fn a_reviewer_changed_from_smart_to_judge_gets_a_new_session() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let approval = || reply([call("c1", "task_complete", json!({"summary": "I looked."}))]);
    for mode in ["smart", "judge"] {
        scene.set(&handle, "mode", mode).await;
        scene.model.push(reply([text("It is done.")]));
        scene.model.push(approval());
        scene.model.allow_rewind();
        run(&handle, "do it").await;
    }
    let reviews: Vec<_> = scene
        .model
        .requests()
        .into_iter()
        .filter(|request| request.system.contains("You are reviewer"))
        .collect();
    assert_eq!(reviews.len(), 2);
    assert_ne!(reviews[0].session, reviews[1].session, "its session is another one");
}

#[tokio::test]
async fn removing_the_reviewer_changes_a_mode_that_needs_one_to_hitl() {
    let scene = Scene::new();
    let setup = SessionSetup { agent: Some("BUILD-SMART".into()), ..SessionSetup::default() };
    let handle = scene.create(setup).await;
    assert_eq!(scene.value(&handle, "mode").await, "smart");
    scene.set(&handle, "reviewer", "none").await;
    assert_eq!(scene.value(&handle, "mode").await, "hitl");
    scene.set(&handle, "mode", "judge").await;
    assert_eq!(scene.value(&handle, "reviewer").await, "reviewer");
}

#[tokio::test]
async fn the_thinking_amount_reaches_the_model() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    scene.set(&handle, "thinking", "high").await;
    scene.model.push(reply([text("Hm.")]));
    run(&handle, "think").await;
    let thinking = scene.model.requests()[0].thinking;
    assert_eq!(thinking, Some(crow_core::model::Thinking::High));
}

#[tokio::test]
async fn an_appended_system_prompt_is_stored_with_the_session() {
    let scene = Scene::new();
    let append = |text: &str| SessionSetup {
        system_prompt: Some(SystemPrompt::Append(text.into())),
        ..SessionSetup::default()
    };
    let handle = scene.create(append("Speak like a bird.")).await;
    let id = handle.session_id().clone();
    drop(handle);
    scene.host.close(&id).await.unwrap();
    let handle = scene.host.open(&id, SessionSetup::default()).await.unwrap();
    scene.model.push(reply([text("Caw.")]));
    run(&handle, "speak").await;
    let system = scene.model.requests()[0].system.clone();
    assert!(system.contains("You are builder") && system.ends_with("Speak like a bird."));
    let replace = SessionSetup {
        system_prompt: Some(SystemPrompt::Replace("Be brief.".into())),
        ..SessionSetup::default()
    };
    scene.host.open(&id, replace).await.unwrap();
    scene.model.allow_rewind();
    scene.model.push(reply([text("Ok.")]));
    run(&handle, "again").await;
    assert_eq!(scene.model.requests()[1].system, "Be brief.");
}

#[tokio::test]
async fn a_new_session_starts_with_the_last_choices_in_the_project() {
    let scene = Scene::new();
    let first = scene.create(SessionSetup::default()).await;
    scene.set(&first, "agent", "BUILD-LOOP").await;
    scene.set(&first, "mode", "judge").await;
    scene.set(&first, "permissions", "accept-edits").await;
    let second = scene.create(SessionSetup::default()).await;
    assert_eq!(scene.value(&second, "agent").await, "BUILD-LOOP");
    assert_eq!(scene.value(&second, "mode").await, "judge");
    assert_eq!(scene.value(&second, "permissions").await, "accept-edits");
    scene.set(&second, "permissions", "full-auto").await;
    let third = scene.create(SessionSetup::default()).await;
    assert_eq!(scene.value(&third, "permissions").await, "ask", "that is said anew each time");
    let other = crow_runtime::NewSession { cwd: scene.beside("other"), ..Default::default() };
    let other = scene.host.create(other).await.unwrap();
    assert_eq!(scene.value(&other, "agent").await, "BUILD-HITL", "another project");
}

#[tokio::test]
async fn a_remembered_agent_that_was_removed_is_ignored() {
    let scene = Scene::new();
    let agents = scene.home.path().join(".config/crow-agent/agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(agents.join("mine.md"), "---\nname: mine\n---\nBe mine.\n").unwrap();
    let first = scene.create(SessionSetup::default()).await;
    scene.set(&first, "agent", "mine").await;
    let second = scene.create(SessionSetup::default()).await;
    assert_eq!(scene.value(&second, "agent").await, "mine");
    std::fs::remove_file(agents.join("mine.md")).unwrap();
    let third = scene.create(SessionSetup::default()).await;
    assert_eq!(scene.value(&third, "agent").await, "BUILD-HITL");
}

#[tokio::test]
async fn an_invalid_option_value_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let id = handle.session_id();
    for (name, value) in [
        ("mode", "custom"),
        ("mode", "nonsense"),
        ("agent", "nobody"),
        ("reviewer", "nobody"),
        ("thinking", "very"),
        ("model", "no-slash"),
        ("permissions", "all"),
    ] {
        let refused = scene.host.set_option(id, name, value).await;
        assert!(matches!(refused, Err(HostError::Refused { .. })), "{name} {value}: {refused:?}");
    }
    assert_eq!(scene.value(&handle, "agent").await, "BUILD-HITL");
}

#[tokio::test]
async fn options_are_listed_in_a_fixed_order() {
    let scene = Scene::new();
    let handle = scene.create(SessionSetup::default()).await;
    let options = scene.host.options(handle.session_id()).await.unwrap();
    let names: Vec<_> = options.iter().map(|option| option.name).collect();
    assert_eq!(names, ["mode", "permissions", "model", "thinking", "agent", "reviewer"]);
}
