use std::sync::Arc;

use crow_core::event::AgentEvent;
use crow_runtime::{AgentHost as _, HostError, NewSession, SessionSetup};
use crow_testkit::{
    host::check_host,
    scripted::{ScriptedModel, reply, text},
    telemetry::StoreTelemetryCheck,
};
use futures_util::StreamExt as _;

use super::scene::{environment, host, host_with_providers};
use crate::{credentials::Credential, product};

#[tokio::test]
async fn the_product_host_meets_the_host_contract() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([reply([text("Something.")])]);
    let home = tempfile::tempdir().unwrap();
    let host = host(&model, home.path());
    let _telemetry = StoreTelemetryCheck::new(Arc::clone(&host.runtime().config().store));
    check_host(&host, folder.path()).await;
}

#[tokio::test]
async fn the_product_host_with_providers_meets_the_host_contract() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([reply([text("Something.")])]);
    let home = tempfile::tempdir().unwrap();
    let host = host_with_providers(&model, home.path());
    let _telemetry = StoreTelemetryCheck::new(Arc::clone(&host.runtime().config().store));
    check_host(&host, folder.path()).await;
}

#[tokio::test]
async fn a_session_with_an_unknown_agent_is_refused() {
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
async fn logout_removes_the_only_stored_key_and_refuses_several() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&ScriptedModel::new([]), folder.path());
    host.authenticate().await.unwrap();
    let file = product::credential_file(&environment(folder.path())).unwrap();
    let refused = |result: Result<(), HostError>| match result {
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
async fn a_session_in_an_untrusted_project_emits_a_notice() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    let cwd = project.path().canonicalize().unwrap();
    std::fs::create_dir(cwd.join(".crow-agent")).unwrap();
    std::fs::write(cwd.join(".crow-agent/permissions.json"), "{}").unwrap();
    let host = host(&ScriptedModel::new([]), home.path());
    let handle = host.create(NewSession { cwd, ..NewSession::default() }).await.unwrap();
    let mut events = handle.stream().unwrap();
    let notice = loop {
        let event = events.next().await.expect("the agent has ended");
        if let AgentEvent::Notice { text, .. } = &event.event {
            break text.clone();
        }
    };
    assert!(notice.contains("is not trusted"), "{notice}");
}
