//! Which model servers of this machine the user lets have prompts.
//!
//! Anybody on this machine can listen on the port of Ollama. A server that was only found gets no prompt before the user
//! said yes to its address once. Whoever names a model of it has chosen it, and is not asked.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crow_core::model::ModelRef;
use crow_providers::FoundServer;
use crow_runtime::HostError;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::{
    confirm::confirm,
    environment::Environment,
    error::CliError,
    private_file::{self, Privacy, PrivateFileError},
    render::exact_line,
    run::{Audience, say},
};

/// The version of the file.
const VERSION: u32 = 1;
/// The file, below the folder of data.
const FILE: &str = "local-servers.json";

/// The consent of the user to model servers that were found.
#[derive(Debug, Clone)]
pub(super) struct LocalServerConsent {
    /// None where there is no place to keep it: then each process asks.
    path: Option<PathBuf>,
    /// Whether somebody is at the terminal, and nothing else reads from it.
    may_ask: Arc<AtomicBool>,
    /// Whether it was said which server is used.
    is_named: Arc<AtomicBool>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsentFile {
    version: u32,
    /// The addresses that may have prompts.
    addresses: BTreeSet<String>,
}

impl LocalServerConsent {
    pub(super) fn new(environment: &Environment, audience: Audience) -> Self {
        let folder = environment.data_dir().ok();
        Self {
            path: folder.map(|folder| folder.join(FILE)),
            may_ask: Arc::new(AtomicBool::new(audience == Audience::Person)),
            is_named: Arc::default(),
        }
    }

    /// Asks nobody from now on: the terminal belongs to a conversation.
    pub(super) fn ask_no_more(&self) {
        self.may_ask.store(false, Ordering::Relaxed);
    }

    /// Chooses a model among the servers that were found: of the first one that the user agreed to, else of the first one
    /// that the user agrees to now. None if none was found.
    pub(super) async fn choose(
        &self,
        found: Vec<FoundServer>,
    ) -> Option<Result<ModelRef, HostError>> {
        let candidates: Vec<ModelCandidate> =
            found.into_iter().filter_map(ModelCandidate::of).collect();
        let first = candidates.first()?.clone();
        let consent = self.clone();
        let chosen = spawn_blocking(move || consent.choose_blocking(candidates)).await;
        Some(match chosen {
            Ok(Ok(Some(candidate))) => {
                if !self.is_named.swap(true, Ordering::Relaxed) {
                    let ModelCandidate { model, address } = &candidate;
                    say(&format!("no model is named: using {model}, found at {address}"));
                }
                Ok(candidate.model)
            }
            Ok(Ok(None)) => Err(first.refusal()),
            Ok(Err(error)) => {
                let hint = error.hint.unwrap_or_default();
                Err(HostError::Refused { message: error.message, hint })
            }
            Err(error) => {
                Err(HostError::Refused { message: error.to_string(), hint: String::new() })
            }
        })
    }

