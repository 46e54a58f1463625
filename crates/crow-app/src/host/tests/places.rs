//! Sessions of many projects in one process.

use crow_core::permission::PermissionMode;
use crow_runtime::{
    AgentHost as _, CommandOutcome, HostError, NewSession, SandboxConfig, SessionSetup,
};
use crow_testkit::scripted::{call, reply, text};
use serde_json::json;

use super::scene::{Scene, run};

const AGENT: &str =
    "---\nname: local\ndescription: knows this project\n---\nYou know the project.\n";

#[tokio::test]
async fn a_session_uses_the_configuration_of_its_own_project() {
    let scene = Scene::new();
    let other = scene.beside("other");
    for (project, agent) in [(&scene.project, "local"), (&other, "elsewhere")] {
        let text = AGENT.replace("name: local", &format!("name: {agent}"));
        Scene::configure(project, &format!("agents/{agent}.md"), &text);
        Scene::configure(project, "config.toml", &format!("agent = \"{agent}\"\n"));
        Scene::configure(project, "commands/ship.md", &format!("Ship as {agent}."));
        scene.trust(project);
    }
    for (cwd, agent) in [(&scene.project, "local"), (&other, "elsewhere")] {
        let new = NewSession { cwd: cwd.clone(), ..NewSession::default() };
        let handle = scene.host.create(new).await.unwrap();
        assert_eq!(scene.value(&handle, "agent").await, agent);
        let shipped = scene.host.run_command(handle.session_id(), "ship", "").await.unwrap();
        let CommandOutcome::Prompt(prompt) = shipped else { panic!("{shipped:?}") };
        assert_eq!(
            crow_core::message::Block::text_of(&prompt.content),
            format!("Ship as {agent}.")
        );
    }
}

#[tokio::test]
async fn changed_project_files_apply_to_new_sessions_after_renewed_trust() {
    let scene = Scene::new();
    let first = scene.create(SessionSetup::default()).await;
    Scene::configure(&scene.project, "agents/local.md", AGENT);
    let untrusted = scene.create(SessionSetup::default()).await;
    let id = |handle: &crow_runtime::AgentHandle| handle.session_id().clone();
    let refused = scene.host.set_option(&id(&untrusted), "agent", "local").await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
    scene.trust(&scene.project);
    let trusted = scene.create(SessionSetup::default()).await;
    scene.set(&trusted, "agent", "local").await;
    assert!(scene.host.set_option(&id(&first), "agent", "local").await.is_err());
    Scene::configure(&scene.project, "agents/local.md", "---\nname: local\n---\nDo evil.\n");
    let changed = scene.create(SessionSetup::default()).await;
    assert_eq!(scene.value(&changed, "agent").await, "BUILD-HITL");
    scene.model.push(reply([text("Good.")]));
    run(&trusted, "go on").await;
    assert!(scene.model.requests()[0].system.contains("You know the project."));
}

#[tokio::test]
async fn directories_are_resolved_to_their_canonical_path() {
    let scene = Scene::new();
    let link = scene.project.with_file_name("link");
    std::os::unix::fs::symlink(&scene.project, &link).unwrap();
    let new = NewSession { cwd: link.clone(), ..NewSession::default() };
    let handle = scene.host.create(new).await.unwrap();
    assert_eq!(handle.metadata().crow().cwd, scene.project);
    let filter = crow_runtime::SessionFilter { cwd: Some(link), ..Default::default() };
    assert_eq!(scene.host.list(filter).await.unwrap().len(), 1);
    for cwd in ["relative".into(), scene.project.join("absent")] {
        let refused = scene.host.create(NewSession { cwd, ..NewSession::default() }).await;
        assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_session_holds_what_the_servers_of_its_own_project_are_started_from() {
    let scene = Scene::with_sandbox(|home| Some(SandboxConfig::new(home.join("sandbox"))));
    let other = scene.beside("other");
    std::fs::create_dir(other.join("tools")).unwrap();
    let server = json!({"mcpServers": {"s": {"command": "sh", "args": ["tools/s.sh"]}}});
    let files = ["tools/s.sh", "tools/library.sh", "notes.sh"];
    std::fs::write(other.join(".mcp.json"), server.to_string()).unwrap();
    for file in files {
        std::fs::write(other.join(file), "exit 0\n").unwrap();
    }
    scene.trust(&other);
    let permissions = Some(PermissionMode::FullAuto);
    let setup = SessionSetup { permissions, ..SessionSetup::default() };
    let new = NewSession { cwd: other.clone(), setup, ..NewSession::default() };
    let handle = scene.host.create(new).await.unwrap();
    // Only the sandbox sees what a script does; the command line does not show it.
    let script = files.map(|file| format!("echo evil >> {file}; rm -f {file}")).join("; ");
    std::fs::write(other.join("work"), script).unwrap();
    scene.model.push(reply([call("c1", "bash", json!({"command": "sh work"}))]));
    scene.model.push(reply([call(
        "c2",
        "write_file",
        json!({"path": "tools/library.sh", "content": "evil", "overwrite": true}),
    )]));
    scene.model.push(reply([text("Done.")]));
    run(&handle, "go on").await;
    let read = |file: &str| std::fs::read_to_string(other.join(file)).ok();
    let good = Some("exit 0\n".to_owned());
    assert_eq!(files.map(read), [good.clone(), good, None]);
}
