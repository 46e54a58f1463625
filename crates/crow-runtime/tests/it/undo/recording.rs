//! File changes in the results of calls.

use std::{fs::File, time::Duration};

use crow_core::{event::AgentEvent, tool::FileChange};
use crow_runtime::{ObserverItem, SnapshotLimits};
use tokio::time::advance;

use super::fixture::{Call, UndoFixture, metadata};

#[tokio::test]
async fn the_result_of_a_shell_call_lists_its_file_changes() {
    let mut fixture = UndoFixture::new();
    fixture.write("a.txt", "one\ntwo\n");
    fixture.write("gone.txt", "x\n");
    let line = "sed -i s/two/TWO/ a.txt && rm gone.txt && printf 'new\\n' > new.txt";
    let events = fixture.turn(&[Call::Sh(line)]).await;
    let recorded = metadata(&events);
    let counts = recorded.changes.unwrap();
    assert_eq!((counts.created, counts.modified, counts.deleted), (1, 1, 1));
    assert_eq!((counts.additions, counts.deletions), (2, 2));
    let root = fixture.root();
    let files = ["a.txt", "gone.txt", "new.txt"].map(|name| root.join(name));
    assert_eq!(recorded.files_modified, files);
    let patch = recorded.diff.unwrap();
    let kinds: Vec<_> = patch.files.iter().map(|file| file.change).collect();
    assert_eq!(kinds, [FileChange::Modified, FileChange::Deleted, FileChange::Created]);
    assert_eq!(patch.files[0].hunks, "@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n");
    let changed = events.iter().find_map(|event| {
        let AgentEvent::FilesChanged { files, snapshot, .. } = &event.event else { return None };
        Some((files.clone(), snapshot.clone()))
    });
    assert_eq!(changed, Some((files.to_vec(), recorded.snapshot_after.clone())));
    assert!(
        recorded.snapshot_before.is_some()
            && !recorded.shared
            && recorded.not_restorable.is_empty()
    );
}

#[tokio::test]
async fn a_call_without_changes_has_equal_snapshots_before_and_after() {
    let mut fixture = UndoFixture::new();
    fixture.write("a.txt", "one\n");
    let recorded = fixture.sh("cat a.txt").await;
    assert_eq!(recorded.snapshot_before, recorded.snapshot_after);
    assert_eq!((recorded.changes, recorded.diff, recorded.files_modified.len()), (None, None, 0));
}

#[tokio::test]
async fn a_declared_path_is_captured_even_if_it_is_ignored() {
    let mut fixture = UndoFixture::new();
    fixture.write(".gitignore", "secret\n");
    fixture.write("secret", "old\n");
    let events = fixture.turn(&[Call::Put("secret", "new\n")]).await;
    let recorded = metadata(&events);
    assert_eq!(recorded.files_modified, [fixture.root().join("secret")]);
    assert!(recorded.snapshot_before.unwrap().as_str().starts_with("paths-"));
}

#[tokio::test]
async fn files_that_cannot_be_restored_are_named() {
    let limits = SnapshotLimits { file_bytes: 100, ..SnapshotLimits::default() };
    let mut fixture = UndoFixture::with_limits(limits);
    fixture.write("big.txt", &"x".repeat(200));
    let recorded = fixture.sh("echo y >> big.txt").await;
    assert_eq!(recorded.not_restorable.len(), 1);
    assert_eq!(recorded.not_restorable[0].reason, "the file is too large");
}

#[tokio::test]
async fn the_call_start_event_has_the_snapshot_before_the_call() {
    let mut fixture = UndoFixture::new();
    let events = fixture.turn(&[Call::Sh("touch a")]).await;
    let start = events.iter().find_map(|event| {
        let AgentEvent::CallStart { snapshot, .. } = &event.event else { return None };
        snapshot.clone()
    });
    assert_eq!(start, metadata(&events).snapshot_before);
    assert!(start.is_some());
}

#[tokio::test]
async fn the_session_header_has_the_first_and_last_snapshot() {
    let mut fixture = UndoFixture::new();
    let first = fixture.sh("touch a").await;
    let last = fixture.sh("touch b").await;
    let crow = fixture.agent.handle.metadata().crow();
    assert_eq!(crow.initial_snapshot, first.snapshot_before);
    assert_eq!(crow.current_snapshot, last.snapshot_after);
}

#[tokio::test]
async fn a_call_runs_without_snapshots_and_the_user_is_told_once() {
    let limits = SnapshotLimits { entries: 2, ..SnapshotLimits::default() };
    let mut fixture = UndoFixture::with_limits(limits);
    for name in ["a", "b", "c", "d", "e"] {
        fixture.write(name, "x");
    }
    let events = fixture.turn(&[Call::Sh("rm a"), Call::Sh("rm b")]).await;
    let notices = events.iter().filter(|event| {
        matches!(&event.event, AgentEvent::Notice { text, .. } if text.contains("cannot be undone"))
    });
    assert_eq!(notices.count(), 1);
    assert!(!fixture.exists("a") && !fixture.exists("b"));
    assert_eq!(metadata(&events).snapshot_after, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_emits_a_wait_event_during_a_slow_file_scan() {
    let mut fixture = UndoFixture::new();
    fixture.config.snapshots.clone().unwrap().open(&fixture.root()).unwrap();
    // While the store is locked exclusively, no scan can run.
    let [store] = fixture.stores().try_into().unwrap();
    let lock_file = File::open(store.join("lock")).unwrap();
    lock_file.lock().unwrap();
    let mut observer = fixture.agent.handle.subscribe();
    let work = fixture.turn(&[Call::Put("a.txt", "new")]);
    let waiting = async {
        loop {
            tokio::select! {
                biased;
                Some(ObserverItem::Event(event)) = observer.next() => {
                    if let AgentEvent::CallWait { reason, .. } = &event.event {
                        break reason.clone();
                    }
                }
                () = advance(Duration::from_millis(100)) => {}
            }
        }
    };
    let (events, reason) = tokio::join!(work, async {
        let reason = waiting.await;
        lock_file.unlock().unwrap();
        reason
    });
    assert_eq!(reason, "reading the files of the project, so that changes can be undone");
    assert_eq!(metadata(&events).changes.unwrap().created, 1);
}
