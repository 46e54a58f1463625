//! The tool `web_fetch`.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::{
    capability::Http,
    network::Network,
    tool::{
        CallPlan, Effects, Subject, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
    },
};
use crow_text::shorten;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    page_cache::{PageCache, PageText},
    page_request::{BODY_BYTES, PageAddress, PageAnswer, PageBody, PageRequester, not_public},
    page_text::page_text,
    untrusted::marked,
};
use crate::blocking::blocking_until_cancelled;

/// Maximum bytes of a text in one result.
const RESULT_BYTES: usize = 40_000;
/// Bytes of the text of an error that are shown.
const ERROR_BYTES: usize = 600;

/// Reads a page of the web as text.
#[derive(Debug)]
pub struct WebFetch {
    requester: PageRequester,
    cache: PageCache,
}

impl WebFetch {
    /// Makes the tool for sessions with this network: hosts that the user named in it may have private addresses.
    pub fn new(http: Arc<dyn Http>, network: Network) -> Self {
        Self { requester: PageRequester { http, network }, cache: PageCache::default() }
    }

    /// Fetches a page, or returns it from the cache. With `is_rest` (a later part of a page) any cached copy is used.
    async fn page(
        &self,
        address: PageAddress,
        is_rest: bool,
        ctx: &ToolContext,
    ) -> Result<PageReply, ToolError> {
        let asked = address.url.to_string();
        let is_private = address.is_named_in(&self.requester.network);
        if let Some((page, age)) = self.cache.get(&asked)
            // No cache for local development servers: their pages change with every edit.
            && (is_rest || page.may_be_kept && !is_private)
        {
            return Ok(PageReply::Page(page, age));
        }
        let answer = ctx.cancellation.run_until_cancelled(self.requester.get(address)).await;
        let answer = answer.ok_or(ToolError::Cancelled)?;
        match answer.map_err(|error| ToolError::Model(format!("{asked} was not read: {error}")))? {
            PageAnswer::MovedTo(url) => Ok(PageReply::MovedTo(url.to_string())),
            PageAnswer::Body(body) => {
                let status = body.status;
                let page = convert(body, ctx).await?;
                let page = page.map_err(|error| {
                    ToolError::Model(format!("{asked} was not read (HTTP {status}): {error}"))
                })?;
                if !(200..300).contains(&status) {
                    return Ok(PageReply::Refused { status, page });
                }
                let page = Arc::new(page);
                self.cache.insert(asked, Arc::clone(&page));
                Ok(PageReply::Page(page, Duration::ZERO))
            }
        }
    }
}

/// Converts a body to text, off the executor if that takes a while.
async fn convert(body: PageBody, ctx: &ToolContext) -> Result<Result<PageText, String>, ToolError> {
    const SHORT: usize = 32 << 10;
    if body.bytes.len() <= SHORT {
        return Ok(page_text(&body));
    }
    blocking_until_cancelled(ctx, move || page_text(&body)).await
}

/// Result of fetching a page.
enum PageReply {
    /// A page, and how long ago it was read.
    Page(Arc<PageText>, Duration),
    /// The page is at another host.
    MovedTo(String),
    /// The server answered with an error.
    Refused { status: u16, page: PageText },
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFetchInput {
    #[serde(alias = "uri", alias = "link", alias = "address")]
    url: String,
    /// Byte to go on at.
    #[serde(default)]
    offset: usize,
    /// Accepted and ignored: other agents pass a question about the page here.
    #[serde(default, rename = "prompt")]
    #[schemars(skip)]
    _prompt: Option<IgnoredAny>,
}

#[async_trait]
impl TypedTool for WebFetch {
    type Input = WebFetchInput;
    const NAME: &'static str = "web_fetch";
    const CATEGORY: ToolCategory = ToolCategory::Network;

    fn description(&self) -> &'static str {
        "Reads a web page as Markdown."
    }

    async fn plan(&self, input: &WebFetchInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        plan_web_fetch(&input.url, &self.requester.network).map_err(ToolError::Model)
    }

    async fn execute(
        &self,
        input: WebFetchInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let address = match PageAddress::parse(&input.url) {
            Ok(address) => address,
            Err(error) => return ToolResult::failure(error),
        };
        if plan.subject != Subject::Host(address.host.clone()) {
            return ToolResult::failure("the call was permitted for another host");
        }
        let asked = address.url.to_string();
        match self.page(address, input.offset > 0, ctx).await {
            Ok(PageReply::Page(page, age)) => {
                let limit = RESULT_BYTES.min(ctx.model.output_limit());
                part_of(&page, &asked, (input.offset, limit), age)
                    .unwrap_or_else(ToolResult::failure)
            }
            Ok(PageReply::MovedTo(url)) => ToolResult::success(format!(
                "The page redirects to this address, which needs a call of its own:\n{}",
                marked("redirect", &url)
            )),
            Ok(PageReply::Refused { status, page }) => {
                let text = shorten(&page.text, ERROR_BYTES);
                let head = format!("{asked} was not read: HTTP {status}");
                ToolResult::failure(match text.trim() {
                    "" => head,
                    text => format!("{head}\n{}", marked(&page.address, text)),
                })
            }
            Err(error) => error.to_result(),
        }
    }
}

/// Returns the plan of a call of `web_fetch` with this address in this network. The error text is for the model.
pub fn plan_web_fetch(url: &str, network: &Network) -> Result<CallPlan, String> {
    let address = PageAddress::parse(url)?;
    if address.is_private() && !address.is_named_in(network) {
        // No permission would help.
        return Err(not_public(address.host.name()));
    }
    let PageAddress { url, host } = address;
    let title = format!("fetch {url}");
    Ok(CallPlan { title, effects: Effects::None, subject: Subject::Host(host) })
}

/// Returns the part of a page from this byte on, with a note about the rest, and about its age if it was not read just
/// now. The error text is for the model.
fn part_of(
    page: &PageText,
    asked: &str,
    (offset, limit): (usize, usize),
    age: Duration,
) -> Result<ToolResult, String> {
    let text = page.text.as_str();
    if offset > 0 && offset >= text.len() {
        return Err(format!("the page has only {} bytes", text.len()));
    }
    let begin = text.floor_char_boundary(offset);
    let end = if text.len() - begin <= limit {
        text.len()
    } else {
        let end = text.floor_char_boundary(begin + limit);
        // At the end of a line, unless that is far away.
        let line = text[begin..end].rfind('\n').map(|at| begin + at + 1);
        line.filter(|line| end - line < limit / 4).unwrap_or(end)
    };
    let mut output = String::new();
    if let Some(title) = page.title.as_ref().filter(|_| begin == 0) {
        // Marked like the text, since it is of the page, too.
        let _ = write!(output, "Title: {title}\n\n");
    }
    output.push_str(&text[begin..end]);
    if text.trim().is_empty() {
        return Ok(ToolResult::success(format!("{asked} has no text.")));
    }
    let mut output = marked(&page.address, &output);
    if offset == 0 && age >= Duration::from_mins(1) {
        let _ = write!(output, "\n[read {} min ago]", age.as_secs() / 60);
    }
    if end < text.len() {
        let _ =
            write!(output, "\n[bytes {begin} to {end} of {}; offset {end} goes on]", text.len());
    } else if page.is_cut {
        let _ = write!(
            output,
            "\n[the page is longer: only its first {} MB were read]",
            BODY_BYTES >> 20
        );
    }
    Ok(ToolResult::success(output))
}
