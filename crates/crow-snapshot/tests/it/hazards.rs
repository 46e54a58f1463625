//! Concurrent changes, special files, links and missing permissions.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crow_snapshot::{
    NotCoveredReason, RestoreResult, SnapshotEntry, SnapshotStore, SnapshotStoreError,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::project::{Project, results, session, tree};

#[test]
fn threads_and_stores_can_scan_concurrently() {
    let project = Project::new();
    for number in 0..200 {
        project.write(&format!("{}/{number}", number % 7), number.to_string());
    }
    let other = project.other();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let scans: Vec<_> = (0..8)
            .map(|number| {
                let store = if number % 2 == 0 { &project.store } else { &other };
                scope.spawn(move || store.scan(&session(&number.to_string())).unwrap().snapshot)
            })
            .collect();
        scans.into_iter().map(|scan| scan.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(project.store.data().check().unwrap().damaged, []);
    assert_eq!(project.store.data().sessions().unwrap().len(), 8);
}

#[test]
fn pipes_and_sockets_do_not_block_a_scan() {
    let project = Project::new();
    project.write("a", "1");
    let without = project.scan();
    let listener = std::os::unix::net::UnixListener::bind(project.root.join("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(project.scan().snapshot, without.snapshot);
    let captured = project.store.capture(&session("s"), &[PathBuf::from("pipe")]).unwrap();
    assert_eq!(captured.not_covered[0].why, NotCoveredReason::Special);
    drop(listener);
}

#[test]
fn scans_of_a_changing_tree_succeed_and_the_first_at_rest_is_correct() {
    let project = Project::new();
    for number in 0..40 {
        project.write(&format!("{}/{number}", number % 4), number.to_string());
    }
    let ready = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_usize;
            while !ready.load(Ordering::Relaxed) {
                churn(&project.root, round);
                round += 1;
            }
        });
        let mut last = project.scan();
        for _ in 0..60 {
            let next = project.scan();
            project.changes(&last, &next);
            last = next;
        }
        ready.store(true, Ordering::Relaxed);
    });
    let quiet = project.scan();
    assert_eq!(quiet.not_covered, []);
    assert_eq!(quiet.snapshot, project.other().scan(&session("cold")).unwrap().snapshot);
    for (path, (_, bytes)) in tree(&project.root) {
        let entry = project.store.entry(&quiet.snapshot, &path).unwrap().unwrap();
        if matches!(entry, SnapshotEntry::File { .. } | SnapshotEntry::Link { .. }) {
            assert_eq!(project.store.read(&entry).unwrap(), bytes, "{path:?}");
        }
    }
}

/// Changes a file or a folder in one of many ways; errors are ignored.
fn churn(root: &Path, round: usize) {
    let (folder, other) = (root.join((round % 4).to_string()), root.join("moved"));
    let file = folder.join((round % 40).to_string());
    let done: [io::Result<()>; 2] = match round % 7 {
        0 => [fs::remove_file(&file), fs::create_dir(&file)],
        1 => [fs::remove_dir_all(&folder), fs::write(&folder, "a file")],
        2 => [fs::remove_file(&folder), fs::create_dir(&folder)],
        3 => [fs::rename(&folder, &other), fs::rename(&other, &folder)],
        4 => [fs::remove_file(&file), symlink("..", &file)],
        5 => [fs::create_dir_all(&folder), fs::write(&file, round.to_string())],
        _ => [fs::write(&file, "x".repeat(round % 50)), fs::write(folder.join("b"), "b")],
    };
    drop(done);
}

#[test]
fn links_are_never_followed() {
    let project = Project::new();
    let outside = project.data.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "1").unwrap();
    project.write("folder/file", "1");
    symlink(&outside, project.root.join("out")).unwrap();
    symlink("..", project.root.join("folder/up")).unwrap();
    symlink("itself", project.root.join("itself")).unwrap();
    let before = project.scan();
    assert_eq!((before.entries, before.not_covered.len()), (5, 0));
    fs::write(outside.join("secret"), "2").unwrap();
    assert_eq!(project.scan().snapshot, before.snapshot);
    fs::remove_dir_all(project.root.join("folder")).unwrap();
    symlink(&outside, project.root.join("folder")).unwrap();
    let after = project.scan();
    assert_eq!(project.changed(&before, &after), ["folder", "folder/file", "folder/up"]);
    project.store.undo(&project.changes(&before, &after)).unwrap();
    assert_eq!(project.scan().snapshot, before.snapshot);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_huge_sparse_file_is_not_read() {
    let project = Project::new();
    let huge = fs::File::create(project.root.join("huge")).unwrap();
    huge.set_len(5 << 30).unwrap();
    let scan = project.scan();
    let captured = project.store.capture(&session("s"), &[PathBuf::from("huge")]).unwrap();
    for not_covered in [scan.not_covered, captured.not_covered] {
        assert_eq!(not_covered.len(), 1);
        assert_eq!(not_covered[0].why, NotCoveredReason::TooLarge);
    }
    let stored = project.stored("objects").into_iter().map(|path| fs::metadata(path).unwrap());
    assert!(stored.map(|object| object.len()).sum::<u64>() < 1000);
}

