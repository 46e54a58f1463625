//! Several sessions and agents in one folder.

use std::sync::Arc;

use crow_core::{
    event::{AgentEvent, AgentRole},
    ids::SessionId,
    permission::{PermissionMode, PermissionPolicy},
};
use crow_runtime::{
    AgentInternals, AgentSession, PathOutcome, RuntimeConfig, SessionSpec, SnapshotLimits,
    SnapshotStores, UndoJournal, UndoOptions, UndoTarget,
};
use crow_testkit::telemetry::CheckedRuntime;

use super::fixture::{Call, UndoFixture, metadata};

#[tokio::test]
async fn sessions_that_alternate_undo_only_their_own_changes() {
    let mut one = UndoFixture::new();
    let mut two = UndoFixture::second_session(&one);
    one.turn(&[Call::Sh("echo 1 > a; echo 1 > one")]).await;
    two.turn(&[Call::Sh("echo 2 > b; echo 2 >> one")]).await;
    one.turn(&[Call::Sh("echo 1 > c")]).await;
    let report = one.undo(UndoTarget::ToStart, UndoOptions::default()).await.unwrap();
    let conflicts: Vec<_> = report
        .paths
        .iter()
        .filter(|path| matches!(path.outcome, PathOutcome::Conflict { .. }))
        .map(|path| path.path.clone())
        .collect();
    assert_eq!(conflicts, [one.root().join("one")]);
    assert_eq!((one.exists("a"), one.exists("b"), one.exists("c")), (false, true, false));
    two.undo(UndoTarget::ToStart, UndoOptions::default()).await.unwrap();
    assert_eq!((one.exists("b"), one.read("one")), (false, "1\n".to_owned()));
}

#[tokio::test]
async fn a_call_that_overlaps_with_another_process_is_shared_and_its_undo_conflicts() {
    let mut one = UndoFixture::new();
    // Another process opens the same store separately.
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let other_stores = SnapshotStores::new(one.snapshots(), limits, None);
    let store = other_stores.open(&one.root()).unwrap();
    let other = store.activities().begin().unwrap();
    let recorded = metadata(&one.turn(&[Call::Sh("echo 1 > a")]).await);
    drop(other);
    assert!(recorded.shared);
    let report = one.undo(UndoTarget::LastTurn, UndoOptions::default()).await.unwrap();
    assert!(matches!(report.paths[0].outcome, PathOutcome::Conflict { .. }));
    assert!(one.exists("a"));
    assert!(!metadata(&one.turn(&[Call::Sh("echo 1 > b")]).await).shared);
}

#[tokio::test]
async fn agents_of_one_process_do_not_change_files_concurrently() {
    let mut one = UndoFixture::new();
    let mut two = UndoFixture::second_session(&one);
    let line = "test ! -e busy && touch busy && sleep 0.1 && rm busy";
    let calls = [Call::Sh(line)];
    let (first, second) = tokio::join!(one.turn(&calls), two.turn(&calls));
    for events in [&first, &second] {
        let ended = events.iter().find_map(|event| {
            let AgentEvent::CallEnd { result, .. } = &event.event else { return None };
            Some(result.status)
        });
        assert_eq!(ended, Some(crow_core::tool::ToolStatus::Success));
    }
    let waits = |event: &Arc<crow_core::event::Envelope>| {
        matches!(event.event, AgentEvent::CallWait { .. })
    };
    assert!(first.iter().chain(&second).any(waits));
    assert!(!metadata(&first).shared && !metadata(&second).shared);
}

#[tokio::test]
async fn a_forked_session_undoes_changes_of_the_original() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    fixture.turn(&[Call::Sh("rm a")]).await;
    let mut journal = fixture.journal_of_copy();
    journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap();
    assert_eq!(fixture.read("a"), "1");
}

