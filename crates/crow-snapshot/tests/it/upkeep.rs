//! Garbage collection, lack of space, and damage of the store.

use std::{fs, path::PathBuf};

use crow_snapshot::{NotCoveredReason, SnapshotLimits, SnapshotStore, SnapshotStoreError};

use super::project::{Project, session};

#[test]
fn garbage_collection_keeps_everything_a_session_refers_to() {
    let project = Project::new();
    project.write("a", "1");
    let first = project.store.scan(&session("one")).unwrap();
    let captured = project.store.capture(&session("two"), &[PathBuf::from("a")]).unwrap();
    project.write("a", "22");
    let second = project.store.scan(&session("three")).unwrap();
    project
        .store
        .data()
        .add_references(&session("four"), std::slice::from_ref(&first.snapshot))
        .unwrap();
    let change = project.changes(&first, &second).remove(0);
    for (released, stays) in [("one", true), ("two", true), ("four", false)] {
        project.store.data().release(&session(released)).unwrap();
        project.store.data().collect_garbage().unwrap();
        assert_eq!(project.store.read(&change.before).is_ok(), stays, "{released}");
        assert!(project.store.read(&change.after).is_ok());
        assert_eq!(project.store.data().check().unwrap().missing, []);
    }
    let refused = project.store.data().add_references(&session("one"), &[captured.snapshot]);
    assert!(matches!(refused, Err(SnapshotStoreError::Unknown { .. })));
}

#[test]
fn a_process_stores_collected_contents_again_after_a_garbage_collection() {
    let project = Project::new();
    project.write("a", "1");
    project.write("b/c", "1");
    let first = project.scan();
    let other = project.other();
    other.data().release(&session("s")).unwrap();
    assert_eq!(other.data().collect_garbage().unwrap().remaining, 0);
    assert_eq!(project.store.scan(&session("t")).unwrap().snapshot, first.snapshot);
    let checked = project.store.data().check().unwrap();
    assert_eq!((checked.missing, checked.objects), (vec![], 3));
}

#[test]
fn a_truncated_object_is_found_and_stored_again() {
    let project = Project::new();
    project.write("a", "x".repeat(1000));
    let scan = project.scan();
    let entry = project.store.entry(&scan.snapshot, &project.root.join("a")).unwrap().unwrap();
    for object in project.stored("objects") {
        fs::write(&object, &fs::read(&object).unwrap()[..5]).unwrap();
    }
    assert!(matches!(project.store.read(&entry), Err(SnapshotStoreError::Damaged { .. })));
    let checked = project.store.data().check().unwrap();
    assert_eq!((checked.damaged.len(), checked.objects), (2, 0));
    assert_eq!(project.scan().snapshot, scan.snapshot);
    assert_eq!(project.store.read(&entry).unwrap().len(), 1000);
}

#[test]
fn files_left_by_a_killed_process_do_no_harm() {
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
    let intact_index = fs::read(&index).unwrap();
    for damaged in [
        &intact_index[..intact_index.len() / 2],
        &intact_index[..3],
        b"",
        &[&intact_index[..], b"x"].concat(),
    ] {
        fs::write(&index, damaged).unwrap();
        let other = project.other();
        assert_eq!(other.scan(&session("t")).unwrap().snapshot, scan.snapshot);
    }
    assert_eq!(project.stored("unfinished"), Vec::<PathBuf>::new());
    let other = project.other();
    assert_eq!(other.scan(&session("s")).unwrap().snapshot, scan.snapshot);
    other.data().release(&session("t")).unwrap();
    assert_eq!(
        other.data().collect_garbage().unwrap().removed,
        0,
        "the reference after the cut one holds"
    );
}

#[test]
fn without_space_new_contents_are_named_and_not_stored() {
    for (why, change) in [
        (
            NotCoveredReason::StoreFull,
            (|limits| limits.store_bytes = 1600) as fn(&mut SnapshotLimits),
        ),
        (NotCoveredReason::DiskFull, |limits| limits.free_bytes = u64::MAX),
        (NotCoveredReason::TooMuchNew, |limits| limits.new_bytes = 0),
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
fn garbage_collection_and_check_fail_if_the_store_is_in_use() {
    let project = Project::new();
    let lock = fs::File::open(project.data.join("lock")).unwrap();
    lock.lock_shared().unwrap();
    assert!(matches!(project.store.data().collect_garbage(), Err(SnapshotStoreError::Busy)));
    assert!(matches!(project.store.data().check(), Err(SnapshotStoreError::Busy)));
    assert!(project.store.scan(&session("s")).is_ok());
}

#[test]
fn a_session_id_cannot_escape_the_store() {
    let project = Project::new();
    for id in ["", "..", "../x", "a/b", ".hidden"] {
        let refused = project.store.scan(&session(id));
        assert!(matches!(refused, Err(SnapshotStoreError::BadSession { .. })), "{id}");
    }
}

#[test]
fn a_store_of_a_newer_program_is_left_alone() {
    let project = Project::new();
    let version = project.data.join("version");
    assert_eq!(fs::read_to_string(&version).unwrap(), "1\n");
    fs::write(&version, "4\n").unwrap();
    fs::write(project.data.join("unfinished/theirs"), "").unwrap();
    let newer = SnapshotStore::open(&project.data, &project.root, project.limits, None);
    let Err(error @ SnapshotStoreError::Newer { known: 3, .. }) = newer else {
        panic!("{newer:?}")
    };
    assert!(error.to_string().contains("format 4, newer than format 3"), "{error}");
    assert!(project.data.join("unfinished/theirs").exists());
    for cut in ["", "\n"] {
        fs::write(&version, cut).unwrap();
        project.other();
        assert_eq!(fs::read_to_string(&version).unwrap(), "1\n");
    }
}

#[test]
fn opening_a_nearly_full_unused_store_frees_space() {
    let mut project = Project::new();
    let noise: Vec<u8> = (0..200).flat_map(blake).collect();
    project.write("large", &noise);
    project.store.scan(&session("old")).unwrap();
    fs::remove_file(project.root.join("large")).unwrap();
    project.write("small", "1");
    project.scan();
    project.limits.store_bytes = 7000;
    let count = || project.stored("objects").len();
    let all = count();
    project.other();
    assert_eq!(count(), all, "nobody released anything");
    project.store.data().release(&session("old")).unwrap();
    let lock = fs::File::open(project.data.join("lock")).unwrap();
    lock.lock_shared().unwrap();
    project.other();
    assert_eq!(count(), all, "the store is in use");
    drop(lock);
    let roomy = SnapshotLimits { store_bytes: 8000, ..project.limits };
    drop(SnapshotStore::open(&project.data, &project.root, roomy, None).unwrap());
    assert_eq!(count(), all, "there is room");
    project.other();
    assert_eq!(count(), 2, "the file and the folder that are left");
}
