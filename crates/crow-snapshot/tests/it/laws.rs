//! Properties of snapshots and undo under random edits.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::Path,
};

use crate::cases;
use crow_snapshot::{PathChange, RestoreOutcome, RestoreResult, SnapshotEntry};
use proptest::prelude::*;

use super::project::{Project, session, tree};

/// A random change of a tree.
#[derive(Debug, Clone)]
enum Edit {
    Write(Vec<usize>, u8),
    Append(Vec<usize>, u8),
    Delete(Vec<usize>),
    Rename(Vec<usize>, Vec<usize>),
    Mode(Vec<usize>, u32),
    Link(Vec<usize>, u8),
    Folder(Vec<usize>),
    /// Replaces a file by a folder, or a folder by a file.
    Swap(Vec<usize>),
}

const NAMES: [&[u8]; 6] = [b"a", b"b", b".gitignore", b".git", b"not-\xff\xfe-utf8", b"c d"];

fn edit() -> impl Strategy<Value = Edit> {
    let path = || prop::collection::vec(0..NAMES.len(), 1..4);
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, content)| Edit::Write(path, content)),
        1 => (path(), any::<u8>()).prop_map(|(path, content)| Edit::Append(path, content)),
        1 => path().prop_map(Edit::Delete),
        1 => (path(), path()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (path(), prop::sample::select(vec![0o600, 0o755, 0o444, 0o700]))
            .prop_map(|(path, mode)| Edit::Mode(path, mode)),
        1 => (path(), any::<u8>()).prop_map(|(path, target)| Edit::Link(path, target)),
        1 => path().prop_map(Edit::Folder),
        1 => path().prop_map(Edit::Swap),
    ]
}

/// Applies an edit to a tree; errors are ignored.
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
            // Depending on `content`, the text contains ignore rules.
            let text = format!("a\n/b\n{}", "x".repeat(usize::from(*content)));
            !is_link(&path)
                && folder(&path)
                && fs::write(path, text.split_at(usize::from(content % 4)).1).is_ok()
        }
        Edit::Append(names, content) => {
            let (path, text) = (place(names), "y".repeat(usize::from(*content)));
            let file = fs::OpenOptions::new().append(true).open(&path);
            !is_link(&path) && file.is_ok_and(|mut file| file.write_all(text.as_bytes()).is_ok())
        }
        Edit::Swap(names) => {
            let path = place(names);
            if path.is_dir() && !is_link(&path) {
                fs::remove_dir_all(&path).is_ok() && fs::write(path, "was a folder").is_ok()
            } else {
                fs::remove_file(&path).is_ok()
                    && fs::create_dir(&path).is_ok()
                    && fs::write(path.join("in"), "was a file").is_ok()
            }
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

/// Removes everything named `.git`, which no snapshot contains.
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

/// Removes changes of `.git` entries, which are reported but not undone.
fn without_git(mut changes: Vec<PathChange>) -> Vec<PathChange> {
    changes.retain(|change| change.path.file_name() != Some(".git".as_ref()));
    changes
}

/// Undoes changes and checks that `foresee` predicted the outcomes.
fn undo(project: &Project, changes: &[PathChange]) -> Result<Vec<RestoreOutcome>, TestCaseError> {
    let seen = tree(&project.root);
    let foreseen = project.store.preview(changes).unwrap();
    prop_assert_eq!(tree(&project.root), seen, "foreseeing touches nothing");
    let undone = project.store.undo(changes).unwrap();
    prop_assert_eq!(format!("{:?}", foreseen), format!("{:?}", undone));
    Ok(undone)
}

fn undo_all(project: &Project, changes: &[PathChange]) -> Result<(), TestCaseError> {
    // They would keep folders from being removed.
    remove_git(&project.root);
    for undone in undo(project, changes)? {
        prop_assert!(matches!(undone.result, Ok(RestoreResult::Done)), "{:?}", undone);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn undo_restores_a_tree_after_random_edits(
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
        let changes = without_git(project.changes(&before, &after));
        prop_assert_eq!(changes.is_empty(), tree_before == tree_after);
        undo_all(&project, &changes)?;
        prop_assert_eq!(tree(&project.root), tree_before);
        prop_assert!(without_git(project.changes(&before, &project.scan())).is_empty());
    }
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn random_edits_are_undone_one_by_one(
        first in prop::collection::vec(edit(), 0..15),
        steps in prop::collection::vec(edit(), 1..12),
    ) {
        let project = Project::new();
        for edit in &first {
            apply(&project.root, edit);
        }
        let mut points = vec![(project.scan(), tree(&project.root))];
        for edit in &steps {
            apply(&project.root, edit);
            points.push((project.scan(), tree(&project.root)));
        }
        while let (Some((after, _)), Some((before, tree_before))) = (points.pop(), points.last()) {
            undo_all(&project, &without_git(project.changes(before, &after)))?;
            prop_assert_eq!(&tree(&project.root), tree_before);
            prop_assert!(without_git(project.changes(before, &project.scan())).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn undo_never_loses_later_edits_of_others(
        first in prop::collection::vec(edit(), 0..15),
        second in prop::collection::vec(edit(), 0..15),
        others in prop::collection::vec(edit(), 1..8),
    ) {
        let project = Project::new();
        for edit in &first {
            apply(&project.root, edit);
        }
        let before = project.scan();
        for edit in &second {
            apply(&project.root, edit);
        }
        let after = project.scan();
        for edit in &others {
            apply(&project.root, edit);
        }
        remove_git(&project.root);
        // After the undo, every path that others edited must still be as they left it.
        let (by_others, seen) = (project.scan(), tree(&project.root));
        let changes = project.changes(&before, &after);
        undo(&project, &changes)?;
        let now = tree(&project.root);
        for change in project.changes(&after, &by_others) {
            let (now, seen) = (now.get(&change.path), seen.get(&change.path));
            match change.after {
                SnapshotEntry::File { .. } | SnapshotEntry::Link { .. } => {
                    prop_assert_eq!(now, seen, "{:?}", change.path);
                }
                // It may be a parent folder of something that was restored.
                SnapshotEntry::Absent => prop_assert!(now.is_none_or(|_| change.path.is_dir())),
                // Its mode may be restored.
                SnapshotEntry::Folder { .. } | SnapshotEntry::Unscanned { .. } => prop_assert!(change.path.is_dir()),
            }
        }
    }
}
