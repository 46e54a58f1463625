//! A provider that is asked wherever it is called at the moment.

use std::sync::Arc;

use crow_core::{
    ids::SessionId,
    model::{
        Conversation, ModelInfo, ModelRequest, ModelStream, Provider, ProviderError,
        ProviderErrorKind,
    },
};
use futures_util::stream;

use super::Route;

/// A provider that is asked wherever it is called at the moment: each request goes to the place that holds when it is made.
/// One that is under way ends where it began.
#[derive(Debug)]
pub(crate) struct Following {
    name: String,
    route: Arc<Route>,
}

impl Following {
    pub(crate) fn new(name: &str, route: &Arc<Route>) -> Self {
        Self { name: name.to_owned(), route: Arc::clone(route) }
    }
}

impl Provider for Following {
    fn name(&self) -> &str {
        &self.name
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        Box::new(FollowingConversation {
            name: self.name.clone(),
            route: Arc::clone(&self.route),
            model: model.clone(),
            session: session.clone(),
            open: None,
        })
    }
}

struct FollowingConversation {
    name: String,
    route: Arc<Route>,
    model: ModelInfo,
    session: SessionId,
    /// The conversation with the place of that number.
    open: Option<(u64, Box<dyn Conversation>)>,
}

impl Conversation for FollowingConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let Some((number, provider)) = self.route.current() else {
            self.open = None;
            return disabled(&self.name);
        };
        let known = self.open.take().filter(|(known, _)| *known == number);
        // Another place knows nothing of what was said: it is told all of it, in its own format.
        let open =
            known.unwrap_or_else(|| (number, provider.conversation(&self.model, &self.session)));
        let (_, conversation) = self.open.insert(open);
        conversation.stream(request)
    }
}

fn disabled(provider: &str) -> ModelStream {
    let message = "no model of it is called until the client enables it again; choose a model of another provider";
    let error = ProviderError {
        provider: provider.to_owned(),
        ..ProviderError::new(ProviderErrorKind::Disabled, message)
    };
    Box::pin(stream::iter([Err(error)]))
}
