use std::{path::Path, sync::Arc};

use crow_core::{event::AgentEvent, model::Models};
use crow_runtime::{
    AgentHost as _, HostError, MemoryStore, NewSession, SessionSetup, SnapshotLimits,
    SnapshotStores, StoredRules,
};
use crow_testkit::{
    host::check_host,
    scripted::{ScriptedModel, ScriptedModels, reply, text},
};

use futures_util::StreamExt as _;

use super::{AgentLimits, Configured, HostParts, ProductHost, Remembers};
use crate::{Environment, credentials::Credential, product};

fn environment(home: &Path) -> Environment {
    Environment::with([("HOME", home.to_str().unwrap())])
}

fn host(model: &ScriptedModel, folder: &Path) -> ProductHost {
    let snapshots = folder.join("snapshots");
    let models: Arc<dyn Models> = Arc::new(ScriptedModels(model.clone()));
    ProductHost::new(HostParts {
        environment: environment(folder),
        store: Arc::new(MemoryStore::default()),
        models,
        providers: None,
        fallback: Some(model.resolved().info.reference),
        answerer: Arc::new(crow_core::capability::NoAnswerer),
        permissions: None,
        sandbox: None,
        rules: StoredRules::default(),
        start: None,
        configured: Configured::InFiles,
        snapshots: Arc::new(SnapshotStores::new(snapshots, SnapshotLimits::default(), None)),
        limits: AgentLimits::default(),
        reviewer_model: None,
        remembers: Remembers::Choices,
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
    let new = NewSession {
        cwd: "/".into(),
        setup: SessionSetup { agent: Some("nobody".into()), ..SessionSetup::default() },
        ..NewSession::default()
    };
    let refused = host(&ScriptedModel::new([]), folder.path()).create(new).await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn the_only_key_that_is_stored_is_forgotten_and_none_of_several() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&ScriptedModel::new([]), folder.path());
    host.authenticate().await.unwrap();
    let file = product::credential_file(&environment(folder.path())).unwrap();
    let refused = |said: Result<(), HostError>| match said {
        Err(HostError::Refused { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(host.logout().await), "no key is stored");
    let (origin, key) = ("https://a.example".to_owned(), "sk-1".to_owned());
    let credential = Credential { origin, key };
    file.add("one", credential.clone()).unwrap();
    file.add("two", credential).unwrap();
    assert_eq!(refused(host.logout().await), "several keys are stored");
    assert_eq!(file.load().unwrap().len(), 2);
    file.remove("two").unwrap();
    host.logout().await.unwrap();
    assert!(file.load().unwrap().is_empty());
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
