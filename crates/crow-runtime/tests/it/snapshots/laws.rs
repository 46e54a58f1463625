//! What holds whatever is done to a tree.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::Path,
};

use crow_runtime::PutBack;
use proptest::prelude::*;

use super::project::{Project, session, tree};

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
