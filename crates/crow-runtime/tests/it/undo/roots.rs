//! Sessions with several roots.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::{
    event::{AgentEvent, AgentRole, AgentState, Envelope},
    ids::SessionId,
    permission::{PermissionMode, PermissionPolicy},
    workspace::Workspace,
};
use crow_runtime::{
    AgentInternals, AgentSession, ChildSpec, PathOutcome, RestorePoint, RuntimeConfig, SessionSpec,
    SnapshotLimits, SnapshotStores, UndoJournal, UndoOptions, UndoTarget,
};
use crow_testkit::telemetry::CheckedRuntime;
use tempfile::TempDir;

use super::fixture::{Call, UndoFixture, metadata, tree_state};

const PLAIN: UndoOptions = UndoOptions { force: false, dry_run: false, chat: false };
const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };

/// A further root next to the project, with the file `kept` in it.
struct FurtherRoot {
    _folder: TempDir,
    path: PathBuf,
}

impl FurtherRoot {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("beside");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("kept"), "old").unwrap();
        Self { _folder: folder, path }
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

fn fixture(further: &[&Path]) -> UndoFixture {
    let fixture = UndoFixture::with(SnapshotLimits::default(), further);
    fixture.write("kept", "old");
    fixture
}

/// Returns the snapshot stores as a second process opens them.
fn other_process_stores(fixture: &UndoFixture) -> SnapshotStores {
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    SnapshotStores::new(fixture.snapshots(), limits, None)
}

fn notices(events: &[Arc<Envelope>]) -> Vec<String> {
    let text = |event: &Arc<Envelope>| match &event.event {
        AgentEvent::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[tokio::test]
async fn changes_in_both_roots_are_reported_undone_and_redone() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    let before = (tree_state(&fixture.root()), tree_state(&further.path));
    let there = further.shown();
    let line = format!("echo 1 > made; rm kept; mkdir {there}/d; mv {there}/kept {there}/d/moved");
    let events = fixture.turn(&[Call::Sh(&line)]).await;
    let recorded = metadata(&events);
    let (main, path) = (fixture.root(), &further.path);
    let files =
        [main.join("kept"), main.join("made"), path.join("d/moved"), path.join("kept")].to_vec();
    assert_eq!(recorded.files_modified, files);
    assert_eq!((recorded.shared, recorded.not_restorable.len()), (false, 0));
    let changed_files = events.iter().find_map(|event| match &event.event {
        AgentEvent::FilesChanged { files, .. } => Some(files.clone()),
        _ => None,
    });
    assert_eq!(changed_files, Some(files));
    let diff = fixture.journal().diff(&RestorePoint::Start, &RestorePoint::End).unwrap();
    assert!(diff.files.iter().any(|file| file.path == path.join("d/moved") && file.additions == 1));
    let after = (tree_state(&fixture.root()), tree_state(path));
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    assert_eq!((tree_state(&fixture.root()), tree_state(path)), before);
    assert!(fixture.redo().await.unwrap().is_complete());
    assert_eq!((tree_state(&fixture.root()), tree_state(path)), after);
    fixture.turn(&[]).await;
    assert!(notices(&events).is_empty(), "{:?}", notices(&events));
}

#[tokio::test]
async fn a_later_user_edit_in_a_further_root_stays_and_the_rest_is_undone() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    let there = further.shown();
    fixture.turn(&[Call::Sh(&format!("echo 1 > {there}/kept; echo 1 > {there}/a; rm kept"))]).await;
    fs::write(further.path.join("kept"), "mine").unwrap();
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    let conflicts: Vec<_> = report
        .paths
        .iter()
        .filter(|path| matches!(path.outcome, PathOutcome::Conflict { .. }))
        .map(|path| path.path.clone())
        .collect();
    assert_eq!(conflicts, [further.path.join("kept")]);
    assert_eq!(fs::read_to_string(further.path.join("kept")).unwrap(), "mine");
    assert!(!further.path.join("a").exists() && fixture.exists("kept"));
}

