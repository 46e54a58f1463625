//! Messages as the model will see them, independent of any wire format.
//!
//! An assistant message is a list of blocks in the order in which they came; a block may retain the provider's own
//! item verbatim ([`Native`]), because only that preserves thinking signatures, encrypted reasoning and item ids.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{CallId, MessageId, ReplyId};

/// A message of a model request.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A message of the user, or of the loop on the user's behalf.
    User(UserMessage),
    /// A reply of the model.
    Assistant(AssistantMessage),
    /// The results of all calls of the reply before it.
    Results(ResultsMessage),
}

impl Message {
    /// Returns the id under which the message's wire bytes may be cached.
    pub fn id(&self) -> &MessageId {
        match self {
            Self::User(message) => &message.id,
            Self::Assistant(message) => &message.id,
            Self::Results(message) => &message.id,
        }
    }
}

/// Content that goes to the model: of a user message or of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Image),
}

impl Block {
    /// Returns the text of all text blocks, joined by line breaks.
    pub fn text_of(blocks: &[Self]) -> String {
        let texts = blocks.iter().filter_map(|block| match block {
            Self::Text { text } => Some(text.as_str()),
            Self::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Makes a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A picture in a format that model providers take: PNG, JPEG, GIF or WebP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The bytes in standard base64.
    pub data: String,
}

impl Image {
    /// The media types that model providers accept.
    pub const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

    /// Returns the media type of a picture by its first bytes, or none if model providers do not accept its format.
    pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
            [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
            _ => None,
        }
    }
}

/// A message of the user, or of the loop on the user's behalf.
#[derive(Debug, Clone, PartialEq)]
pub struct UserMessage {
    /// The id of the message.
    pub id: MessageId,
    /// The content.
    pub content: Vec<Block>,
}

/// A reply of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct AssistantMessage {
    /// The id of the message.
    pub id: MessageId,
    /// The reply that contains it.
    pub reply_id: ReplyId,
    /// The origin of the reply. Native items are sent back only there.
    pub origin: Origin,
    /// The blocks in the order in which they came.
    pub blocks: Vec<ReplyBlock>,
}

impl AssistantMessage {
    /// Returns the tool calls in the order in which the model asked for them.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls_of(&self.blocks)
    }
}

/// Returns the tool calls among `blocks`, in order.
pub fn calls_of(blocks: &[ReplyBlock]) -> impl Iterator<Item = &ToolCall> {
    blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Call(call) => Some(call),
        ReplyContent::Text { .. } | ReplyContent::Thinking { .. } | ReplyContent::Opaque => None,
    })
}

/// Returns the first call without a result, or result without a call, in messages for a model. Results follow the reply
/// with their calls.
pub fn unpaired_call<M: AsRef<Message>>(messages: &[M]) -> Option<&CallId> {
    let mut open: Vec<&CallId> = Vec::new();
    for message in messages {
        match message.as_ref() {
            Message::Results(results) => {
                for result in &results.results {
                    let Some(at) = open.iter().position(|id| **id == result.call_id) else {
                        return Some(&result.call_id);
                    };
                    open.remove(at);
                }
            }
            Message::Assistant(_) | Message::User(_) if !open.is_empty() => break,
            Message::Assistant(reply) => open = reply.calls().map(|call| &call.id).collect(),
            Message::User(_) => {}
        }
    }
    open.first().copied()
}

/// One block of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplyBlock {
    /// What the block says in our words.
    pub content: ReplyContent,
    /// The provider's item as it came, where our words would lose something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl ReplyBlock {
    /// Makes a block without a native item: its content is complete.
    pub fn without_native_item(content: ReplyContent) -> Self {
        Self { content, native: None }
    }

    /// Makes a block that retains the provider's `item`.
    pub fn with_native(content: ReplyContent, item: Value) -> Self {
        let native = Native::new(&content, item);
        Self { content, native: Some(native) }
    }

    /// Returns the provider's item if it still matches the content.
    pub fn native_item(&self) -> Option<&Value> {
        self.native.as_ref().and_then(|native| native.item_for(&self.content))
    }
}

/// What a block of a reply says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyContent {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// Readable reasoning, which may be empty.
    Thinking {
        /// The text.
        text: String,
    },
    /// A tool call.
    Call(ToolCall),
    /// Something that only the provider can read: redacted thinking, encrypted reasoning.
    Opaque,
}

/// A tool call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The id that pairs the call with its result.
    pub id: CallId,
    /// The name as the model wrote it, which may name no tool.
    pub name: String,
    /// The arguments.
    pub arguments: CallArguments,
}

/// The arguments of a call: JSON, or what the model wrote in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "form", content = "value", rename_all = "snake_case")]
pub enum CallArguments {
    /// Well-formed JSON.
    Json(Value),
    /// Text that is not JSON.
    Malformed(String),
}

