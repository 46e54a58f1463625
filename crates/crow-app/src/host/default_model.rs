//! Choosing the default model of sessions that name none, and consent of the user to model servers on this machine.
//!
//! Any local user can listen on the port of Ollama. A server that was only discovered gets no prompt until the user
//! has agreed to its address once. Naming a model of the server counts as consent.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crow_core::model::ModelRef;
use crow_providers::{CredentialStatus, FoundServer, ProviderModels, discover};
use crow_runtime::HostError;
use crow_text::approval_line;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::{
    dialog::{Audience, NoDialog, UserDialog},
    environment::ProcessEnvironment,
    error::AppError,
    private_file::{self, Privacy, PrivateFileError},
};

/// Sources of the default model.
pub(super) struct DefaultModel {
    /// Fixed default model, which overrides the configuration.
    pub chosen: Option<ModelRef>,
    /// Providers that are searched for a usable model.
    pub providers: Option<Arc<ProviderModels>>,
    /// Model servers on this machine that the user agreed to.
    pub local_servers: LocalServerConsent,
}

impl DefaultModel {
    /// Returns the default model without asking the user: the configured one, else that of the first provider with a
    /// key.
    pub(super) fn known(&self, configured: Option<&ModelRef>) -> Option<ModelRef> {
        let model = self.chosen.as_ref().or(configured).cloned();
        model.or_else(|| self.providers.as_ref()?.default_model())
    }

    /// Returns the model of [`known`](Self::known), else that of a local server that the user agrees to. May ask the
    /// user.
    pub(super) async fn find(&self, configured: Option<&ModelRef>) -> Result<ModelRef, HostError> {
        if let Some(model) = self.known(configured) {
            return Ok(model);
        }
        let Some(providers) = &self.providers else { return Err(no_model()) };
        // A key that exists but is unusable must not be skipped silently.
        if let Some(reason) =
            providers.list().into_iter().find_map(|provider| match provider.credentials {
                CredentialStatus::Unusable { reason } => {
                    Some(format!("{}: {reason}", provider.name))
                }
                CredentialStatus::Present
                | CredentialStatus::Stored
                | CredentialStatus::NotNeeded
                | CredentialStatus::Missing { .. } => None,
            })
        {
            let hint = "fix this, or name a model with --model".to_owned();
            return Err(HostError::Refused { message: reason, hint });
        }
        let chosen = self.local_servers.choose(discover(providers).await).await;
        chosen.unwrap_or_else(|| Err(all_disabled(providers).unwrap_or_else(no_model)))
    }
}

/// Returns the error for the case that no model is left because a client disabled providers.
fn all_disabled(providers: &ProviderModels) -> Option<HostError> {
    let routes = providers.routes().into_iter();
    let disabled = routes.filter(|route| providers.is_disabled(&route.provider));
    let names: Vec<_> = disabled.map(|route| route.provider).collect();
    (!names.is_empty()).then(|| HostError::Refused {
        message: format!(
            "no model is available: no provider that is enabled has a key, and {} disabled",
            if let [name] = names.as_slice() {
                format!("{name} is")
            } else {
                format!("{} are", names.join(", "))
            }
        ),
        hint: "enable one with providers/set, or name a model of another provider".to_owned(),
    })
}

/// Returns the error for a missing model, with a screen of instructions.
pub fn no_model() -> HostError {
    let hint = "\
Give a provider's key, for example one of
  export ANTHROPIC_API_KEY=…     export OPENAI_API_KEY=…
  export GEMINI_API_KEY=…        export OPENROUTER_API_KEY=…
or store it with `crow-agent login PROVIDER`, and run again. Or start a model server on this machine (Ollama, llama.cpp, LM Studio, vLLM): it is detected, and used once you agree.

  crow-agent models              shows providers, models and what is missing
  crow-agent run -m PROVIDER/MODEL \"task\"   names the model yourself
  crow-agent demo                shows Crow at work without any model";
    HostError::NoCredentials {
        message: "no model is available: no provider has a key, and no local model server answers"
            .to_owned(),
        hint: hint.to_owned(),
    }
}

/// The question whether a model server may be used.
pub const SEND_PROMPTS_QUESTION: &str =
    "Send it your prompts, and what the agent reads of your files?";
/// Version of the file format.
const VERSION: u32 = 1;
/// File name, relative to the data folder.
const FILE: &str = "local-servers.json";

