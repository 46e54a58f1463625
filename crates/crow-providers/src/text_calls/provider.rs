//! A provider whose models may call tools in text.

use std::sync::Arc;

use crow_core::{
    ids::SessionId,
    model::{
        Conversation, ModelInfo, ModelRequest, ModelStream, Provider, ToolCallFormat, ToolChoice,
        ToolDefinition, WindowAnswer,
    },
};

use super::{history::TextHistory, prompt::with_tools, stream::TextCallStream};

/// Any provider, with calls read from the text of replies.
///
/// A model with [`ToolCallFormat::Text`] is sent no tools: the system prompt describes them, and earlier calls and
/// results are text. A model with native calls is asked as before; if its reply has no native call, but text that is
/// unmistakably one, it is read as a call. A call that the model only repeats from a result or a message of the user is
/// not read, so that a file cannot call tools by being quoted. Replies to requests that forbid calls are not read. An obligation to call
/// tools cannot be enforced in text and is ignored there.
///
/// ```
/// use std::sync::Arc;
///
/// use crow_core::model::Provider;
/// use crow_providers::TextCallProvider;
///
/// fn with_text_calls(provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
///     Arc::new(TextCallProvider::new(provider))
/// }
/// ```
#[derive(Debug, Clone)]
pub struct TextCallProvider {
    provider: Arc<dyn Provider>,
}

impl TextCallProvider {
    /// Reads the calls in the replies of a provider.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider }
    }
}

impl Provider for TextCallProvider {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        self.provider.context_window(model)
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        Box::new(TextCallConversation {
            conversation: self.provider.conversation(model, session),
            format: model.tool_calls,
            history: TextHistory::default(),
            tools: Arc::default(),
            prompt: (String::new(), String::new()),
        })
    }
}

struct TextCallConversation {
    conversation: Box<dyn Conversation>,
    format: ToolCallFormat,
    history: TextHistory,
    /// The tools of the last request.
    tools: Arc<[ToolDefinition]>,
    /// The system prompt of the last request, and with the tools.
    prompt: (String, String),
}

impl TextCallConversation {
    /// Stores tools and system prompt if they have changed.
    fn update(&mut self, request: ModelRequest<'_>) {
        let has_changed = *self.tools != *request.tools;
        if has_changed {
            self.tools = request.tools.into();
        }
        let is_text = self.format == ToolCallFormat::Text;
        let lacks_prompt = self.prompt.1.is_empty();
        if is_text && (has_changed || lacks_prompt || self.prompt.0 != request.system) {
            let prompt = with_tools(request.system, request.tools);
            self.prompt = (request.system.to_owned(), prompt);
        }
    }
}

impl Conversation for TextCallConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        self.update(request);
        let reply = match self.format {
            ToolCallFormat::Native => self.conversation.stream(request),
            ToolCallFormat::Text => self.conversation.stream(ModelRequest {
                system: &self.prompt.1,
                tools: &[],
                messages: self.history.messages(request.messages),
                tool_choice: ToolChoice::Auto,
                ..request
            }),
        };
        if request.tools.is_empty() || request.tool_choice == ToolChoice::None {
            return reply;
        }
        let (tools, messages) = (Arc::clone(&self.tools), request.messages.to_vec());
        Box::pin(TextCallStream::new(reply, tools, messages, self.format))
    }
}
