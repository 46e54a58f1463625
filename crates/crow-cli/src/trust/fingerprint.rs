//! What a project's configuration was when it was shown, and how it differs by now.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    contents::{ProjectFiles, ProjectItem},
    programs::OF_USER,
};

/// A hash over all names, kinds, contents, link targets and execute bits, and one for each of them: so that it can be said
/// what changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fingerprint {
    hash: String,
    items: BTreeMap<String, String>,
}

/// How one thing differs from what was trusted.
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
    /// Takes the fingerprint of what was read.
    pub(crate) fn of(contents: &ProjectFiles) -> Self {
        let programs = contents.programs.marks.iter();
        let mut items: BTreeMap<String, String> =
            programs.map(|(name, mark)| (name.clone(), mark.clone())).collect();
        // A file of the configuration that is started as well counts as what it is there.
        items.extend(contents.items.iter().map(|(name, item)| (name.clone(), mark(item))));
        let mut hasher = blake3::Hasher::new();
        for (name, mark) in &items {
            // With lengths, so that no two folders make the same bytes.
            for part in [name, mark] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        Self { hash: hasher.finalize().to_hex().to_string(), items }
    }

    /// Returns whether trust in this is trust in `now`: it is the same, or the user's own servers are started from fewer
    /// files, because he changed his configuration or a file is gone.
    pub(crate) fn covers(&self, now: &Self) -> bool {
        let is_less = |(name, what): (&String, &Difference)| {
            *what == Difference::Removed
                && self.items.get(name).is_some_and(|mark| mark.starts_with(OF_USER))
        };
        self.differences(now).iter().all(is_less)
    }

    /// Says how `now` differs.
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
