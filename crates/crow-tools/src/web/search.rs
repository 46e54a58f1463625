//! The tool `web_search`.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use crow_core::{
    capability::Http,
    tool::{
        CallPlan, Effects, Subject, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
    },
};
use crow_text::shorten;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    search_service::{SearchHit, SearchQuery, SearchService, domain_of},
    untrusted::{marked, on_one_line},
};

/// Default and maximum number of results.
const RESULTS: usize = 5;
const MOST_RESULTS: usize = 20;
/// Maximum length of a query in bytes.
const QUERY_BYTES: usize = 400;
/// Bytes of a title and of an excerpt that are shown.
const TITLE: usize = 200;
const EXCERPT: usize = 600;
/// Maximum number of domains that a search is limited to, or leaves out.
const DOMAINS: usize = 10;

/// Asks a search service.
#[derive(Debug)]
pub struct WebSearch {
    http: Arc<dyn Http>,
    service: SearchService,
}

impl WebSearch {
    /// Makes the tool for a service.
    pub fn new(http: Arc<dyn Http>, service: SearchService) -> Self {
        Self { http, service }
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearchInput {
    /// Search terms.
    #[serde(alias = "q", alias = "search", alias = "search_term")]
    query: String,
    /// Default 5, at most 20.
    #[serde(default, alias = "count", alias = "num_results", alias = "limit")]
    max_results: Option<usize>,
    /// Only pages of these domains.
    #[serde(default)]
    allowed_domains: Vec<String>,
    /// No pages of these domains.
    #[serde(default)]
    blocked_domains: Vec<String>,
}

#[async_trait]
impl TypedTool for WebSearch {
    type Input = WebSearchInput;
    const NAME: &'static str = "web_search";
    const CATEGORY: ToolCategory = ToolCategory::Network;

    fn description(&self) -> &'static str {
        "Searches the web; returns titles, addresses and excerpts. web_fetch reads a page whole."
    }

    async fn plan(
        &self,
        input: &WebSearchInput,
        _ctx: &ToolContext,
    ) -> Result<CallPlan, ToolError> {
        let query = on_one_line(&input.query);
        if query.is_empty() {
            return Err(ToolError::Model("the query is empty".to_owned()));
        }
        if query.len() > QUERY_BYTES {
            return Err(ToolError::Model(format!("the query has more than {QUERY_BYTES} bytes")));
        }
        if input.allowed_domains.len().max(input.blocked_domains.len()) > DOMAINS {
            return Err(ToolError::Model(format!("a search takes at most {DOMAINS} domains")));
        }
        let title = format!("search {} for {query}", self.service.kind().name());
        let subject = Subject::Host(self.service.host().clone());
        Ok(CallPlan { title, effects: Effects::None, subject })
    }

    async fn execute(
        &self,
        input: WebSearchInput,
        _plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let most = input.max_results.unwrap_or(RESULTS).clamp(1, MOST_RESULTS);
        let query = SearchQuery {
            words: on_one_line(&input.query),
            most,
            allowed: input.allowed_domains.iter().map(|domain| domain_of(domain)).collect(),
            blocked: input.blocked_domains.iter().map(|domain| domain_of(domain)).collect(),
        };
        let search = self.service.search(&*self.http, &query);
        let search = tokio::time::timeout(self.service.patience(), search);
        let Some(found) = ctx.cancellation.run_until_cancelled(search).await else {
            return ToolResult::cancelled();
        };
        let name = self.service.kind().name();
        match found {
            Err(_) => {
                let seconds = self.service.patience().as_secs();
                ToolResult::failure(format!("{name} gave no answer within {seconds} s"))
            }
            Ok(Err(error)) => ToolResult::failure(format!("{name}: {error}")),
            Ok(Ok(hits)) => ToolResult::success(text_of(&hits, &query)),
        }
    }
}

fn text_of(hits: &[SearchHit], query: &SearchQuery) -> String {
    let hits: Vec<&SearchHit> =
        hits.iter().filter(|hit| query.admits(hit)).take(query.most).collect();
    if hits.is_empty() {
        return format!("Nothing was found for {}.", query.words);
    }
    let mut text = String::new();
    for (index, hit) in hits.iter().enumerate() {
        let title = shorten(&on_one_line(&hit.title), TITLE);
        let excerpt = shorten(&on_one_line(&hit.excerpt), EXCERPT);
        let _ = writeln!(text, "{}. {title}\n   {}", index + 1, hit.url);
        if !excerpt.is_empty() {
            let _ = writeln!(text, "   {excerpt}");
        }
    }
    marked("search results", &text)
}
