//! The step that chooses where models come from: a provider with a key, or a server.

use crow_providers::{CredentialStatus, FoundServer, ProviderSummary};
use crow_text::one_line;

/// Pages of providers where keys are made.
const KEY_PAGES: [(&str, &str); 4] = [
    ("anthropic", "https://console.anthropic.com/settings/keys"),
    ("openai", "https://platform.openai.com/api-keys"),
    ("gemini", "https://aistudio.google.com/apikey"),
    ("openrouter", "https://openrouter.ai/settings/keys"),
];
/// Providers that are servers on this machine, and the variables with their addresses.
const LOCAL: [(&str, &str); 4] = [
    ("ollama", "OLLAMA_HOST"),
    ("llamacpp", "LLAMACPP_HOST"),
    ("lmstudio", "LMSTUDIO_HOST"),
    ("vllm", "VLLM_HOST"),
];

/// A source of models that can be chosen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelSource {
    /// A provider that needs a key.
    Provider(ProviderSummary),
    /// A server that answered.
    Server(FoundServer),
    /// A provider of the user's files that needs no key.
    Keyless(ProviderSummary),
    /// Servers that did not answer are to be looked for again.
    Search,
}

/// Returns the sources in the order in which they are listed.
pub(super) fn model_sources(
    providers: Vec<ProviderSummary>,
    servers: Vec<FoundServer>,
) -> Vec<ModelSource> {
    let is_found = |name: &str| servers.iter().any(|server| server.provider == name);
    let is_local = |name: &str| LOCAL.iter().any(|(local, _)| *local == name);
    // A recording has no address.
    let has_address =
        |one: &ProviderSummary| one.base_url.as_ref().is_ok_and(|url| !url.is_empty());
    let usable = providers.into_iter().filter(|one| has_address(one) && one.same_as.is_none());
    let remote = usable.filter(|one| !is_local(&one.name) && !is_found(&one.name));
    let (keyless, with_key): (Vec<_>, Vec<_>) =
        remote.partition(|one| one.credentials == CredentialStatus::NotNeeded);
    let mut sources: Vec<ModelSource> = with_key.into_iter().map(ModelSource::Provider).collect();
    sources.extend(keyless.into_iter().map(ModelSource::Keyless));
    sources.extend(servers.into_iter().map(ModelSource::Server));
    sources.push(ModelSource::Search);
    sources
}

impl ModelSource {
    /// Returns the name by which it can be chosen, if it has one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Provider(provider) | Self::Keyless(provider) => Some(&provider.name),
            Self::Server(server) => Some(&server.provider),
            Self::Search => None,
        }
    }

    /// Describes it in a list.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Provider(provider) => {
                let name = &provider.name;
                let state = match &provider.credentials {
                    CredentialStatus::Present => "it has a key".to_owned(),
                    CredentialStatus::Stored => "its key is stored".to_owned(),
                    CredentialStatus::Missing { variable } => {
                        format!("key, also in {variable}; {}", key_page(provider))
                    }
                    CredentialStatus::Unusable { reason } => {
                        format!("its key is unusable: {}", one_line(reason))
                    }
                    CredentialStatus::NotNeeded => "no key needed".to_owned(),
                };
                format!("{name}: {state}")
            }
            Self::Keyless(provider) => {
                let address = provider.base_url.as_deref().unwrap_or_default();
                format!("{}: no key needed; {}", provider.name, one_line(address))
            }
            Self::Server(FoundServer { provider, base_url, models }) => {
                let models = crow_console::words::count(models.len() as u64, "model");
                format!("{provider}: a server at {}, {models}", one_line(base_url))
            }
            Self::Search => {
                "another server on this machine: Ollama, llama.cpp, LM Studio, vLLM".to_owned()
            }
        }
    }
}

