//! The web tools: `web_fetch` reads a page, `web_search` asks a search service.
//!
//! Both send their requests through the program's HTTP client. What comes back is data of strangers: everything here
//! has a limit, and the texts are marked as coming from the web.

mod fetch;
mod html_markdown;
mod markdown_writer;
mod page_cache;
mod page_request;
mod page_text;
mod search;
mod search_service;
mod untrusted;

pub use fetch::{WebFetch, plan_web_fetch};
pub use search::WebSearch;
pub use search_service::{SearchService, SearchServiceError, SearchServiceKind};
