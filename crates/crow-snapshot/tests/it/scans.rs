//! Scans of a project.

use std::{fs, path::Path};

use crow_snapshot::{
    ContentRef, NotCoveredReason, RestoreResult, Scan, SnapshotEntry, SnapshotStore,
    SnapshotStoreError,
};

use super::project::{Project, session};

#[test]
fn an_unchanged_project_keeps_its_snapshot() {
    let project = Project::new();
    project.write("a", "1");
    project.write("b/c", "2");
    let first = project.scan();
    assert_eq!(first, project.scan());
    assert_eq!(first, project.other().scan(&session("t")).unwrap());
    assert_eq!((first.entries, first.not_covered.len()), (3, 0));
}

#[test]
fn an_edit_of_the_same_size_within_one_timestamp_tick_is_seen() {
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
fn git_directories_are_left_out_and_nested_repositories_are_plain_folders() {
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
fn a_change_of_gitignore_applies_to_all_subfolders() {
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
fn an_ignored_folder_with_too_many_files_is_left_out_and_named() {
    let project = Project::new();
    project.write(".gitignore", "modules/\n");
    for number in 0..1000 {
        project.write(&format!("modules/{}/{number}", number % 10), "");
    }
    let full = project.scan();
    assert_eq!(full.not_covered, []);
    project.write("modules/3/one-more", "");
    let over = project.scan();
    let left_out = [(project.root.join("modules"), NotCoveredReason::IgnoredFolder)];
    let named = |scan: &Scan| -> Vec<_> {
        scan.not_covered.iter().map(|entry| (entry.path.clone(), entry.why)).collect()
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
        Ok(RestoreResult::NotCovered { why: NotCoveredReason::IgnoredFolder })
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
        before.not_covered.iter().map(|entry| (entry.path.clone(), entry.why)).collect();
    let too_large = |name: &str| (project.root.join(name), NotCoveredReason::TooLarge);
    assert_eq!(named, [too_large("ignored.o"), too_large("large")]);
    project.write("large", [1; 101]);
    let after = project.scan();
    assert_eq!(project.changed(&before, &after), ["large"]);
    let changes = project.changes(&before, &after);
    assert!(matches!(
        project.store.undo(&changes).unwrap()[0].result,
        Ok(RestoreResult::NotCovered { why: NotCoveredReason::TooLarge })
    ));
    fs::write(project.root.join("large"), "small now").unwrap();
    let small = project.scan();
    assert!(matches!(
        project.changes(&after, &small)[0].after,
        SnapshotEntry::File { content: ContentRef::Stored(_), .. }
    ));
}

#[test]
fn a_tree_beyond_the_entry_limit_is_covered_in_part_and_such_a_root_is_refused() {
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
fn root_home_and_mount_point_are_refused_as_projects() {
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
fn a_store_inside_the_project_is_not_captured() {
    let project = Project::new();
    project.write("a", "1");
    let data = project.root.join("store");
    let store = SnapshotStore::open(&data, &project.root, project.limits, None).unwrap();
    let first = store.scan(&session("s")).unwrap();
    assert_eq!(store.scan(&session("s")).unwrap().snapshot, first.snapshot);
    assert_eq!(store.entry(&first.snapshot, &data).unwrap(), Some(SnapshotEntry::Absent));
}