/// Consent of the user to discovered model servers.
#[derive(Clone)]
pub(super) struct LocalServerConsent {
    /// Path of the consent file; `None` without a data folder: then each process asks.
    path: Option<PathBuf>,
    dialog: Arc<dyn UserDialog>,
    /// True while a user can be asked: one is there, and nothing else reads what is typed.
    may_ask: Arc<AtomicBool>,
    /// True once the chosen server was announced.
    is_named: Arc<AtomicBool>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsentFile {
    version: u32,
    /// Base URLs of servers that may receive prompts.
    addresses: BTreeSet<String>,
}

impl LocalServerConsent {
    pub(super) fn new(
        environment: &ProcessEnvironment,
        audience: Audience,
        dialog: Arc<dyn UserDialog>,
    ) -> Self {
        let folder = environment.data_dir().ok();
        Self {
            path: folder.map(|folder| folder.join(FILE)),
            dialog,
            may_ask: Arc::new(AtomicBool::new(audience == Audience::Person)),
            is_named: Arc::default(),
        }
    }

    /// Stops asking: the terminal belongs to a conversation from now on.
    pub(super) fn disable_questions(&self) {
        self.may_ask.store(false, Ordering::Relaxed);
    }

    /// Chooses a model of the discovered servers: of the first server the user agreed to earlier, else of the first
    /// one the user agrees to now. Returns `None` if no server has a model.
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
                    let message = format!("no model is named: using {model}, found at {address}");
                    self.dialog.show_message(&message);
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
    ) -> Result<Option<ModelCandidate>, AppError> {
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
                "No model is named, and no provider has a key. A model server answers on this machine: {} at {}.\n{SEND_PROMPTS_QUESTION}",
                approval_line(&model.to_string()),
                approval_line(address)
            );
            if self.dialog.confirm(&question)? {
                self.add(address)?;
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    fn load(&self) -> Result<BTreeSet<String>, AppError> {
        self.path.as_deref().map_or_else(|| Ok(BTreeSet::new()), load)
    }

    fn add(&self, address: &str) -> Result<(), AppError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _lock = private_file::lock(path).map_err(|error| file_error(&error))?;
        // The file is read again under the lock: another process may have added an address.
        let mut addresses = load(path)?;
        addresses.insert(address.to_owned());
        let document = ConsentFile { version: VERSION, addresses };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| AppError::failed(format!("{}: {error}", path.display())))?;
        private_file::replace(path, &text).map_err(|error| file_error(&error))
    }
}

/// Returns the addresses of model servers that the user agreed to. Blocks.
pub fn consented_servers(environment: &ProcessEnvironment) -> Result<BTreeSet<String>, AppError> {
    LocalServerConsent::new(environment, Audience::Unattended, Arc::new(NoDialog)).load()
}

/// Keeps the consent of the user to the model server at an address. Blocks.
pub fn agree_to_server(environment: &ProcessEnvironment, address: &str) -> Result<(), AppError> {
    LocalServerConsent::new(environment, Audience::Unattended, Arc::new(NoDialog)).add(address)
}

/// Reads the addresses. An invalid file is an error, because the consent is then unknown.
fn load(path: &Path) -> Result<BTreeSet<String>, AppError> {
    let Some(text) = private_file::read(path, Privacy::Own).map_err(|error| file_error(&error))?
    else {
        return Ok(BTreeSet::new());
    };
    let broken = |why: &str| {
        let message = format!("{} is invalid: {why}", path.display());
        AppError::usage(message).hint("fix or remove the file; then you are asked again")
    };
    let document: ConsentFile =
        serde_json::from_str(&text).map_err(|error| broken(&error.to_string()))?;
    if document.version != VERSION {
        return Err(broken(&format!("version {} is not supported", document.version)));
    }
    Ok(document.addresses)
}

fn file_error(error: &PrivateFileError) -> AppError {
    AppError::failed(error.to_string())
}

/// First model of a discovered server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelCandidate {
    model: ModelRef,
    address: String,
}

impl ModelCandidate {
    /// Returns `None` if the server has no model.
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
        let environment = ProcessEnvironment::with([("HOME", folder.path().to_str().unwrap())]);
        let consent =
            LocalServerConsent::new(&environment, Audience::Unattended, Arc::new(NoDialog));
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