    fn choose_blocking(
        &self,
        candidates: Vec<ModelCandidate>,
    ) -> Result<Option<ModelCandidate>, CliError> {
        let agreed = self.load()?;
        if let Some(known) = candidates.iter().find(|one| agreed.contains(&one.address)) {
            return Ok(Some(known.clone()));
        }
        if !self.may_ask.load(Ordering::Relaxed) {
            return Ok(None);
        }
        for candidate in candidates {
            let ModelCandidate { model, address } = &candidate;
            let question = format!(
                "No model is named, and no provider has a key. A model server answers on this machine: {} at {}.\nShall it get your prompts, and what the agent reads of your files?",
                exact_line(&model.to_string()),
                exact_line(address)
            );
            if confirm(&question)? {
                self.add(address)?;
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    fn load(&self) -> Result<BTreeSet<String>, CliError> {
        self.path.as_deref().map_or_else(|| Ok(BTreeSet::new()), load)
    }

    fn add(&self, address: &str) -> Result<(), CliError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _alone = private_file::lock(path).map_err(|error| wrong(&error))?;
        // Another process may have added one since.
        let mut addresses = load(path)?;
        addresses.insert(address.to_owned());
        let document = ConsentFile { version: VERSION, addresses };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
        private_file::replace(path, &text).map_err(|error| wrong(&error))
    }
}

/// Returns the addresses of model servers which the user agreed to. Blocks.
pub(crate) fn agreed_servers(environment: &Environment) -> Result<BTreeSet<String>, CliError> {
    LocalServerConsent::new(environment, Audience::Nobody).load()
}

/// Reads the addresses. A file that cannot be understood is an error: it is not known what the user agreed to.
fn load(path: &Path) -> Result<BTreeSet<String>, CliError> {
    let Some(text) = private_file::read(path, Privacy::Own).map_err(|error| wrong(&error))? else {
        return Ok(BTreeSet::new());
    };
    let broken = |why: &str| {
        let message = format!("{} cannot be understood: {why}", path.display());
        CliError::usage(message).hint("mend the file or remove it; then you are asked again")
    };
    let document: ConsentFile =
        serde_json::from_str(&text).map_err(|error| broken(&error.to_string()))?;
    if document.version != VERSION {
        return Err(broken(&format!("version {} is not known", document.version)));
    }
    Ok(document.addresses)
}

fn wrong(error: &PrivateFileError) -> CliError {
    CliError::failed(error.to_string())
}

/// A model of a server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelCandidate {
    model: ModelRef,
    address: String,
}

impl ModelCandidate {
    /// Takes the first model of a server.
    fn of(server: FoundServer) -> Option<Self> {
        let model = server.models.into_iter().next()?;
        let model = ModelRef { provider: server.provider, model: model.id };
        Some(Self { model, address: server.base_url })
    }

    fn refusal(&self) -> HostError {
        let Self { model, address } = self;
        HostError::NoCredentials {
            message: format!(
                "no model is named, and no provider has a key; a model server was found at {address}, but you did not choose it, so it got no prompt"
            ),
            hint: format!(
                "to use it, name its model with `--model {model}`, or set `model = \"{model}\"` in config.toml (`crow-agent config set model {model}`); at a terminal `crow-agent run` asks once\n`crow-agent models` shows what was found"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crow_providers::FoundModel;

    use super::*;

    fn server(provider: &str, address: &str) -> FoundServer {
        let model = FoundModel { id: "m".to_owned(), context_window: None };
        FoundServer {
            provider: provider.to_owned(),
            base_url: address.to_owned(),
            models: vec![model],
        }
    }

    #[tokio::test]
    async fn a_found_server_is_used_only_when_its_address_was_agreed_to() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::with([("HOME", folder.path().to_str().unwrap())]);
        let consent = LocalServerConsent::new(&environment, Audience::Nobody);
        let found = || {
            vec![server("ollama", "http://127.0.0.1:1/v1"), server("vllm", "http://127.0.0.1:2/v1")]
        };
        assert!(consent.choose(Vec::new()).await.is_none());
        let refused = consent.choose(found()).await.unwrap().unwrap_err();
        let HostError::NoCredentials { message, hint } = refused else { panic!("{refused:?}") };
        assert!(message.contains("http://127.0.0.1:1/v1"), "{message}");
        assert!(
            hint.contains("--model ollama/m") && hint.contains("model = \"ollama/m\""),
            "{hint}"
        );
        consent.add("http://127.0.0.1:2/v1").unwrap();
        let chosen = consent.choose(found()).await.unwrap().unwrap();
        assert_eq!(chosen.to_string(), "vllm/m");
        // Another address of the same provider is another server.
        let moved = consent.choose(vec![server("vllm", "http://127.0.0.1:3/v1")]).await.unwrap();
        assert!(moved.is_err());
        std::fs::write(consent.path.clone().unwrap(), "{").unwrap();
        assert!(consent.choose(found()).await.unwrap().is_err());
    }
}
