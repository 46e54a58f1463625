//! Check that git reads only files of the workspace: a repository may name others.
//!
//! Git opens the files of its index by their names, without a check of these, and looks for them in the directory that
//! `core.worktree` names. Git itself never writes names that lead out, but the authors of a project can write such an
//! index or such settings.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use crow_core::workspace::Workspace;

use super::git_repository::{LARGEST_SETTINGS, RepositoryFolders, read, repositories};

/// Maximum size in bytes of an index that is read.
const LARGEST_INDEX: u64 = 128 << 20;
/// Size in bytes of an entry before its flags and name, with hashes of 20 and of 32 bytes.
const FIXED: [usize; 2] = [60, 72];
const HEAD: usize = 12;
/// Position of the type and permission bits in an entry.
const MODE: usize = 24;
/// The bits of the type, and three types. Others are folders.
const FILE_TYPE: u32 = 0o170_000;
const REGULAR_FILE: u32 = 0o100_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const REPOSITORY: u32 = 0o160_000;

/// Returns false if the repository that git finds from a folder may name files outside of the workspace. Blocks.
pub(super) fn stays_in_workspace(folder: &Path, workspace: &Workspace) -> bool {
    repositories(folder).iter().all(|RepositoryFolders { own, common, .. }| {
        let settings = [common.join("config"), own.join("config.worktree")];
        settings.iter().all(|file| has_own_worktree(file, own, workspace)) && {
            let fixed = fixed_sizes(&common.join("config"));
            indexes(own).iter().all(|index| names_stay_inside(index, fixed))
        }
    })
}

/// Returns true if settings name no directory of files, or one in the workspace.
fn has_own_worktree(settings: &Path, repository: &Path, workspace: &Workspace) -> bool {
    let Some(bytes) = read(settings, LARGEST_SETTINGS) else { return true };
    let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
    let lower = text.to_ascii_lowercase();
    if lower.contains("[include") {
        return false;
    }
    lower.match_indices("worktree").all(|(at, key)| {
        let rest = &text[at + key.len()..];
        // `extensions.worktreeConfig` is another key.
        if rest.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '-') {
            return true;
        }
        let value = rest.trim_start_matches([' ', '\t']).strip_prefix('=');
        value.and_then(|value| value.lines().next()).is_some_and(|value| {
            let is_plain = !value.contains(['\\', '"', '#', ';']);
            let path = fs::canonicalize(repository.join(value.trim()));
            is_plain && path.is_ok_and(|path| workspace.contains(&path))
        })
    })
}

/// Returns the index files of a repository: a split index builds on shared ones.
fn indexes(repository: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository).into_iter().flatten().flatten();
    let is_index = |name: &[u8]| name == b"index" || name.starts_with(b"sharedindex.");
    entries.filter(|entry| is_index(entry.file_name().as_bytes())).map(|it| it.path()).collect()
}

/// Returns the sizes of an entry that git may use in a repository with these settings: that of short hashes, unless they
/// name a format.
fn fixed_sizes(settings: &Path) -> &'static [usize] {
    let names_format = match read(settings, LARGEST_SETTINGS) {
        None => false,
        Some(None) => true,
        Some(Some(bytes)) => {
            String::from_utf8_lossy(&bytes).to_ascii_lowercase().contains("objectformat")
        }
    };
    if names_format { &FIXED } else { &FIXED[..1] }
}

/// Returns true if all entries of an index have names below the directory of the files.
fn names_stay_inside(index: &Path, fixed_sizes: &[usize]) -> bool {
    match read(index, LARGEST_INDEX) {
        None => true,
        Some(None) => false,
        // The size of hashes is not in the index.
        Some(Some(bytes)) => fixed_sizes.iter().all(|fixed| names_of(&bytes, *fixed)),
    }
}

/// Returns false if a name of an index leads out, up to the first invalid entry.
fn names_of(bytes: &[u8], fixed: usize) -> bool {
    let mut is_inside_so_far = true;
    // An invalid rest is not read by git either.
    let _ = for_each_entry(bytes, fixed, |entry| {
        is_inside_so_far = is_inside(entry.name);
        is_inside_so_far.then_some(())
    });
    is_inside_so_far
}

/// An entry of an index.
struct IndexEntry<'a> {
    name: &'a [u8],
    /// The type and permission bits.
    mode: u32,
}

