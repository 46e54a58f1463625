//! Operations on the entries of a directory, and on paths.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use crow_fs::{Directory, EntryKind, EntryName, NewFile, RenameMode, is_link_error, remove_tree};

fn base() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    (folder, base)
}

fn name(name: &str) -> EntryName {
    EntryName::new(name).unwrap()
}

#[test]
fn an_entry_name_has_no_separator_and_is_not_special() {
    let root = Directory::open(Path::new("/")).unwrap();
    for bad in ["", ".", "..", "a/b", "/", "a\0b", "../x"] {
        assert!(EntryName::new(bad).is_err(), "{bad:?}");
        let result = root.metadata_of(OsStr::new(bad)).unwrap_err();
        assert_eq!(result.kind(), io::ErrorKind::InvalidInput, "{bad:?}");
    }
    for good in ["a", ".a", "...", "a b", "-", "\u{202e}"] {
        assert!(EntryName::new(good).is_ok(), "{good:?}");
    }
}

#[test]
fn no_function_follows_a_link_anywhere_in_its_path() {
    let (_folder, base) = base();
    fs::create_dir(base.join("out")).unwrap();
    fs::write(base.join("out/file"), "secret").unwrap();
    fs::create_dir(base.join("out/empty")).unwrap();
    symlink("out", base.join("dir")).unwrap();
    symlink("out/file", base.join("leaf")).unwrap();
    let (inner, leaf, new) = (base.join("dir/file"), base.join("leaf"), base.join("dir/new"));
    let is_refused = |result: io::Result<()>| is_link_error(&result.unwrap_err());
    assert!(is_refused(crow_fs::metadata(&inner).map(drop)));
    assert!(is_refused(crow_fs::open_file(&inner).map(drop)));
    assert!(is_refused(crow_fs::open_file(&leaf).map(drop)));
    assert!(is_refused(crow_fs::open_for_writing(&inner).map(drop)));
    assert!(is_refused(crow_fs::open_for_writing(&leaf).map(drop)));
    assert!(is_refused(crow_fs::read_bounded(&leaf, 9).map(drop)));
    assert!(is_refused(crow_fs::create_file(&new, 0o600).map(drop)));
    assert!(is_refused(crow_fs::create_directory(&new, 0o700)));
    assert!(is_refused(crow_fs::create_directories(&new, 0o700).map(drop)));
    assert!(is_refused(crow_fs::create_directories(&base.join("dir"), 0o700).map(drop)));
    assert!(is_refused(crow_fs::create_symlink(OsStr::new("x"), &new)));
    assert!(is_refused(crow_fs::hard_link(&inner, &base.join("stolen"))));
    assert!(is_refused(crow_fs::set_mode(&inner, 0o777)));
    assert!(is_refused(crow_fs::set_mode(&leaf, 0o777)));
    assert!(is_refused(crow_fs::rename(&inner, &base.join("stolen"))));
    assert!(is_refused(crow_fs::rename(&base.join("leaf"), &new)));
    assert!(is_refused(crow_fs::exchange(&inner, &leaf)));
    assert!(is_refused(crow_fs::remove_file(&inner)));
    assert!(is_refused(crow_fs::remove_directory(&base.join("dir/empty"))));
    assert!(is_refused(crow_fs::read_directory(&base.join("dir")).map(drop)));
    assert!(is_refused(crow_fs::read_link(&base.join("dir/file")).map(drop)));
    // Links themselves can be looked at, read, renamed and removed.
    assert_eq!(crow_fs::metadata(&leaf).unwrap().kind, EntryKind::Symlink);
    assert_eq!(crow_fs::read_link(&leaf).unwrap(), Path::new("out/file"));
    crow_fs::rename(&leaf, &base.join("leaf2")).unwrap();
    crow_fs::remove_file(&base.join("leaf2")).unwrap();
    assert_eq!(fs::read_to_string(base.join("out/file")).unwrap(), "secret");
    assert_eq!(fs::read_dir(base.join("out")).unwrap().count(), 2);
}

#[test]
fn an_open_directory_handle_follows_a_moved_directory() {
    let (_folder, base) = base();
    fs::create_dir_all(base.join("a/b")).unwrap();
    let handle = Directory::open(&base.join("a/b")).unwrap();
    fs::rename(base.join("a"), base.join("moved")).unwrap();
    fs::create_dir_all(base.join("a/b")).unwrap();
    drop(handle.create_file(&name("x"), 0o600).unwrap());
    assert!(base.join("moved/b/x").exists() && !base.join("a/b/x").exists());
}