#[tokio::test]
async fn nested_and_symlinked_roots_are_scanned_once() {
    let further = FurtherRoot::new();
    let inner = further.path.join("inner");
    fs::create_dir(&inner).unwrap();
    let link = further.path.parent().unwrap().join("link");
    symlink(&further.path, &link).unwrap();
    let mut fixture = fixture(&[&inner, &further.path, &link]);
    let store = fixture.agent.handle.snapshot_store().unwrap().unwrap();
    assert_eq!(store.roots(), [fixture.root(), further.path.clone()]);
    let recorded = fixture.sh(&format!("echo 1 > {}/a; echo 1 > a", inner.display())).await;
    assert_eq!(recorded.files_modified, [fixture.root().join("a"), inner.join("a")]);
    assert!(!recorded.shared);
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(!inner.join("a").exists() && !fixture.exists("a"));
}

#[tokio::test]
async fn a_root_around_the_project_is_scanned_without_the_project() {
    let around = tempfile::tempdir().unwrap();
    let path = around.path().canonicalize().unwrap();
    let project = path.join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("a"), "old").unwrap();
    fs::write(path.join("b"), "old").unwrap();
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let data = tempfile::tempdir().unwrap();
    let stores = SnapshotStores::new(data.path(), limits, None);
    let workspace = Workspace::new(&project).with_root(&path);
    let store = stores.open_workspace(&workspace).unwrap();
    let session = SessionId::new("s");
    let alone = store.activities().begin().unwrap();
    let before = store.scan(&session).unwrap();
    fs::write(project.join("a"), "new").unwrap();
    fs::write(path.join("b"), "new").unwrap();
    let after = store.scan(&session).unwrap();
    assert!(!alone.overlapped());
    let found = store.changes(&before.snapshot, &after.snapshot).unwrap();
    let changed: Vec<_> = found.iter().map(|change| change.path.clone()).collect();
    assert_eq!(changed, [project.join("a"), path.join("b")]);
    for path in &changed {
        let entry = store.entry(&before.snapshot, path).unwrap().unwrap();
        assert_eq!(store.read(&entry).unwrap(), b"old");
    }
    assert!(store.undo(&found).unwrap().iter().all(|undone| undone.result.is_ok()));
    assert_eq!(store.scan(&session).unwrap().snapshot, before.snapshot);
}

#[tokio::test]
async fn roots_that_cannot_be_scanned_are_named_once_and_the_others_are_undone() {
    let (gone, closed, huge) = (FurtherRoot::new(), FurtherRoot::new(), FurtherRoot::new());
    for number in 0..30 {
        fs::write(huge.path.join(number.to_string()), "").unwrap();
    }
    let limits = SnapshotLimits { entries: 20, ..SnapshotLimits::default() };
    let mut fixture = UndoFixture::with(limits, &[&gone.path, &closed.path, &huge.path]);
    fs::remove_dir_all(&gone.path).unwrap();
    fs::remove_dir_all(&closed.path).unwrap();
    // A file in place of the folder cannot be listed, not even by root.
    fs::write(&closed.path, "").unwrap();
    let mut messages = Vec::new();
    for number in 0..2 {
        let line = format!("echo {number} > a; echo 1 > {}/{number}", huge.shown());
        let events = fixture.turn(&[Call::Sh(&line)]).await;
        assert_eq!(metadata(&events).files_modified, [fixture.root().join("a")]);
        messages.extend(notices(&events));
    }
    messages.sort();
    assert_eq!(messages.len(), 2, "{messages:?}");
    for (root, why) in [(&closed, "ot a directory"), (&huge, "holds more than 20 entries")] {
        let named = format!("changes of commands in {} cannot be undone", root.shown());
        assert!(
            messages.iter().any(|text| text.starts_with(&named) && text.contains(why)),
            "{messages:?}"
        );
    }
    fixture.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(!fixture.exists("a"));
}

