//! Packs: files of the store that hold many small contents.

use std::fs;

use crow_core::ids::SnapshotId;
use crow_snapshot::{SnapshotStore, SnapshotStoreError};

use super::project::{Project, session};

const FILES: usize = 300;

/// Creates a project of many small files with different contents, and a large one.
fn project() -> Project {
    let project = Project::new();
    for number in 0..FILES {
        project.write(&format!("folder-{}/{number}", number % 7), text(number));
    }
    project.write("large", "many words\n".repeat(10_000) + &"x".repeat(5000));
    project
}

fn text(number: usize) -> String {
    format!("the content of file {number}\n")
}

/// Reads all small files from a snapshot and returns how many are intact.
fn intact_files(project: &Project, store: &SnapshotStore, snapshot: &SnapshotId) -> usize {
    let is_intact = |number: &usize| {
        let path = project.root.join(format!("folder-{}/{number}", number % 7));
        let entry = store.entry(snapshot, &path).unwrap().unwrap();
        store.read(&entry).is_ok_and(|bytes| bytes == text(*number).into_bytes())
    };
    (0..FILES).filter(is_intact).count()
}

#[test]
fn the_first_scan_stores_many_small_files_in_one_pack() {
    let project = project();
    let scan = project.scan();
    assert_eq!(
        (project.stored("packs").len(), intact_files(&project, &project.store, &scan.snapshot)),
        (1, FILES)
    );
    // The folders, and the large file.
    assert_eq!(project.stored("objects").len(), 9);
    // Another process finds them and stores none of them again.
    let other = project.other();
    assert_eq!(intact_files(&project, &other, &scan.snapshot), FILES);
    let captured = other.capture(&session("t"), &["folder-0/0".into()]).unwrap();
    assert_eq!(captured.not_covered, []);
    assert_eq!(project.stored("objects").len(), 10);
    assert_eq!(project.store.data().check().unwrap().missing, []);
}

#[test]
fn small_projects_and_later_scans_create_no_packs() {
    let project = Project::new();
    project.write("a", "1");
    project.scan();
    for number in 0..FILES {
        project.write(&format!("later/{number}"), text(number));
    }
    project.scan();
    assert!(!project.data.join("packs").exists());
}

#[test]
fn garbage_collection_keeps_referenced_contents_of_a_pack() {
    let project = project();
    let first = project.scan();
    fs::remove_dir_all(project.root.join("folder-0")).unwrap();
    let second = project.store.scan(&session("t")).unwrap();
    let removed = (0..FILES).filter(|number| number % 7 == 0).count();
    // A process that has opened the old pack continues after the collection.
    let other = project.other();
    assert_eq!(intact_files(&project, &other, &first.snapshot), FILES);
    project.store.data().release(&session("s")).unwrap();
    project.store.data().collect_garbage().unwrap();
    assert_eq!(project.stored("packs").len(), 1);
    let remaining = (0..FILES).filter(|number| number % 7 != 0);
    for number in remaining {
        let path = project.root.join(format!("folder-{}/{number}", number % 7));
        let entry = other.entry(&second.snapshot, &path).unwrap().unwrap();
        assert_eq!(other.read(&entry).unwrap(), text(number).into_bytes());
    }
    let checked = project.store.data().check().unwrap();
    // The remaining small files, six folders, the root, and the large file.
    assert_eq!((checked.missing, checked.objects), (vec![], FILES - removed + 8));
    project.store.data().release(&session("t")).unwrap();
    assert_eq!(project.store.data().collect_garbage().unwrap().remaining, 0);
    assert_eq!(project.stored("packs").len(), 0);
}

#[test]
fn damaged_contents_of_a_pack_are_found_and_stored_again() {
    let project = project();
    let scan = project.scan();
    let [pack] = project.stored("packs").try_into().unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[100] ^= 1;
    fs::write(&pack, &bytes).unwrap();
    assert_eq!(intact_files(&project, &project.store, &scan.snapshot), FILES - 1);
    let checked = project.store.data().check().unwrap();
    assert_eq!((checked.damaged.len(), checked.missing.len()), (1, 1));
    assert_eq!(project.scan().snapshot, scan.snapshot);
    assert_eq!(intact_files(&project, &project.store, &scan.snapshot), FILES);
    // A pack with a truncated list counts as missing.
    for pack in project.stored("packs") {
        fs::write(&pack, &bytes[..bytes.len() - 3]).unwrap();
    }
    let other = project.other();
    assert_eq!(intact_files(&project, &other, &scan.snapshot), 1);
    assert_eq!(other.data().check().unwrap().damaged, []);
    assert_eq!(project.stored("packs").len(), 0);
    assert_eq!(other.scan(&session("s")).unwrap().snapshot, scan.snapshot);
    assert_eq!(intact_files(&project, &other, &scan.snapshot), FILES);
}

#[test]
fn a_store_with_packs_gets_a_newer_format_version() {
    let project = project();
    let version = || fs::read_to_string(project.data.join("version")).unwrap();
    assert_eq!(version(), "1\n");
    project.scan();
    assert_eq!(version(), "3\n");
    fs::write(project.data.join("version"), "4\n").unwrap();
    let newer = SnapshotStore::open(&project.data, &project.root, project.limits, None);
    assert!(matches!(newer, Err(SnapshotStoreError::Newer { .. })));
}
