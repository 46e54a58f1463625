//! Search of a session for places outside of hidden paths that belong to the user's hidden files.
//!
//! The search reads some hundred directories, so it runs beside the first request to the model. Whoever decides about
//! a call or starts a command waits for its result.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use crow_core::permission::SandboxPaths;
use thiserror::Error;
use tokio::{sync::OnceCell, task::JoinError};
use tokio_util::sync::CancellationToken;

use super::{
    linked_files::{LinkedFiles, MOST_ENTRIES, MOST_TARGETS},
    second_names::SecondNames,
};

/// Directories and files of the user that are searched for links and files with several names.
#[derive(Debug, Clone, Default)]
pub struct LinkSearchConfig {
    /// Hidden folders of the program itself, which are searched first.
    pub own: Vec<PathBuf>,
    /// Hidden paths. Those in `own` may be among them.
    pub hidden: Vec<PathBuf>,
    /// The user's home directory.
    pub home: PathBuf,
    /// Targets of links that are not hidden, because the user wants commands to read them.
    pub shown: Vec<PathBuf>,
    /// Folders in hidden paths that are not searched: commands may make links there.
    pub passed_over: Vec<PathBuf>,
    /// The user's own git settings, whose further names in the workspace are protected.
    pub git_settings: Vec<PathBuf>,
    /// Files and folders of the user from which shells and editors start programs. Those in reach of commands that links in them
    /// lead to, and further names of the files, are protected.
    pub start_files: Vec<PathBuf>,
    /// Folders outside of the workspace that commands may change. They are searched for further names.
    pub writable: Vec<PathBuf>,
}

/// Paths outside of hidden paths that belong to them, in addition to those of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkedPaths {
    /// Paths that cannot be read: targets of links in hidden paths, and further names of hidden files.
    pub hidden: Vec<PathBuf>,
    /// Paths that cannot be changed: missing targets of links, targets of links in start files, and further names of start
    /// files and git settings.
    pub protected_files: Vec<PathBuf>,
    /// Links on the way to hidden files, which cannot be replaced.
    pub protected_links: Vec<PathBuf>,
    /// Parts of the search that were left out because there is too much to search.
    pub gaps: Vec<LinkGap>,
}

/// Part of the user's files in which not all links were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkGap {
    /// A hidden folder of the program itself has too many entries.
    OwnFolder(PathBuf),
    /// Another hidden folder has too many entries.
    HiddenFolder(PathBuf),
    /// There are too many links.
    Links,
    /// The workspace has too many entries or further names of hidden files.
    Names,
}

