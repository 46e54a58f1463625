//! The web tools of the program, and the configured search service.
//!
//! `web_fetch` needs no configuration. `web_search` exists only if a service is configured: by `[web_search]` of
//! `config.toml`, or by the key of one in its usual variable or among the stored keys.

use std::{fmt, sync::Arc};

use crow_core::{
    capability::Http,
    network::{HostAddress, Network},
    permission::{PermissionRule, RuleScope, RuleSet},
    tool::{Tool, ToolRegistry, TypedTool as _, TypedToolAdapter},
};
use crow_providers::{HttpClient, KeyDestination};
use crow_tools::{SearchService, SearchServiceError, SearchServiceKind, WebFetch, WebSearch};

use crate::{
    config::{self, ProjectAdditions, Settings, WebSearchTable},
    credentials::{CredentialFile, StoredKeys},
    environment::ProcessEnvironment,
    error::AppError,
};

/// Variable with the address of a `SearXNG` server.
const SEARXNG_URL: &str = "SEARXNG_URL";

/// The web tools of all sessions of a process, which share a cache of pages.
#[derive(Clone, Default)]
pub(crate) struct WebTools {
    tools: Vec<Arc<dyn Tool>>,
    /// True if the user chose the search service, and it was not only found.
    is_search_chosen: bool,
}

/// The search service that is used.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredSearch {
    service: SearchService,
    /// True if the configuration names it, or its key was stored by `login`. A variable alone may be there for another
    /// program.
    is_chosen: bool,
}

impl fmt::Debug for WebTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebTools").finish_non_exhaustive()
    }
}

impl WebTools {
    pub(crate) fn new(
        http: Arc<dyn Http>,
        network: Network,
        search: Option<ConfiguredSearch>,
    ) -> Self {
        let is_search_chosen = search.as_ref().is_some_and(|search| search.is_chosen);
        let fetch = WebFetch::new(Arc::clone(&http), network);
        let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(TypedToolAdapter::new(fetch))];
        if let Some(ConfiguredSearch { service, .. }) = search {
            tools.push(Arc::new(TypedToolAdapter::new(WebSearch::new(http, service))));
        }
        Self { tools, is_search_chosen }
    }

    /// Adds the tools to a registry.
    pub(crate) fn register(&self, registry: &mut ToolRegistry) {
        for tool in &self.tools {
            registry.register_shared(Arc::clone(tool));
        }
    }

    /// Returns the rule that allows searches, if the user chose the service for them. Every other rule overrules it.
    pub(crate) fn rules(&self) -> RuleSet {
        let rule = || {
            PermissionRule::allow_tool(WebSearch::NAME)
                .with_id("the configured search service")
                .with_scope(RuleScope::Managed)
                .with_priority(i32::MIN)
        };
        let rule = self.is_search_chosen.then(rule);
        RuleSet::new(rule).expect("invariant: a rule for a tool is sound")
    }
}

/// Returns the search service that is configured, if any. Reads a small file. Blocks.
pub(crate) fn search_service(
    table: &WebSearchTable,
    environment: &ProcessEnvironment,
) -> Result<Option<ConfiguredSearch>, AppError> {
    let wrong = |error: String| AppError::usage(format!("web_search: {error}"));
    let kind = if let Some(name) = &table.service {
        let kind = SearchServiceKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        let known = || SearchServiceKind::ALL.map(SearchServiceKind::as_str).join(", ");
        kind.ok_or_else(|| wrong(format!("unknown service \"{name}\"; known are {}", known())))?
    } else if table.url.is_some() {
        return Err(wrong("url is set without service, so it is unclear whose it is".to_owned())
            .hint("add service = \"searxng\" under [web_search] in config.toml"));
    } else {
        let found = SearchServiceKind::ALL.into_iter().find(|kind| is_usable(*kind, environment));
        let Some(kind) = found else { return Ok(None) };
        kind
    };
    if table.model.is_some() && kind.default_model().is_none() {
        let message = format!("{} has no models, so model must not be set", kind.name());
        return Err(wrong(message));
    }
    let address = match kind {
        SearchServiceKind::Searxng => table.url.clone().or_else(|| environment.var(SEARXNG_URL)),
        SearchServiceKind::Brave | SearchServiceKind::Tavily | SearchServiceKind::Exa => {
            table.url.clone()
        }
        // Sessions with the provider go to the address in its variable; the key in the other one is for that.
        SearchServiceKind::Anthropic | SearchServiceKind::OpenAi | SearchServiceKind::Gemini => {
            let in_variable = || environment.var(base_variable(kind)?);
            let given = table.url.clone().or_else(in_variable);
            // The paths of OpenAI's requests are without the version.
            let has_version = kind != SearchServiceKind::OpenAi;
            given.map(|address| if has_version { without_version(&address) } else { address })
        }
    };
    let in_variable = key_variable(kind).and_then(|variable| environment.var(variable));
    // The stored key is for the service's own address.
    let is_own = |address: &String| {
        let rest = kind.address().and_then(|own| address.strip_prefix(own));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let stored = stored_key(kind, environment).filter(|_| address.as_ref().is_none_or(is_own));
    let is_chosen = table.service.is_some() || stored.is_some();
    let service = SearchService::new(kind, address.as_deref(), in_variable.or(stored));
    match service {
        Ok(service) => {
            let service = service.with_model(table.model.clone());
            Ok(Some(ConfiguredSearch { service, is_chosen }))
        }
        Err(error @ SearchServiceError::NoKey(_)) => {
            let variable = key_variable(kind).unwrap_or_default();
            let hint = format!("crow-agent login {}, or set {variable}", kind.as_str());
            Err(wrong(error.to_string()).hint(hint))
        }
        Err(error @ (SearchServiceError::NoAddress(_) | SearchServiceError::Address(_))) => {
            let variable = base_variable(kind).unwrap_or(SEARXNG_URL);
            let hint = format!("set url under [web_search] in config.toml, or {variable}");
            Err(wrong(error.to_string()).hint(hint))
        }
    }
}

fn is_usable(kind: SearchServiceKind, environment: &ProcessEnvironment) -> bool {
    match kind {
        SearchServiceKind::Searxng => environment.var(SEARXNG_URL).is_some(),
        SearchServiceKind::Brave | SearchServiceKind::Tavily | SearchServiceKind::Exa => {
            let variable = key_variable(kind).and_then(|variable| environment.var(variable));
            variable.is_some() || stored_key(kind, environment).is_some()
        }
        // Their keys are there for models: a search, which costs, must be asked for.
        SearchServiceKind::Anthropic | SearchServiceKind::OpenAi | SearchServiceKind::Gemini => {
            false
        }
    }
}

/// Returns the variable with the address of a provider of models.
fn base_variable(kind: SearchServiceKind) -> Option<&'static str> {
    match kind {
        SearchServiceKind::Anthropic => Some("ANTHROPIC_BASE_URL"),
        SearchServiceKind::OpenAi => Some("OPENAI_BASE_URL"),
        SearchServiceKind::Gemini => Some("GEMINI_BASE_URL"),
        SearchServiceKind::Brave
        | SearchServiceKind::Tavily
        | SearchServiceKind::Exa
        | SearchServiceKind::Searxng => None,
    }
}

