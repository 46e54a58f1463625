//! A provider whose requests go to its current route.

use std::{fmt, sync::Arc};

use crow_core::{
    ids::SessionId,
    model::{
        Conversation, ModelInfo, ModelRequest, ModelStream, Provider, ProviderError,
        ProviderErrorKind, WindowAnswer,
    },
};
use futures_util::stream;

use crate::{configured::ConfiguredProvider, http::HttpClient, stored::Sources};

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
