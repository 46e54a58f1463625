//! Choosing the default model of sessions that name none.

use std::sync::Arc;

use crow_core::model::ModelRef;
use crow_providers::{CredentialStatus, ProviderModels, discover};
use crow_runtime::HostError;

use super::local_servers::LocalServerConsent;

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
pub(super) fn no_model() -> HostError {
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