/// Runs `work` without capabilities, so that permissions apply even if the tests run as root.
fn without_privileges<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let unprivileged = || {
        set_capabilities(None, none).unwrap();
        work()
    };
    thread::scope(|scope| scope.spawn(unprivileged).join().unwrap())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn unreadable_paths_are_named_and_the_rest_is_covered() {
    let project = Project::new();
    for name in ["closed/in", "secret", "plain"] {
        project.write(name, "1");
    }
    let (closed, secret) = (project.root.join("closed"), project.root.join("secret"));
    let open = project.scan();
    set_mode(&closed, 0);
    set_mode(&secret, 0);
    let (scan, captured) = without_privileges(|| {
        let captured = project.store.capture(&session("s"), &[PathBuf::from("secret")]).unwrap();
        (project.scan(), captured)
    });
    let unreadable = |path: &PathBuf| (path.clone(), NotCoveredReason::Unreadable);
    let named: Vec<_> =
        scan.not_covered.iter().map(|entry| (entry.path.clone(), entry.why)).collect();
    assert_eq!(named, [unreadable(&closed), unreadable(&secret)]);
    assert_eq!(captured.not_covered[0].why, NotCoveredReason::Unreadable);
    project.write("plain", "2");
    let edited = without_privileges(|| project.scan());
    assert_eq!(project.changed(&scan, &edited), ["plain"]);
    set_mode(&closed, 0o755);
    set_mode(&secret, 0o644);
    project.write("plain", "1");
    assert_eq!(project.changed(&open, &project.scan()), Vec::<String>::new());
}

#[test]
fn undo_fails_only_for_paths_in_a_read_only_folder() {
    let project = Project::new();
    project.write("closed/file", "1");
    project.write("open", "1");
    let before = project.scan();
    project.write("closed/file", "2");
    project.write("closed/new", "2");
    project.write("open", "2");
    let changes = project.changes(&before, &project.scan());
    set_mode(&project.root.join("closed"), 0o555);
    let (foreseen, undone) = without_privileges(|| {
        (project.store.preview(&changes).unwrap(), project.store.undo(&changes).unwrap())
    });
    set_mode(&project.root.join("closed"), 0o755);
    let expected =
        [("closed/new", "not possible"), ("closed/file", "not possible"), ("open", "done")];
    let expected = expected.map(|(name, result)| (name.to_owned(), result));
    assert_eq!(results(&project, &undone), expected);
    assert_eq!(format!("{foreseen:?}"), format!("{undone:?}"));
    assert_eq!(project.stored("undoing"), Vec::<PathBuf>::new());
}

#[test]
fn undo_removes_new_files_from_folders_that_became_read_only() {
    let project = Project::new();
    project.write("closed/old", "1");
    project.write("kept/old", "1");
    let (before, tree_before) = (project.scan(), tree(&project.root));
    for name in ["closed/new", "made/inner/file", "kept/new/file"] {
        project.write(name, "2");
    }
    for name in ["closed", "made/inner", "made", "kept/new"] {
        set_mode(&project.root.join(name), 0o555);
    }
    let changes = project.changes(&before, &project.scan());
    set_mode(&project.root.join("kept/new"), 0o755);
    project.write("kept/new/by-hand", "3");
    set_mode(&project.root.join("kept/new"), 0o555);
    let (foreseen, undone) = without_privileges(|| {
        (project.store.preview(&changes).unwrap(), project.store.undo(&changes).unwrap())
    });
    let expected = [
        ("made/inner/file", "done"),
        ("made/inner", "done"),
        ("made", "done"),
        ("kept/new/file", "done"),
        ("kept/new", "not empty"),
        ("closed/new", "done"),
        ("closed", "done"),
    ];
    let expected = expected.map(|(name, result)| (name.to_owned(), result));
    assert_eq!(results(&project, &undone), expected);
    assert_eq!(format!("{foreseen:?}"), format!("{undone:?}"));
    let folder_metadata = fs::metadata(project.root.join("kept/new")).unwrap();
    assert_eq!(folder_metadata.permissions().mode() & 0o777, 0o555, "what stays is as it was");
    set_mode(&project.root.join("kept/new"), 0o755);
    fs::remove_dir_all(project.root.join("kept/new")).unwrap();
    assert_eq!(tree(&project.root), tree_before);
}

#[test]
fn the_error_of_an_unwritable_snapshot_store_names_its_path() {
    let project = Project::new();
    project.write("file", "1");
    let denied = |result: Result<(), SnapshotStoreError>| match result {
        Err(SnapshotStoreError::Io { path, source }) => {
            assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
            assert!(path.starts_with(&project.data), "{path:?}");
        }
        other => panic!("{other:?}"),
    };
    let folder = project.data.join("closed");
    fs::create_dir(&folder).unwrap();
    let inner: Vec<PathBuf> =
        ["objects", "unfinished", "refs"].map(|name| project.data.join(name)).into();
    for path in inner.iter().chain([&folder]) {
        set_mode(path, 0o555);
    }
    without_privileges(|| {
        let opened = SnapshotStore::open(&folder, &project.root, project.limits, None);
        denied(opened.map(drop));
        denied(project.store.scan(&session("s")).map(drop));
        denied(project.store.capture(&session("s"), &[PathBuf::from("file")]).map(drop));
    });
    for path in &inner {
        set_mode(path, 0o700);
    }
    assert_eq!(project.scan().not_covered, [], "the scan that failed half way is forgotten");
}

#[test]
fn undo_leaves_a_socket_in_place_of_a_file_alone() {
    let project = Project::new();
    let before = project.scan();
    project.write("file", "1");
    let changes = project.changes(&before, &project.scan());
    fs::remove_file(project.root.join("file")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(project.root.join("file")).unwrap();
    let undone = project.store.undo(&changes).unwrap();
    assert!(matches!(undone[0].result, Ok(RestoreResult::Conflict { .. })));
    assert!(project.root.join("file").exists());
    drop(socket);
}