#[tokio::test]
async fn changes_of_a_child_are_undone_with_the_parents_turn() {
    let fixture = UndoFixture::new();
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..fixture.config.clone() };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), fixture.root());
    let session = AgentSession::create(&config, spec).unwrap();
    let id = session.id().clone();
    let runtime = CheckedRuntime::new(config.clone());
    let tools = UndoFixture::tools();
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        let spec = crow_runtime::ChildSpec {
            role: AgentRole::Subagent,
            ..crate::support::child("helper")
        };
        internals.set_state(crow_core::event::AgentState::Processing).await?;
        internals.emit(AgentEvent::TurnStart { turn: 1 }).await?;
        let mut child = internals.child(spec).await?;
        UndoFixture::make_call(&mut child, &tools, "touch made").await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert!(fixture.exists("made"));
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    assert_eq!((journal.calls()[0].turn, journal.calls()[0].agent.as_str()), (1, "helper"));
    journal.undo(&UndoTarget::Turn(1), UndoOptions::default()).unwrap();
    assert!(!fixture.exists("made"));
}

#[tokio::test]
async fn sessions_of_nested_projects_detect_each_other() {
    let mut one = UndoFixture::new();
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let other_stores = SnapshotStores::new(one.snapshots(), limits, None);
    one.turn(&[Call::Sh("mkdir sub beside")]).await;
    let (sub, sibling) = (one.root().join("sub"), one.root().join("beside"));
    let inner = other_stores.open(&sub).unwrap().activities().begin().unwrap();
    let other = other_stores.open(&sibling).unwrap().activities().begin().unwrap();
    assert!(!other.overlapped() && !inner.overlapped());
    assert!(metadata(&one.turn(&[Call::Sh("echo 1 > a")]).await).shared);
    assert!(inner.overlapped(), "the project around it was at work");
    drop((inner, other));
    assert!(!metadata(&one.turn(&[Call::Sh("echo 1 > b")]).await).shared);
    let outer = other_stores.open(&one.root()).unwrap().activities().begin().unwrap();
    assert!(other_stores.open(&sub).unwrap().activities().begin().unwrap().overlapped());
    assert!(outer.overlapped());
    drop(outer);
    assert!(!other_stores.open(&sub).unwrap().activities().begin().unwrap().overlapped());
    let job =
        other_stores.open(&sub).unwrap().activities().begin_job(&SessionId::new("inside")).unwrap();
    assert!(metadata(&one.turn(&[Call::Sh("echo 1 > c")]).await).shared);
    drop(job);
    assert!(!metadata(&one.turn(&[Call::Sh("echo 1 > d")]).await).shared);
}

#[tokio::test]
async fn a_change_by_the_parents_job_during_a_childs_call_is_undone_without_conflict() {
    let fixture = UndoFixture::new();
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..fixture.config.clone() };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), fixture.root());
    let session = AgentSession::create(&config, spec).unwrap();
    let id = session.id().clone();
    let runtime = CheckedRuntime::new(config.clone());
    let tools = UndoFixture::tools();
    let job = fixture.gated("g", "echo job > by-job") + "; exec sleep 1000";
    let (open, done) = fixture.gate("g");
    // The job writes while the child's command runs.
    let during =
        format!("echo > {}; read line < {}; echo 1 > by-child", open.display(), done.display());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.set_state(crow_core::event::AgentState::Processing).await?;
        internals.emit(AgentEvent::TurnStart { turn: 1 }).await?;
        UndoFixture::make_call_of("job", &mut internals, &tools, &job).await?;
        let spec = crow_runtime::ChildSpec {
            role: AgentRole::Coagent,
            ..crate::support::child("reviewer")
        };
        let mut child = internals.child(spec).await?;
        UndoFixture::make_call(&mut child, &tools, &during).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert!(fixture.exists("by-job") && fixture.exists("by-child"));
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    let report = journal.undo(&UndoTarget::ToStart, UndoOptions::default()).unwrap();
    assert!(report.is_complete(), "{report:#?}");
    assert!(!fixture.exists("by-job") && !fixture.exists("by-child"));
}
