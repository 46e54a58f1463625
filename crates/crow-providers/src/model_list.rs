//! The models that a service lists, asked from the service itself: gateways and local servers serve models that no table
//! knows.

use std::time::Duration;

use crow_core::model::{ModelsError, ProviderErrorKind};
use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    FoundModel, ProviderModels,
    classify::{ErrorAnswer, answer_error, one_line, shorten},
    dialect::Dialect,
    endpoint::{EndpointLink, Secrecy, headers, parse_base},
    retry::RetryPolicy,
    secret::Secrets,
};

/// Time limit for the whole answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of an answer. The list of a large gateway has about half a megabyte.
const LARGEST: usize = 8 * 1024 * 1024;
/// Maximum number of models of a list.
const MOST_MODELS: usize = 1000;

/// Error of a request for the list of models.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelListError {
    /// The provider cannot be asked: it is unknown, has no key, or plays recordings.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The service could not be reached, or did not answer in time.
    #[error("{provider} could not be asked for its models: {reason}")]
    Unreachable {
        /// The provider.
        provider: String,
        /// The reason, without the address.
        reason: String,
    },
    /// The service refused the request, for instance because of the key.
    #[error("{provider} refused the list of its models: {message}")]
    Refused {
        /// The provider.
        provider: String,
        /// What is wrong.
        kind: ProviderErrorKind,
        /// What the service said, on one line, without secrets.
        message: String,
    },
    /// The service answered with something else than a list.
    #[error("{provider} answered with no list of models ({reason})")]
    NoList {
        /// The provider.
        provider: String,
        /// The reason.
        reason: String,
    },
}

impl ProviderModels {
    /// Asks a provider for the models that it lists, with its key, and returns those that are not for embeddings only, in
    /// the order of the service. Takes at most ten seconds.
    pub async fn ask_for_models(&self, provider: &str) -> Result<Vec<FoundModel>, ModelListError> {
        let name = || provider.to_owned();
        let endpoint = self.endpoint(provider)?;
        let unusable = |reason: String| ModelsError::Unusable { provider: name(), reason };
        let mut secrets = Secrets::default();
        let mut headers = headers(&endpoint, &mut secrets, Secrecy::All)
            .map_err(|error| unusable(error.to_string()))?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if endpoint.dialect == Dialect::AnthropicMessages {
            let version = HeaderValue::from_static("2023-06-01");
            headers.entry("anthropic-version").or_insert(version);
        }
        let base_url =
            parse_base(&endpoint.base_url).map_err(|error| unusable(error.to_string()))?;
        let link = EndpointLink {
            provider: name(),
            dialect: endpoint.dialect,
            base_url,
            headers,
            secrets,
            client: self.client(),
            retry: RetryPolicy::default(),
            timeouts: crate::http::Timeouts::default(),
        };
        let unreachable = |reason: String| ModelListError::Unreachable { provider: name(), reason };
        let answer = timeout(LIMIT, get(&link)).await;
        let answer = answer.map_err(|_| unreachable("no answer in ten seconds".to_owned()))?;
        let ListAnswer { status, headers, body } = answer.map_err(unreachable)?;
        let no_list = |reason: String| ModelListError::NoList { provider: name(), reason };
        if status != 200 {
            let mut text = String::from_utf8_lossy(&body).into_owned();
            link.secrets.redact(&mut text);
            let error = answer_error(ErrorAnswer { status, headers: &headers, body: &text });
            let mut message = one_line(&format!("{} (HTTP {status})", error.message));
            shorten(&mut message);
            return Err(ModelListError::Refused { provider: name(), kind: error.kind, message });
        }
        let list: Value =
            serde_json::from_slice(&body).map_err(|_| no_list("no JSON".to_owned()))?;
        read_list(&list).ok_or_else(|| no_list("other JSON".to_owned()))
    }
}

/// Returns the path of the list, which is appended to the base URL as those of the wire format are.
fn path_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "/v1/models?limit=1000",
        Dialect::Gemini => "/models?pageSize=1000",
        Dialect::OpenAiResponses | Dialect::OpenAiChat(_) => "/models",
    }
}

/// The answer of a service.
struct ListAnswer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Asks for the list. The error is a reason without the address, which may contain a secret.
async fn get(link: &EndpointLink) -> Result<ListAnswer, String> {
    let url = link.url(path_of(link.dialect));
    let client = link.client.for_url(&url).await.map_err(|error| error.to_string())?;
    let request = client.get(url).headers(link.headers.clone());
    let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let mut body = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| error.without_url().to_string())?);
        if body.len() > LARGEST {
            return Err("its answer is too large".to_owned());
        }
    }
    Ok(ListAnswer { status, headers, body })
}

/// Reads a list in the form of `OpenAI` and Anthropic (`data`), Gemini (`models`) or a bare one.
pub(crate) fn read_list(list: &Value) -> Option<Vec<FoundModel>> {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array()?;
    let models = entries.iter().filter_map(|entry| {
        let id = entry.get("id").or_else(|| entry.get("name"))?.as_str()?;
        let id = id.strip_prefix("models/").unwrap_or(id);
        let is_plain = !id.is_empty() && id.len() <= 128 && !id.chars().any(char::is_control);
        let is_for_chat = is_plain && !id.to_ascii_lowercase().contains("embed");
        let window = ["context_length", "context_window", "max_model_len", "inputTokenLimit"]
            .iter()
            .find_map(|key| entry.get(*key)?.as_u64());
        let window = window.or_else(|| entry.pointer("/meta/n_ctx")?.as_u64());
        is_for_chat.then(|| FoundModel { id: id.to_owned(), context_window: window })
    });
    Some(models.take(MOST_MODELS).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_read_in_the_form_of_each_service() {
        let table = [
            (json!({"data": [{"id": "gpt-x"}, {"id": "text-embedding-3"}]}), vec![("gpt-x", None)]),
            (
                json!({"data": [{"id": "a/b", "context_length": 32000}]}),
                vec![("a/b", Some(32_000))],
            ),
            (
                json!({"models": [{"name": "models/gemini-x", "inputTokenLimit": 9}]}),
                vec![("gemini-x", Some(9))],
            ),
            (json!([{"id": "c", "meta": {"n_ctx": 4096}}, {"x": 1}]), vec![("c", Some(4096))]),
            (json!({"data": [{"id": "evil\u{1b}[2J"}, {"id": ""}]}), vec![]),
        ];
        for (list, expected) in table {
            let found = read_list(&list).unwrap();
            let found: Vec<_> =
                found.iter().map(|model| (model.id.as_str(), model.context_window)).collect();
            assert_eq!(found, expected, "{list}");
        }
        assert_eq!(read_list(&json!({"error": "no"})), None);
        let many: Vec<_> = (0..3000).map(|number| json!({"id": number.to_string()})).collect();
        assert_eq!(read_list(&json!({ "data": many })).unwrap().len(), MOST_MODELS);
    }
}
