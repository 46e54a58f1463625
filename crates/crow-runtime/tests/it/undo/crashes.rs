//! Calls that are cancelled or interrupted, and lost files.

use std::{fs, sync::Arc};

use crow_core::{
    event::AgentEvent,
    tool::{ToolMetadata, ToolStatus},
};
use crow_runtime::{
    AgentError, AgentInternals, AgentRuntime, AgentSession, PathOutcome, RuntimeConfig,
    SessionSpec, SnapshotLimits, SnapshotStores, UndoJournal, UndoOptions, UndoTarget,
};
use crow_testkit::{
    NamedPipe,
    scripted::{call, reply},
};
use serde_json::json;

use super::stage::{Call, Stage, metadata, picture};

const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };

#[tokio::test]
async fn a_cancelled_call_reports_its_changes() {
    let mut stage = Stage::new();
    stage.write("a", "1");
    let marker = stage.gate("marker").1;
    let line = format!("rm a; touch here; echo > {}; exec sleep 100", marker.display());
    stage.agent.model.push(reply([call("c1", "sh", json!({"command": line}))]));
    let (handle, marker) = (stage.agent.handle.clone(), NamedPipe::at(&marker));
    let (events, ()) = tokio::join!(stage.agent.run("go"), async {
        marker.told().await;
        handle.interrupt();
    });
    let known = metadata(&events);
    let counts = known.changes.unwrap();
    assert_eq!((counts.deleted, counts.created), (1, 1));
    stage.undo(UndoTarget::LastTurn, UndoOptions::default()).await.unwrap();
    assert_eq!((stage.read("a").as_str(), stage.exists("here")), ("1", false));
}

#[tokio::test]
async fn an_interrupted_call_is_undone_only_by_force() {
    let mut stage = Stage::new();
    stage.write("a", "1");
    stage.die_in_a_call("rm a; touch here").await;
    let id = stage.agent.handle.session_id().clone();
    let mut journal = UndoJournal::open(&stage.config, &id).unwrap();
    assert_eq!(journal.calls().len(), 1);
    assert!(journal.calls()[0].after.is_none() && journal.calls()[0].shared);
    let report = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    assert_eq!(report.paths.len(), 2);
    assert!(report.paths.iter().all(|path| matches!(
        &path.outcome,
        PathOutcome::Conflict { reason, .. } if reason.contains("cut off")
    )));
    journal.undo(&UndoTarget::LastTurn, FORCE).unwrap();
    assert_eq!((stage.read("a").as_str(), stage.exists("here")), ("1", false));
}

#[tokio::test]
async fn a_resumed_session_records_the_changes_of_an_interrupted_call() {
    let mut stage = Stage::new();
    stage.write("a", "1");
    stage.die_in_a_call("rm a; touch here").await;
    let id = stage.agent.handle.session_id().clone();
    let abilities = stage.agent.model.resolved().info.abilities;
    let session = AgentSession::open(&stage.config, &id, abilities).unwrap();
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let runtime = AgentRuntime::new(RuntimeConfig { ..stage.config.clone() });
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await?;
        let last: Option<(ToolStatus, ToolMetadata)> = internals.history().results().last();
        told.send(last).await.map_err(|error| AgentError::Custom(Box::new(error)))
    });
    let (status, known) = heard.recv().await.unwrap().unwrap();
    handle.ended().await;
    assert_eq!(status, ToolStatus::Cancelled);
    assert!(known.shared && known.cut_off && known.snapshot_after.is_some());
    assert_eq!(known.changes.unwrap().deleted, 1);
    let mut journal = UndoJournal::open(&stage.config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    let PathOutcome::Conflict { reason, .. } = &report.paths[0].outcome else {
        panic!("{report:?}")
    };
    assert!(reason.contains("was cut off") && !reason.contains("at work"), "{reason}");
}

