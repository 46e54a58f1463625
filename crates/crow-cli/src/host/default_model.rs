//! The model to ask when nobody names one.

use std::sync::Arc;

use crow_core::model::ModelRef;
use crow_providers::{CredentialStatus, ProviderModels, discover};
use crow_runtime::HostError;

use super::local_servers::LocalServerConsent;

/// The model to ask when nobody names one.
pub(super) struct DefaultModel {
    /// The one that is asked whatever is configured.
    pub chosen: Option<ModelRef>,
    /// Where one is looked for.
    pub providers: Option<Arc<ProviderModels>>,
    /// Which servers of this machine may be asked.
    pub local_servers: LocalServerConsent,
}

impl DefaultModel {
    /// Finds it without asking anybody: the configured one, else that of the first provider with a key.
    pub(super) fn known(&self, configured: Option<&ModelRef>) -> Option<ModelRef> {
        let model = self.chosen.as_ref().or(configured).cloned();
        model.or_else(|| self.providers.as_ref()?.default_model())
    }

    /// Finds it as [`known`](Self::known) does, else that of a local server which the user agrees to.
    pub(super) async fn find(&self, configured: Option<&ModelRef>) -> Result<ModelRef, HostError> {
        if let Some(model) = self.known(configured) {
            return Ok(model);
        }
        let Some(providers) = &self.providers else { return Err(no_model()) };
        // A key that is there and cannot be used is not passed over in silence.
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
            let hint = "mend this, or name a model with --model".to_owned();
            return Err(HostError::Refused { message: reason, hint });
        }
        let chosen = self.local_servers.choose(discover(providers).await).await;
        chosen.unwrap_or_else(|| Err(all_disabled(providers).unwrap_or_else(no_model)))
    }
}

/// Says that there is no model because a client disabled providers, if it did.
fn all_disabled(providers: &ProviderModels) -> Option<HostError> {
    let routes = providers.routes().into_iter();
    let disabled = routes.filter(|route| providers.is_disabled(&route.provider));
    let names: Vec<_> = disabled.map(|route| route.provider).collect();
    (!names.is_empty()).then(|| HostError::Refused {
        message: format!(
            "there is no model to talk to: no provider that is enabled has a key, and {} disabled",
            if let [name] = names.as_slice() {
                format!("{name} is")
            } else {
                format!("{} are", names.join(", "))
            }
        ),
        hint: "enable one with providers/set, or name a model of another provider".to_owned(),
    })
}

/// One screen that says how to get going.
pub(super) fn no_model() -> HostError {
    let hint = "\
Give a provider's key, for example one of
  export ANTHROPIC_API_KEY=…     export OPENAI_API_KEY=…
  export GEMINI_API_KEY=…        export OPENROUTER_API_KEY=…
or store it with `crow-agent login PROVIDER`, and run again. Or start a model server on this machine (Ollama, llama.cpp, LM Studio, vLLM): it is found by itself, and used once you agree.

  crow-agent models              shows providers, models and what is missing
  crow-agent run -m PROVIDER/MODEL \"task\"   names the model yourself
  crow-agent demo                shows Crow at work without any model";
    HostError::NoCredentials {
        message:
            "there is no model to talk to: no provider has a key, and no local model server answers"
                .to_owned(),
        hint: hint.to_owned(),
    }
}