/// Returns an address without the version that the paths of requests begin with.
fn without_version(address: &str) -> String {
    let address = address.trim_end_matches('/');
    let versions = ["/v1beta", "/v1"];
    versions.iter().find_map(|version| address.strip_suffix(version)).unwrap_or(address).to_owned()
}

/// Returns the key that `login` stored for a service.
fn stored_key(kind: SearchServiceKind, environment: &ProcessEnvironment) -> Option<String> {
    let origin = kind.address()?;
    let keys = StoredKeys::new(CredentialFile::new(&environment.config_dir().ok()?));
    // A file that cannot be read is reported where keys of providers are needed.
    let stored = keys.credential(kind.as_str()).ok()??;
    (stored.origin == origin).then_some(stored.key)
}

/// Returns the variable with the key of a service.
fn key_variable(kind: SearchServiceKind) -> Option<&'static str> {
    match kind {
        SearchServiceKind::Brave => Some("BRAVE_API_KEY"),
        SearchServiceKind::Tavily => Some("TAVILY_API_KEY"),
        SearchServiceKind::Exa => Some("EXA_API_KEY"),
        SearchServiceKind::Searxng => None,
        SearchServiceKind::Anthropic => Some("ANTHROPIC_API_KEY"),
        SearchServiceKind::OpenAi => Some("OPENAI_API_KEY"),
        SearchServiceKind::Gemini => Some("GEMINI_API_KEY"),
    }
}

/// Returns the search services that take a key of their own. Those of providers of models are theirs.
fn kinds_with_own_keys() -> impl Iterator<Item = SearchServiceKind> {
    let has_own =
        |kind: &SearchServiceKind| key_variable(*kind).is_some() && kind.default_model().is_none();
    SearchServiceKind::ALL.into_iter().filter(has_own)
}

/// Returns the names of the search services that take a key of their own.
pub fn search_services_with_keys() -> impl Iterator<Item = &'static str> {
    kinds_with_own_keys().map(SearchServiceKind::as_str)
}

/// Returns true if there is a key of a search service among the stored ones. Blocks.
pub fn has_stored_search_key(name: &str, environment: &ProcessEnvironment) -> bool {
    let kind = kinds_with_own_keys().find(|kind| kind.as_str() == name);
    kind.is_some_and(|kind| stored_key(kind, environment).is_some())
}

/// Permission rules and host of the configured search service.
#[derive(Debug, Clone)]
pub struct SearchPermissions {
    pub rules: RuleSet,
    /// The host that searches go to; none if no service can be used.
    pub host: Option<HostAddress>,
}

/// Returns the permission rules and the host of the configured search service. Blocks.
pub fn search_permissions(environment: &ProcessEnvironment) -> Result<SearchPermissions, AppError> {
    let layers = config::layers(environment, &ProjectAdditions::default())?;
    let table = Settings::read(&layers)?.web_search;
    let search = search_service(&table, environment).ok().flatten();
    let host = search.as_ref().map(|search| search.service.host().clone());
    let tools = WebTools::new(Arc::new(HttpClient::default()), Network::default(), search);
    Ok(SearchPermissions { rules: tools.rules(), host })
}

/// Returns where the key of a search service goes, if `name` is one that takes a key: for `login`.
pub fn search_key_destination(name: &str) -> Option<KeyDestination> {
    let kind = kinds_with_own_keys().find(|kind| kind.as_str() == name)?;
    Some(KeyDestination {
        name: name.to_owned(),
        origin: kind.address()?.to_owned(),
        redirect_variable: None,
        variable: key_variable(kind).map(str::to_owned),
    })
}
