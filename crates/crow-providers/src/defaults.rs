//! A provider with the defaults of its configuration.

use crow_core::{
    ids::SessionId,
    model::{
        Conversation, ModelConfig, ModelInfo, ModelRequest, ModelStream, Provider, WindowAnswer,
    },
};

use crate::provider::HttpProvider;

/// A provider whose requests get a limit of output if the caller sets none.
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

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        self.inner.context_window(model)
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        // At most the maximum of the model.
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
