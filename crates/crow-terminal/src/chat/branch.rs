//! The branch of git that is checked out, from the files of the repository: no process is started for the status line.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

/// Maximum length of the files that are read, in bytes.
const LONGEST: u64 = 4096;
/// Length of a shortened commit.
const COMMIT_LENGTH: usize = 8;

/// Returns the branch of the repository that a folder is in, or the beginning of the commit if none is checked out.
/// Blocks.
pub(super) fn current_branch(folder: &Path) -> Option<String> {
    let repository = folder.ancestors().find_map(|folder| {
        let git = folder.join(".git");
        fs::metadata(&git).ok().map(|metadata| (git, metadata.is_dir()))
    });
    let (git, is_folder) = repository?;
    let folder: PathBuf = if is_folder {
        git
    } else {
        // A work tree or submodule: the file names the folder.
        let text = short_text(&git)?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    };
    let head = short_text(&folder.join("HEAD"))?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()),
        None if head.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            head.get(..COMMIT_LENGTH).map(str::to_owned)
        }
        None => None,
    }
}

/// Reads a short text from a regular file; a pipe would block.
fn short_text(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_of_a_repository_a_work_tree_and_a_commit_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(current_branch(root), None);
        fs::create_dir_all(root.join(".git/worktrees/two")).unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir_all(root.join("two")).unwrap();
        let table = [
            ("ref: refs/heads/main\n", Some("main")),
            ("ref: refs/heads/feat/a-b\n", Some("feat/a-b")),
            ("0123456789abcdef0123456789abcdef01234567\n", Some("01234567")),
            ("ref: refs/tags/x\n", None),
            ("", None),
        ];
        for (head, expected) in table {
            fs::write(root.join(".git/HEAD"), head).unwrap();
            assert_eq!(current_branch(&root.join("src/deep")).as_deref(), expected, "{head:?}");
        }
        fs::write(root.join(".git/worktrees/two/HEAD"), "ref: refs/heads/two\n").unwrap();
        fs::write(root.join("two/.git"), "gitdir: ../.git/worktrees/two\n").unwrap();
        assert_eq!(current_branch(&root.join("two")).as_deref(), Some("two"));
    }
}
