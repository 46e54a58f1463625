//! Generator of histories of all shapes, for every dialect.
//!
//! Every call has a result, as the core guarantees. Otherwise anything may occur: empty and blank texts, images,
//! parallel calls with odd and repeated ids, malformed arguments, replies of other models, messages in a row.

use std::sync::Arc;

use crow_core::{
    ids::{CallId, MessageId, ReplyId},
    message::{
        AssistantMessage, Block, CallArguments, Image, Message, Origin, ReplyBlock, ReplyContent,
        ResultMessage, ResultsMessage, ToolCall, UserMessage,
    },
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// Builders of the items that a dialect keeps verbatim, from which replies of the tested conversation are made.
#[derive(Debug, Clone)]
pub(crate) struct Natives {
    /// Origin of the tested conversation's own replies.
    pub(crate) origin: Origin,
    /// Builds the item of a block of reasoning; the argument makes blocks distinct.
    pub(crate) thinking: fn(u32) -> Value,
    /// Builds the item of a block that only the provider can read.
    pub(crate) opaque: fn(u32) -> Value,
    /// Builds the item of a call, if the dialect keeps one.
    pub(crate) call: fn(u32, &ToolCall) -> Option<Value>,
}

/// A section of a history: messages of the user, and perhaps a reply with the results of its calls.
#[derive(Debug, Clone)]
struct Stretch {
    user_messages: Vec<Vec<Block>>,
    reply: Option<Reply>,
}

#[derive(Debug, Clone)]
struct Reply {
    author: Author,
    blocks: Vec<Piece>,
    results: Vec<(Vec<Block>, bool)>,
}

/// Author of a reply.
#[derive(Debug, Clone, Copy)]
enum Author {
    /// The model of the tested conversation.
    Ours,
    /// Another model of the same provider.
    OtherModel,
    /// A model that speaks another dialect.
    OtherDialect,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Thinking(String, u32),
    /// Reasoning without a verbatim item.
    PlainThinking(String),
    Opaque(u32),
    Call {
        id: String,
        name: String,
        arguments: CallArguments,
        mark: u32,
    },
}

/// Generates a history. Each of its messages has its own id.
pub(crate) fn histories(natives: Natives) -> impl Strategy<Value = Vec<Arc<Message>>> {
    let stretches = vec(stretch(), 1..6);
    stretches.prop_map(move |stretches| {
        let mut messages = Vec::new();
        for stretch in stretches {
            push_stretch(stretch, &natives, &mut messages);
        }
        messages
    })
}

/// Returns the lengths of the history at which a request may be sent: after a user message and after results.
pub(crate) fn request_points(messages: &[Arc<Message>]) -> impl Iterator<Item = usize> {
    let is_point = |message: &Arc<Message>| match message.as_ref() {
        Message::User(_) | Message::Results(_) => true,
        Message::Assistant(_) => false,
    };
    messages.iter().enumerate().filter(move |(_, message)| is_point(message)).map(|(at, _)| at + 1)
}

fn stretch() -> impl Strategy<Value = Stretch> {
    (vec(vec(block(), 0..3), 1..4), proptest::option::weighted(0.9, reply()))
        .prop_map(|(user_messages, reply)| Stretch { user_messages, reply })
}

fn reply() -> impl Strategy<Value = Reply> {
    let author = prop_oneof![
        3 => Just(Author::Ours),
        1 => Just(Author::OtherModel),
        1 => Just(Author::OtherDialect),
    ];
    let results = vec((vec(block(), 0..3), any::<bool>()), 6);
    (author, vec(piece(), 0..6), results).prop_map(|(author, blocks, results)| Reply {
        author,
        blocks,
        results,
    })
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        2 => text().prop_map(Piece::Text),
        1 => (text(), any::<u32>()).prop_map(|(text, mark)| Piece::Thinking(text, mark)),
        1 => text().prop_map(Piece::PlainThinking),
        1 => any::<u32>().prop_map(Piece::Opaque),
        3 => (call_id(), tool_name(), arguments(), any::<u32>())
            .prop_map(|(id, name, arguments, mark)| Piece::Call { id, name, arguments, mark }),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => text().prop_map(Block::text),
        1 => Just(Block::Image(Image {
            media_type: "image/png".to_owned(),
            data: "iVBORw0KGgo=".to_owned(),
        })),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n\t".to_owned()),
        "[a-z ]{1,20}",
        "\\PC{0,12}",
        Just("\u{2028}\"\\/\u{0}\u{1f}{}[],</s>".to_owned()),
    ]
}