/// Passes the entries of an index to a function until that returns `None`. Returns `None` in this case, and at the first
/// invalid entry.
fn for_each_entry(
    bytes: &[u8],
    fixed: usize,
    mut visit: impl FnMut(IndexEntry<'_>) -> Option<()>,
) -> Option<()> {
    let number = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(four.try_into().ok()?))
    };
    let (version, count) = (number(4)?, number(8)?);
    let (mut at, mut name) = (HEAD, Vec::new());
    for _ in 0..count {
        let flags = bytes.get(at + fixed)?;
        let is_extended = version >= 3 && flags & 0x40 != 0;
        let mut start = at + fixed + 2 + if is_extended { 2 } else { 0 };
        if version == 4 {
            // The number of bytes to drop from the name before, then the rest of this one.
            let (dropped, length) = bytes.get(start..).and_then(variable_number)?;
            name.truncate(name.len().checked_sub(dropped)?);
            start += length;
        } else {
            name.clear();
        }
        let rest = bytes.get(start..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..length]);
        visit(IndexEntry { name: &name, mode: number(at + MODE)? })?;
        let end = start + length + 1;
        // Except in version 4, each entry is padded to a multiple of eight bytes.
        at = if version == 4 { end } else { at + (end - at).next_multiple_of(8) };
    }
    Some(())
}

/// Returns the tracked files of the repository that git finds from a folder. Returns `None` if they cannot be told from
/// the index: there is none, it is split or sparse, or it contains repositories; or if the files are not beside the
/// repository. Blocks.
pub(super) fn tracked_files(folder: &Path) -> Option<Vec<PathBuf>> {
    let root = folder.ancestors().find(|above| crow_fs::metadata(&above.join(".git")).is_ok())?;
    let RepositoryFolders { own: repository, common, .. } =
        repositories(folder).into_iter().next()?;
    // Git looks further up if this is no repository, and a bare one has no files beside it.
    if folder.starts_with(&repository) || crow_fs::metadata(&repository.join("HEAD")).is_err() {
        return None;
    }
    let [index] = <[PathBuf; 1]>::try_from(indexes(&repository)).ok()?;
    let settings = [common.join("config"), repository.join("config.worktree")];
    let sets_worktree = |file: &PathBuf| match read(file, LARGEST_SETTINGS) {
        None => false,
        Some(None) => true,
        Some(Some(bytes)) => {
            let lower = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
            ["worktree", "[include"].iter().any(|key| lower.contains(key))
        }
    };
    let [fixed] = fixed_sizes(&common.join("config")) else { return None };
    if settings.iter().any(sets_worktree) {
        return None;
    }
    let bytes = read(&index, LARGEST_INDEX)??;
    let mut files = Vec::new();
    for_each_entry(&bytes, *fixed, |entry| {
        let is_plain = matches!(entry.mode & FILE_TYPE, REGULAR_FILE | SYMBOLIC_LINK);
        files.push(root.join(OsStr::from_bytes(entry.name)));
        (is_plain && is_inside(entry.name)).then_some(())
    })?;
    Some(files)
}

/// Returns the folders of the repositories that the index of a repository has as entries: its submodules.
pub(super) fn nested_repositories(repository: &RepositoryFolders) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for index in indexes(&repository.own) {
        let Some(Some(bytes)) = read(&index, LARGEST_INDEX) else { continue };
        for fixed in fixed_sizes(&repository.common.join("config")) {
            // Git does not read what follows an invalid entry.
            let _ = for_each_entry(&bytes, *fixed, |entry| {
                if entry.mode & FILE_TYPE == REPOSITORY && is_inside(entry.name) {
                    folders.push(repository.worktree.join(OsStr::from_bytes(entry.name)));
                }
                Some(())
            });
        }
    }
    folders
}

/// Decodes a number of version 4. Returns it and its length in bytes.
fn variable_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().take(8).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value += 1;
    }
    None
}

