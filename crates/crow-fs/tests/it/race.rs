//! Paths whose directories are exchanged for links while they are used.

use std::{
    cell::Cell,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Number of rounds of each function during the exchange. `CROW_RACE_ROUNDS` sets another number.
#[expect(clippy::disallowed_methods, reason = "a test reads its own setting")]
fn rounds() -> usize {
    std::env::var("CROW_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Runs `work` while `d` and a link to a directory outside are exchanged as fast as possible. Returns the latter directory.
fn beside_an_exchange(work: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let (root, out) = (base.join("root"), base.join("out"));
    for directory in [&root.join("d/sub"), &out.join("sub")] {
        fs::create_dir_all(directory).unwrap();
        fs::write(
            directory.join("file"),
            if directory.starts_with(&out) { "outside" } else { "inside" },
        )
        .unwrap();
    }
    symlink("../out", root.join("link")).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (root.join("d"), root.join("link"));
            while !is_done.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        work(&root);
        is_done.store(true, Ordering::Relaxed);
    });
    (folder, out)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn nothing_outside_is_accessed_while_directories_are_exchanged_for_links() {
    let done = Cell::new(0);
    let (_folder, out) = beside_an_exchange(|root| {
        let sub = root.join("d/sub");
        let count = |result: io::Result<()>| done.set(done.get() + usize::from(result.is_ok()));
        // On a busy machine the link may stay in place for very many rounds.
        for round in (0..100_000).take_while(|round| *round < rounds() || done.get() == 0) {
            let file = sub.join("file");
            if let Ok(bytes) = crow_fs::read_bounded(&file, 99) {
                assert_eq!(bytes, b"inside");
                count(Ok(()));
            }
            let new = sub.join(format!("new-{round}"));
            count(crow_fs::create_file(&new, 0o600).map(drop));
            count(crow_fs::rename(&new, &sub.join("renamed")));
            count(crow_fs::set_mode(&file, 0o640));
            count(crow_fs::create_directories(&sub.join("x/y"), 0o700).map(drop));
            count(crow_fs::create_symlink("t".as_ref(), &sub.join(format!("link-{round}"))));
            count(crow_fs::open_for_writing(&file).map(drop));
            if let Ok(directory) = crow_fs::Directory::open(&sub)
                && let Ok(mut file) = crow_fs::NewFile::create(&directory, 0o600)
            {
                file.write(b"new").unwrap();
                let name = crow_fs::EntryName::new("atomic").unwrap();
                count(file.persist(&name, crow_fs::RenameMode::Replace));
            }
            if let Ok((directory, name)) = crow_fs::Directory::open_parent(&sub.join("x")) {
                count(crow_fs::remove_tree(&directory, &name));
            }
        }
    });
    assert_eq!(names(&out.join("sub")), ["file"]);
    assert_eq!(fs::read_to_string(out.join("sub/file")).unwrap(), "outside");
    assert!(done.get() > 0, "nothing was done at all: the race shows nothing");
}