impl CallArguments {
    /// Parses the text that the model wrote. An empty text means no arguments.
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Json(Value::Object(serde_json::Map::new()));
        }
        serde_json::from_str(text).map_or_else(|_| Self::Malformed(text.to_owned()), Self::Json)
    }

    /// Returns the arguments as a JSON object, which every wire format accepts.
    pub fn to_object(&self) -> Value {
        match self {
            Self::Json(Value::Object(map)) => Value::Object(map.clone()),
            Self::Json(other) => serde_json::json!({ "arguments": other }),
            Self::Malformed(text) => serde_json::json!({ "malformed_arguments": text }),
        }
    }
}

/// The results of all calls of one reply, in the order of the calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultsMessage {
    /// The id of the message.
    pub id: MessageId,
    /// One result for each call.
    pub results: Vec<ResultMessage>,
}

/// The result of one call, as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultMessage {
    /// The call.
    pub call_id: CallId,
    /// The name that the model called.
    pub tool: String,
    /// The content.
    pub content: Vec<Block>,
    /// True if the call failed.
    pub is_error: bool,
}

/// Where a reply came from.
///
/// Signatures and encrypted items are valid only at the same place: same wire format, provider, address and model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The wire format.
    pub dialect: String,
    /// The provider's name.
    pub provider: String,
    /// The address that was asked.
    pub base_url: String,
    /// The model that was asked.
    pub model: String,
}

/// A provider's item, kept verbatim beside the block that we read from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    item: Value,
    digest: String,
}

impl Native {
    /// Retains `item` for as long as the block's content equals `content`.
    pub fn new(content: &ReplyContent, item: Value) -> Self {
        Self { item, digest: digest(content) }
    }

    /// Returns the item, unless the block was changed since (pruned, redacted).
    pub fn item_for(&self, content: &ReplyContent) -> Option<&Value> {
        (self.digest == digest(content)).then_some(&self.item)
    }
}

/// FNV-1a over the block's JSON: detects our own edits, not an attacker's.
fn digest(content: &ReplyContent) -> String {
    let bytes = serde_json::to_vec(content).expect("invariant: content of a reply is valid JSON");
    format!("{:016x}", crate::hash::fnv1a(&bytes))
}

/// Tags of marks that Crow itself puts into the messages of a user. Texts of others can neither begin nor end them.
pub const OWN_TAGS: [&str; 14] = [
    "command_output",
    "environment",
    "environment_update",
    "instructions",
    "mcp_prompt",
    "mcp_resource",
    "mentioned",
    "named_file",
    "named_files",
    "project_instructions",
    "skill",
    "summary",
    "system-reminder",
    "user_instructions",
];

/// Beginnings of lines from which on a message of the user has texts of others: attachments of editors, prompts of servers,
/// standard input and skills.
const ATTACHMENTS: [&str; 4] = ["The user attached ", "<mcp_prompt", "<stdin", "<skill "];

/// Returns the beginning of a message that the user wrote: without what is attached to it.
pub fn words_of_user(message: &str) -> &str {
    let mut end = 0;
    for line in message.split_inclusive('\n') {
        if ATTACHMENTS.iter().any(|beginning| line.starts_with(beginning)) {
            break;
        }
        end += line.len();
    }
    &message[..end]
}

/// A prompt of the user, with the commands whose output belongs into it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserPrompt {
    /// The words and pictures.
    pub content: Vec<Block>,
    /// Commands that the text contains, in order. A loop that runs none leaves them in the text as they are.
    pub commands: Vec<PromptCommand>,
}

/// A command in the text of a prompt: its output is to stand in its place. The line comes from a file of the user or of a
/// trusted project, and never from what was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCommand {
    /// The place: the text that the output replaces, once.
    pub place: String,
    /// The line for a shell.
    pub line: String,
    /// What was typed after the name of the prompt: `$ARGUMENTS` of the shell.
    pub argument: String,
    /// The words of it: `$1`, `$2` and so on of the shell.
    pub words: Vec<String>,
    /// True if the prompt makes no sense without the output: a command that fails or does not run then ends the run.
    pub is_required: bool,
}

impl From<Vec<Block>> for UserPrompt {
    fn from(content: Vec<Block>) -> Self {
        Self { content, commands: Vec::new() }
    }
}

/// Escapes the angle bracket of these tags in a text, whatever their case, so that the text can neither end the marks
/// around it nor begin others.
pub fn escape_tags(text: &str, tags: &[&str]) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        output.push_str(before);
        let name = after.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let is_mark = tags
            .iter()
            .any(|tag| name.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)));
        output.push_str(if is_mark { "&lt;" } else { "<" });
        rest = after;
    }
    output.push_str(rest);
    output
}

