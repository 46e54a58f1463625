//! The route of a provider, which can be chosen at run time, and a provider whose requests go to its current route.

use std::{fmt, sync::Arc};

use crow_core::{
    ids::SessionId,
    model::{
        Conversation, ModelInfo, ModelRequest, ModelStream, Provider, ProviderError,
        ProviderErrorKind, WindowAnswer,
    },
};
use futures_util::stream;

use super::configured_provider::{ConfiguredProvider, redact_base_url};
use crate::{
    config::{Address, KeyLookup},
    dialect::Protocol,
    endpoint::{Endpoint, EndpointError, ExtraHeader},
    http::HttpClient,
    provider::HttpProvider,
    route::{RouteAddress, RouteChange, RouteError, RouteSummary, RouteTarget, check},
    secret::Sources,
};

impl ConfiguredProvider {
    /// Returns the route of the provider, without an address while it is disabled. None for a recording.
    pub(crate) fn route(&self, sources: &Sources) -> Option<RouteSummary> {
        let own = self.dialect()?;
        let current = match self.route.target() {
            RouteTarget::Configured => {
                let base_url = self.base_url(sources).ok();
                base_url.map(|base_url| (Protocol::of_dialect(own), base_url))
            }
            RouteTarget::Chosen(chosen) => Some((chosen.protocol, chosen.base_url)),
            RouteTarget::Disabled => None,
        };
        let current = current.map(|(protocol, base_url)| RouteAddress {
            protocol,
            base_url: redact_base_url(&base_url),
        });
        let provider = self.name().to_owned();
        Some(RouteSummary { provider, supported: Protocol::supported(own), current })
    }

    /// Routes the provider's requests to another address. Neither its key nor the headers of its file are sent there.
    pub(crate) fn apply_route(
        &self,
        change: RouteChange,
        client: &HttpClient,
    ) -> Result<(), RouteError> {
        let name = || self.name().to_owned();
        let own = self.dialect().ok_or_else(|| RouteError::Recording { provider: name() })?;
        if !Protocol::supported(own).contains(&change.protocol) {
            return Err(RouteError::Protocol { provider: name() });
        }
        let chosen = check(change)?;
        let endpoint = Endpoint {
            provider: name(),
            dialect: chosen.protocol.dialect(own),
            base_url: chosen.base_url.clone(),
            key: None,
            headers: chosen.headers.clone(),
        };
        let timeouts = self.timeouts(&chosen.base_url);
        let provider = HttpProvider::with_secret_headers(endpoint, client.clone(), timeouts);
        let provider = provider.map_err(|error| match error {
            EndpointError::InvalidHeader { name } => {
                RouteError::Header { name, reason: "its name or value is invalid" }
            }
            EndpointError::InvalidUrl { reason, .. } => RouteError::Address { reason },
            EndpointError::InvalidKey { .. } => {
                RouteError::Address { reason: "no key can be sent there".to_owned() }
            }
        })?;
        self.route.set_chosen(chosen, self.apply_limits(provider));
        Ok(())
    }

    /// Disables the provider: it is not called until a route is chosen.
    pub(crate) fn disable(&self) {
        if self.dialect().is_some() {
            self.route.disable();
        }
    }

    pub(crate) fn is_disabled(&self) -> bool {
        matches!(self.route.target(), RouteTarget::Disabled)
    }

    /// Returns true if there is a key, or a chosen route, which brings its own headers.
    pub(crate) fn has_credentials(&self, sources: &Sources) -> bool {
        match self.route.target() {
            RouteTarget::Configured => self.key(sources).is_present(),
            RouteTarget::Chosen(_) => true,
            RouteTarget::Disabled => false,
        }
    }

    /// Returns true if it is called at its configured address, without any key.
    pub(crate) fn needs_no_key(&self, sources: &Sources) -> bool {
        matches!(self.route.target(), RouteTarget::Configured)
            && matches!(self.key(sources), KeyLookup::NotNeeded)
    }

    /// Returns the base URL and the headers for listing the models of a local server. None for other providers.
    pub(crate) fn local_server(&self, sources: &Sources) -> Option<(String, Vec<ExtraHeader>)> {
        if !matches!(self.address(), Some(Address::Local { .. })) {
            return None;
        }
        match self.route.target() {
            RouteTarget::Configured => {
                let key = match self.key(sources) {
                    KeyLookup::Key(key) | KeyLookup::Stored(key) => Some(key),
                    KeyLookup::NotNeeded
                    | KeyLookup::Missing { .. }
                    | KeyLookup::Unusable { .. } => None,
                };
                let bearer = key.map(|key| ExtraHeader {
                    name: "Authorization".to_owned(),
                    value: format!("Bearer {}", key.reveal()),
                });
                Some((self.base_url(sources).ok()?, bearer.into_iter().collect()))
            }
            RouteTarget::Chosen(chosen) => match chosen.protocol {
                Protocol::OpenAi => Some((chosen.base_url, chosen.headers)),
                Protocol::Anthropic | Protocol::Gemini => None,
            },
            RouteTarget::Disabled => None,
        }
    }
}

const DISABLED: &str = "no model of it is called until the client enables it again; choose a model of another provider";

/// A provider whose requests go to its current route: each one to the route at the time when it is made. A request in
/// flight ends where it began.
#[derive(Clone)]
pub(crate) struct RoutedProvider {
    configured: Arc<ConfiguredProvider>,
    sources: Sources,
    client: HttpClient,
}

impl RoutedProvider {
    pub(crate) fn new(
        configured: Arc<ConfiguredProvider>,
        sources: Sources,
        client: HttpClient,
    ) -> Self {
        Self { configured, sources, client }
    }
}

impl fmt::Debug for RoutedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Following").field(&self.configured).finish()
    }
}

impl Provider for RoutedProvider {
    fn name(&self) -> &str {
        self.configured.name()
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        Box::new(RoutedConversation {
            provider: self.clone(),
            model: model.clone(),
            session: session.clone(),
            open: None,
        })
    }

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        let Self { configured, sources, client } = self;
        let Ok(Some((_, provider))) = configured.current_provider(sources, client) else {
            return Box::pin(std::future::ready(None));
        };
        Box::pin(async move { provider.context_window(model).await })
    }
}

struct RoutedConversation {
    provider: RoutedProvider,
    model: ModelInfo,
    session: SessionId,
    /// The conversation on a route, with the number of that route.
    open: Option<(u64, Box<dyn Conversation>)>,
}

impl Conversation for RoutedConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let RoutedProvider { configured, sources, client } = &self.provider;
        let (number, provider) = match configured.current_provider(sources, client) {
            Ok(Some(current)) => current,
            Ok(None) => {
                self.open = None;
                return failed(configured.name(), ProviderErrorKind::Disabled, DISABLED.to_owned());
            }
            Err(error) => {
                self.open = None;
                return failed(configured.name(), ProviderErrorKind::Auth, error.to_string());
            }
        };
        let known = self.open.take().filter(|(known, _)| *known == number);
        // A new route has seen nothing of the conversation: it is sent the whole history, in its own format.
        let open =
            known.unwrap_or_else(|| (number, provider.conversation(&self.model, &self.session)));
        let (_, conversation) = self.open.insert(open);
        conversation.stream(request)
    }
}

fn failed(provider: &str, kind: ProviderErrorKind, message: String) -> ModelStream {
    let error =
        ProviderError { provider: provider.to_owned(), ..ProviderError::new(kind, message) };
    Box::pin(stream::iter([Err(error)]))
}
