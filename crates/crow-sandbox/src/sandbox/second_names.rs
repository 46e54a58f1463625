//! Further names (hard links) in the workspace of hidden files, and of the user's git settings and start files.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    os::unix::fs::DirEntryExt as _,
    path::{Path, PathBuf},
};

use crow_fs::FileIdentity;
use tokio_util::sync::CancellationToken;

use super::{link_search::LinkSearchConfig, linked_files::MOST_TARGETS};

/// Maximum number of entries that are examined.
const MOST_ENTRIES: usize = 500_000;
/// Maximum number of folders that wait to be examined.
const MOST_FOLDERS: usize = 65_536;

/// Names in a workspace of files that lie elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SecondNames {
    /// Names of hidden files.
    pub(super) hidden: Vec<PathBuf>,
    /// Names of the user's git settings and start files.
    pub(super) protected: Vec<PathBuf>,
    /// True if the workspace has more entries than were examined, or more names than are kept.
    pub(super) is_cut: bool,
}

impl SecondNames {
    /// Finds the names, below the roots of a workspace, of these hidden files, and of git settings and start files that
    /// have several names. Walks the workspace only if there are such files. Returns early what was found if `stop` is cancelled.
    /// Blocks.
    pub(super) fn find(
        config: &LinkSearchConfig,
        hidden: &BTreeSet<FileIdentity>,
        roots: &[PathBuf],
        stop: &CancellationToken,
    ) -> Self {
        let settings: BTreeSet<FileIdentity> = config
            .git_settings
            .iter()
            .chain(&config.start_files)
            .filter_map(|path| crow_fs::metadata_through_links(&path.canonicalize().ok()?).ok())
            .filter(|metadata| metadata.is_file() && metadata.links > 1)
            .map(|metadata| metadata.identity)
            .collect();
        let mut names = Self::default();
        if settings.is_empty() && hidden.is_empty() {
            return names;
        }
        let inodes: BTreeSet<u64> =
            settings.iter().chain(hidden).map(|identity| identity.inode).collect();
        let tops = roots.iter().chain(&config.writable).filter_map(|top| top.canonicalize().ok());
        let mut folders: VecDeque<PathBuf> = tops.collect();
        let mut entries = 0;
        while let Some(folder) = folders.pop_front() {
            if stop.is_cancelled() {
                return names;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > MOST_ENTRIES {
                    names.is_cut = true;
                    return names;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if folders.len() < MOST_FOLDERS {
                        folders.push_back(entry.path());
                    } else {
                        names.is_cut = true;
                    }
                } else if inodes.contains(&entry.ino()) {
                    names.add(&entry.path(), hidden, &settings);
                }
            }
        }
        names
    }

    fn add(
        &mut self,
        path: &Path,
        hidden: &BTreeSet<FileIdentity>,
        settings: &BTreeSet<FileIdentity>,
    ) {
        let Ok(metadata) = crow_fs::metadata(path) else { return };
        let names = if hidden.contains(&metadata.identity) {
            &mut self.hidden
        } else if settings.contains(&metadata.identity) {
            &mut self.protected
        } else {
            return;
        };
        if names.len() < MOST_TARGETS {
            names.push(path.to_owned());
        } else {
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hidden_files_and_git_settings_in_the_workspace_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let project = base.join("project");
        fs::create_dir_all(project.join("deep/er")).unwrap();
        for name in ["key", "gitconfig", "plain"] {
            fs::write(base.join(name), "").unwrap();
            fs::hard_link(base.join(name), project.join("deep/er").join(name)).unwrap();
        }
        let config = LinkSearchConfig {
            git_settings: vec![base.join("gitconfig"), base.join("missing")],
            ..LinkSearchConfig::default()
        };
        let hidden = BTreeSet::from([crow_fs::metadata(&base.join("key")).unwrap().identity]);
        let roots = std::slice::from_ref(&project);
        let found = SecondNames::find(&config, &hidden, roots, &CancellationToken::new());
        let expected = SecondNames {
            hidden: vec![project.join("deep/er/key")],
            protected: vec![project.join("deep/er/gitconfig")],
            is_cut: false,
        };
        assert_eq!(found, expected);
    }
}