/// Returns true if a name leads to a file below the directory of the files.
fn is_inside(name: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(name));
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an index of version 2 or 4 with these names.
    fn index(version: u32, names: &[&str]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let mut before = 0_usize;
        for name in names {
            let start = bytes.len();
            bytes.extend([0; MODE]);
            bytes.extend(0o100_644_u32.to_be_bytes());
            bytes.extend([0; 62 - MODE - 4]);
            if version == 4 {
                bytes.push(u8::try_from(before).unwrap());
            }
            bytes.extend(name.as_bytes());
            bytes.push(0);
            before = name.len();
            while version != 4 && !(bytes.len() - start).is_multiple_of(8) {
                bytes.push(0);
            }
        }
        bytes
    }

    #[test]
    fn names_of_an_index_that_lead_out_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        let workspace = Workspace::new(root.clone());
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        for (names, stays) in [
            (vec![], true),
            (vec!["a", "src/b..c", "src/d"], true),
            (vec!["a", "../b"], false),
            (vec!["/etc/passwd", "a"], false),
            (vec!["a", "b/../../c"], false),
        ] {
            for version in [2, 3, 4] {
                for file in [".git/index", ".git/sharedindex.1234"] {
                    fs::write(root.join(file), index(version, &names)).unwrap();
                    for folder in ["", "sub"] {
                        let found = stays_in_workspace(&root.join(folder), &workspace);
                        assert_eq!(found, stays, "{names:?} {version} {file} {folder}");
                    }
                    fs::remove_file(root.join(file)).unwrap();
                }
            }
        }
    }

    #[test]
    fn tracked_files_are_listed_only_if_the_index_tells_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join(".git/index"), index(2, &["a", "src/b"])).unwrap();
        assert_eq!(tracked_files(&root), None, "no repository");
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let expected = ["a", "src/b"].map(|name| root.join(name)).to_vec();
        for version in [2, 3, 4] {
            fs::write(root.join(".git/index"), index(version, &["a", "src/b"])).unwrap();
            for folder in ["", "sub"] {
                assert_eq!(tracked_files(&root.join(folder)), Some(expected.clone()), "{version}");
            }
        }
        for settings in
            ["[core]\n\tworktree = sub\n", "[extensions]\n\tobjectFormat = sha256\n", "[include]\n"]
        {
            fs::write(root.join(".git/config"), settings).unwrap();
            assert_eq!(tracked_files(&root), None, "{settings}");
        }
        fs::remove_file(root.join(".git/config")).unwrap();
        // A repository among the entries, and an index that ends early.
        let mut bytes = index(2, &["a"]);
        bytes[HEAD + MODE + 2] = 0xe0;
        fs::write(root.join(".git/index"), &bytes).unwrap();
        assert_eq!(tracked_files(&root), None);
        fs::write(root.join(".git/index"), &index(2, &["a", "b"])[..80]).unwrap();
        assert_eq!(tracked_files(&root), None);
        fs::write(root.join(".git/index"), index(2, &[])).unwrap();
        assert_eq!(tracked_files(&root), Some(Vec::new()));
        fs::write(root.join(".git/sharedindex.1"), index(2, &["c"])).unwrap();
        assert_eq!(tracked_files(&root), None);
    }

    #[test]
    fn settings_that_name_another_directory_of_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("project");
        let workspace = Workspace::new(root.clone());
        fs::create_dir_all(root.join(".git/modules/sub")).unwrap();
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(base.join("out")).unwrap();
        for (text, stays) in [
            ("[core]\n\tbare = false\n[extensions]\n\tworktreeConfig = true\n", true),
            ("[core]\n\tworktree = ../sub\n", true),
            ("[core]\n\tworktree = ../../out\n", false),
            ("[CORE] WorkTree=/\n", false),
            ("[core]\n\tworktree = \"../sub\"\n", false),
            ("[core]\n\tworktree\n", false),
            ("[include]\n\tpath = ../inc\n", false),
        ] {
            for file in [".git/config", ".git/config.worktree"] {
                fs::write(root.join(file), text).unwrap();
                assert_eq!(stays_in_workspace(&root, &workspace), stays, "{text} {file}");
                fs::remove_file(root.join(file)).unwrap();
            }
        }
        fs::write(root.join("sub/.git"), "gitdir: ../.git/modules/sub\n").unwrap();
        fs::write(root.join(".git/modules/sub/config"), "[core]\n\tworktree = ../../../sub\n")
            .unwrap();
        assert!(stays_in_workspace(&root.join("sub"), &workspace));
        fs::write(root.join(".git/modules/sub/config"), "[core]\n\tworktree = /etc\n").unwrap();
        assert!(!stays_in_workspace(&root.join("sub"), &workspace));
    }
}
