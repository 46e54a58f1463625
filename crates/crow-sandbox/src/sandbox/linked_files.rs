//! Files elsewhere that belong to hidden directories: behind links in them, and files that have a second name.
//!
//! Users who keep their settings in a repository link `~/.config/crow-agent/config.toml` and `~/.ssh/config` into it.
//! In that repository these files are as secret, and start as many programs, as at their usual place.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crow_fs::{EntryMetadata, FileIdentity, LinkTrail};
use tokio_util::sync::CancellationToken;

use super::link_search::LinkSearchConfig;

/// Maximum number of entries of one hidden path that are examined, the nearest first.
pub(super) const MOST_ENTRIES: usize = 8192;
/// Maximum number of targets, and of links on the way to them. Each becomes a mount or an entry that each command is
/// checked for; a sandbox has room for `MAX_TREES` mounts.
pub(super) const MOST_TARGETS: usize = 256;
/// Maximum number of files with several names.
const MOST_HARD_LINKED: usize = 65_536;
/// Folders of the system: what a link leads to there is no secret of the user, except in a workspace or a folder that
/// commands may change.
const SYSTEM_FOLDERS: [&str; 19] = [
    "/Library",
    "/System",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/gnu",
    "/lib",
    "/lib64",
    "/nix",
    "/opt",
    "/private/etc",
    "/private/var",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
];

/// Files elsewhere that belong to hidden paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LinkedFiles {
    /// Files and folders that links lead to.
    pub(super) targets: BTreeSet<PathBuf>,
    /// Those that do not exist: what appears there would be read as the user's own.
    pub(super) missing: BTreeSet<PathBuf>,
    /// Links outside of the hidden paths on the way to them.
    pub(super) links: BTreeSet<PathBuf>,
    /// Hidden files with several names, which may lie elsewhere.
    pub(super) hard_linked: BTreeSet<FileIdentity>,
    /// Hidden paths with more entries than are examined.
    pub(super) unsearched: Vec<PathBuf>,
    /// True if there are more links or files with several names than are kept.
    pub(super) is_cut: bool,
}

/// Search of the hidden paths.
struct LinkedFileSearch<'a> {
    config: &'a LinkSearchConfig,
    /// Folders that commands may change.
    writable: Vec<PathBuf>,
    /// The home without links.
    home: PathBuf,
    stop: &'a CancellationToken,
    found: LinkedFiles,
}

impl LinkedFiles {
    /// Searches the hidden paths, those of the program itself first, for links into folders of the user and into the
    /// roots of the workspace. Returns early what was found if `stop` is cancelled. Blocks.
    pub(super) fn find(
        config: &LinkSearchConfig,
        roots: &[PathBuf],
        stop: &CancellationToken,
    ) -> Self {
        let mut search = LinkedFileSearch::new(config, roots, stop);
        let others = config.hidden.iter().filter(|path| !config.own.contains(path));
        for path in config.own.iter().chain(others) {
            search.search_path(path);
        }
        search.found
    }

    /// Searches the start files of the user for links into the workspace and other folders that commands may change. Blocks.
    pub(super) fn find_of_start_files(
        config: &LinkSearchConfig,
        roots: &[PathBuf],
        stop: &CancellationToken,
    ) -> Self {
        // Nothing of a start file is left out because it may be read.
        let config = LinkSearchConfig {
            home: config.home.clone(),
            writable: config.writable.clone(),
            start_files: config.start_files.clone(),
            ..LinkSearchConfig::default()
        };
        let mut search = LinkedFileSearch::new(&config, roots, stop);
        for path in &config.start_files {
            search.search_path(path);
        }
        let LinkedFileSearch { mut found, writable, .. } = search;
        let is_in_reach = |path: &PathBuf| {
            writable.iter().any(|folder| path != folder && path.starts_with(folder))
        };
        found.targets.retain(is_in_reach);
        found.links.retain(is_in_reach);
        found
    }