/// Error for a search that ended without a result.
#[derive(Debug, Error)]
#[error("the search for links of the user's settings and keys failed")]
pub struct LinkSearchError(#[from] JoinError);

/// The search of a session, which runs once.
#[derive(Debug)]
pub struct LinkSearch {
    config: LinkSearchConfig,
    roots: Vec<PathBuf>,
    found: OnceCell<LinkedPaths>,
}

impl LinkSearch {
    /// Creates a search for a workspace with these roots.
    pub fn new(config: LinkSearchConfig, roots: Vec<PathBuf>) -> Self {
        Self { config, roots, found: OnceCell::new() }
    }

    /// Returns the result. The first caller runs the search, and others wait for it. If that caller is dropped, the
    /// search is stopped, and the next caller runs it again. Fails if the search panicked, or if the program ends.
    pub async fn found(&self) -> Result<&LinkedPaths, LinkSearchError> {
        self.found.get_or_try_init(|| self.run()).await
    }

    /// Returns the result, if the search has ended.
    pub(super) fn get(&self) -> Option<&LinkedPaths> {
        self.found.get()
    }

    async fn run(&self) -> Result<LinkedPaths, LinkSearchError> {
        let stop = CancellationToken::new();
        // Without this future nobody gets the result: the thread ends at the next directory.
        let _stops = stop.clone().drop_guard();
        let (config, roots) = (self.config.clone(), self.roots.clone());
        let search = move || LinkedPaths::find(&config, &roots, &stop);
        Ok(tokio::task::spawn_blocking(search).await?)
    }
}

/// A search that has ended and found nothing.
impl Default for LinkSearch {
    fn default() -> Self {
        let found = OnceCell::new_with(Some(LinkedPaths::default()));
        Self { config: LinkSearchConfig::default(), roots: Vec::new(), found }
    }
}

impl LinkedPaths {
    fn find(config: &LinkSearchConfig, roots: &[PathBuf], stop: &CancellationToken) -> Self {
        let linked = LinkedFiles::find(config, roots, stop);
        let names = SecondNames::find(config, &linked.hard_linked, roots, stop);
        let starting = LinkedFiles::find_of_start_files(config, roots, stop);
        let own: BTreeSet<PathBuf> =
            config.own.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let folders = linked.unsearched.into_iter().map(|folder| {
            if own.contains(&folder) {
                LinkGap::OwnFolder(folder)
            } else {
                LinkGap::HiddenFolder(folder)
            }
        });
        let gaps = folders
            .chain((linked.is_cut || starting.is_cut).then_some(LinkGap::Links))
            .chain(names.is_cut.then_some(LinkGap::Names));
        let gaps = gaps.collect();
        Self {
            hidden: linked.targets.into_iter().chain(names.hidden).collect(),
            protected_files: linked
                .missing
                .into_iter()
                .chain(names.protected)
                .chain(starting.targets)
                .collect(),
            protected_links: linked.links.into_iter().chain(starting.links).collect(),
            gaps,
        }
    }

    /// Returns the paths for the permission policy, see [`SandboxConfig::sandbox_paths`](super::SandboxConfig::sandbox_paths).
    pub fn sandbox_paths(&self) -> SandboxPaths {
        SandboxPaths {
            hidden: self.hidden.clone(),
            protected: self.protected_files.clone(),
            ..SandboxPaths::default()
        }
    }

    /// Returns the gaps that the user is warned of in each session. Large hidden folders are common (profiles of
    /// browsers), so those of other programs are not among them.
    pub fn warnings(&self) -> impl Iterator<Item = &LinkGap> {
        self.gaps.iter().filter(|gap| !matches!(gap, LinkGap::HiddenFolder(_)))
    }
}

impl fmt::Display for LinkGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnFolder(folder) | Self::HiddenFolder(folder) => write!(
                f,
                "{} has more than {MOST_ENTRIES} entries: what links among the others lead to is not hidden from commands",
                folder.display()
            ),
            Self::Links => write!(
                f,
                "more than {MOST_TARGETS} links lead out of your folders with keys and settings: what the others lead to \
                 is not hidden from commands"
            ),
            Self::Names => f.write_str(
                "files with your keys or settings have several names (hard links), and this directory has too many \
                 entries to find them all: commands may read or change such a file by another name",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn a_search_whose_caller_is_dropped_is_run_again_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join(".ssh")).unwrap();
        symlink("../key", base.join(".ssh/id")).unwrap();
        let config = LinkSearchConfig {
            hidden: vec![base.join(".ssh")],
            home: base.clone(),
            ..LinkSearchConfig::default()
        };
        let search = LinkSearch::new(config, Vec::new());
        // One poll starts the search.
        drop(futures_util::FutureExt::now_or_never(search.found()));
        let found = search.found().await.unwrap();
        let key = vec![base.join("key")];
        assert_eq!((&found.hidden, &found.protected_files), (&key, &key));
    }

    #[test]
    fn the_user_is_warned_of_gaps_but_not_of_large_folders_of_other_programs() {
        let folder = PathBuf::from("/users/a/.mozilla");
        let own = LinkGap::OwnFolder(PathBuf::from("/users/a/.config/crow-agent"));
        let gaps = vec![LinkGap::HiddenFolder(folder), own.clone(), LinkGap::Links, LinkGap::Names];
        let found = LinkedPaths { gaps, ..LinkedPaths::default() };
        assert!(found.warnings().eq([&own, &LinkGap::Links, &LinkGap::Names]));
    }
}
