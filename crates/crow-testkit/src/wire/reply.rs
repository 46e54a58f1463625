//! The scripted reply and the four dialects it can be rendered in.

use serde_json::Value;

/// A vendor's wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WireDialect {
    /// Anthropic Messages, `POST /v1/messages`.
    AnthropicMessages,
    /// `OpenAI` Responses, `POST /v1/responses`.
    OpenAiResponses,
    /// `OpenAI` Chat Completions and its variants, `POST /v1/chat/completions`.
    OpenAiChat,
    /// Gemini, `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`.
    Gemini,
}

impl WireDialect {
    /// All dialects, for tests that run over each of them.
    pub const ALL: [Self; 4] =
        [Self::AnthropicMessages, Self::OpenAiResponses, Self::OpenAiChat, Self::Gemini];

    /// Returns the dialect of a request path (without its query); prefixes such as `/api/v1` are accepted.
    pub fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::OpenAiChat)
        } else if path.ends_with("/responses") {
            Some(Self::OpenAiResponses)
        } else if path.ends_with("/messages") {
            Some(Self::AnthropicMessages)
        } else if path.ends_with(":streamGenerateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    /// Returns the request path, query included, as the vendor documents it.
    pub fn path(self, model: &str) -> String {
        match self {
            Self::AnthropicMessages => "/v1/messages".to_owned(),
            Self::OpenAiResponses => "/v1/responses".to_owned(),
            Self::OpenAiChat => "/v1/chat/completions".to_owned(),
            Self::Gemini => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
        }
    }

    /// Returns the path of the base URL, to which a client appends its own: `/v1` for the two `OpenAI` dialects, else
    /// empty.
    pub fn base_path(self) -> &'static str {
        match self {
            Self::OpenAiResponses | Self::OpenAiChat => "/v1",
            Self::AnthropicMessages | Self::Gemini => "",
        }
    }
}

/// One reply of the model, independent of a dialect.
///
/// Built by appending: `ScriptedReply::new().text("I look.").call("call_1", "read_file", &json!({"path": "a"}))`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptedReply {
    /// Content in wire order.
    pub blocks: Vec<ScriptedBlock>,
    /// Stop reason.
    pub stop: ScriptedStop,
    /// Reported usage.
    pub usage: ReplyUsage,
}

/// A block of a reply's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedBlock {
    /// Visible text.
    Text(String),
    /// Reasoning. Anthropic: text and signature; Responses: summary and encrypted content; Gemini: the thought, and its
    /// signature on the next part; Chat: by [`ChatFlavour`](super::ChatFlavour).
    Thinking {
        /// Readable reasoning, possibly empty.
        text: String,
        /// Opaque proof that the client must send back, possibly empty.
        signature: String,
    },
    /// Reasoning that only the vendor can read.
    RedactedThinking(String),
    /// A tool call.
    Call {
        /// Id that the result must name.
        id: String,
        /// Name of the tool.
        name: String,
        /// Raw JSON text, so that malformed arguments can be scripted.
        arguments: String,
    },
}

/// Stop reasons of a scripted reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScriptedStop {
    /// The reply is complete.
    #[default]
    EndTurn,
    /// The model waits for the results of its calls.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// A stop sequence was produced.
    StopSequence,
    /// The model refused; the text is the refusal.
    Refusal,
    /// The vendor's filter ended the reply.
    ContentFilter,
    /// The vendor failed in the middle of the stream (Responses: `response.failed`; elsewhere a mid-stream error).
    Failed,
}

/// Token counts of a reply. They do not overlap, except `reasoning`, which is contained in `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyUsage {
    /// Prompt tokens neither read from nor written to the cache.
    pub input: u64,
    /// Generated tokens, reasoning included.
    pub output: u64,
    /// The reasoning part of `output`.
    pub reasoning: u64,
    /// Prompt tokens read from the cache.
    pub cache_read: u64,
    /// Prompt tokens written to the cache (only Anthropic reports them).
    pub cache_write: u64,
}

impl Default for ReplyUsage {
    fn default() -> Self {
        Self { input: 100, output: 20, reasoning: 0, cache_read: 0, cache_write: 0 }
    }
}

impl ReplyUsage {
    /// Returns the tokens of the whole prompt: fresh, read and written.
    pub fn prompt(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// Returns the generated tokens that are not reasoning.
    pub fn visible_output(&self) -> u64 {
        self.output.saturating_sub(self.reasoning)
    }
}

impl ScriptedReply {
    /// Creates an empty reply that ends the turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a block of text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(ScriptedBlock::Text(text.into()));
        self
    }

    /// Appends reasoning with its signature.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        self.blocks
            .push(ScriptedBlock::Thinking { text: text.into(), signature: signature.into() });
        self
    }

    /// Appends reasoning that only the vendor can read.
    #[must_use]
    pub fn redacted(mut self, data: impl Into<String>) -> Self {
        self.blocks.push(ScriptedBlock::RedactedThinking(data.into()));
        self
    }

    /// Appends a tool call; a reply that would end the turn then stops for tool use.
    #[must_use]
    pub fn call(self, id: impl Into<String>, name: impl Into<String>, arguments: &Value) -> Self {
        self.raw_call(id, name, arguments.to_string())
    }

    /// Appends a tool call with argument text as given, valid or not.
    #[must_use]
    pub fn raw_call(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        let (id, name, arguments) = (id.into(), name.into(), arguments.into());
        self.blocks.push(ScriptedBlock::Call { id, name, arguments });
        if self.stop == ScriptedStop::EndTurn {
            self.stop = ScriptedStop::ToolUse;
        }
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn with_stop(mut self, stop: ScriptedStop) -> Self {
        self.stop = stop;
        self
    }

    /// Sets the reported usage.
    #[must_use]
    pub fn with_usage(mut self, usage: ReplyUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Returns true if the reply contains a tool call.
    pub fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, ScriptedBlock::Call { .. }))
    }

    /// Returns the concatenated text blocks.
    pub fn joined_text(&self) -> String {
        self.blocks
            .iter()
            .filter_map(|block| match block {
                ScriptedBlock::Text(text) => Some(text.as_str()),
                ScriptedBlock::Thinking { .. }
                | ScriptedBlock::RedactedThinking(_)
                | ScriptedBlock::Call { .. } => None,
            })
            .collect()
    }
}