    fn add_identity(&mut self, metadata: &EntryMetadata) {
        if !metadata.is_file() || metadata.links < 2 {
            return;
        }
        if self.hard_linked.len() < MOST_HARD_LINKED {
            self.hard_linked.insert(metadata.identity);
        } else {
            self.is_cut |= !self.hard_linked.contains(&metadata.identity);
        }
    }
}

/// Adds a path unless the set is full. Returns false if the path is missing in it.
fn add_bounded(paths: &mut BTreeSet<PathBuf>, path: PathBuf) -> bool {
    if paths.len() < MOST_TARGETS {
        paths.insert(path);
        return true;
    }
    paths.contains(&path)
}

impl<'a> LinkedFileSearch<'a> {
    fn new(config: &'a LinkSearchConfig, roots: &[PathBuf], stop: &'a CancellationToken) -> Self {
        let home = fs::canonicalize(&config.home).unwrap_or_else(|_| config.home.clone());
        let folders = roots.iter().chain(&config.writable);
        let writable = folders.filter_map(|folder| fs::canonicalize(folder).ok()).collect();
        Self { config, writable, home, stop, found: LinkedFiles::default() }
    }
}

impl LinkedFileSearch<'_> {
    fn search_path(&mut self, path: &Path) {
        // The home itself may be behind a link, as `/home` is on some systems: this moves no hidden path elsewhere.
        let path = match path.strip_prefix(&self.config.home) {
            Ok(below) => self.home.join(below),
            Err(_) => path.to_owned(),
        };
        let Some(trail) = LinkTrail::follow(&path) else { return };
        let real = trail.end.clone();
        // A path that leads nowhere hides nothing unless a link decides where.
        if !trail.links.is_empty() {
            self.add(trail, &path);
        }
        self.search_entries(&real);
    }

    /// Adds what links in a hidden path lead to, the nearest entries first.
    fn search_entries(&mut self, top: &Path) {
        let Ok(metadata) = crow_fs::metadata_through_links(top) else { return };
        self.found.add_identity(&metadata);
        let mut folders = VecDeque::from([top.to_owned()]);
        let mut entries = 0;
        while let Some(folder) = folders.pop_front() {
            if self.stop.is_cancelled() {
                return;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > MOST_ENTRIES {
                    self.found.unsearched.push(top.to_owned());
                    return;
                }
                let (path, kind) = (entry.path(), entry.file_type());
                let Ok(kind) = kind else { continue };
                if kind.is_dir() && !self.config.passed_over.contains(&path) {
                    folders.push_back(path);
                } else if kind.is_symlink() {
                    if let Some(trail) = LinkTrail::follow(&path) {
                        self.add(trail, top);
                    }
                } else if kind.is_file()
                    && entry.metadata().is_ok_and(|metadata| metadata.nlink() > 1)
                    && let Ok(metadata) = crow_fs::metadata_through_links(&path)
                {
                    self.found.add_identity(&metadata);
                }
            }
        }
    }

    /// Returns whether a path belongs to the system. Projects may lie in its folders, as in `/opt` and `/usr/src`. A
    /// workspace around such a folder, as in `/`, contains the system.
    fn is_of_the_system(&self, path: &Path) -> bool {
        let is_below = |folder: &&&str| path.starts_with(folder);
        !path.starts_with(&self.home)
            && SYSTEM_FOLDERS.iter().filter(is_below).any(|system| {
                let is_in = |folder: &&PathBuf| path.starts_with(folder);
                !self.writable.iter().filter(is_in).any(|folder| folder.starts_with(system))
            })
    }

    /// Adds where a link of the hidden path `top` leads.
    fn add(&mut self, trail: LinkTrail, top: &Path) {
        let LinkTrail { links, end } = trail;
        let is_system = self.is_of_the_system(&end);
        let found = &mut self.found;
        let is_inside = |path: &Path| path != top && path.starts_with(top);
        for link in links.into_iter().filter(|link| !is_inside(link)) {
            found.is_cut |= !add_bounded(&mut found.links, link);
        }
        // A link to the home or above hides nothing: everything would be hidden.
        if is_inside(&end)
            || is_system
            || self.home.starts_with(&end)
            || self.config.shown.contains(&end)
        {
            return;
        }
        if !add_bounded(&mut found.targets, end.clone()) {
            found.is_cut = true;
            return;
        }
        match crow_fs::metadata_through_links(&end) {
            Ok(metadata) => found.add_identity(&metadata),
            Err(_) => drop(found.missing.insert(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Home {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl Home {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().canonicalize().unwrap();
            fs::create_dir_all(path.join("dotfiles/real")).unwrap();
            Self { _folder: folder, path }
        }

        fn link(&self, link: &str, target: &str) {
            let link = self.path.join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }

        fn write(&self, path: &str) {
            let path = self.path.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }

        fn find(&self, hidden: &[&str]) -> LinkedFiles {
            let config = LinkSearchConfig {
                hidden: hidden.iter().map(|name| self.path.join(name)).collect(),
                home: self.path.clone(),
                passed_over: vec![self.path.join("data/sessions")],
                ..LinkSearchConfig::default()
            };
            LinkedFiles::find(&config, &[], &CancellationToken::new())
        }

        fn names(&self, paths: &BTreeSet<PathBuf>) -> Vec<String> {
            let name = |path: &PathBuf| {
                path.strip_prefix(&self.path).unwrap_or(path).display().to_string()
            };
            paths.iter().map(name).collect()
        }
    }

    #[test]
    fn files_that_links_in_hidden_directories_lead_to_are_hidden() {
        let home = Home::new();
        home.write("dotfiles/config.toml");
        home.write("dotfiles/key");
        home.link("conf/config.toml", "../dotfiles/config.toml");
        home.link("conf/agents/base/deep/a.md", "../../../../dotfiles/a.md");
        home.link("conf/providers", "../dotfiles/providers");
        home.link(".ssh/id", "../dotfiles/key");
        home.link(".ssh/known_hosts", "/etc/hosts");
        home.link(".ssh/home", "..");
        home.link(".ssh/inside", "id2");
        home.link(".gnupg", "dotfiles/gnupg");
        let found = home.find(&["conf", ".ssh", ".gnupg", ".aws"]);
        let missing = ["dotfiles/a.md", "dotfiles/gnupg", "dotfiles/providers"];
        assert_eq!(home.names(&found.missing), missing);
        let mut targets = missing.to_vec();
        targets.extend(["dotfiles/config.toml", "dotfiles/key"]);
        targets.sort_unstable();
        assert_eq!(home.names(&found.targets), targets);
    }

    #[test]
    fn links_into_a_project_in_a_folder_of_the_system_are_followed() {
        let home = Home::new();
        let config = LinkSearchConfig { home: home.path.clone(), ..LinkSearchConfig::default() };
        let (stop, roots) = (CancellationToken::new(), ["/opt/app", "/", "/var/lib/b", "/mnt/c"]);
        let search = LinkedFileSearch {
            config: &config,
            writable: roots.map(PathBuf::from).to_vec(),
            home: PathBuf::from("/usr/home/user"),
            stop: &stop,
            found: LinkedFiles::default(),
        };
        for (path, is_system) in [
            ("/opt/app/dot/key", false),
            ("/var/lib/b", false),
            ("/mnt/c/x", false),
            ("/usr/home/user/x", false),
            ("/srv/x", false),
            ("/opt/other/x", true),
            ("/opt/apple", true),
            ("/etc/hosts", true),
            ("/usr/lib/x", true),
        ] {
            assert_eq!(search.is_of_the_system(Path::new(path)), is_system, "{path}");
        }
    }

    #[test]
    fn links_on_the_way_out_of_a_hidden_directory_are_found() {
        let home = Home::new();
        home.write("dotfiles/real/c");
        home.link("dotfiles/first", "second/c");
        home.link("dotfiles/second", "real");
        home.link("conf/config.toml", "../dotfiles/first");
        home.link(".ssh", "dotfiles/second");
        let found = home.find(&["conf", ".ssh"]);
        assert_eq!(home.names(&found.links), [".ssh", "dotfiles/first", "dotfiles/second"]);
        assert_eq!(home.names(&found.targets), ["dotfiles/real", "dotfiles/real/c"]);
    }

    #[test]
    fn hidden_paths_below_a_home_that_is_a_link_are_not_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/.ssh")).unwrap();
        symlink("real", base.join("home")).unwrap();
        symlink("../key", base.join("real/.ssh/id")).unwrap();
        let config = LinkSearchConfig {
            hidden: [".ssh", ".aws"].map(|name| base.join("home").join(name)).to_vec(),
            home: base.join("home"),
            ..LinkSearchConfig::default()
        };
        let found = LinkedFiles::find(&config, &[], &CancellationToken::new());
        let key = BTreeSet::from([base.join("real/key")]);
        assert_eq!((found.links, found.targets), (BTreeSet::new(), key.clone()));
        assert_eq!(found.missing, key);
    }

    #[test]
    fn links_behind_many_entries_are_found_and_a_search_that_ends_early_is_reported() {
        let home = Home::new();
        fs::create_dir_all(home.path.join(".ssh")).unwrap();
        for number in 0..2000 {
            symlink("nowhere", home.path.join(format!(".ssh/{number}"))).unwrap();
        }
        home.link(".ssh/z/id", "../../dotfiles/key");
        home.link("data/sessions/s/tmp", "../../../dotfiles/session");
        let found = home.find(&[".ssh", "data"]);
        assert_eq!(home.names(&found.targets), ["dotfiles/key"]);
        assert_eq!(found.unsearched, [""; 0].map(PathBuf::from));
        fs::create_dir(home.path.join("full")).unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::write(home.path.join(format!("full/{number}")), "").unwrap();
        }
        assert_eq!(home.find(&["full"]).unsearched, [home.path.join("full")]);
    }

    #[test]
    fn files_with_a_second_name_are_found_by_their_identity() {
        let home = Home::new();
        home.write("conf/a/config.toml");
        home.write("conf/alone");
        home.write("dotfiles/key");
        home.write(".netrc");
        home.link(".ssh/id", "../dotfiles/key");
        for (path, name) in
            [("conf/a/config.toml", "c"), ("dotfiles/key", "copy"), (".netrc", "netrc")]
        {
            fs::hard_link(home.path.join(path), home.path.join("dotfiles").join(name)).unwrap();
        }
        let found = home.find(&["conf", ".ssh", ".netrc"]);
        let identity = |name: &str| crow_fs::metadata(&home.path.join(name)).unwrap().identity;
        let expected = ["dotfiles/c", "dotfiles/copy", "dotfiles/netrc"].map(identity);
        assert_eq!(found.hard_linked, BTreeSet::from(expected));
    }

    #[test]
    fn more_links_than_are_kept_are_reported_and_those_of_the_program_are_kept_first() {
        let home = Home::new();
        for number in 0..=MOST_TARGETS {
            home.link(&format!(".ssh/{number}"), &format!("../dotfiles/{number}"));
        }
        home.link("conf/config.toml", "../dotfiles/config.toml");
        let config = LinkSearchConfig {
            own: vec![home.path.join("conf")],
            hidden: vec![home.path.join(".ssh"), home.path.join("conf")],
            home: home.path.clone(),
            ..LinkSearchConfig::default()
        };
        let found = LinkedFiles::find(&config, &[], &CancellationToken::new());
        assert!(found.is_cut);
        assert_eq!(found.targets.len(), MOST_TARGETS);
        assert!(found.targets.contains(&home.path.join("dotfiles/config.toml")));
        assert!(found.missing.is_subset(&found.targets));
    }
}
