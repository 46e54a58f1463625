//! The commands in a session of a product host with a scripted model.

use std::sync::Arc;

use crow_app::{
    Audience, NoDialog, ProcessEnvironment,
    config::AgentLimits,
    host::{ChoiceMemory, ConfigurationSource, HostParts, ProductHost},
};
use crow_console::ConsoleStyle;
use crow_core::{capability::NoAnswerer, event::AgentEvent, message::Block};
use crow_runtime::{
    AgentHost as _, CommandOutcome, FileStore, NewSession, ObserverItem, SnapshotLimits,
    SnapshotStores, StoredRules,
};
use crow_testkit::scripted::{ScriptedModel, ScriptedModels, call, reply, text};
use serde_json::json;

use super::ConsoleCommands;

#[tokio::test]
async fn export_writes_markdown_and_overwrites_nothing() {
    let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let project = project.path().canonicalize().unwrap();
    let list = json!({"path": "."});
    let model = ScriptedModel::new([
        reply([text("I look."), call("c1", "list_directory", list)]),
        reply([text("# Nothing here")]),
    ]);
    let snapshots = SnapshotStores::new(home.path().join("s"), SnapshotLimits::default(), None);
    let host = ProductHost::new(HostParts {
        environment: ProcessEnvironment::with([("HOME", home.path().to_str().unwrap())]),
        store: Arc::new(FileStore::new(home.path().join("sessions"))),
        models: Arc::new(ScriptedModels(model.clone())),
        providers: None,
        fallback: Some(model.resolved().info.reference),
        answerer: Arc::new(NoAnswerer),
        audience: Audience::Unattended,
        dialog: Arc::new(NoDialog),
        agent: None,
        model: None,
        permissions: None,
        sandbox: None,
        sandbox_paths: crow_core::permission::SandboxPaths::default(),
        links: None,
        rules: StoredRules::default(),
        session_commands: Some(Arc::new(ConsoleCommands::new(ConsoleStyle::plain(80)))),
        start: None,
        configuration_source: ConfigurationSource::Shipped,
        snapshots: Arc::new(snapshots),
        limits: AgentLimits::default(),
        reviewer_model: None,
        choice_memory: ChoiceMemory::Disabled,
    });
    let new = NewSession { cwd: project.clone(), ..NewSession::default() };
    let handle = host.create(new).await.unwrap();
    let mut events = handle.subscribe();
    handle.send_input(vec![Block::text("look around")]).unwrap();
    let is_end = |item: &ObserverItem| match item {
        ObserverItem::Event(event) => matches!(event.event, AgentEvent::RunEnd { .. }),
        _ => false,
    };
    while !is_end(&events.next().await.expect("the run has no end")) {}
    let export = |file: &'static str| host.run_command(handle.session_id(), "export", file);
    let path = project.join("out.md");
    let message = CommandOutcome::Shown(format!("written to {}", path.display()));
    assert_eq!(export("out.md").await.unwrap(), message);
    let text = std::fs::read_to_string(path).unwrap();
    for part in [
        "# look around",
        "## User\n\nlook around",
        "## builder\n\nI look.",
        "### list_directory",
        "# Nothing here",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again = export("out.md").await;
    assert!(again.is_err(), "{again:?}");
    assert_ne!(export("").await.unwrap(), export("").await.unwrap());
}