/// Says where a key of a provider is made, or which service it is for.
pub(super) fn key_page(provider: &ProviderSummary) -> String {
    let page = KEY_PAGES.iter().find(|(name, _)| *name == provider.name);
    match (page, &provider.base_url) {
        (Some((_, page)), _) => format!("from {page}"),
        (None, Ok(address)) => format!("for {}", one_line(address)),
        (None, Err(_)) => String::new(),
    }
}

/// Says which servers were looked for, and how they are found elsewhere.
pub(super) fn search_help() -> String {
    let variables = LOCAL.map(|(_, variable)| variable).join(", ");
    format!(
        "Start the server now, and it is found where it listens by default. Otherwise leave with q, and set its address in one of {variables}; or describe a server in a file of ~/.config/crow-agent/providers."
    )
}

/// Returns the source that an answer names: by its number, or by its name. The error is a sentence.
pub(super) fn parse_source<'a>(
    answer: &str,
    sources: &'a [ModelSource],
) -> Result<&'a ModelSource, String> {
    if let Ok(number) = answer.parse::<usize>() {
        let chosen = number.checked_sub(1).and_then(|index| sources.get(index));
        return chosen.ok_or_else(|| format!("There is no number {number}."));
    }
    let named = sources.iter().find(|one| one.name().is_some_and(|name| name == answer));
    named.ok_or_else(|| {
        if answer.is_empty() {
            "Give a number of the list.".to_owned()
        } else {
            "The list has no such number and no such name.".to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use crow_providers::FoundModel;

    use super::*;

    fn provider(name: &str, credentials: CredentialStatus) -> ProviderSummary {
        ProviderSummary {
            name: name.to_owned(),
            same_as: None,
            dialect: "openai-chat",
            base_url: Ok(format!("https://{name}.example")),
            credentials,
            default_model: None,
            models: Vec::new(),
        }
    }

    fn sources() -> Vec<ModelSource> {
        let missing = || CredentialStatus::Missing { variable: "A_KEY".to_owned() };
        let recording = ProviderSummary {
            base_url: Ok(String::new()),
            ..provider("replay", CredentialStatus::NotNeeded)
        };
        let same = ProviderSummary {
            same_as: Some("anthropic".to_owned()),
            ..provider("anthropic-too", missing())
        };
        let model = FoundModel { id: "m".to_owned(), context_window: None };
        let server = FoundServer {
            provider: "vllm".to_owned(),
            base_url: "http://127.0.0.1:1/v1".to_owned(),
            models: vec![model],
        };
        let providers = vec![
            provider("anthropic", missing()),
            provider("ollama", CredentialStatus::NotNeeded),
            provider("vllm", CredentialStatus::NotNeeded),
            provider("house", CredentialStatus::NotNeeded),
            provider("lab", missing()),
            recording,
            same,
        ];
        model_sources(providers, vec![server])
    }

    #[test]
    fn providers_with_keys_come_before_servers_and_each_service_is_listed_once() {
        let texts: Vec<_> = sources().iter().map(ModelSource::describe).collect();
        let expected = [
            "anthropic: key, also in A_KEY; from https://console.anthropic.com/settings/keys",
            "lab: key, also in A_KEY; for https://lab.example",
            "house: no key needed; https://house.example",
            "vllm: a server at http://127.0.0.1:1/v1, 1 model",
            "another server on this machine: Ollama, llama.cpp, LM Studio, vLLM",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_source_is_chosen_by_number_or_name_and_other_input_has_a_reason() {
        let sources = sources();
        let table = [
            ("1", Ok(Some("anthropic"))),
            ("lab", Ok(Some("lab"))),
            ("5", Ok(None)),
            ("0", Err("There is no number 0.")),
            ("6", Err("There is no number 6.")),
            ("", Err("Give a number of the list.")),
            ("sk-123", Err("The list has no such number and no such name.")),
        ];
        for (answer, expected) in table {
            let parsed = parse_source(answer, &sources).map(ModelSource::name);
            assert_eq!(parsed, expected.map_err(str::to_owned), "{answer:?}");
        }
    }
}
