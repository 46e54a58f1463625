//! Undo of changes.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use crow_snapshot::{ContentRef, PathChange, RestoreResult, SnapshotEntry, SnapshotStoreError};

use super::project::{Project, results, session, tree};

#[test]
fn every_kind_of_change_is_reported() {
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
        (SnapshotEntry::File { size: 4, .. }, SnapshotEntry::Folder { .. })
    ));
    assert_eq!(project.store.read(&changes[1].before).unwrap(), b"edited");
    assert_eq!(
        project.store.entry(&before.snapshot, &changes[1].path).unwrap(),
        Some(changes[1].before.clone())
    );
    assert_eq!(
        project.store.entry(&after.snapshot, &changes[0].path).unwrap(),
        Some(SnapshotEntry::Absent)
    );
}

#[test]
fn single_paths_inside_and_outside_the_project_are_captured_and_restored() {
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
        assert!(matches!(undone.result, Ok(RestoreResult::Done)), "{undone:?}");
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
fn undo_leaves_later_changes_alone() {
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
    let expected = [
        ("folder/created", "done"),
        ("folder", "not empty"),
        ("created", "conflict"),
        ("edited", "conflict"),
        ("moved/file", "conflict"),
    ];
    assert_eq!(
        results(&project, &undone),
        expected.map(|(name, result)| (name.to_owned(), result))
    );
    assert_eq!(fs::read(project.root.join("edited")).unwrap(), b"by hand");
    assert_eq!(fs::read(project.root.join("created")).unwrap(), b"by hand");
    assert_eq!(fs::read(project.root.join("away/file")).unwrap(), b"2");
    assert!(project.root.join("folder/by-hand").exists());
}

#[test]
fn undoing_reversed_changes_redoes_them() {
    let project = Project::new();
    project.write("a/b", "1");
    let (before, tree_before) = (project.scan(), tree(&project.root));
    fs::remove_dir_all(project.root.join("a")).unwrap();
    project.write("a", "now a file");
    let (after, tree_after) = (project.scan(), tree(&project.root));
    let changes = project.changes(&before, &after);
    project.store.undo(&changes).unwrap();
    assert_eq!(tree(&project.root), tree_before);
    let redo: Vec<_> = changes.into_iter().map(PathChange::reversed).collect();
    project.store.undo(&redo).unwrap();
    assert_eq!(tree(&project.root), tree_after);
    assert!(matches!(
        project.store.restore_path(&redo[0].path, &redo[0].after, &redo[0].before),
        Ok(RestoreResult::Unchanged)
    ));
}

#[test]
fn undo_restores_a_read_only_folder_with_its_content() {
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
fn foresee_reports_the_same_outcomes_as_undo() {
    let project = Project::new();
    for name in ["edited", "gone", "by-hand", "lost", "damaged", "swapped/in", "mode", "moved/in"] {
        project.write(name, name);
    }
    let before = project.scan();
    for name in ["edited", "by-hand", "lost", "damaged", "moved/in"] {
        project.write(name, "2");
    }
    for name in ["new/deep/file", "full/new", "added"] {
        project.write(name, "2");
    }
    fs::remove_file(project.root.join("gone")).unwrap();
    fs::remove_dir_all(project.root.join("swapped")).unwrap();
    project.write("swapped", "2");
    fs::set_permissions(project.root.join("mode"), Permissions::from_mode(0o600)).unwrap();
    let changes = project.changes(&before, &project.scan());
    project.write("by-hand", "3");
    project.write("full/by-hand", "3");
    fs::remove_file(project.root.join("added")).unwrap();
    fs::rename(project.root.join("moved"), project.root.join("away")).unwrap();
    symlink("away", project.root.join("moved")).unwrap();
    damage(&project, &changes);
    let seen = tree(&project.root);
    let foreseen = project.store.preview(&changes).unwrap();
    assert_eq!(tree(&project.root), seen, "nothing was touched");
    let expected = [
        ("swapped/in", "done"),
        ("new/deep/file", "done"),
        ("new/deep", "done"),
        ("new", "done"),
        ("full/new", "done"),
        ("full", "not empty"),
        ("added", "unchanged"),
        ("by-hand", "conflict"),
        ("damaged", "damaged"),
        ("edited", "done"),
        ("gone", "done"),
        ("lost", "missing"),
        ("mode", "done"),
        ("moved/in", "conflict"),
        ("swapped", "done"),
    ];
    let mut sorted = results(&project, &foreseen);
    sorted.sort();
    let mut expected = expected.map(|(name, result)| (name.to_owned(), result));
    expected.sort();
    assert_eq!(sorted, expected);
    let undone = project.store.undo(&changes).unwrap();
    assert_eq!(format!("{foreseen:?}"), format!("{undone:?}"));
    assert_eq!(fs::read(project.root.join("swapped/in")).unwrap(), b"swapped/in");
    assert_eq!(fs::read(project.root.join("edited")).unwrap(), b"edited");
}

/// Truncates the stored content of the file `damaged` and removes that of `lost`.
fn damage(project: &Project, changes: &[PathChange]) {
    for (name, cut) in [("damaged", true), ("lost", false)] {
        let change = changes.iter().find(|change| change.path.ends_with(name)).unwrap();
        let SnapshotEntry::File { content: ContentRef::Stored(hash), .. } = change.before else {
            panic!()
        };
        let hash = hash.to_string();
        let named = |path: &PathBuf| path.display().to_string().replace('/', "").ends_with(&hash);
        let object = project.stored("objects").into_iter().find(named).unwrap();
        fs::remove_file(&object).unwrap();
        if cut {
            fs::write(object, "x").unwrap();
        }
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_a_conflict_for_its_former_entries() {
    let project = Project::new();
    project.write("a/b/c", "1");
    project.write("a/d", "1");
    let before = project.scan();
    fs::remove_dir_all(project.root.join("a")).unwrap();
    let after = project.scan();
    project.write("a", "by hand");
    let changes = project.changes(&before, &after);
    let foreseen = project.store.preview(&changes).unwrap();
    let undone = project.store.undo(&changes).unwrap();
    let expected = ["a", "a/b", "a/b/c", "a/d"].map(|name| (name.to_owned(), "conflict"));
    assert_eq!(results(&project, &undone), expected);
    assert_eq!(format!("{foreseen:?}"), format!("{undone:?}"));
    assert_eq!(fs::read(project.root.join("a")).unwrap(), b"by hand");
}

#[test]
fn keep_copy_saves_files_and_links_under_a_free_name() {
    let project = Project::new();
    project.write("file", "1");
    fs::set_permissions(project.root.join("file"), Permissions::from_mode(0o751)).unwrap();
    symlink("nowhere", project.root.join("link")).unwrap();
    project.write("folder/in", "1");
    for (name, copy) in [
        ("file", Some("file.crow-kept")),
        ("file", Some("file.crow-kept-2")),
        ("file", Some("file.crow-kept-3")),
        ("link", Some("link.crow-kept")),
        ("link", Some("link.crow-kept-2")),
        ("folder", None),
        ("absent", None),
        ("file/under", None),
    ] {
        let saved = project.store.keep_copy(&project.root.join(name)).unwrap();
        assert_eq!(saved, copy.map(|copy| project.root.join(copy)), "{name}");
    }
    let seen = tree(&project.root);
    assert_eq!(seen.len(), 9);
    for (copy, original) in [("file.crow-kept-3", "file"), ("link.crow-kept-2", "link")] {
        assert_eq!(seen[&project.root.join(copy)], seen[&project.root.join(original)]);
    }
}

#[test]
fn files_left_by_a_killed_undo_are_not_captured_and_removed_by_the_next_undo() {
    let project = Project::new();
    project.write("folder/file", "1");
    let plain = project.scan();
    let name = |number: u32| format!(".crow-undo-018f0000-0000-7000-8000-{number:012}");
    let (leftover, foreign) = (project.root.join("folder").join(name(1)), name(2));
    project.write(&format!("folder/{}", name(1)), "half");
    project.write(&foreign, "of another store");
    project.write(".crow-undo-notes", "the user's");
    let record = [leftover.as_os_str().as_encoded_bytes(), b"\0/cut-off"].concat();
    fs::create_dir_all(project.data.join("undoing")).unwrap();
    fs::write(project.data.join("undoing/killed"), record).unwrap();
    let now = project.scan();
    assert_eq!(project.changed(&plain, &now), [".crow-undo-notes"]);
    fs::remove_dir_all(project.root.join("folder")).unwrap();
    project.write(&format!("folder/{}", name(1)), "half");
    let emptied = project.scan();
    let made: Vec<_> =
        project.changes(&emptied, &plain).into_iter().map(PathChange::reversed).collect();
    let foreseen = project.store.preview(&made).unwrap();
    assert!(leftover.exists());
    assert_eq!(format!("{foreseen:?}"), format!("{:?}", project.store.undo(&made).unwrap()));
    assert!(!leftover.exists());
    assert!(project.root.join(foreign).exists(), "only its own");
    assert_eq!(project.stored("undoing"), Vec::<PathBuf>::new());
}

#[test]
fn a_folder_with_only_files_of_a_killed_undo_can_be_removed() {
    let project = Project::new();
    let before = project.scan();
    project.write("made/file", "1");
    let changes = project.changes(&before, &project.scan());
    let leftover = project.root.join("made/.crow-undo-018f0000-0000-7000-8000-000000000001");
    fs::write(&leftover, "half").unwrap();
    fs::create_dir_all(project.data.join("undoing")).unwrap();
    let record = [leftover.as_os_str().as_encoded_bytes(), b"\0"].concat();
    fs::write(project.data.join("undoing/killed"), record).unwrap();
    let expected = [("made/file", "done"), ("made", "done")];
    let expected = expected.map(|(name, result)| (name.to_owned(), result));
    assert_eq!(results(&project, &project.store.preview(&changes).unwrap()), expected);
    assert_eq!(results(&project, &project.store.undo(&changes).unwrap()), expected);
    assert!(!project.root.join("made").exists());
}

#[test]
fn temporary_files_of_a_concurrent_undo_are_kept() {
    let project = Project::new();
    project.write("file", "1");
    let before = project.scan();
    project.write("file", "2");
    let changes = project.changes(&before, &project.scan());
    let theirs = project.root.join(".crow-undo-018f0000-0000-7000-8000-000000000001");
    fs::write(&theirs, "half").unwrap();
    fs::create_dir_all(project.data.join("undoing")).unwrap();
    let record = project.data.join("undoing/theirs");
    fs::write(&record, [theirs.as_os_str().as_encoded_bytes(), b"\0"].concat()).unwrap();
    let lock = fs::File::open(&record).unwrap();
    lock.lock().unwrap();
    project.store.undo(&changes).unwrap();
    assert!(theirs.exists() && record.exists());
}

#[test]
fn look_at_returns_the_current_entry_without_storing_it() {
    let project = Project::with(|limits| limits.file_bytes = 10);
    project.write("file", "1");
    project.write("large", "0123456789a");
    symlink("file", project.root.join("link")).unwrap();
    let scan = project.scan();
    let objects = project.stored("objects").len();
    for name in ["file", "large", "link", "absent"] {
        let path = project.root.join(name);
        let entry = project.store.entry(&scan.snapshot, &path).unwrap().unwrap();
        assert_eq!(project.store.current_entry(&path, &entry).unwrap(), entry, "{name}");
        project.write("file", "2");
    }
    let now =
        project.store.current_entry(&project.root.join("file"), &SnapshotEntry::Absent).unwrap();
    assert!(matches!(now, SnapshotEntry::File { size: 1, content: ContentRef::Stored(_), .. }));
    assert_eq!(project.stored("objects").len(), objects);
}

#[test]
fn paths_of_returns_paths_only_for_a_snapshot_of_single_paths() {
    let project = Project::new();
    let paths = [PathBuf::from("new/file"), PathBuf::from("other")];
    let captured = project.store.capture(&session("s"), &paths).unwrap();
    assert_eq!(project.store.paths_of(&captured.snapshot).unwrap(), Some(captured.paths));
    assert_eq!(project.store.paths_of(&project.scan().snapshot).unwrap(), None);
    assert_eq!(project.store.root(), project.root);
    assert_eq!(project.store.limits(), project.limits);
}
