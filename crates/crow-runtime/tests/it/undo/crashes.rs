//! Calls that are cancelled or interrupted, and lost files.

use std::{fs, sync::Arc};

use crow_core::{
    event::AgentEvent,
    tool::{ToolMetadata, ToolStatus},
};
use crow_runtime::{
    AgentError, AgentInternals, AgentSession, PathOutcome, RuntimeConfig, SessionSpec,
    SnapshotLimits, SnapshotStores, UndoJournal, UndoOptions, UndoTarget,
};
use crow_testkit::telemetry::CheckedRuntime;
use crow_testkit::{
    NamedPipe,
    scripted::{call, reply},
};
use serde_json::json;

use super::fixture::{Call, UndoFixture, metadata, tree_state};

const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };

#[tokio::test]
async fn a_cancelled_call_reports_its_changes() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    let marker = fixture.gate("marker").1;
    let line = format!("rm a; touch here; echo > {}; exec sleep 100", marker.display());
    fixture.agent.model.push(reply([call("c1", "sh", json!({"command": line}))]));
    let (handle, marker) = (fixture.agent.handle.clone(), NamedPipe::at(&marker));
    let (events, ()) = tokio::join!(fixture.agent.run("go"), async {
        marker.wait_for_signal().await;
        handle.interrupt();
    });
    let recorded = metadata(&events);
    let counts = recorded.changes.unwrap();
    assert_eq!((counts.deleted, counts.created), (1, 1));
    fixture.undo(UndoTarget::LastTurn, UndoOptions::default()).await.unwrap();
    assert_eq!((fixture.read("a").as_str(), fixture.exists("here")), ("1", false));
}

#[tokio::test]
async fn an_interrupted_call_is_undone_only_by_force() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    fixture.abort_during_call("rm a; touch here").await;
    let id = fixture.agent.handle.session_id().clone();
    let mut journal = UndoJournal::open(&fixture.config, &id).unwrap();
    assert_eq!(journal.calls().len(), 1);
    assert!(journal.calls()[0].after.is_none() && journal.calls()[0].shared);
    let report = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    assert_eq!(report.paths.len(), 2);
    assert!(report.paths.iter().all(|path| matches!(
        &path.outcome,
        PathOutcome::Conflict { reason, .. } if reason.contains("cut off")
    )));
    journal.undo(&UndoTarget::LastTurn, FORCE).unwrap();
    assert_eq!((fixture.read("a").as_str(), fixture.exists("here")), ("1", false));
}

#[tokio::test]
async fn a_resumed_session_records_the_changes_of_an_interrupted_call() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    fixture.abort_during_call("rm a; touch here").await;
    let id = fixture.agent.handle.session_id().clone();
    let abilities = fixture.agent.model.resolved().info.abilities;
    let session = AgentSession::open(&fixture.config, &id, abilities).unwrap();
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let runtime = CheckedRuntime::new(RuntimeConfig { ..fixture.config.clone() });
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await?;
        let last: Option<(ToolStatus, ToolMetadata)> = internals.history().results().last();
        sender.send(last).await.map_err(|error| AgentError::Custom(Box::new(error)))
    });
    let (status, recorded) = receiver.recv().await.unwrap().unwrap();
    handle.wait_for_end().await;
    assert_eq!(status, ToolStatus::Cancelled);
    assert!(recorded.shared && recorded.cut_off && recorded.snapshot_after.is_some());
    assert_eq!(recorded.changes.unwrap().deleted, 1);
    let mut journal = UndoJournal::open(&fixture.config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    let PathOutcome::Conflict { reason, .. } = &report.paths[0].outcome else {
        panic!("{report:?}")
    };
    assert!(reason.contains("was cut off") && !reason.contains("at work"), "{reason}");
}

