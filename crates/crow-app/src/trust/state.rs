//! The state of a project when it was trusted: its fingerprint, how that differs from another, and the check before a server
//! is started.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    contents::{ProjectFiles, ProjectItem},
    programs::{StartedServer, USER_MARK_PREFIX},
    project::servers,
};

/// State of a trusted project when its configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedState {
    /// Root of the project, in which its servers are started.
    pub(crate) root: PathBuf,
    /// Files that commands must not change: those its servers are started from, links on the way to them, and code
    /// beside them.
    pub protected: Vec<PathBuf>,
    fingerprint: Fingerprint,
    /// Command lines of its servers.
    commands: Vec<Vec<String>>,
    /// The user's own servers that are started from its files.
    user_servers: Vec<StartedServer>,
    /// Folders of the user's own skills, and files of their hooks.
    user_paths: Vec<PathBuf>,
}

/// Reason for which a server is not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerRefusal {
    /// Files have changed since they were trusted.
    #[error(
        "it is started from files of the project that changed since you trusted it: {}; review them with `crow-agent trust` and start again",
        .names.join(", ")
    )]
    Changed {
        /// The files, relative to the root.
        names: Vec<String>,
    },
    /// The state cannot be determined.
    #[error(
        "it is started from files of the project that cannot be compared with the trusted ones: {0}"
    )]
    Unknown(String),
}

impl TrustedState {
    pub(super) fn from_files(contents: &ProjectFiles) -> Self {
        let root = contents.root();
        let own = servers(contents);
        let own = own.values().filter_map(|server| StartedServer::of_project(root, server));
        let commands = own.map(|server| server.argv);
        Self {
            root: root.to_path_buf(),
            protected: contents.programs.protected.iter().cloned().collect(),
            fingerprint: Fingerprint::compute(contents),
            commands: commands.collect(),
            user_servers: contents.user_servers.clone(),
            user_paths: contents.user_paths.clone(),
        }
    }

    /// Returns true if a command line is that of a server which is started from the project.
    pub(crate) fn starts(&self, argv: &[String]) -> bool {
        self.is_of_project(argv) || self.user_servers.iter().any(|server| server.argv == argv)
    }

    /// Returns true if a command line is in the configuration of the project itself.
    pub(crate) fn is_of_project(&self, argv: &[String]) -> bool {
        self.commands.iter().any(|command| command == argv)
    }

    /// Fails if the project has changed since it was trusted. Blocks.
    pub(crate) fn check(&self) -> Result<(), ServerRefusal> {
        let contents = match ProjectFiles::read(&self.root, &self.user_servers, &self.user_paths) {
            Ok(Some(contents)) => contents,
            Ok(None) => return Err(ServerRefusal::Unknown("its configuration is gone".to_owned())),
            Err(error) => return Err(ServerRefusal::Unknown(error.to_string())),
        };
        let differences = self.fingerprint.differences(&Fingerprint::compute(&contents));
        if differences.is_empty() {
            return Ok(());
        }
        Err(ServerRefusal::Changed {
            names: differences.keys().map(|name| ProjectFiles::display_name(name)).collect(),
        })
    }
}

/// A hash over all names, kinds, contents, link targets and execute bits, and a mark of each entry, so that changes
/// can be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    hash: String,
    items: BTreeMap<String, String>,
}

/// Change of an entry since it was trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    New,
    Changed,
    Removed,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Removed => "removed",
        })
    }
}

impl Fingerprint {
    /// Computes the fingerprint of a configuration.
    pub(crate) fn compute(contents: &ProjectFiles) -> Self {
        let programs = contents.programs.marks.iter();
        let mut items: BTreeMap<String, String> =
            programs.map(|(name, mark)| (name.clone(), mark.clone())).collect();
        // A configuration file that is also started as a program is marked as configuration.
        items.extend(contents.items.iter().map(|(name, item)| (name.clone(), mark(item))));
        let mut hasher = blake3::Hasher::new();
        for (name, mark) in &items {
            // Lengths make the encoding unambiguous: no two configurations give the same bytes.
            for part in [name, mark] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        Self { hash: hasher.finalize().to_hex().to_string(), items }
    }

    /// Returns true if trust in this state extends to `now`: they are equal, or `now` only lacks files of the user's
    /// own servers, because the user changed their configuration or a file is gone.
    pub(crate) fn covers(&self, now: &Self) -> bool {
        let is_removed_user_file = |(name, difference): (&String, &Difference)| {
            *difference == Difference::Removed
                && self.items.get(name).is_some_and(|mark| mark.starts_with(USER_MARK_PREFIX))
        };
        self.differences(now).iter().all(is_removed_user_file)
    }

    /// Returns the entries that differ in `now`.
    pub(crate) fn differences(&self, now: &Self) -> BTreeMap<String, Difference> {
        let mut differences = BTreeMap::new();
        for (name, mark) in &now.items {
            match self.items.get(name) {
                None => differences.insert(name.clone(), Difference::New),
                Some(before) if before != mark => {
                    differences.insert(name.clone(), Difference::Changed)
                }
                Some(_) => None,
            };
        }
        let removed = self.items.keys().filter(|name| !now.items.contains_key(*name));
        differences.extend(removed.map(|name| (name.clone(), Difference::Removed)));
        differences
    }
}

fn mark(item: &ProjectItem) -> String {
    match item {
        ProjectItem::Folder => "folder".to_owned(),
        ProjectItem::File { bytes, executable } => {
            let kind = if *executable { "program" } else { "file" };
            format!("{kind} {}", blake3::hash(bytes).to_hex())
        }
        ProjectItem::Link { target } => format!("link {target}"),
    }
}