/// Without `/dev/shm` the further root is on the same file system.
#[tokio::test]
async fn a_further_root_on_another_file_system_is_undone_with_the_project() {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.unwrap();
    let path = folder.path().canonicalize().unwrap();
    fs::write(path.join("kept"), "old").unwrap();
    let mut fixture = fixture(&[&path]);
    let before = (tree_state(&fixture.root()), tree_state(&path));
    let recorded =
        fixture.sh(&format!("mv {0}/kept moved; mv kept {0}/there", path.display())).await;
    assert_eq!(recorded.files_modified.len(), 4);
    assert!(fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap().is_complete());
    assert_eq!((tree_state(&fixture.root()), tree_state(&path)), before);
}

/// A mount point is refused as a project as well.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_root_that_is_a_mount_point_is_named_and_the_project_is_still_undone() {
    let mut fixture = fixture(&[Path::new("/proc")]);
    let events = fixture.turn(&[Call::Sh("echo 1 > kept")]).await;
    assert_eq!(metadata(&events).files_modified, [fixture.root().join("kept")]);
    let messages = notices(&events);
    assert!(
        messages.len() == 1 && messages[0].contains("the root of a mounted file system"),
        "{messages:?}"
    );
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(fixture.read("kept"), "old");
}

#[tokio::test]
async fn an_unreadable_root_does_not_prevent_undo_in_the_project() {
    let closed = FurtherRoot::new();
    let mut fixture = fixture(&[&closed.path]);
    fs::set_permissions(&closed.path, fs::Permissions::from_mode(0o000)).unwrap();
    let recorded = fixture.sh("echo 1 > kept").await;
    assert_eq!(recorded.files_modified, [fixture.root().join("kept")]);
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(fixture.read("kept"), "old");
    fs::set_permissions(&closed.path, fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_further_root_that_a_command_removed_is_restored() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    let before = tree_state(&further.path);
    fixture.sh(&format!("rm -rf {}; rm kept", further.shown())).await;
    assert!(!further.path.exists());
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    assert_eq!(tree_state(&further.path), before);
}

#[tokio::test]
async fn undo_does_not_recreate_a_further_root_that_was_moved_away() {
    let further = FurtherRoot::new();
    fs::write(further.path.join("more"), "").unwrap();
    let mut fixture = fixture(&[&further.path]);
    fixture.sh(&format!("rm {}/kept; rm kept", further.shown())).await;
    let moved_to = further.path.with_file_name("elsewhere");
    fs::rename(&further.path, &moved_to).unwrap();
    for options in [PLAIN, FORCE] {
        let report = fixture.undo(UndoTarget::LastTurn, options).await.unwrap();
        let path = report.paths.iter().find(|path| path.path == further.path.join("kept")).unwrap();
        assert!(
            matches!(&path.outcome, PathOutcome::Conflict { reason, .. } if reason.contains("is gone")),
            "{path:?}"
        );
        assert!(!further.path.exists() && fixture.exists("kept"));
    }
    fs::rename(&moved_to, &further.path).unwrap();
    assert!(fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap().is_complete());
    assert!(further.path.join("kept").exists());
}

#[tokio::test]
async fn a_further_root_uses_its_own_gitignore() {
    let further = FurtherRoot::new();
    fs::write(further.path.join(".gitignore"), "large\n").unwrap();
    let limits = SnapshotLimits { ignored_file_bytes: 4, ..SnapshotLimits::default() };
    let mut fixture = UndoFixture::with(limits, &[&further.path]);
    let there = further.shown();
    fs::write(further.path.join("large"), "a long text").unwrap();
    let recorded =
        fixture.sh(&format!("echo other text > {there}/large; echo 1 > {there}/a")).await;
    assert_eq!(recorded.not_restorable.len(), 1, "{recorded:?}");
    assert_eq!(recorded.not_restorable[0].path, further.path.join("large"));
}

#[tokio::test]
async fn sessions_of_different_projects_detect_each_other_in_a_shared_root() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    let other = other_process_stores(&fixture).open(&further.path).unwrap();
    let activity = other.activities().begin().unwrap();
    let line = format!("echo 1 > {}/a", further.shown());
    assert!(fixture.sh(&line).await.shared);
    assert!(activity.overlapped());
    drop(activity);
    assert!(!fixture.sh(&format!("echo 2 > {}/a", further.shown())).await.shared);
    let job = other.activities().begin_job(&SessionId::new("another")).unwrap();
    assert!(fixture.sh(&format!("echo 3 > {}/a", further.shown())).await.shared);
    drop(job);
    let project = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(project.path().canonicalize().unwrap());
    let third =
        other_process_stores(&fixture).open_workspace(&workspace.with_root(&further.path)).unwrap();
    let activity = third.activities().begin().unwrap();
    assert!(fixture.sh(&format!("echo 4 > {}/a", further.shown())).await.shared);
    assert!(activity.overlapped());
}

