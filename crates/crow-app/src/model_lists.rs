//! The models that providers listed when they were last asked, for menus and completions that must not wait for a network.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_providers::FoundModel;
use serde::{Deserialize, Serialize};

use crate::{
    environment::ProcessEnvironment,
    private_file::{self, Privacy, PrivateFileError},
};

/// Version of the file format.
const VERSION: u32 = 1;

/// The lists of all providers. Empty if they were never asked, or the file cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelLists {
    models: BTreeMap<String, Vec<String>>,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct ModelListsFile {
    version: u32,
    /// Ids of models by the names of providers.
    providers: BTreeMap<String, Vec<String>>,
}

impl ModelLists {
    /// Reads the lists that were stored last. Blocks.
    pub fn load(environment: &ProcessEnvironment) -> Self {
        let models = path(environment).and_then(|path| read(&path)).unwrap_or_default();
        Self { models }
    }

    /// Returns the ids of the models that a provider listed, in its order.
    pub fn of(&self, provider: &str) -> &[String] {
        self.models.get(provider).map_or(&[], Vec::as_slice)
    }

    /// Replaces the list of a provider and stores it. Blocks.
    pub fn store(
        environment: &ProcessEnvironment,
        provider: &str,
        models: &[FoundModel],
    ) -> Result<(), PrivateFileError> {
        // Without a data folder nothing is remembered.
        let Some(path) = path(environment) else { return Ok(()) };
        let _lock = private_file::lock(&path)?;
        let mut providers = read(&path).unwrap_or_default();
        let ids = models.iter().map(|model| model.id.clone()).collect();
        providers.insert(provider.to_owned(), ids);
        let file = ModelListsFile { version: VERSION, providers };
        match serde_json::to_string(&file) {
            Ok(text) => private_file::replace(&path, &text),
            Err(source) => Err(PrivateFileError::Write { path, source: source.into() }),
        }
    }
}

fn path(environment: &ProcessEnvironment) -> Option<PathBuf> {
    Some(environment.data_dir().ok()?.join("model_lists.json"))
}

/// A file of another version or an unknown format counts as empty.
fn read(path: &Path) -> Option<BTreeMap<String, Vec<String>>> {
    let text = private_file::read(path, Privacy::Own).ok()??;
    let file: ModelListsFile = serde_json::from_str(&text).ok()?;
    (file.version == VERSION).then_some(file.providers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_remembered_by_provider_and_a_broken_file_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let environment = ProcessEnvironment::with([("HOME", home)]);
        let model = |id: &str| FoundModel { id: id.to_owned(), context_window: None };
        assert_eq!(ModelLists::load(&environment).of("a"), [""; 0]);
        ModelLists::store(&environment, "a", &[model("x"), model("y")]).unwrap();
        ModelLists::store(&environment, "b", &[model("z")]).unwrap();
        ModelLists::store(&environment, "a", &[model("y")]).unwrap();
        let lists = ModelLists::load(&environment);
        assert_eq!((lists.of("a"), lists.of("b")), (&["y".to_owned()][..], &["z".to_owned()][..]));
        std::fs::write(path(&environment).unwrap(), "{").unwrap();
        assert_eq!(ModelLists::load(&environment), ModelLists::default());
    }
}