/// Wraps a text in marks that name its author.
pub fn wrap_in_tag(tag: &str, author: &str, text: &str) -> String {
    let text = escape_tags(text.trim(), &[tag]);
    format!("<{tag} author=\"{author}\">\n{text}\n</{tag}>")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_can_neither_end_nor_begin_marks() {
        for (text, expected) in [
            ("a < b", "a < b"),
            ("x </review> y", "x &lt;/review> y"),
            ("< / REVIEW>", "&lt; / REVIEW>"),
            ("<reviewer>", "&lt;reviewer>"),
            ("<<review", "<&lt;review"),
        ] {
            assert_eq!(escape_tags(text, &["review"]), expected);
        }
        let marked = wrap_in_tag("review", "the reviewer", " no </review> ");
        assert_eq!(marked, "<review author=\"the reviewer\">\nno &lt;/review>\n</review>");
    }

    fn text(text: &str) -> ReplyContent {
        ReplyContent::Text { text: text.into() }
    }

    fn call(id: &str, arguments: CallArguments) -> ReplyContent {
        ReplyContent::Call(ToolCall { id: CallId::new(id), name: "bash".into(), arguments })
    }

    #[test]
    fn a_native_item_is_dropped_as_soon_as_the_content_differs() {
        let arguments = || CallArguments::Json(json!({"command": "ls"}));
        let item = json!({"type": "x", "signature": "s"});
        for (content, changed) in [
            (text("a"), text("b")),
            (text("a"), ReplyContent::Thinking { text: "a".into() }),
            (ReplyContent::Thinking { text: "a".into() }, ReplyContent::Opaque),
            (call("1", arguments()), call("2", arguments())),
            (call("1", arguments()), call("1", CallArguments::Json(json!({"command": "rm"})))),
            (
                call("1", arguments()),
                call("1", CallArguments::Malformed("{\"command\":\"ls\"}".into())),
            ),
        ] {
            let mut block = ReplyBlock::with_native(content.clone(), item.clone());
            assert_eq!(block.native_item(), Some(&item));
            block.content = changed;
            assert_eq!(block.native_item(), None, "{block:?}");
            block.content = content;
            assert_eq!(block.native_item(), Some(&item));
        }
        assert_eq!(ReplyBlock::without_native_item(text("a")).native_item(), None);
    }

    #[test]
    fn a_native_item_survives_json() {
        let item = json!({"signature": "s", "n": 1.5, "z": null, "a": [1, {}]});
        let block = ReplyBlock::with_native(ReplyContent::Opaque, item.clone());
        let json = serde_json::to_string(&block).unwrap();
        let read: ReplyBlock = serde_json::from_str(&json).unwrap();
        assert_eq!(read.native_item(), Some(&item));
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }

    #[test]
    fn arguments_are_json_or_the_malformed_text() {
        for (text, arguments) in [
            ("", CallArguments::Json(json!({}))),
            (" \n", CallArguments::Json(json!({}))),
            ("{}", CallArguments::Json(json!({}))),
            (" {\"a\": 1} ", CallArguments::Json(json!({"a": 1}))),
            ("[1]", CallArguments::Json(json!([1]))),
            ("null", CallArguments::Json(Value::Null)),
            ("{\"a\": 1", CallArguments::Malformed("{\"a\": 1".into())),
            ("{'a': 1}", CallArguments::Malformed("{'a': 1}".into())),
        ] {
            assert_eq!(CallArguments::parse(text), arguments, "{text}");
        }
    }

    #[test]
    fn arguments_of_any_form_convert_to_an_object() {
        for (arguments, object) in [
            (CallArguments::Json(json!({"b": 1, "a": 2})), r#"{"b":1,"a":2}"#),
            (CallArguments::Json(json!([1])), r#"{"arguments":[1]}"#),
            (CallArguments::Json(Value::Null), r#"{"arguments":null}"#),
            (CallArguments::Malformed("{".into()), r#"{"malformed_arguments":"{"}"#),
        ] {
            assert_eq!(arguments.to_object().to_string(), object);
        }
    }

    #[test]
    fn calls_come_in_the_order_of_their_blocks() {
        let message = AssistantMessage {
            id: MessageId::new("m"),
            reply_id: ReplyId::new("r"),
            origin: Origin {
                dialect: "chat".into(),
                provider: "p".into(),
                base_url: "u".into(),
                model: "m".into(),
            },
            blocks: [
                call("b", CallArguments::parse("")),
                text("and"),
                ReplyContent::Opaque,
                call("a", CallArguments::parse("")),
            ]
            .map(ReplyBlock::without_native_item)
            .into(),
        };
        let ids: Vec<_> = message.calls().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["b", "a"]);
    }

    proptest! {
        #[test]
        fn any_arguments_survive_the_log(text in "\\PC{0,30}") {
            let arguments = CallArguments::parse(&text);
            let json = serde_json::to_string(&arguments).unwrap();
            prop_assert_eq!(serde_json::from_str::<CallArguments>(&json).unwrap(), arguments.clone());
            prop_assert!(arguments.to_object().is_object());
        }
    }
}