/// Generates only a few plain ids, so that they repeat.
fn call_id() -> impl Strategy<Value = String> {
    prop_oneof![3 => "call_[ab]", 1 => "toolu_[a-z0-9]{4}", 1 => "fc\\|[a-c]/ü\\.", 1 => "[a-z]{70}"]
}

fn tool_name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("read_file".to_owned()),
        1 => Just("functions.read file!".to_owned()),
        1 => Just(String::new()),
        1 => "[a-zé:/ ]{1,140}",
    ]
}

fn arguments() -> impl Strategy<Value = CallArguments> {
    prop_oneof![
        text().prop_map(|path| CallArguments::Json(json!({"path": path}))),
        Just(CallArguments::Json(json!({}))),
        Just(CallArguments::Json(json!({"n": [1, 2.5, null, {"deep": "ä"}]}))),
        Just(CallArguments::Json(json!(["no", "object"]))),
        Just(CallArguments::Json(Value::Null)),
        Just(CallArguments::Malformed("{\"path\": \"cut".to_owned())),
    ]
}

fn push_stretch(stretch: Stretch, natives: &Natives, messages: &mut Vec<Arc<Message>>) {
    for content in stretch.user_messages {
        let id = MessageId::new(format!("message-{}", messages.len()));
        messages.push(Arc::new(Message::User(UserMessage { id, content })));
    }
    let Some(reply) = stretch.reply else { return };
    let origin = origin(reply.author, natives);
    let reply_id = ReplyId::new(format!("message-{}", messages.len()));
    let mut blocks = Vec::new();
    let mut calls: Vec<ToolCall> = Vec::new();
    for piece in reply.blocks {
        let block = reply_block(piece, &calls, natives);
        if let ReplyContent::Call(call) = &block.content {
            calls.push(call.clone());
        }
        blocks.push(block);
    }
    let id = MessageId::new(reply_id.as_str());
    messages.push(Arc::new(Message::Assistant(AssistantMessage { id, reply_id, origin, blocks })));
    if calls.is_empty() {
        return;
    }
    let results = calls.into_iter().zip(reply.results).map(|(call, (content, is_error))| {
        ResultMessage { call_id: call.id, tool: call.name, content, is_error }
    });
    let id = MessageId::new(format!("message-{}", messages.len()));
    let results = results.collect();
    messages.push(Arc::new(Message::Results(ResultsMessage { id, results })));
}

/// Builds a block of a reply. Items of other origins look like ours, so that only the origin distinguishes them.
fn reply_block(piece: Piece, calls: &[ToolCall], natives: &Natives) -> ReplyBlock {
    match piece {
        Piece::Text(text) => ReplyBlock::without_native_item(ReplyContent::Text { text }),
        Piece::PlainThinking(text) => {
            ReplyBlock::without_native_item(ReplyContent::Thinking { text })
        }
        Piece::Thinking(text, mark) => {
            ReplyBlock::with_native(ReplyContent::Thinking { text }, (natives.thinking)(mark))
        }
        Piece::Opaque(mark) => {
            ReplyBlock::with_native(ReplyContent::Opaque, (natives.opaque)(mark))
        }
        Piece::Call { mut id, name, arguments, mark } => {
            // Ids are unique within a reply.
            while calls.iter().any(|call| call.id.as_str() == id) {
                id.push('_');
            }
            let call = ToolCall { id: CallId::new(id), name, arguments };
            let native = (natives.call)(mark, &call);
            let content = ReplyContent::Call(call);
            match native {
                Some(item) => ReplyBlock::with_native(content, item),
                None => ReplyBlock::without_native_item(content),
            }
        }
    }
}

fn origin(author: Author, natives: &Natives) -> Origin {
    let ours = natives.origin.clone();
    match author {
        Author::Ours => ours,
        Author::OtherModel => Origin { model: "another-model".to_owned(), ..ours },
        Author::OtherDialect => Origin { dialect: "another-dialect".to_owned(), ..ours },
    }
}
