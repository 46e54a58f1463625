//! Lists of a server: tools, prompts, and whether it has resources.

use std::time::Duration;

use rmcp::{
    model::{
        ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
        ListToolsRequest, PaginatedRequestParams, Prompt, Resource, ResourceTemplate, ServerResult,
        SubscriptionFilter, SubscriptionsListenRequest, SubscriptionsListenRequestParams,
    },
    service::ServiceError,
};
use tokio::time::{sleep, timeout};

use super::{
    exchange::Requester,
    server_connection::{LONGEST, ServerConnection, WITHOUT_MEMORY},
};
use crate::{failure::CallError, listed::ToolListing, page::ToolPage, settings::McpSettings, text};

/// Maximum number of pages of a list.
const MOST_PAGES: usize = 50;
/// Maximum number of pages of a list of resources.
const MOST_RESOURCE_PAGES: usize = 10;
/// Maximum number of entries that are read from all pages, invalid ones included.
const MOST_LISTED: usize = 2000;
/// Delay before a subscription to changes that the server ended is renewed.
const BETWEEN_LISTENING: Duration = Duration::from_secs(5);
/// Timeout of the list of prompts.
const LIST_PROMPTS: Duration = Duration::from_secs(5);
/// Timeout of the list of tools, once connected.
const LIST: Duration = Duration::from_secs(30);

impl ServerConnection {
    /// Waits until the server reports that its tools changed.
    pub(crate) async fn changed(&self) {
        self.state.transport_state.changed.notified().await;
    }

    /// Subscribes to tool changes of a stateless server, if it supports that; other servers report them unasked. Never
    /// returns.
    pub(crate) async fn listen(&self) {
        let info = self.peer.peer_info();
        let has_changes = info.is_some_and(|info| {
            let tools = info.capabilities.tools.as_ref();
            let prompts = info.capabilities.prompts.as_ref();
            info.protocol_version == WITHOUT_MEMORY
                && (tools.is_some_and(|tools| tools.list_changed == Some(true))
                    || prompts.is_some_and(|prompts| prompts.list_changed == Some(true)))
        });
        while has_changes && self.is_open() {
            let filter =
                SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().build();
            let params = SubscriptionsListenRequestParams::new(filter);
            let request = SubscriptionsListenRequest::new(params);
            // The transport handles the messages that arrive meanwhile.
            let subscription =
                self.peer.send_request(ClientRequest::SubscriptionsListenRequest(request));
            if subscription.await.is_err() {
                break;
            }
            sleep(BETWEEN_LISTENING).await;
            // The tools may have changed while there was no subscription.
            self.state.transport_state.changed.notify_one();
        }
        std::future::pending::<()>().await;
    }

    /// Lists the tools named in `wanted`, or all if absent, and the prompts. What the server does not declare is empty.
    ///
    /// Prompts that cannot be listed are left out: the tools work without them.
    pub(crate) async fn list(&self, wanted: Option<&[String]>) -> Result<ToolListing, String> {
        let capabilities = self.peer.peer_info().map(|info| info.capabilities.clone());
        let has = |has: fn(&rmcp::model::ServerCapabilities) -> bool| {
            capabilities.as_ref().is_some_and(has)
        };
        let has_tools = capabilities.as_ref().is_none_or(|it| it.tools.is_some());
        let listing = async {
            let listed =
                if has_tools { self.list_tools(wanted).await? } else { ToolListing::default() };
            let prompts = if has(|it| it.prompts.is_some()) {
                // The tools work without them.
                timeout(LIST_PROMPTS, self.list_prompts()).await.unwrap_or_default()
            } else {
                Vec::new()
            };
            Ok(listed.with_prompts(&prompts).with_resources(has(|it| it.resources.is_some())))
        };
        tokio::select! {
            biased;
            listed = timeout(LIST, listing) => {
                listed.unwrap_or_else(|_| Err("it failed to list its tools".to_owned()))
            }
            () = self.state.transport_state.closed.cancelled() => Err(self.state.close_message().await),
        }
    }

    async fn list_tools(&self, wanted: Option<&[String]>) -> Result<ToolListing, String> {
        let (mut tools, mut invalid, mut cursor) = (Vec::new(), Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let request = ListToolsRequest::with_param(page_params(cursor));
            // Bypasses the list that the library caches, which may be stale.
            let answer = self.peer.send_request(ClientRequest::ListToolsRequest(request)).await;
            let answer = answer.map_err(|error| list_error(&error))?;
            let Some(page) = ToolPage::from_result(answer) else {
                return Err("its answer is not a valid tool list".to_owned());
            };
            let room = MOST_LISTED.saturating_sub(tools.len() + invalid.len());
            tools.extend(page.tools.into_iter().take(room));
            let room = MOST_LISTED.saturating_sub(tools.len() + invalid.len());
            invalid.extend(page.invalid.into_iter().take(room));
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() + invalid.len() == MOST_LISTED {
                break;
            }
        }
        Ok(ToolListing::new(tools, &invalid, wanted))
    }

    async fn list_prompts(&self) -> Vec<Prompt> {
        let (mut prompts, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let request = ListPromptsRequest::with_param(page_params(cursor));
            let answer = self.peer.send_request(ClientRequest::ListPromptsRequest(request)).await;
            let Ok(ServerResult::ListPromptsResult(page)) = answer else {
                tracing::debug!(server = self.state.name, "the prompts cannot be listed");
                break;
            };
            prompts.extend(page.prompts);
            cursor = page.next_cursor;
            if cursor.is_none() || prompts.len() >= MOST_LISTED {
                break;
            }
        }
        prompts.truncate(MOST_LISTED);
        prompts
    }

    /// Lists the resources, and the templates of their URIs, up to a limit.
    pub(crate) async fn list_resources(
        &self,
        settings: &McpSettings,
        requester: Requester<'_>,
    ) -> Result<(Vec<Resource>, Vec<ResourceTemplate>), CallError> {
        let (mut resources, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_RESOURCE_PAGES {
            let page = cursor.take();
            let request = |_: &_| {
                let request = ListResourcesRequest::with_param(page_params(page.clone()));
                ClientRequest::ListResourcesRequest(request)
            };
            match self.exchange(request, settings, requester).await? {
                ServerResult::ListResourcesResult(page) => {
                    resources.extend(page.resources);
                    cursor = page.next_cursor;
                }
                _ => return Err(CallError::UnexpectedAnswer),
            }
            if cursor.is_none() || resources.len() >= MOST_LISTED {
                break;
            }
        }
        // Not every server with resources has templates.
        let request = |_: &_| {
            let request = ListResourceTemplatesRequest::with_param(page_params(None));
            ClientRequest::ListResourceTemplatesRequest(request)
        };
        let templates = match self.exchange(request, settings, requester).await {
            Ok(ServerResult::ListResourceTemplatesResult(page)) => page.resource_templates,
            Err(error @ (CallError::Cancelled | CallError::Unsent(_) | CallError::Lost(_))) => {
                return Err(error);
            }
            Ok(_) | Err(_) => Vec::new(),
        };
        Ok((resources, templates))
    }
}

fn page_params(cursor: Option<String>) -> PaginatedRequestParams {
    PaginatedRequestParams::default().with_cursor(cursor)
}

fn list_error(error: &ServiceError) -> String {
    if let ServiceError::McpError(error) = error {
        return format!("it failed to list its tools: {}", text::one_line(&error.message, LONGEST));
    }
    text::one_line(&error.to_string(), LONGEST)
}