#[tokio::test]
async fn changes_of_a_job_in_a_further_root_are_undone_with_its_call() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    let work = format!("echo new > {0}/kept; echo 1 > {0}/made; echo 1 > made", further.shown());
    let line = fixture.gated("g", &work) + "; exec sleep 1000";
    let gate = fixture.gate("g");
    fixture.turn(&[Call::Job(&line), Call::Gate(&gate), Call::Sh("echo 1 > other")]).await;
    let calls = fixture.journal().calls().to_vec();
    assert_eq!((calls.len(), calls[0].shared, calls[0].files.len()), (2, false, 3));
    fixture.undo(UndoTarget::Call("c1".to_owned()), PLAIN).await.unwrap();
    assert_eq!(fs::read_to_string(further.path.join("kept")).unwrap(), "old");
    assert!(
        !further.path.join("made").exists() && !fixture.exists("made") && fixture.exists("other")
    );
}

#[tokio::test]
async fn force_undoes_an_interrupted_call_in_both_roots() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    let before = (tree_state(&fixture.root()), tree_state(&further.path));
    fixture.abort_during_call(&format!("rm kept; echo 1 > {}/made", further.shown())).await;
    let id = fixture.agent.handle.session_id().clone();
    let snapshots = Some(Arc::new(other_process_stores(&fixture)));
    let config = RuntimeConfig { snapshots, ..fixture.config.clone() };
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, PLAIN).unwrap();
    assert_eq!(report.paths.len(), 2);
    assert!(!report.is_complete() && further.path.join("made").exists());
    journal.undo(&UndoTarget::LastTurn, FORCE).unwrap();
    fs::remove_file(further.path.join("made.crow-kept")).unwrap();
    assert_eq!((tree_state(&fixture.root()), tree_state(&further.path)), before);
}

#[tokio::test]
async fn a_session_resumed_without_a_root_knows_the_changes_of_an_interrupted_call_in_it() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    fixture.abort_during_call(&format!("rm kept; echo 1 > {}/made", further.shown())).await;
    let id = fixture.agent.handle.session_id().clone();
    let abilities = fixture.agent.model.resolved().info.abilities;
    let mut session = AgentSession::open(&fixture.config, &id, abilities).unwrap();
    session.set_additional_directories(&fixture.config, Vec::new()).unwrap();
    let runtime = CheckedRuntime::new(fixture.config.clone());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await.map(drop)
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    let mut journal = UndoJournal::open(&fixture.config, &id).unwrap();
    let made = further.path.join("made");
    assert_eq!(journal.calls()[0].files, [fixture.root().join("kept"), made.clone()]);
    journal.undo(&UndoTarget::LastTurn, FORCE).unwrap();
    assert!(!made.exists() && fixture.exists("kept"));
}

