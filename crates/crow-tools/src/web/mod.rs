//! The web tools: `web_fetch` reads a page, `web_search` asks a search service.
//!
//! Both send their requests through the program's HTTP client. Responses are untrusted: size and time are limited, and
//! results are wrapped in a tag that marks them as web content.

mod fetch;
mod html_events;
mod html_markdown;
mod markdown_writer;
mod page_cache;
mod page_request;
mod page_text;
mod provider_search;
mod search;
mod search_service;
mod untrusted;

pub use fetch::{WebFetch, plan_web_fetch};
pub use search::WebSearch;
pub use search_service::{SearchService, SearchServiceError, SearchServiceKind};