#[tokio::test]
async fn copies_kept_by_an_undo_are_not_recorded_as_changes_of_an_interrupted_call() {
    let mut stage = Stage::new();
    stage.die_in_a_call("echo 1 > cut.txt; mkdir new; echo 1 > new/n").await;
    let id = stage.agent.handle.session_id().clone();
    let mut journal = UndoJournal::open(&stage.config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, FORCE).unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    let kept = ["cut.txt.crow-kept", "new/n.crow-kept"];
    assert!(kept.iter().all(|copy| stage.exists(copy)) && !stage.exists("new/n"));
    let abilities = stage.agent.model.resolved().info.abilities;
    let session = AgentSession::open(&stage.config, &id, abilities).unwrap();
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let runtime = AgentRuntime::new(RuntimeConfig { ..stage.config.clone() });
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await?;
        let last: Option<(ToolStatus, ToolMetadata)> = internals.history().results().last();
        told.send(last).await.map_err(|error| AgentError::Custom(Box::new(error)))
    });
    let (_, known) = heard.recv().await.unwrap().unwrap();
    handle.ended().await;
    assert!(!known.files_modified.iter().any(|path| path.ends_with("cut.txt.crow-kept")));
    assert!(!known.files_modified.iter().any(|path| path.ends_with("n.crow-kept")));
    let mut journal = UndoJournal::open(&stage.config, &id).unwrap();
    let again = journal.undo(&UndoTarget::ToStart, FORCE);
    assert!(kept.iter().all(|copy| stage.exists(copy)), "{again:?}");
}

#[tokio::test]
async fn undo_restores_a_removed_project_directory() {
    let mut stage = Stage::new();
    stage.write("src/a", "1");
    stage.write("b", "2");
    let before = picture(&stage.root());
    let root = stage.root();
    stage.turn(&[Call::Sh("rm -rf \"$PWD\"")]).await;
    assert!(!root.exists());
    let id = stage.agent.handle.session_id().clone();
    // The stores are opened as by another process.
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let snapshots = Some(Arc::new(SnapshotStores::new(stage.snapshots(), limits, None)));
    let config = RuntimeConfig { snapshots, ..stage.config.clone() };
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    assert_eq!(picture(&root), before);
}

#[tokio::test]
async fn an_undo_without_its_snapshot_store_is_refused_and_changes_nothing() {
    let mut stage = Stage::new();
    stage.write("a", "1");
    stage.turn(&[Call::Sh("echo 2 > a")]).await;
    let other = tempfile::tempdir().unwrap();
    let lost = SnapshotStores::new(other.path(), SnapshotLimits::default(), None);
    let config = RuntimeConfig { snapshots: Some(Arc::new(lost)), ..stage.config.clone() };
    let mut journal = UndoJournal::open(&config, stage.agent.handle.session_id()).unwrap();
    let error = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap_err();
    assert!(error.to_string().contains("the snapshot store lost"), "{error}");
    assert_eq!(stage.read("a"), "2\n");
}

#[tokio::test]
async fn the_snapshot_before_a_call_is_logged_before_it_runs() {
    let mut stage = Stage::new();
    stage.write("a", "1");
    stage.die_in_a_call("rm a; touch here").await;
    let stored = stage.config.store.read(stage.agent.handle.session_id()).unwrap();
    let before = stored.events.iter().find_map(|line| {
        let AgentEvent::CallStart { snapshot, .. } = &line.event else { return None };
        snapshot.clone()
    });
    let store = stage.config.snapshots.as_ref().unwrap().of(&stage.root()).unwrap();
    let entry = store.entry(&before.unwrap(), &stage.root().join("a")).unwrap().unwrap();
    assert_eq!(store.read(&entry).unwrap(), b"1");
}

#[tokio::test]
async fn a_new_session_removes_temporary_files_of_killed_processes() {
    let stage = Stage::new();
    stage.write("src/a", "1");
    let left = stage.root().join("src/.crow-0123456789abcdef.tmp");
    fs::write(&left, "half").unwrap();
    let stores = stage.config.snapshots.clone().unwrap();
    stores.of(&stage.root()).unwrap();
    // The record that the process made before it wrote.
    let [store] = stage.stores().try_into().unwrap();
    fs::create_dir_all(store.join("writing")).unwrap();
    let folder = format!("{}\0", stage.root().join("src").display());
    fs::write(store.join("writing/killed"), folder).unwrap();
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), stage.root());
    drop(AgentSession::create(&stage.config, spec).unwrap());
    assert!(!left.exists() && stage.exists("src/a"));
    assert_eq!(fs::read_dir(store.join("writing")).unwrap().count(), 0);
}