#[tokio::test]
async fn a_root_added_after_an_interrupted_call_is_not_counted_as_its_change() {
    let further = FurtherRoot::new();
    let inner = further.path.join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("kept"), "old").unwrap();
    let mut fixture = fixture(&[&further.path]);
    fixture.abort_during_call(&format!("rm kept; echo 1 > {}/made", further.shown())).await;
    let id = fixture.agent.handle.session_id().clone();
    let abilities = fixture.agent.model.resolved().info.abilities;
    let mut session = AgentSession::open(&fixture.config, &id, abilities).unwrap();
    session.set_additional_directories(&fixture.config, vec![inner.clone()]).unwrap();
    let runtime = CheckedRuntime::new(fixture.config.clone());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.close_open_calls().await.map(drop)
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    let journal = UndoJournal::open(&fixture.config, &id).unwrap();
    assert_eq!(journal.calls()[0].files, [fixture.root().join("kept"), further.path.join("made")]);
}

/// Reopens the session of a fixture with these further roots and runs one more command.
async fn resume_with(fixture: &UndoFixture, further: Vec<PathBuf>, line: &str) -> SessionId {
    let id = fixture.agent.handle.session_id().clone();
    fixture.agent.handle.shutdown();
    fixture.agent.handle.wait_for_end().await;
    let abilities = fixture.agent.model.resolved().info.abilities;
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..fixture.config.clone() };
    let mut session = AgentSession::open(&config, &id, abilities).unwrap();
    session.set_additional_directories(&config, further).unwrap();
    let runtime = CheckedRuntime::new(config);
    let (tools, line) = (UndoFixture::tools(), line.to_owned());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        UndoFixture::make_call(&mut internals, &tools, &line).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    id
}

#[tokio::test]
async fn older_changes_are_undone_in_a_root_that_the_session_no_longer_has() {
    let (further, other) = (FurtherRoot::new(), FurtherRoot::new());
    let mut fixture = fixture(&[&further.path]);
    let before = (tree_state(&fixture.root()), tree_state(&further.path), tree_state(&other.path));
    fixture.sh(&format!("rm {}/kept; rm kept", further.shown())).await;
    let line = format!("rm {}/kept; echo 1 > made", other.shown());
    let id = resume_with(&fixture, vec![other.path.clone()], &line).await;
    let mut journal = UndoJournal::open(&fixture.config, &id).unwrap();
    let report = journal.undo(&UndoTarget::ToStart, PLAIN).unwrap();
    assert!(report.is_complete(), "{:?}", report.paths);
    let after = (tree_state(&fixture.root()), tree_state(&further.path), tree_state(&other.path));
    assert_eq!(after, before);
    assert!(journal.redo(PLAIN).unwrap().is_complete());
    assert!(!further.path.join("kept").exists() && !other.path.join("kept").exists());
}

#[tokio::test]
async fn changes_made_with_one_root_are_undone_after_a_root_was_added() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[]);
    fixture.sh("rm kept").await;
    let id = resume_with(&fixture, vec![further.path.clone()], "echo 1 > made").await;
    let journal = &mut UndoJournal::open(&fixture.config, &id).unwrap();
    assert!(journal.calls()[0].before.as_str().starts_with("tree-"));
    assert!(journal.undo(&UndoTarget::ToStart, PLAIN).unwrap().is_complete());
    assert!(fixture.exists("kept") && !fixture.exists("made"));
}

#[tokio::test]
async fn a_forked_session_undoes_changes_of_the_original_in_both_roots() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    fixture.sh(&format!("rm {}/kept; rm kept", further.shown())).await;
    let mut journal = fixture.journal_of_copy();
    assert!(journal.undo(&UndoTarget::LastTurn, PLAIN).unwrap().is_complete());
    assert!(further.path.join("kept").exists() && fixture.exists("kept"));
}

