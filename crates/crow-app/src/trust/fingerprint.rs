//! Fingerprints of project configurations, and their differences.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    contents::{ProjectFiles, ProjectItem},
    programs::USER_MARK_PREFIX,
};

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
