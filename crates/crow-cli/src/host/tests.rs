use std::{path::Path, sync::Arc};

use crow_core::{event::AgentEvent, model::Models, permission::PermissionMode};
use crow_runtime::{
    AgentHost as _, HostError, MemoryStore, NewSession, SnapshotLimits, SnapshotStores, StoredRules,
};
use crow_testkit::{
    host::check_host,
    scripted::{ScriptedModel, ScriptedModels, reply, text},
};

use futures_util::StreamExt as _;

use super::{AgentLimits, HostParts, ProductHost};
use crate::{Environment, config::Configuration};

fn host(model: &ScriptedModel, folder: &Path) -> ProductHost {
    let snapshots = folder.join("snapshots");
    let models: Arc<dyn Models> = Arc::new(ScriptedModels(model.clone()));
    ProductHost::new(HostParts {
        environment: Environment::from_process(),
        store: Arc::new(MemoryStore::default()),
        models,
        providers: None,
        fallback: Some(model.resolved().info.reference),
        answerer: Arc::new(crow_core::capability::NoAnswerer),
        permissions: PermissionMode::Ask,
        sandbox: None,
        rules: StoredRules::default(),
        project: Default::default(),
        snapshots: Arc::new(SnapshotStores::new(snapshots, SnapshotLimits::default(), None)),
        agents: Configuration::shipped().agents(AgentLimits::default()),
        reviewer_model: None,
    })
}

#[tokio::test]
async fn the_product_does_what_every_host_must() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([reply([text("Something.")])]);
    let kept = tempfile::tempdir().unwrap();
    check_host(&host(&model, kept.path()), folder.path()).await;
}

#[tokio::test]
async fn only_agents_that_exist_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let new = NewSession { agent: Some("nobody".into()), cwd: "/".into(), ..NewSession::default() };
    let refused = host(&ScriptedModel::new([]), folder.path()).create(new).await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn nothing_is_stored_that_could_be_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&ScriptedModel::new([]), folder.path());
    host.authenticate().await.unwrap();
    assert!(matches!(host.logout().await, Err(HostError::Unsupported { .. })));
}

#[tokio::test]
async fn a_session_in_another_project_that_is_not_trusted_says_so() {
    let kept = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    let cwd = project.path().canonicalize().unwrap();
    std::fs::create_dir(cwd.join(".crow-agent")).unwrap();
    std::fs::write(cwd.join(".crow-agent/permissions.json"), "{}").unwrap();
    let host = host(&ScriptedModel::new([]), kept.path());
    let handle = host.create(NewSession { cwd, ..NewSession::default() }).await.unwrap();
    let mut events = handle.stream().unwrap();
    let told = loop {
        let event = events.next().await.expect("the agent has ended");
        if let AgentEvent::Notice { text, .. } = &event.event {
            break text.clone();
        }
    };
    assert!(told.contains("is not trusted"), "{told}");
}