#[tokio::test]
async fn changes_of_a_child_in_a_further_root_are_undone_with_the_parents_turn() {
    let further = FurtherRoot::new();
    let fixture = fixture(&[]);
    let policy = PermissionPolicy::new(PermissionMode::FullAuto);
    let config = RuntimeConfig { policy, ..fixture.config.clone() };
    let spec = SessionSpec {
        additional_directories: vec![further.path.clone()],
        ..SessionSpec::new("own", "none/none".parse().unwrap(), fixture.root())
    };
    let session = AgentSession::create(&config, spec).unwrap();
    let id = session.id().clone();
    let (tools, line) = (UndoFixture::tools(), format!("rm {}/kept kept", further.shown()));
    let runtime = CheckedRuntime::new(config.clone());
    let handle = runtime.spawn(session, |mut internals: AgentInternals| async move {
        internals.set_state(AgentState::Processing).await?;
        internals.emit(AgentEvent::TurnStart { turn: 1 }).await?;
        let spec = ChildSpec { role: AgentRole::Subagent, ..crate::support::child("helper") };
        let mut child = internals.child(spec).await?;
        UndoFixture::make_call(&mut child, &tools, &line).await
    });
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    assert!(!further.path.join("kept").exists() && !fixture.exists("kept"));
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    assert_eq!(journal.calls()[0].agent, "helper");
    assert!(journal.undo(&UndoTarget::Turn(1), PLAIN).unwrap().is_complete());
    assert!(further.path.join("kept").exists() && fixture.exists("kept"));
}

#[tokio::test]
async fn undo_conflicts_with_a_later_change_of_another_session_in_a_shared_root() {
    let further = FurtherRoot::new();
    let mut one = fixture(&[&further.path]);
    let mut two = UndoFixture::second_session_with(&one, &[&further.path]);
    one.sh(&format!("echo 1 > {}/kept", further.shown())).await;
    two.sh(&format!("echo 2 > {}/kept", further.shown())).await;
    let report = one.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(matches!(report.paths[0].outcome, PathOutcome::Conflict { .. }));
    two.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    one.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(fs::read_to_string(further.path.join("kept")).unwrap(), "old");
}

#[tokio::test]
async fn indexes_of_roots_without_sessions_are_removed() {
    let further = FurtherRoot::new();
    let mut fixture = fixture(&[&further.path]);
    fixture.sh("echo 1 > made").await;
    fixture.agent.handle.snapshot_store().unwrap().unwrap().flush();
    let stores = fs::read_dir(fixture.snapshots()).unwrap().flatten();
    let indexes = stores.map(|store| store.path().join("indexes")).find(|path| path.exists());
    let count = || fs::read_dir(indexes.as_ref().unwrap()).unwrap().count();
    assert_eq!(count(), 1);
    let id = fixture.agent.handle.session_id().clone();
    other_process_stores(&fixture).forget_session(&fixture.root(), &id).unwrap();
    assert_eq!(count(), 0);
}

#[tokio::test]
async fn a_store_gets_format_version_2_only_with_a_second_root() {
    let further = FurtherRoot::new();
    let mut one = fixture(&[]);
    one.sh("echo 1 > made").await;
    let folder = fs::read_dir(one.snapshots()).unwrap().next().unwrap().unwrap().path();
    let version = || fs::read_to_string(folder.join("version")).unwrap();
    assert_eq!(version(), "1\n");
    let mut two = UndoFixture::second_session_with(&one, &[&further.path]);
    two.sh("echo 1 > more").await;
    assert_eq!(version(), "2\n");
}

#[test]
fn snapshots_of_more_workspaces_than_stay_open_remain_usable() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let project = base.join("project");
    fs::create_dir(&project).unwrap();
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let stores = SnapshotStores::new(base.join("data"), limits, None);
    let session = SessionId::new("s");
    let look = |number: usize| {
        let further = base.join(number.to_string());
        fs::create_dir_all(&further).unwrap();
        let workspace = Workspace::new(&project).with_root(&further);
        let store = stores.open_workspace(&workspace).unwrap();
        (store.scan(&session).unwrap().snapshot, store, further)
    };
    let before: Vec<_> = (0..70).map(|number| look(number).0).collect();
    for (number, before) in before.iter().enumerate() {
        fs::write(base.join(number.to_string()).join("a"), "").unwrap();
        let (after, store, further) = look(number);
        let changes = store.changes(before, &after).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].path, further.join("a"));
    }
}