#[test]
fn create_directories_creates_missing_parents() {
    let (_folder, base) = base();
    let made = crow_fs::create_directories(&base.join("a/b/c"), 0o700).unwrap();
    assert_eq!(made.identity().unwrap().inode, fs::metadata(base.join("a/b/c")).unwrap().ino());
    crow_fs::create_directories(&base.join("a/b/c"), 0o700).unwrap();
    fs::write(base.join("file"), "").unwrap();
    let below_a_file = crow_fs::create_directories(&base.join("file/x"), 0o700);
    assert_eq!(below_a_file.unwrap_err().kind(), io::ErrorKind::NotADirectory);
}

#[test]
fn a_new_file_is_persisted_or_leaves_nothing_behind() {
    let (_folder, base) = base();
    let directory = Directory::open(&base).unwrap();
    let mut file = NewFile::create(&directory, 0o644).unwrap();
    file.write(b"one").unwrap();
    file.persist(&name("a"), RenameMode::Keep).unwrap();
    assert_eq!(fs::read(base.join("a")).unwrap(), b"one");
    let mut file = NewFile::create(&directory, 0o644).unwrap();
    file.write(b"two").unwrap();
    let persisted = file.persist(&name("a"), RenameMode::Keep);
    assert_eq!(persisted.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let mut file = NewFile::create(&directory, 0o644).unwrap();
    file.write(b"three").unwrap();
    file.persist(&name("a"), RenameMode::Replace).unwrap();
    drop(NewFile::create(&directory, 0o644).unwrap());
    assert_eq!(fs::read(base.join("a")).unwrap(), b"three");
    assert_eq!(fs::read_dir(&base).unwrap().count(), 1);
}

#[test]
fn only_abandoned_temporary_files_are_removed() {
    let (_folder, base) = base();
    let directory = Directory::open(&base).unwrap();
    let used = NewFile::create(&directory, 0o644).unwrap();
    let own = directory.names().unwrap().pop().unwrap();
    for file_name in [".crow-0123456789abcdef.tmp", ".crow-notes.tmp", ".crow-0123456789abcdef"] {
        fs::write(base.join(file_name), "").unwrap();
    }
    fs::create_dir(base.join(".crow-0000000000000000.tmp")).unwrap();
    assert_eq!(crow_fs::remove_leftover_files(&base).unwrap(), 1);
    assert!(
        !base.join(".crow-0123456789abcdef.tmp").exists() && base.join(own.as_os_str()).exists()
    );
    assert_eq!(fs::read_dir(&base).unwrap().count(), 4);
    drop(used);
}

#[test]
fn a_new_file_that_was_replaced_is_not_persisted() {
    let (_folder, base) = base();
    let directory = Directory::open(&base).unwrap();
    let file = NewFile::create(&directory, 0o644).unwrap();
    let own = directory.names().unwrap().pop().unwrap();
    fs::remove_file(base.join(own.as_os_str())).unwrap();
    symlink("/etc/passwd", base.join(own.as_os_str())).unwrap();
    assert!(file.persist(&name("a"), RenameMode::Replace).is_err());
    assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
}

#[test]
fn a_mode_can_be_set_on_a_file_its_owner_cannot_read() {
    let (_folder, base) = base();
    let path = base.join("file");
    fs::write(&path, "").unwrap();
    for mode in [0o000, 0o200, 0o755, 0o4711] {
        crow_fs::set_mode(&path, mode).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(crow_fs::metadata(&path).unwrap().mode, mode);
    }
}

#[test]
fn remove_tree_does_not_follow_links() {
    let (_folder, base) = base();
    fs::create_dir_all(base.join("tree/a/b")).unwrap();
    fs::write(base.join("tree/a/file"), "").unwrap();
    fs::create_dir(base.join("other")).unwrap();
    fs::write(base.join("other/file"), "").unwrap();
    symlink("../../other", base.join("tree/a/link")).unwrap();
    let directory = Directory::open(&base).unwrap();
    remove_tree(&directory, &name("tree")).unwrap();
    remove_tree(&directory, &name("tree")).unwrap();
    assert!(!base.join("tree").exists() && base.join("other/file").exists());
}

#[test]
fn a_pipe_is_refused_without_blocking() {
    let (_folder, base) = base();
    let path = base.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let read = crow_fs::read_bounded(&path, 9);
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
    let (_folder, base) = base();
    fs::write(base.join("file"), "0123456789").unwrap();
    assert_eq!(crow_fs::read_bounded(&base.join("file"), 10).unwrap(), b"0123456789");
    let read = crow_fs::read_bounded(&base.join("file"), 9);
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn open_nearest_returns_a_handle_in_which_the_missing_path_is_created() {
    let (_folder, base) = base();
    fs::create_dir(base.join("a")).unwrap();
    let (nearest, missing) = Directory::open_nearest(&base.join("a/b/c")).unwrap();
    let names: Vec<_> = missing.iter().map(EntryName::as_os_str).collect();
    assert_eq!(names, ["b", "c"]);
    fs::rename(base.join("a"), base.join("moved")).unwrap();
    symlink("/", base.join("a")).unwrap();
    let made = nearest.create_directories(&missing, 0o700).unwrap();
    let found = crow_fs::metadata(&base.join("moved/b/c")).unwrap();
    assert_eq!(made.own_metadata().unwrap().identity, found.identity);
    let (nearest, missing) = Directory::open_nearest(&base).unwrap();
    assert!(missing.is_empty());
    let itself = nearest.create_directories(&[], 0o700).unwrap();
    assert_eq!(itself.identity().unwrap(), nearest.identity().unwrap());
    assert!(is_link_error(&Directory::open_nearest(&base.join("a/x/y")).unwrap_err()));
}

#[test]
fn entries_are_listed_with_their_kinds_up_to_a_limit() {
    let (_folder, base) = base();
    fs::create_dir(base.join("directory")).unwrap();
    fs::write(base.join("file"), "").unwrap();
    symlink("file", base.join("link")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, base.join("pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    let directory = Directory::open(&base).unwrap();
    let mut entries = directory.entries(9).unwrap();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("directory", EntryKind::Directory, "a directory"),
        ("file", EntryKind::File, "a regular file"),
        ("link", EntryKind::Symlink, "a symbolic link"),
        ("pipe", EntryKind::Special, "a named pipe"),
    ];
    for ((found, kind), (own, expected, described)) in entries.iter().zip(expected) {
        assert_eq!((found.as_os_str(), *kind), (OsStr::new(own), expected));
        assert_eq!(directory.metadata(found).unwrap().describe_kind(), described);
    }
    assert_eq!(entries.len(), 4);
    assert_eq!(directory.entries(3).unwrap().len(), 3);
    assert_eq!(directory.entries(0).unwrap().len(), 0);
}

#[test]
fn metadata_of_an_open_file_and_of_the_root_is_available() {
    let (_folder, base) = base();
    fs::write(base.join("file"), "text").unwrap();
    let file = crow_fs::open_file(&base.join("file")).unwrap();
    let found = crow_fs::EntryMetadata::of_file(&file).unwrap();
    assert_eq!(found, crow_fs::metadata(&base.join("file")).unwrap());
    assert_eq!((found.size, found.links), (4, 1));
    assert_eq!(crow_fs::metadata(Path::new("/")).unwrap().kind, EntryKind::Directory);
}

#[test]
fn canonicalize_matches_the_standard_library() {
    let (_folder, base) = base();
    fs::create_dir_all(base.join("a/b")).unwrap();
    fs::write(base.join("a/b/file"), "").unwrap();
    symlink("a/b", base.join("link")).unwrap();
    symlink("missing", base.join("dangling")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    for path in [
        "",
        ".",
        "a",
        "a/b/",
        "a//b/file",
        "a/./b",
        "a/../a",
        "link",
        "link/file",
        "link/..",
        "a/missing",
        "missing/x",
        "a/b/file/x",
        "dangling",
        "dangling/x",
        "loop",
        "loop/x",
    ] {
        let path = base.join(path);
        let (ours, theirs) = (crow_fs::canonicalize(&path), path.canonicalize());
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours.as_os_str(), theirs.as_os_str(), "{path:?}"),
            (Err(ours), Err(theirs)) => assert_eq!(ours.kind(), theirs.kind(), "{path:?}"),
            (ours, theirs) => panic!("{path:?}: {ours:?}, and not {theirs:?}"),
        }
    }
    assert!(crow_fs::canonicalize(Path::new("/")).is_ok_and(|path| path == Path::new("/")));
}

#[test]
fn metadata_through_links_changes_when_a_link_in_the_path_is_replaced() {
    let (_folder, base) = base();
    for name in ["one", "two"] {
        fs::create_dir(base.join(name)).unwrap();
        fs::write(base.join(name).join("file"), name).unwrap();
    }
    symlink("one", base.join("way")).unwrap();
    let before = crow_fs::metadata_through_links(&base.join("way/file")).unwrap();
    assert_eq!(before, crow_fs::metadata(&base.join("one/file")).unwrap());
    fs::remove_file(base.join("way")).unwrap();
    symlink("two", base.join("way")).unwrap();
    assert_ne!(before, crow_fs::metadata_through_links(&base.join("way/file")).unwrap());
    assert!(crow_fs::metadata_through_links(&base.join("way")).unwrap().is_symlink());
}