#[tokio::test]
async fn copies_kept_by_an_undo_are_not_recorded_as_changes_of_an_interrupted_call() {
    let mut fixture = UndoFixture::new();
    fixture.abort_during_call("echo 1 > cut.txt; mkdir new; echo 1 > new/n").await;
    let id = fixture.agent.handle.session_id().clone();
    let mut journal = UndoJournal::open(&fixture.config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, FORCE).unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    let copies = ["cut.txt.crow-kept", "new/n.crow-kept"];
    assert!(copies.iter().all(|copy| fixture.exists(copy)) && !fixture.exists("new/n"));
    let abilities = fixture.agent.model.resolved().info.abilities;
    let session = AgentSession::open(&fixture.config, &id, abilities).unwrap();
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let runtime = CheckedRuntime::new(RuntimeConfig { ..fixture.config.clone() });
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await?;
        let last: Option<(ToolStatus, ToolMetadata)> = internals.history().results().last();
        sender.send(last).await.map_err(|error| AgentError::Custom(Box::new(error)))
    });
    let (_, recorded) = receiver.recv().await.unwrap().unwrap();
    handle.wait_for_end().await;
    assert!(!recorded.files_modified.iter().any(|path| path.ends_with("cut.txt.crow-kept")));
    assert!(!recorded.files_modified.iter().any(|path| path.ends_with("n.crow-kept")));
    let mut journal = UndoJournal::open(&fixture.config, &id).unwrap();
    let again = journal.undo(&UndoTarget::ToStart, FORCE);
    assert!(copies.iter().all(|copy| fixture.exists(copy)), "{again:?}");
}

#[tokio::test]
async fn undo_restores_a_removed_project_directory() {
    let mut fixture = UndoFixture::new();
    fixture.write("src/a", "1");
    fixture.write("b", "2");
    let before = tree_state(&fixture.root());
    let root = fixture.root();
    fixture.turn(&[Call::Sh("rm -rf \"$PWD\"")]).await;
    assert!(!root.exists());
    let id = fixture.agent.handle.session_id().clone();
    // The stores are opened as by another process.
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let snapshots = Some(Arc::new(SnapshotStores::new(fixture.snapshots(), limits, None)));
    let config = RuntimeConfig { snapshots, ..fixture.config.clone() };
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    assert_eq!(tree_state(&root), before);
}

#[tokio::test]
async fn an_undo_without_its_snapshot_store_is_refused_and_changes_nothing() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    fixture.turn(&[Call::Sh("echo 2 > a")]).await;
    let other = tempfile::tempdir().unwrap();
    let lost = SnapshotStores::new(other.path(), SnapshotLimits::default(), None);
    let config = RuntimeConfig { snapshots: Some(Arc::new(lost)), ..fixture.config.clone() };
    let mut journal = UndoJournal::open(&config, fixture.agent.handle.session_id()).unwrap();
    let error = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap_err();
    assert!(error.to_string().contains("the snapshot store lost"), "{error}");
    assert_eq!(fixture.read("a"), "2\n");
}

#[tokio::test]
async fn the_snapshot_before_a_call_is_logged_before_it_runs() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    fixture.abort_during_call("rm a; touch here").await;
    let stored = fixture.config.store.read(fixture.agent.handle.session_id()).unwrap();
    let before = stored.events.iter().find_map(|line| {
        let AgentEvent::CallStart { snapshot, .. } = &line.event else { return None };
        snapshot.clone()
    });
    let store = fixture.config.snapshots.as_ref().unwrap().open(&fixture.root()).unwrap();
    let entry = store.entry(&before.unwrap(), &fixture.root().join("a")).unwrap().unwrap();
    assert_eq!(store.read(&entry).unwrap(), b"1");
}

#[tokio::test]
async fn a_new_session_removes_temporary_files_of_killed_processes() {
    let fixture = UndoFixture::new();
    fixture.write("src/a", "1");
    let leftover = fixture.root().join("src/.crow-0123456789abcdef.tmp");
    fs::write(&leftover, "half").unwrap();
    let stores = fixture.config.snapshots.clone().unwrap();
    stores.open(&fixture.root()).unwrap();
    // The record that the process made before it wrote.
    let [store] = fixture.stores().try_into().unwrap();
    fs::create_dir_all(store.join("writing")).unwrap();
    let folder = format!("{}\0", fixture.root().join("src").display());
    fs::write(store.join("writing/killed"), folder).unwrap();
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), fixture.root());
    drop(AgentSession::create(&fixture.config, spec).unwrap());
    assert!(!leftover.exists() && fixture.exists("src/a"));
    assert_eq!(fs::read_dir(store.join("writing")).unwrap().count(), 0);
}
