//! The search services: their requests and answers.

use std::{fmt, time::Duration};

use crow_core::{
    capability::{Http, HttpError, HttpMethod, HttpReach, HttpRequest},
    network::HostAddress,
};
use futures_util::StreamExt as _;
use html5gum::emitters::callback::CallbackEvent;
use serde_json::{Value, json};
use url::Url;

use super::{
    html_events::read_html,
    page_request::ADDRESS_BYTES,
    provider_search::{provider_error, provider_hits, provider_request},
};

/// Time for a search, and for one by a model.
const TIME: Duration = Duration::from_secs(20);
const MODEL_TIME: Duration = Duration::from_mins(1);
/// Maximum bytes of an answer.
const ANSWER_BYTES: usize = 2 << 20;
/// Characters of the text of a page that a service is asked for.
const EXCERPT: usize = 600;

/// A kind of search service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchServiceKind {
    /// Brave Search, with a key.
    Brave,
    /// Tavily, with a key.
    Tavily,
    /// Exa, with a key.
    Exa,
    /// `SearXNG` on a server of one's own, without a key.
    Searxng,
    /// The search of Anthropic's models, with a key.
    Anthropic,
    /// The search of `OpenAI`'s models, with a key.
    OpenAi,
    /// The search of Gemini, with a key.
    Gemini,
}

impl SearchServiceKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Brave,
        Self::Tavily,
        Self::Exa,
        Self::Searxng,
        Self::Anthropic,
        Self::OpenAi,
        Self::Gemini,
    ];

    /// Returns the name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Exa => "exa",
            Self::Searxng => "searxng",
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brave => "Brave Search",
            Self::Tavily => "Tavily",
            Self::Exa => "Exa",
            Self::Searxng => "SearXNG",
            Self::Anthropic => "Anthropic",
            Self::OpenAi => "OpenAI",
            Self::Gemini => "Gemini",
        }
    }

    /// Returns the address of the service, if it is the same for everyone.
    pub fn address(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
            Self::Exa => Some("https://api.exa.ai"),
            Self::Searxng => None,
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::OpenAi => Some("https://api.openai.com"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com"),
        }
    }

    /// Returns the model that searches, unless another one is set; `None` if the service is no provider of models.
    pub fn default_model(self) -> Option<&'static str> {
        match self {
            Self::Brave | Self::Tavily | Self::Exa | Self::Searxng => None,
            Self::Anthropic => Some("claude-haiku-5-5"),
            Self::OpenAi => Some("gpt-5.4-mini"),
            Self::Gemini => Some("gemini-3.8-flash"),
        }
    }
}

/// Error of setting up a search service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchServiceError {
    /// The service needs a key.
    #[error("{} needs a key", .0.name())]
    NoKey(SearchServiceKind),
    /// The service is on a server of one's own.
    #[error("{} needs the address of a server", .0.name())]
    NoAddress(SearchServiceKind),
    /// The address cannot be used.
    #[error("the address of the search service cannot be used: {0}")]
    Address(String),
}

/// A search service with its address and key.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchService {
    kind: SearchServiceKind,
    base: Url,
    host: HostAddress,
    key: Option<String>,
    /// The model that searches, of a provider of models.
    model: Option<String>,
}

impl fmt::Debug for SearchService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchService")
            .field("kind", &self.kind)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// A search.
#[derive(Debug)]
pub(super) struct SearchQuery {
    pub(super) words: String,
    pub(super) most: usize,
    /// Domains to which results are limited; empty if they are not.
    pub(super) allowed: Vec<String>,
    pub(super) blocked: Vec<String>,
}

/// A result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchHit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) excerpt: String,
    /// The host of the page, if its address only leads on to it.
    pub(super) site: Option<String>,
}

