//! The snapshot store.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use crow_core::ids::SessionId;
use crow_runtime::{
    Change, Content, Entry, PutBack, Scan, SnapshotLimits, SnapshotStore, SnapshotStoreError,
    WhyNotCovered,
};
use proptest::prelude::*;

/// A project and its store.
struct Project {
    _folder: tempfile::TempDir,
    root: PathBuf,
    data: PathBuf,
    limits: SnapshotLimits,
    store: SnapshotStore,
}

impl Project {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut SnapshotLimits)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, data) = (base.join("project"), base.join("data"));
        fs::create_dir(&root).unwrap();
        let mut limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
        change(&mut limits);
        let store = SnapshotStore::open(&data, &root, limits, None).unwrap();
        Self { _folder: folder, root, data, limits, store }
    }

    /// Opens the store once more, as another process would.
    fn other(&self) -> SnapshotStore {
        SnapshotStore::open(&self.data, &self.root, self.limits, None).unwrap()
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn scan(&self) -> Scan {
        self.store.scan(&session("s")).unwrap()
    }

    fn changes(&self, before: &Scan, after: &Scan) -> Vec<Change> {
        self.store.changes(&before.snapshot, &after.snapshot).unwrap()
    }

    /// Returns the paths of the changes.
    fn changed(&self, before: &Scan, after: &Scan) -> Vec<String> {
        let changes = self.changes(before, after).into_iter();
        changes
            .map(|change| change.path.strip_prefix(&self.root).unwrap().display().to_string())
            .collect()
    }

    /// Returns the files below a folder of the store.
    fn stored(&self, folder: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut waiting = vec![self.data.join(folder)];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    waiting.push(entry.path());
                } else {
                    files.push(entry.path());
                }
            }
        }
        files
    }
}

fn session(id: &str) -> SessionId {
    SessionId::new(id)
}

/// What can be seen of a tree, without what belongs to git.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_name() == ".git" {
                continue;
            }
            let metadata = entry.metadata().unwrap();
            let mode = metadata.permissions().mode();
            let bytes = if metadata.is_symlink() {
                fs::read_link(entry.path()).unwrap().as_os_str().as_bytes().to_vec()
            } else if metadata.is_dir() {
                waiting.push(entry.path());
                Vec::new()
            } else {
                fs::read(entry.path()).unwrap()
            };
            seen.insert(entry.path(), (mode, bytes));
        }
    }
    seen
}

#[test]
fn a_project_at_rest_keeps_its_snapshot() {
    let project = Project::new();
    project.write("a", "1");
    project.write("b/c", "2");
    let first = project.scan();
    assert_eq!(first, project.scan());
    assert_eq!(first, project.other().scan(&session("t")).unwrap());
    assert_eq!((first.entries, first.not_covered.len()), (3, 0));
}

