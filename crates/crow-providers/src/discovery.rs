//! Finds model servers that are already running on this machine.
//!
//! Asked only when a run has no model: a question costs up to 200 ms.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Url;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{endpoint::ExtraHeader, models::ProviderModels};

/// How long one server has to answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// No list of models is longer.
const LONGEST: u64 = 1024 * 1024;

/// A server that is running, with the models it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// The provider, as it stands before the slash in a model reference.
    pub provider: String,
    /// Where it is.
    pub base_url: String,
    /// Its models in its own order, without those that only embed.
    pub models: Vec<FoundModel>,
}

/// A model of a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundModel {
    /// The id to ask for.
    pub id: String,
    /// The window, where the server says it.
    pub context_window: Option<u64>,
}

/// Asks all local providers at once which models they have. Those that do not answer are not there.
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

/// Asks one server. HTTP is spoken by hand, in the version without chunks: one question needs no client.
async fn ask(base_url: &str, headers: &[ExtraHeader]) -> Option<Vec<FoundModel>> {
    let url = Url::parse(base_url).ok().filter(|url| url.scheme() == "http")?;
    let (host, path) = (url.host_str()?, url.path().trim_end_matches('/'));
    let address = (host.trim_matches(['[', ']']), url.port_or_known_default()?);
    let mut stream = TcpStream::connect(address).await.ok()?;
    let headers = headers.iter().map(|header| format!("{}: {}\r\n", header.name, header.value));
    let headers: String = headers.collect();
    let question = format!(
        "GET {path}/models HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n{headers}Connection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer).await.ok()?;
    models_in(&answer)
}

fn models_in(answer: &str) -> Option<Vec<FoundModel>> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_ascii_whitespace().nth(1)?;
    let list: Value = serde_json::from_str(body).ok().filter(|_| status == "200")?;
    let models = list.get("data")?.as_array()?.iter().filter_map(|model| {
        let id = model.get("id")?.as_str()?;
        // vLLM tells the window, llama.cpp the one that it was started with.
        let window = model.get("max_model_len").or_else(|| model.pointer("/meta/n_ctx"));
        let is_for_chat = !id.to_ascii_lowercase().contains("embed");
        is_for_chat.then(|| FoundModel {
            id: id.to_owned(),
            context_window: window.and_then(Value::as_u64),
        })
    });
    Some(models.collect())
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