impl SearchQuery {
    /// Returns true if a result is of a domain that was asked for, on the web.
    pub(super) fn admits(&self, hit: &SearchHit) -> bool {
        let Ok(url) = Url::parse(&hit.url) else { return false };
        let host = hit.site.as_deref().or(url.host_str()).unwrap_or_default();
        let is_of = |domain: &String| {
            let below = host.strip_suffix(domain.as_str());
            below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        matches!(url.scheme(), "http" | "https")
            && hit.url.len() <= ADDRESS_BYTES
            && (self.allowed.is_empty() || self.allowed.iter().any(is_of))
            && !self.blocked.iter().any(is_of)
    }

    /// Returns the words with the operators that most engines know.
    pub(super) fn with_operators(&self) -> String {
        let mut words = self.words.clone();
        let sites: Vec<_> = self.allowed.iter().map(|domain| format!("site:{domain}")).collect();
        match sites.as_slice() {
            [] => {}
            [one] => words = format!("{words} {one}"),
            several => words = format!("{words} ({})", several.join(" OR ")),
        }
        for domain in &self.blocked {
            words.push_str(" -site:");
            words.push_str(domain);
        }
        words
    }
}

/// Returns the domain of what a model gives for one: `https://docs.rs/`, `*.docs.rs`.
pub(super) fn domain_of(given: &str) -> String {
    let given = given.trim();
    let host = given.split_once("://").map_or(given, |(_, host)| host);
    let host = host.trim_start_matches("*.");
    let url = Url::parse(&format!("https://{host}")).ok();
    let name = url.as_ref().and_then(Url::host_str).unwrap_or(host);
    name.to_ascii_lowercase()
}

impl SearchService {
    /// Makes a service. `address` replaces the usual one.
    pub fn new(
        kind: SearchServiceKind,
        address: Option<&str>,
        key: Option<String>,
    ) -> Result<Self, SearchServiceError> {
        let address = address.or(kind.address()).ok_or(SearchServiceError::NoAddress(kind))?;
        let invalid = |error: String| SearchServiceError::Address(error);
        let base = Url::parse(&format!("{}/", address.trim_end_matches('/')))
            .map_err(|error| invalid(format!("`{address}`: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid(format!("`{address}` begins with neither http:// nor https://")));
        }
        let name = base.host_str().unwrap_or_default();
        let port = base.port_or_known_default().unwrap_or(443);
        let host = HostAddress::new(name, port).map_err(|error| invalid(error.to_string()))?;
        let key = key.filter(|key| !key.trim().is_empty());
        if key.is_none() && kind != SearchServiceKind::Searxng {
            return Err(SearchServiceError::NoKey(kind));
        }
        let is_loopback = matches!(name, "localhost" | "127.0.0.1");
        if key.is_some() && base.scheme() == "http" && !is_loopback {
            return Err(invalid(format!("`{address}`: a key is sent over https only")));
        }
        let model = kind.default_model().map(str::to_owned);
        Ok(Self { kind, base, host, key, model })
    }

    /// Sets the model that searches. Services that are no providers of models have none.
    #[must_use]
    pub fn with_model(mut self, model: Option<String>) -> Self {
        if self.model.is_some() && model.is_some() {
            self.model = model;
        }
        self
    }

    /// Returns its kind.
    pub fn kind(&self) -> SearchServiceKind {
        self.kind
    }

    /// Returns the time for a search.
    pub(super) fn patience(&self) -> Duration {
        if self.model.is_some() { MODEL_TIME } else { TIME }
    }

    /// Returns its host.
    pub fn host(&self) -> &HostAddress {
        &self.host
    }

    /// Searches. The error text is for the model; it has no key in it.
    pub(super) async fn search(
        &self,
        http: &dyn Http,
        query: &SearchQuery,
    ) -> Result<Vec<SearchHit>, String> {
        let request = self.request(query);
        let response = http.send(request).await.map_err(|error| match error {
            HttpError::Request(_)
            | HttpError::NotPublic(_)
            | HttpError::Connect(_)
            | HttpError::Broken(_) => error.to_string(),
        })?;
        let status = response.status;
        let (mut body, mut bytes) = (response.body, Vec::new());
        while let Some(chunk) = body.next().await {
            bytes.extend(chunk.map_err(|error| error.to_string())?);
            if bytes.len() > ANSWER_BYTES {
                return Err(format!("the answer is longer than {} MB", ANSWER_BYTES >> 20));
            }
        }
        match (status, self.kind) {
            (200..300, _) => self.hits(&bytes),
            (300..=399, _) => {
                Err(format!("HTTP {status}: the address of the service is another one"))
            }
            (401 | 403, SearchServiceKind::Searxng) => Err(format!(
                "HTTP {status}: the server does not answer programs; `json` must be among search.formats in its settings"
            )),
            (429, SearchServiceKind::Searxng) => Err(format!(
                "HTTP {status}: its limiter refuses programs; it can be turned off in its settings"
            )),
            (401 | 403, _) => Err(format!("HTTP {status}: the key is not accepted")),
            (402 | 429 | 432 | 433, _) => {
                Err(format!("HTTP {status}: the limit of the key is reached"))
            }
            (422, SearchServiceKind::Brave) => {
                Err(format!("HTTP {status}: the key or the query is not accepted"))
            }
            (404, _) if self.model.is_some() => Err(format!(
                "HTTP {status}: {} (the model is {}; `model` under [web_search] sets another one)",
                provider_error(&bytes).unwrap_or_else(|| "not found".to_owned()),
                self.model.as_deref().unwrap_or_default()
            )),
            _ if self.model.is_some() => match provider_error(&bytes) {
                Some(message) => Err(format!("HTTP {status}: {message}")),
                None => Err(format!("HTTP {status}")),
            },
            _ => Err(format!("HTTP {status}")),
        }
    }

    fn request(&self, query: &SearchQuery) -> HttpRequest {
        let most = query.most.to_string();
        let key = self.key.clone().unwrap_or_default();
        let url = |path: &str| {
            // A base with a path, as behind a proxy, keeps it.
            self.base.join(path).unwrap_or_else(|_| self.base.clone())
        };
        let get = |path: &str, pairs: &[(&str, &str)]| {
            let mut url = url(path);
            url.query_pairs_mut().extend_pairs(pairs);
            (HttpMethod::Get, url, Vec::new())
        };
        let post = |path: &str, body: serde_json::Value| {
            (HttpMethod::Post, url(path), body.to_string().into_bytes())
        };
        let by_model = || {
            let model = self.model.as_deref().unwrap_or_default();
            let (path, body) = provider_request(self.kind, model, query)
                .expect("invariant: the service is a provider of models");
            let is_usual = Some(self.base.as_str().trim_end_matches('/')) == self.kind.address();
            // The address of OpenAI ends with its version, but for the usual one here.
            let lacks_version = self.kind == SearchServiceKind::OpenAi && is_usual;
            post(&if lacks_version { format!("v1/{path}") } else { path }, body)
        };
        let ((method, url, body), own_headers) = match self.kind {
            SearchServiceKind::Brave => {
                let words = query.with_operators();
                let request = get("res/v1/web/search", &[("q", &words), ("count", &most)]);
                (request, vec![("x-subscription-token", key)])
            }
            SearchServiceKind::Tavily => {
                let body = json!({ "query": query.words, "max_results": query.most });
                let body = with_domains(
                    body,
                    [("include_domains", &query.allowed), ("exclude_domains", &query.blocked)],
                );
                (post("search", body), vec![("authorization", format!("Bearer {key}"))])
            }
            SearchServiceKind::Exa => {
                let body = json!({
                    "query": query.words,
                    "numResults": query.most,
                    "contents": { "text": { "maxCharacters": EXCERPT } },
                });
                let body = with_domains(
                    body,
                    [("includeDomains", &query.allowed), ("excludeDomains", &query.blocked)],
                );
                (post("search", body), vec![("x-api-key", key)])
            }
            SearchServiceKind::Searxng => {
                let words = query.with_operators();
                (get("search", &[("q", &words), ("format", "json")]), Vec::new())
            }
            SearchServiceKind::Anthropic => {
                let version = ("anthropic-version", "2023-06-01".to_owned());
                (by_model(), vec![version, ("x-api-key", key)])
            }
            SearchServiceKind::OpenAi => {
                (by_model(), vec![("authorization", format!("Bearer {key}"))])
            }
            SearchServiceKind::Gemini => (by_model(), vec![("x-goog-api-key", key)]),
        };
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        if method == HttpMethod::Post {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        headers.extend(own_headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
        // The user chose the address.
        HttpRequest { method, url: url.to_string(), headers, body, reach: HttpReach::Any }
    }

    /// Reads an answer. Entries without an address are passed over.
    fn hits(&self, bytes: &[u8]) -> Result<Vec<SearchHit>, String> {
        let answer: Value = serde_json::from_slice(bytes)
            .map_err(|_| "the answer is not understood: it is no JSON".to_owned())?;
        let results = match self.kind {
            SearchServiceKind::Brave => answer.pointer("/web/results"),
            SearchServiceKind::Tavily | SearchServiceKind::Exa | SearchServiceKind::Searxng => {
                answer.get("results")
            }
            SearchServiceKind::Anthropic
            | SearchServiceKind::OpenAi
            | SearchServiceKind::Gemini => return provider_hits(self.kind, &answer),
        };
        let entries = results.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let excerpt = |entry: &Value| match self.kind {
            // It marks the words with HTML.
            SearchServiceKind::Brave => without_tags(text(entry, "description")),
            SearchServiceKind::Exa => text(entry, "text").to_owned(),
            _ => text(entry, "content").to_owned(),
        };
        let hits = entries.iter().filter_map(|entry| {
            let url = text(entry, "url").to_owned();
            let title = match text(entry, "title").trim() {
                "" => url.clone(),
                title => title.to_owned(),
            };
            let excerpt = excerpt(entry);
            (!url.is_empty()).then_some(SearchHit { title, url, excerpt, site: None })
        });
        Ok(hits.collect())
    }
}

/// Returns a text of an object; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Adds lists of domains to an object; lists that are empty are left out.
pub(super) fn with_domains(mut body: Value, lists: [(&str, &[String]); 2]) -> Value {
    for (name, domains) in lists {
        if !domains.is_empty() {
            body[name] = json!(domains);
        }
    }
    body
}

/// Returns the text of a short piece of HTML.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    read_html(html, &mut |event| {
        if let CallbackEvent::String { value } = event {
            text.push_str(&String::from_utf8_lossy(value));
        }
        None
    });
    text
}
