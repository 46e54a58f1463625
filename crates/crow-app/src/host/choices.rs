//! The last choices of the user in each project, which new sessions there start with.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::{control::Preset, model::ModelRef, permission::PermissionMode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    environment::ProcessEnvironment,
    private_file::{self, Privacy, PrivateFileError},
};

/// Version of the file format.
const VERSION: u32 = 1;
/// Maximum number of projects in the file; the oldest are removed.
const MOST_PROJECTS: usize = 500;

/// File of the last choices per project.
#[derive(Debug, Clone)]
pub(super) struct ChoiceStore {
    path: PathBuf,
}

/// Choices in one project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Choices {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<OptionChoiceRecord<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<OptionChoiceRecord<ModelRef>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<Preset>,
    /// Never `full-auto`: that mode must be chosen anew each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<PermissionMode>,
}

/// A chosen value and the configured value it replaced. The choice is ignored once the configuration names another
/// value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OptionChoiceRecord<T> {
    value: T,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    instead_of: Option<T>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ChoicesDocument {
    version: u32,
    projects: BTreeMap<String, RememberedChoice>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RememberedChoice {
    as_of: Timestamp,
    choices: Choices,
}

impl<T: Clone + PartialEq> OptionChoiceRecord<T> {
    pub(super) fn new(value: T, instead_of: Option<T>) -> Self {
        Self { value, instead_of }
    }

    /// Returns the choice if the configured value has not changed since.
    pub(super) fn over(&self, configured: Option<&T>) -> Option<T> {
        (self.instead_of.as_ref() == configured).then(|| self.value.clone())
    }
}

impl ChoiceStore {
    /// Opens the store in the user's data folder. Returns `None` without such a folder.
    pub(super) fn open(environment: &ProcessEnvironment) -> Option<Self> {
        Some(Self { path: environment.data_dir().ok()?.join("choices.json") })
    }

    /// Returns the choices in a project; none if the file cannot be read. Blocks.
    pub(super) fn load(&self, project: &Path) -> Choices {
        let document = self.read().unwrap_or_default();
        let record = project.to_str().and_then(|name| document.projects.get(name));
        record.map(|record| record.choices.clone()).unwrap_or_default()
    }

    /// Changes the choices in a project. If they cannot be stored, the choice applies to the session alone. Blocks.
    pub(super) fn change(&self, project: &Path, change: impl FnOnce(&mut Choices)) {
        // A home that cannot be written to is no reason to refuse the choice.
        drop(self.try_change(project, change));
    }

    fn try_change(
        &self,
        project: &Path,
        change: impl FnOnce(&mut Choices),
    ) -> Result<(), PrivateFileError> {
        let Some(name) = project.to_str() else { return Ok(()) };
        let _lock = private_file::lock(&self.path)?;
        let mut document = self.read()?;
        document.version = VERSION;
        let as_of = Timestamp::now();
        let record = document.projects.entry(name.to_owned());
        let record =
            record.or_insert_with(|| RememberedChoice { as_of, choices: Choices::default() });
        record.as_of = as_of;
        change(&mut record.choices);
        while document.projects.len() > MOST_PROJECTS {
            let oldest = document.projects.iter().min_by_key(|(_, record)| record.as_of);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            document.projects.remove(&oldest);
        }
        match serde_json::to_string_pretty(&document) {
            Ok(text) => private_file::replace(&self.path, &text),
            Err(source) => {
                Err(PrivateFileError::Write { path: self.path.clone(), source: source.into() })
            }
        }
    }

    /// Reads the file. A file of another version or an unknown format counts as empty and is overwritten.
    fn read(&self) -> Result<ChoicesDocument, PrivateFileError> {
        let text = private_file::read(&self.path, Privacy::Own)?.unwrap_or_default();
        let document: Option<ChoicesDocument> = serde_json::from_str(&text).ok();
        Ok(document.filter(|document| document.version == VERSION).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_counts_until_the_configured_value_changes() {
        let chosen = OptionChoiceRecord::new("a", Some("b"));
        assert_eq!(chosen.over(Some(&"b")), Some("a"));
        assert_eq!(chosen.over(Some(&"c")), None);
        assert_eq!(chosen.over(None), None);
    }

    #[test]
    fn choices_are_stored_by_project_and_a_broken_file_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let store = ChoiceStore::open(&ProcessEnvironment::with([("HOME", home)])).unwrap();
        store.change(Path::new("/a"), |choices| choices.mode = Some(Preset::Judge));
        store.change(Path::new("/b"), |choices| {
            choices.agent = Some(OptionChoiceRecord::new("PLAN".to_owned(), None));
        });
        assert_eq!(store.load(Path::new("/a")).mode, Some(Preset::Judge));
        assert_eq!(store.load(Path::new("/b")).agent.unwrap().over(None).unwrap(), "PLAN");
        assert_eq!(store.load(Path::new("/c")), Choices::default());
        std::fs::write(&store.path, "{").unwrap();
        assert_eq!(store.load(Path::new("/a")), Choices::default());
    }
}
