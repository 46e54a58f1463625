//! The web tools of the program, and the configured search service.
//!
//! `web_fetch` needs no configuration. `web_search` exists only if a service is configured: by `[web_search]` of
//! `config.toml`, or by the key of one in its usual variable or among the stored keys.

use std::{fmt, sync::Arc};

use crow_core::{
    capability::Http,
    network::Network,
    permission::{PermissionRule, RuleSet},
    tool::{Tool, ToolRegistry, TypedTool as _, TypedToolAdapter},
};
use crow_providers::KeyDestination;
use crow_tools::{SearchService, SearchServiceKind, WebFetch, WebSearch};

use crate::{
    config::WebSearchTable, credentials::CredentialFile, environment::ProcessEnvironment,
    error::AppError,
};

/// Variable with the address of a SearXNG server.
const SEARXNG_URL: &str = "SEARXNG_URL";

/// The web tools of all sessions of a process, which share a cache of pages.
#[derive(Clone, Default)]
pub(crate) struct WebTools {
    tools: Vec<Arc<dyn Tool>>,
    has_search: bool,
}

impl fmt::Debug for WebTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebTools").field("has_search", &self.has_search).finish_non_exhaustive()
    }
}

impl WebTools {
    pub(crate) fn new(
        http: Arc<dyn Http>,
        network: Network,
        search: Option<SearchService>,
    ) -> Self {
        let has_search = search.is_some();
        let fetch = WebFetch::new(Arc::clone(&http), network);
        let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(TypedToolAdapter::new(fetch))];
        if let Some(service) = search {
            tools.push(Arc::new(TypedToolAdapter::new(WebSearch::new(http, service))));
        }
        Self { tools, has_search }
    }

    /// Adds the tools to a registry.
    pub(crate) fn register(&self, registry: &mut ToolRegistry) {
        for tool in &self.tools {
            registry.register_shared(Arc::clone(tool));
        }
    }

    /// Returns the rule that allows searches: the user configured the service for them. Rules of the user overrule it.
    pub(crate) fn rules(&self) -> RuleSet {
        let rule = self.has_search.then(|| PermissionRule::allow_tool(WebSearch::NAME));
        RuleSet::new(rule).expect("invariant: a rule for a tool is sound")
    }
}

/// Returns the search service that is configured, if any. Reads a small file. Blocks.
pub(crate) fn search_service(
    table: &WebSearchTable,
    environment: &ProcessEnvironment,
) -> Result<Option<SearchService>, AppError> {
    let wrong = |error: String| AppError::usage(format!("web_search: {error}"));
    let kind = match &table.service {
        Some(name) => {
            let kind = SearchServiceKind::ALL.into_iter().find(|kind| kind.as_str() == name);
            let known = || SearchServiceKind::ALL.map(SearchServiceKind::as_str).join(", ");
            kind.ok_or_else(|| wrong(format!("unknown service \"{name}\"; known are {}", known())))?
        }
        None => {
            let found =
                SearchServiceKind::ALL.into_iter().find(|kind| is_usable(*kind, environment));
            let Some(kind) = found else { return Ok(None) };
            kind
        }
    };
    let address = match kind {
        SearchServiceKind::Searxng => table.url.clone().or_else(|| environment.var(SEARXNG_URL)),
        SearchServiceKind::Brave | SearchServiceKind::Tavily | SearchServiceKind::Exa => {
            table.url.clone()
        }
    };
    // The stored key is for the service's own address.
    let key = match (&address, key_variable(kind)) {
        (Some(_), Some(variable)) => environment.var(variable),
        (Some(_), None) => None,
        (None, _) => key(kind, environment),
    };
    let service = SearchService::new(kind, address.as_deref(), key);
    service.map(Some).map_err(|error| {
        let error = wrong(error.to_string());
        match key_variable(kind) {
            Some(variable) => {
                error.hint(format!("crow-agent login {}, or set {variable}", kind.as_str()))
            }
            None => error.hint(format!("set url under [web_search], or {SEARXNG_URL}")),
        }
    })
}

fn is_usable(kind: SearchServiceKind, environment: &ProcessEnvironment) -> bool {
    match kind {
        SearchServiceKind::Searxng => environment.var(SEARXNG_URL).is_some(),
        SearchServiceKind::Brave | SearchServiceKind::Tavily | SearchServiceKind::Exa => {
            key(kind, environment).is_some()
        }
    }
}

/// Returns the key of a service: that of its variable, or else the stored one.
fn key(kind: SearchServiceKind, environment: &ProcessEnvironment) -> Option<String> {
    let variable = key_variable(kind)?;
    environment.var(variable).or_else(|| {
        let stored = CredentialFile::new(&environment.config_dir().ok()?).load();
        // A file that cannot be read is reported where keys of providers are needed.
        let credential = stored.ok()?.remove(kind.as_str())?;
        (Some(credential.origin.as_str()) == kind.address()).then_some(credential.key)
    })
}

/// Returns the variable with the key of a service.
fn key_variable(kind: SearchServiceKind) -> Option<&'static str> {
    match kind {
        SearchServiceKind::Brave => Some("BRAVE_API_KEY"),
        SearchServiceKind::Tavily => Some("TAVILY_API_KEY"),
        SearchServiceKind::Exa => Some("EXA_API_KEY"),
        SearchServiceKind::Searxng => None,
    }
}

/// Returns where the key of a search service goes, if `name` is one that takes a key: for `login`.
pub fn search_key_destination(name: &str) -> Option<KeyDestination> {
    let kind = SearchServiceKind::ALL.into_iter().find(|kind| kind.as_str() == name)?;
    Some(KeyDestination {
        name: name.to_owned(),
        origin: kind.address()?.to_owned(),
        redirect_variable: None,
        variable: key_variable(kind).map(str::to_owned),
    })
}
