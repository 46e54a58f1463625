//! A provider with the defaults that its configuration names.

use crow_core::{
    ids::SessionId,
    model::{Conversation, ModelConfig, ModelInfo, ModelRequest, ModelStream, Provider},
};

use crate::provider::HttpProvider;

/// A provider whose requests have a limit of output where the caller names none.
#[derive(Debug)]
pub(crate) struct WithDefaults {
    inner: HttpProvider,
    max_tokens: u64,
}

impl WithDefaults {
    pub(crate) fn new(inner: HttpProvider, max_tokens: u64) -> Self {
        Self { inner, max_tokens }
    }
}

impl Provider for WithDefaults {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        // A model that can say less is not asked for more.
        let most = model.max_output_tokens.unwrap_or(u64::MAX);
        let max_tokens = self.max_tokens.min(most);
        Box::new(LimitedConversation { inner: self.inner.conversation(model, session), max_tokens })
    }
}

struct LimitedConversation {
    inner: Box<dyn Conversation>,
    max_tokens: u64,
}

impl Conversation for LimitedConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let max_tokens = request.config.max_tokens.or(Some(self.max_tokens));
        let config = ModelConfig { max_tokens, ..request.config.clone() };
        self.inner.stream(ModelRequest { config: &config, ..request })
    }
}