#[test]
fn every_kind_of_change_is_told() {
    let project = Project::new();
    for name in ["edited", "deleted", "old-name", "script", "kind", "folder/in", "empty/x"] {
        project.write(name, name);
    }
    fs::remove_file(project.root.join("empty/x")).unwrap();
    symlink("nowhere", project.root.join("link")).unwrap();
    let before = project.scan();
    project.write("edited", "EDITED");
    project.write("new/deep/file", "");
    fs::remove_file(project.root.join("deleted")).unwrap();
    fs::rename(project.root.join("old-name"), project.root.join("new-name")).unwrap();
    fs::set_permissions(project.root.join("script"), Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(project.root.join("kind")).unwrap();
    fs::create_dir(project.root.join("kind")).unwrap();
    fs::remove_dir(project.root.join("empty")).unwrap();
    fs::remove_file(project.root.join("link")).unwrap();
    symlink("elsewhere", project.root.join("link")).unwrap();
    let after = project.scan();
    assert_eq!(
        project.changed(&before, &after),
        [
            "deleted",
            "edited",
            "empty",
            "kind",
            "link",
            "new",
            "new/deep",
            "new/deep/file",
            "new-name",
            "old-name",
            "script",
        ]
    );
    let changes = project.changes(&before, &after);
    let kind = changes.iter().find(|change| change.path.ends_with("kind")).unwrap();
    assert!(matches!(
        (&kind.before, &kind.after),
        (Entry::File { size: 4, .. }, Entry::Folder { .. })
    ));
    assert_eq!(project.store.read(&changes[1].before).unwrap(), b"edited");
    assert_eq!(
        project.store.entry(&before.snapshot, &changes[1].path).unwrap(),
        Some(changes[1].before.clone())
    );
    assert_eq!(
        project.store.entry(&after.snapshot, &changes[0].path).unwrap(),
        Some(Entry::Absent)
    );
}

#[test]
fn an_edit_of_the_same_size_within_one_tick_is_seen() {
    let project = Project::new();
    project.write("a", "0000");
    let mut last = project.scan();
    for round in 1..50 {
        project.write("a", format!("{round:04}"));
        let now = project.scan();
        assert_eq!(project.changed(&last, &now), ["a"], "round {round}");
        last = now;
    }
}

#[test]
fn git_is_left_out_and_nested_repositories_are_plain_folders() {
    let project = Project::new();
    project.write(".git/HEAD", "ref");
    project.write("nested/.git/HEAD", "ref");
    project.write("worktree/.git", "gitdir: elsewhere");
    project.write("nested/file", "1");
    let before = project.scan();
    project.write(".git/index", "2");
    project.write("nested/.git/index", "2");
    project.write("worktree/.git", "gitdir: moved");
    project.write("nested/file", "2");
    let after = project.scan();
    assert_eq!(project.changed(&before, &after), ["nested/file"]);
}

#[test]
fn ignored_files_are_in_the_snapshot_but_not_in_the_fingerprint() {
    let project = Project::new();
    project.write(".gitignore", "*.log\nout/\n");
    project.write("sub/.gitignore", "!kept.log\n");
    for name in ["a.log", "sub/kept.log", "sub/b.log", "out/x", "c"] {
        project.write(name, "1");
    }
    let mut last = project.scan();
    for (name, ignored) in [
        ("a.log", true),
        ("sub/kept.log", false),
        ("sub/b.log", true),
        ("out/x", true),
        ("c", false),
    ] {
        project.write(name, "2");
        let now = project.scan();
        assert_eq!(project.changed(&last, &now), [name]);
        assert_eq!(last.unignored == now.unignored, ignored, "{name}");
        last = now;
    }
}

#[test]
fn a_change_of_the_rules_is_noticed_everywhere_below() {
    let project = Project::new();
    project.write("a/b/x.tmp", "1");
    project.write(".gitignore", "");
    let plain = project.scan();
    project.write(".gitignore", "*.tmp\n");
    let ignored = project.scan();
    project.write("a/b/x.tmp", "2");
    let edited = project.scan();
    assert_eq!(ignored.unignored, edited.unignored);
    fs::remove_file(project.root.join(".gitignore")).unwrap();
    let removed = project.scan();
    project.write("a/b/x.tmp", "3");
    assert_ne!(removed.unignored, project.scan().unignored);
    assert_ne!(plain.unignored, ignored.unignored);
}

#[test]
fn an_ignored_folder_of_too_many_files_is_left_out_and_named() {
    let project = Project::new();
    project.write(".gitignore", "modules/\n");
    for number in 0..1000 {
        project.write(&format!("modules/{}/{number}", number % 10), "");
    }
    let full = project.scan();
    assert_eq!(full.not_covered, []);
    project.write("modules/3/one-more", "");
    let over = project.scan();
    let left_out = [(project.root.join("modules"), WhyNotCovered::IgnoredFolder)];
    let named = |scan: &Scan| -> Vec<_> {
        scan.not_covered.iter().map(|left| (left.path.clone(), left.why)).collect()
    };
    assert_eq!(named(&over), left_out);
    assert_eq!(
        project.changed(&full, &over),
        ["modules"],
        "what is not seen is not told as deleted"
    );
    let cold = project.other();
    assert_eq!(named(&cold.scan(&session("cold")).unwrap()), left_out);
    let changes = project.changes(&full, &over);
    let undone = project.store.undo(&changes).unwrap();
    assert!(matches!(
        undone[0].result,
        Ok(PutBack::NotCovered { why: WhyNotCovered::IgnoredFolder })
    ));
}

#[test]
fn large_files_are_seen_but_not_stored() {
    let project = Project::with(|limits| {
        limits.file_bytes = 100;
        limits.ignored_file_bytes = 10;
    });
    project.write(".gitignore", "*.o\n");
    project.write("large", [0; 101]);
    project.write("ignored.o", [0; 11]);
    project.write("small.o", [0; 10]);
    let before = project.scan();
    let named: Vec<_> =
        before.not_covered.iter().map(|left| (left.path.clone(), left.why)).collect();
    let too_large = |name: &str| (project.root.join(name), WhyNotCovered::TooLarge);
    assert_eq!(named, [too_large("ignored.o"), too_large("large")]);
    project.write("large", [1; 101]);
    let after = project.scan();
    assert_eq!(project.changed(&before, &after), ["large"]);
    let changes = project.changes(&before, &after);
    assert!(matches!(
        project.store.undo(&changes).unwrap()[0].result,
        Ok(PutBack::NotCovered { why: WhyNotCovered::TooLarge })
    ));
    fs::write(project.root.join("large"), "small now").unwrap();
    let small = project.scan();
    assert!(matches!(
        project.changes(&after, &small)[0].after,
        Entry::File { content: Content::Stored(_), .. }
    ));
}

#[test]
fn a_tree_beyond_the_limit_is_covered_in_part_and_a_root_beyond_it_not_at_all() {
    let project = Project::with(|limits| limits.entries = 10);
    for number in 0..8 {
        project.write(&format!("few/{number}"), "");
        project.write(&format!("more/{number}"), "");
    }
    let scan = project.scan();
    assert_eq!(scan.not_covered.len(), 1);
    assert_eq!(scan.not_covered[0].path, project.root.join("more"));
    for number in 0..11 {
        project.write(&format!("{number}"), "");
    }
    let refused = project.store.scan(&session("s"));
    assert!(matches!(refused, Err(SnapshotStoreError::TooManyFiles { limit: 10, .. })));
}

#[test]
fn a_folder_that_is_no_project_is_refused() {
    let project = Project::new();
    let home = project.root.join("user");
    fs::create_dir(&home).unwrap();
    for (root, home) in [
        (home.as_path(), Some(home.as_path())),
        (project.root.as_path(), Some(home.as_path())),
        (Path::new("/"), None),
        (Path::new("/proc"), None),
    ] {
        let data = project.data.join("other");
        let store = SnapshotStore::open(&data, root, project.limits, home).unwrap();
        let refused = store.scan(&session("s"));
        assert!(
            matches!(refused, Err(SnapshotStoreError::Refused { .. })),
            "{root:?}: {refused:?}"
        );
    }
    let inside = home.join("project");
    fs::create_dir(&inside).unwrap();
    let data = project.data.join("inside");
    let store = SnapshotStore::open(&data, &inside, project.limits, Some(&home)).unwrap();
    assert!(store.scan(&session("s")).is_ok());
}

#[test]
fn a_store_inside_the_project_does_not_hold_itself() {
    let project = Project::new();
    project.write("a", "1");
    let data = project.root.join("store");
    let store = SnapshotStore::open(&data, &project.root, project.limits, None).unwrap();
    let first = store.scan(&session("s")).unwrap();
    assert_eq!(store.scan(&session("s")).unwrap().snapshot, first.snapshot);
    assert_eq!(store.entry(&first.snapshot, &data).unwrap(), Some(Entry::Absent));
}

#[test]
fn single_paths_are_captured_wherever_they_lie_and_put_back() {
    let project = Project::new();
    project.write(".gitignore", "secret\n");
    project.write("secret", "1");
    let outside = project.data.parent().unwrap().join("outside");
    fs::write(&outside, "1").unwrap();
    let paths = [PathBuf::from("secret"), PathBuf::from("new/deep/file"), outside.clone()];
    let before = project.store.capture(&session("s"), &paths).unwrap();
    assert_eq!(before.paths.len(), 5, "the missing folders are captured, too");
    let tree_before = tree(&project.root);
    project.write("secret", "2");
    project.write("new/deep/file", "2");
    fs::write(&outside, "2").unwrap();
    let after = project.store.capture(&session("s"), &before.paths).unwrap();
    let changes = project.store.changes(&before.snapshot, &after.snapshot).unwrap();
    assert_eq!(changes.len(), 5);
    for undone in project.store.undo(&changes).unwrap() {
        assert!(matches!(undone.result, Ok(PutBack::Done)), "{undone:?}");
    }
    assert_eq!(tree(&project.root), tree_before);
    assert_eq!(fs::read(outside).unwrap(), b"1");
    let scan = project.scan();
    assert!(matches!(
        project.store.changes(&before.snapshot, &scan.snapshot),
        Err(SnapshotStoreError::Mismatched { .. })
    ));
}

#[test]
fn what_somebody_changed_since_is_left_alone() {
    let project = Project::new();
    project.write("edited", "1");
    project.write("moved/file", "1");
    let before = project.scan();
    project.write("edited", "2");
    project.write("created", "2");
    project.write("folder/created", "2");
    project.write("moved/file", "2");
    let after = project.scan();
    project.write("edited", "by hand");
    project.write("created", "by hand");
    project.write("folder/by-hand", "3");
    fs::rename(project.root.join("moved"), project.root.join("away")).unwrap();
    symlink("away", project.root.join("moved")).unwrap();
    let undone = project.store.undo(&project.changes(&before, &after)).unwrap();
    let results: Vec<_> = undone
        .iter()
        .map(|undone| {
            let name = undone.path.strip_prefix(&project.root).unwrap().display().to_string();
            let result = match undone.result.as_ref().unwrap() {
                PutBack::Done => "done",
                PutBack::Unchanged => "unchanged",
                PutBack::Conflict { .. } => "conflict",
                PutBack::NotEmpty => "not empty",
                PutBack::NotCovered { .. } => "not covered",
            };
            (name, result)
        })
        .collect();
    let expected = [
        ("folder/created", "done"),
        ("folder", "not empty"),
        ("created", "conflict"),
        ("edited", "conflict"),
        ("moved/file", "conflict"),
    ];
    assert_eq!(results, expected.map(|(name, result)| (name.to_owned(), result)));
    assert_eq!(fs::read(project.root.join("edited")).unwrap(), b"by hand");
    assert_eq!(fs::read(project.root.join("created")).unwrap(), b"by hand");
    assert_eq!(fs::read(project.root.join("away/file")).unwrap(), b"2");
    assert!(project.root.join("folder/by-hand").exists());
}

#[test]
fn undo_and_redo_are_each_others_opposite() {
    let project = Project::new();
    project.write("a/b", "1");
    let (before, tree_before) = (project.scan(), tree(&project.root));
    fs::remove_dir_all(project.root.join("a")).unwrap();
    project.write("a", "now a file");
    let (after, tree_after) = (project.scan(), tree(&project.root));
    let changes = project.changes(&before, &after);
    project.store.undo(&changes).unwrap();
    assert_eq!(tree(&project.root), tree_before);
    let redo: Vec<_> = changes.into_iter().map(Change::reversed).collect();
    project.store.undo(&redo).unwrap();
    assert_eq!(tree(&project.root), tree_after);
    assert!(matches!(
        project.store.put_back(&redo[0].path, &redo[0].after, &redo[0].before),
        Ok(PutBack::Unchanged)
    ));
}

#[test]
fn a_folder_closed_to_writing_returns_with_what_was_in_it() {
    let project = Project::new();
    project.write("closed/file", "1");
    fs::set_permissions(project.root.join("closed"), Permissions::from_mode(0o555)).unwrap();
    let (before, tree_before) = (project.scan(), tree(&project.root));
    fs::set_permissions(project.root.join("closed"), Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(project.root.join("closed")).unwrap();
    let after = project.scan();
    project.store.undo(&project.changes(&before, &after)).unwrap();
    assert_eq!(tree(&project.root), tree_before);
    fs::set_permissions(project.root.join("closed"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn threads_and_stores_scan_at_once() {
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
    assert_eq!(project.store.check().unwrap().damaged, []);
    assert_eq!(project.store.sessions().unwrap().len(), 8);
}

#[test]
fn what_a_session_refers_to_is_never_collected() {
    let project = Project::new();
    project.write("a", "1");
    let first = project.store.scan(&session("one")).unwrap();
    let captured = project.store.capture(&session("two"), &[PathBuf::from("a")]).unwrap();
    project.write("a", "22");
    let second = project.store.scan(&session("three")).unwrap();
    project.store.keep(&session("four"), std::slice::from_ref(&first.snapshot)).unwrap();
    let change = project.changes(&first, &second).remove(0);
    for (released, stays) in [("one", true), ("two", true), ("four", false)] {
        project.store.release(&session(released)).unwrap();
        project.store.collect_garbage().unwrap();
        assert_eq!(project.store.read(&change.before).is_ok(), stays, "{released}");
        assert!(project.store.read(&change.after).is_ok());
        assert_eq!(project.store.check().unwrap().missing, []);
    }
    let gone = project.store.keep(&session("one"), &[captured.snapshot]);
    assert!(matches!(gone, Err(SnapshotStoreError::Unknown { .. })));
}

#[test]
fn a_process_that_goes_on_after_a_collection_stores_anew_what_went() {
    let project = Project::new();
    project.write("a", "1");
    project.write("b/c", "1");
    let mine = project.scan();
    let other = project.other();
    other.release(&session("s")).unwrap();
    assert_eq!(other.collect_garbage().unwrap().remaining, 0);
    assert_eq!(project.store.scan(&session("t")).unwrap().snapshot, mine.snapshot);
    let checked = project.store.check().unwrap();
    assert_eq!((checked.missing, checked.objects), (vec![], 3));
}

#[test]
fn a_cut_object_is_found_and_stored_anew() {
    let project = Project::new();
    project.write("a", "x".repeat(1000));
    let scan = project.scan();
    let entry = project.store.entry(&scan.snapshot, &project.root.join("a")).unwrap().unwrap();
    for object in project.stored("objects") {
        fs::write(&object, &fs::read(&object).unwrap()[..5]).unwrap();
    }
    assert!(matches!(project.store.read(&entry), Err(SnapshotStoreError::Damaged { .. })));
    let checked = project.store.check().unwrap();
    assert_eq!((checked.damaged.len(), checked.objects), (2, 0));
    assert_eq!(project.scan().snapshot, scan.snapshot);
    assert_eq!(project.store.read(&entry).unwrap().len(), 1000);
}

#[test]
fn what_a_killed_process_left_behind_does_no_harm() {
    let project = Project::new();
    for number in 0..1500 {
        project.write(&format!("{number}"), number.to_string());
    }
    let scan = project.scan();
    fs::write(project.data.join("unfinished/half"), "half").unwrap();
    let refs = project.data.join("refs/s");
    let cut = format!("{}\ntree-1234", fs::read_to_string(&refs).unwrap());
    fs::write(refs, cut).unwrap();
    let index = project.data.join("index");
    let whole = fs::read(&index).unwrap();
    for damaged in [&whole[..whole.len() / 2], &whole[..3], b"", &[&whole[..], b"x"].concat()] {
        fs::write(&index, damaged).unwrap();
        let other = project.other();
        assert_eq!(other.scan(&session("t")).unwrap().snapshot, scan.snapshot);
    }
    assert_eq!(project.stored("unfinished"), Vec::<PathBuf>::new());
    let other = project.other();
    assert_eq!(other.scan(&session("s")).unwrap().snapshot, scan.snapshot);
    other.release(&session("t")).unwrap();
    assert_eq!(
        other.collect_garbage().unwrap().removed,
        0,
        "the reference after the cut one holds"
    );
}

#[test]
fn without_room_what_is_new_is_named_and_not_stored() {
    for (why, change) in [
        (WhyNotCovered::StoreFull, (|limits| limits.store_bytes = 1600) as fn(&mut SnapshotLimits)),
        (WhyNotCovered::DiskFull, |limits| limits.free_bytes = u64::MAX),
        (WhyNotCovered::TooMuchNew, |limits| limits.new_bytes = 0),
    ] {
        let project = Project::with(change);
        let noise: Vec<u8> = (0..200_u8).flat_map(|n| blake(n).into_iter().take(8)).collect();
        project.write("large", &noise);
        let scan = project.scan();
        assert_eq!(scan.not_covered.len(), 1, "{why}");
        assert_eq!(scan.not_covered[0].why, why);
        assert_eq!(project.scan().snapshot, scan.snapshot, "{why}: at rest nothing changes");
        let captured = project.store.capture(&session("s"), &[PathBuf::from("large")]).unwrap();
        assert_eq!(captured.not_covered[0].why, why);
        assert_eq!(project.stored("unfinished"), Vec::<PathBuf>::new());
    }
}

/// Bytes that cannot be compressed.
fn blake(number: u8) -> Vec<u8> {
    let mut state = u64::from(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::new();
    for _ in 0..4 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes
}

#[test]
fn a_full_store_is_an_error_when_not_even_folders_fit() {
    let project = Project::with(|limits| limits.store_bytes = 100);
    project.write("a-name-that-does-not-fit-into-so-small-a-store", "1");
    project.write("another-name-that-does-not-fit-into-so-small-a-store", "2");
    let full = project.store.scan(&session("s"));
    assert!(matches!(full, Err(SnapshotStoreError::Full { limit: 100 })), "{full:?}");
}

#[test]
fn collecting_waits_for_nobody() {
    let project = Project::new();
    let lock = fs::File::open(project.data.join("lock")).unwrap();
    lock.lock_shared().unwrap();
    assert!(matches!(project.store.collect_garbage(), Err(SnapshotStoreError::Busy)));
    assert!(matches!(project.store.check(), Err(SnapshotStoreError::Busy)));
    assert!(project.store.scan(&session("s")).is_ok());
}

#[test]
fn a_session_id_cannot_lead_out_of_the_store() {
    let project = Project::new();
    for id in ["", "..", "../x", "a/b", ".hidden"] {
        let refused = project.store.scan(&session(id));
        assert!(matches!(refused, Err(SnapshotStoreError::BadSession { .. })), "{id}");
    }
}

#[test]
fn a_pipe_in_the_project_holds_nothing_up() {
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
    assert_eq!(captured.not_covered[0].why, WhyNotCovered::Special);
    drop(listener);
}

/// Something that happens to a tree.
#[derive(Debug, Clone)]
enum Edit {
    Write(Vec<usize>, u8),
    Delete(Vec<usize>),
    Rename(Vec<usize>, Vec<usize>),
    Mode(Vec<usize>, u32),
    Link(Vec<usize>, u8),
    Folder(Vec<usize>),
}

const NAMES: [&[u8]; 6] = [b"a", b"b", b".gitignore", b".git", b"not-\xff\xfe-utf8", b"c d"];

fn edit() -> impl Strategy<Value = Edit> {
    let path = || prop::collection::vec(0..NAMES.len(), 1..4);
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, content)| Edit::Write(path, content)),
        1 => path().prop_map(Edit::Delete),
        1 => (path(), path()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (path(), prop::sample::select(vec![0o600, 0o755, 0o444, 0o700]))
            .prop_map(|(path, mode)| Edit::Mode(path, mode)),
        1 => (path(), any::<u8>()).prop_map(|(path, target)| Edit::Link(path, target)),
        1 => path().prop_map(Edit::Folder),
    ]
}

/// Edits a tree; what is not possible does not happen.
fn apply(root: &Path, edit: &Edit) {
    let place = |names: &[usize]| {
        names
            .iter()
            .fold(root.to_path_buf(), |path, name| path.join(OsStr::from_bytes(NAMES[*name])))
    };
    let folder = |path: &Path| fs::create_dir_all(path.parent().unwrap()).is_ok();
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|is| is.is_symlink());
    let done = match edit {
        Edit::Write(names, content) => {
            let path = place(names);
            // Rules that ignore something, sometimes.
            let text = format!("a\n/b\n{}", "x".repeat(usize::from(*content)));
            !is_link(&path)
                && folder(&path)
                && fs::write(path, text.split_at(usize::from(content % 4)).1).is_ok()
        }
        Edit::Delete(names) => {
            let path = place(names);
            fs::remove_file(&path).is_ok() || fs::remove_dir_all(&path).is_ok()
        }
        Edit::Rename(from, to) => folder(&place(to)) && fs::rename(place(from), place(to)).is_ok(),
        Edit::Mode(names, mode) => {
            let path = place(names);
            let mode = if path.is_dir() { mode | 0o700 } else { *mode };
            !is_link(&path) && fs::set_permissions(path, Permissions::from_mode(mode)).is_ok()
        }
        Edit::Link(names, target) => {
            folder(&place(names)) && symlink(format!("t{target}"), place(names)).is_ok()
        }
        Edit::Folder(names) => fs::create_dir_all(place(names)).is_ok(),
    };
    let _: bool = done;
}

/// Removes what no snapshot holds.
fn remove_git(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, is_folder) = (entry.path(), entry.file_type().unwrap().is_dir());
        match (entry.file_name() == ".git", is_folder) {
            (true, true) => fs::remove_dir_all(path).unwrap(),
            (true, false) => fs::remove_file(path).unwrap(),
            (false, true) => remove_git(&path),
            (false, false) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_edited_is_put_back(
        first in prop::collection::vec(edit(), 0..25),
        second in prop::collection::vec(edit(), 0..25),
    ) {
        let project = Project::new();
        for edit in &first {
            apply(&project.root, edit);
        }
        let (before, tree_before) = (project.scan(), tree(&project.root));
        for edit in &second {
            apply(&project.root, edit);
        }
        let (after, tree_after) = (project.scan(), tree(&project.root));
        prop_assert_eq!(&project.other().scan(&session("cold")).unwrap().snapshot, &after.snapshot);
        let changes = project.changes(&before, &after);
        prop_assert_eq!(changes.is_empty(), tree_before == tree_after);
        // They would keep folders from going.
        remove_git(&project.root);
        for undone in project.store.undo(&changes).unwrap() {
            prop_assert!(matches!(undone.result, Ok(PutBack::Done)), "{:?}", undone);
        }
        prop_assert_eq!(tree(&project.root), tree_before);
        prop_assert_eq!(project.scan().snapshot, before.snapshot);
    }
}
