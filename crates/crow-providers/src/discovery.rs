//! Discovery of model servers that are running on this machine.
//!
//! Used only when a run has no model, because it takes up to 200 ms.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Url;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    endpoint::ExtraHeader,
    local_server::{get, list_of_models},
    models::ProviderModels,
    window::window_in_list,
};

/// Time limit for the answer of a server.
const PATIENCE: Duration = Duration::from_millis(200);

/// A running server with its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// Name of the provider, as in model references before the slash.
    pub provider: String,
    /// Base URL of its API.
    pub base_url: String,
    /// Models in the order of the server, without those that only embed.
    pub models: Vec<FoundModel>,
}

/// A model of a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundModel {
    /// Id for requests.
    pub id: String,
    /// Context window in tokens, if the server reports it.
    pub context_window: Option<u64>,
}

/// Asks all local providers in parallel for their models. Servers without an answer in time, or without models, are
/// omitted.
pub async fn discover(models: &ProviderModels) -> Vec<FoundServer> {
    let questions = models.local_servers().map(|(provider, base_url, headers)| async move {
        let models = timeout(PATIENCE, ask(&base_url, &headers)).await.ok()??;
        (!models.is_empty()).then(|| FoundServer {
            provider: provider.to_owned(),
            base_url,
            models,
        })
    });
    join_all(questions).await.into_iter().flatten().collect()
}

/// Asks one server.
async fn ask(base_url: &str, headers: &[ExtraHeader]) -> Option<Vec<FoundModel>> {
    let url = Url::parse(base_url).ok()?;
    models_in(&get(&url, list_of_models(&url), headers).await?)
}

fn models_in(list: &Value) -> Option<Vec<FoundModel>> {
    let models = list.get("data")?.as_array()?.iter().filter_map(|model| {
        let id = model.get("id")?.as_str()?;
        let is_for_chat = !id.to_ascii_lowercase().contains("embed");
        is_for_chat.then(|| FoundModel { id: id.to_owned(), context_window: window_in_list(model) })
    });
    Some(models.collect())
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
