//! Checks, per dialect, that the reasoning of earlier replies is sent back unchanged and in its place.
//!
//! A check finds the sent replies that a message may repeat: those with one of its calls, or, without calls, those
//! with the same text. Several replies can match, and it suffices if the reasoning of one of them is complete. Calls
//! that the client dropped are not missed.

use serde_json::Value;

use super::body::{field, list, text};
use super::echo::SentReply;
use super::responses::summary_text;
use crate::wire::{ChatFlavour, ScriptedBlock};

/// A block whose order must be preserved.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReasoningToken {
    Thinking { text: String, signature: String },
    Redacted(String),
    Call(String),
}

/// Checks Anthropic: thinking blocks with their signatures, in their order among the calls.
pub(super) fn check_anthropic(body: &Value, sent: &[&SentReply]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, message) in list(body, "messages").iter().enumerate() {
        if text(message, "role") != "assistant" {
            continue;
        }
        let blocks = list(message, "content");
        let present: Vec<_> = blocks.iter().filter_map(anthropic_token).collect();
        let candidates = candidates(&present, &anthropic_text(message), sent);
        let is_kept = candidates.iter().any(|reply| expected_tokens(reply, &present) == present);
        if let (false, Some(reply)) = (is_kept, candidates.first()) {
            let expected = expected_tokens(reply, &present);
            wrong.push(format!(
                "message {index} does not give the thinking blocks back as sent: expected {expected:?}, got {present:?}"
            ));
        } else if candidates.is_empty() {
            wrong.extend(forged(&present, sent).map(|detail| format!("message {index}: {detail}")));
        }
    }
    wrong
}

fn anthropic_token(block: &Value) -> Option<ReasoningToken> {
    match text(block, "type") {
        "thinking" => Some(ReasoningToken::Thinking {
            text: text(block, "thinking").to_owned(),
            signature: text(block, "signature").to_owned(),
        }),
        "redacted_thinking" => Some(ReasoningToken::Redacted(text(block, "data").to_owned())),
        "tool_use" => Some(ReasoningToken::Call(text(block, "id").to_owned())),
        _ => None,
    }
    .filter(|token| !matches!(token, ReasoningToken::Thinking { signature, .. } if signature.is_empty()))
}

fn anthropic_text(message: &Value) -> String {
    match field(message, "content") {
        Value::String(content) => content.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| text(block, "type") == "text")
            .map(|block| text(block, "text"))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Returns the replies that a message may repeat: those with one of its calls, or else those with the same text.
fn candidates<'a>(
    present: &[ReasoningToken],
    content: &str,
    sent: &[&'a SentReply],
) -> Vec<&'a SentReply> {
    let calls: Vec<_> = present.iter().filter_map(call_id).collect();
    sent.iter()
        .copied()
        .filter(|reply| {
            if calls.is_empty() {
                !content.trim().is_empty()
                    && !reply.has_calls()
                    && reply.text.trim() == content.trim()
            } else {
                calls.iter().any(|call| reply.has_call(call))
            }
        })
        .collect()
}

fn call_id(token: &ReasoningToken) -> Option<&str> {
    match token {
        ReasoningToken::Call(id) => Some(id),
        ReasoningToken::Thinking { .. } | ReasoningToken::Redacted(_) => None,
    }
}

/// Returns the tokens of a reply that a message must contain: its reasoning, and the calls that the message still has.
fn expected_tokens(reply: &SentReply, present: &[ReasoningToken]) -> Vec<ReasoningToken> {
    all_tokens(reply).filter(|token| call_id(token).is_none() || present.contains(token)).collect()
}

fn all_tokens(reply: &SentReply) -> impl Iterator<Item = ReasoningToken> + '_ {
    reply.blocks.iter().filter_map(|block| match block {
        ScriptedBlock::Text(_) => None,
        ScriptedBlock::Thinking { signature, .. } if signature.is_empty() => None,
        ScriptedBlock::Thinking { text, signature } => {
            Some(ReasoningToken::Thinking { text: text.clone(), signature: signature.clone() })
        }
        ScriptedBlock::RedactedThinking(data) => Some(ReasoningToken::Redacted(data.clone())),
        ScriptedBlock::Call { id, .. } => Some(ReasoningToken::Call(id.clone())),
    })
}

/// Returns a message for each thinking block that has a sent signature but another text.
fn forged<'a>(
    present: &'a [ReasoningToken],
    sent: &'a [&SentReply],
) -> impl Iterator<Item = String> + 'a {
    present.iter().filter_map(|token| {
        let ReasoningToken::Thinking { signature, .. } = token else { return None };
        let signed: Vec<_> = sent
            .iter()
            .flat_map(|reply| all_tokens(reply))
            .filter(|ours| matches!(ours, ReasoningToken::Thinking { signature: s, .. } if s == signature))
            .collect();
        (!signed.is_empty() && !signed.contains(token))
            .then(|| format!("the text under signature {signature:?} was changed"))
    })
}

/// Checks Responses with `store: false`: reasoning items precede their calls, with summary and content unchanged.
pub(super) fn check_responses(body: &Value, sent: &[&SentReply]) -> Vec<String> {
    if field(body, "store") != &Value::Bool(false) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let mut reasoning: Vec<(String, String)> = Vec::new();
    for (index, item) in list(body, "input").iter().enumerate() {
        match text(item, "type") {
            "reasoning" => {
                reasoning.push((text(item, "encrypted_content").to_owned(), summary_text(item)));
            }
            "function_call" => {
                let call = text(item, "call_id");
                let expected: Vec<_> = sent
                    .iter()
                    .filter(|reply| reply.has_call(call))
                    .map(|reply| reasoning_before(reply, call))
                    .collect();
                let is_kept = expected.iter().any(|expected| is_subsequence(expected, &reasoning));
                if let (false, Some(expected)) = (is_kept, expected.first()) {
                    wrong.push(format!(
                        "item {index}: the reasoning before call {call:?} is not given back as sent: expected \
                         {expected:?} (content, summary)"
                    ));
                }
            }
            _ => {}
        }
    }
    wrong
}

/// Returns the (encrypted content, summary) of the reasoning before a call.
fn reasoning_before(reply: &SentReply, call: &str) -> Vec<(String, String)> {
    reply
        .blocks
        .iter()
        .take_while(|block| !matches!(block, ScriptedBlock::Call { id, .. } if id == call))
        .filter_map(|block| match block {
            ScriptedBlock::Thinking { text, signature } if !signature.is_empty() => {
                Some((signature.clone(), text.clone()))
            }
            ScriptedBlock::RedactedThinking(data) => Some((data.clone(), String::new())),
            ScriptedBlock::Text(_)
            | ScriptedBlock::Thinking { .. }
            | ScriptedBlock::Call { .. } => None,
        })
        .collect()
}

/// Returns true if `all` contains the items of `wanted` in this order, possibly with others between them.
fn is_subsequence<T: PartialEq>(wanted: &[T], all: &[T]) -> bool {
    let mut rest = all.iter();
    wanted.iter().all(|wanted| rest.any(|item| item == wanted))
}

/// Checks Chat: `OpenRouter`'s `reasoning_details` are complete and in order; a `reasoning_content`, if present, is
/// unchanged.
pub(super) fn check_chat(body: &Value, sent: &[&SentReply]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, message) in list(body, "messages").iter().enumerate() {
        let calls: Vec<_> =
            list(message, "tool_calls").iter().map(|call| text(call, "id")).collect();
        let replies: Vec<_> =
            sent.iter().filter(|reply| calls.iter().any(|call| reply.has_call(call))).collect();
        let is_kept = replies.iter().any(|reply| is_chat_kept(reply, message));
        if !replies.is_empty() && !is_kept {
            wrong.push(format!("message {index} does not give its reasoning back as sent"));
        }
    }
    wrong
}

fn is_chat_kept(reply: &SentReply, message: &Value) -> bool {
    match reply.chat {
        ChatFlavour::OpenAi => true,
        ChatFlavour::ReasoningContent => {
            let thought: String = reply.blocks.iter().filter_map(thinking_text).collect();
            message.get("reasoning_content").is_none_or(|content| {
                content.is_null() || content.as_str() == Some(thought.as_str())
            })
        }
        ChatFlavour::OpenRouter => {
            let details = list(message, "reasoning_details");
            let collect = |name: &str| -> String {
                details.iter().map(|detail| text(detail, name)).collect()
            };
            let mut wanted = (String::new(), String::new(), String::new());
            for block in &reply.blocks {
                match block {
                    ScriptedBlock::Thinking { text, signature } => {
                        wanted.0.push_str(text);
                        wanted.1.push_str(signature);
                    }
                    ScriptedBlock::RedactedThinking(data) => wanted.2.push_str(data),
                    ScriptedBlock::Text(_) | ScriptedBlock::Call { .. } => {}
                }
            }
            wanted == (collect("text"), collect("signature"), collect("data"))
        }
    }
}

fn thinking_text(block: &ScriptedBlock) -> Option<&str> {
    match block {
        ScriptedBlock::Thinking { text, .. } => Some(text),
        ScriptedBlock::Text(_)
        | ScriptedBlock::RedactedThinking(_)
        | ScriptedBlock::Call { .. } => None,
    }
}

/// Checks Gemini: each signature is on the part that it was sent with.
pub(super) fn check_gemini(body: &Value, sent: &[&SentReply]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, content) in list(body, "contents").iter().enumerate() {
        if text(content, "role") != "model" {
            continue;
        }
        for part in list(content, "parts") {
            let Some(call) = part.get("functionCall") else { continue };
            let expected: Vec<_> = sent
                .iter()
                .flat_map(|reply| signed_calls(reply))
                .filter(|signed| signed.is(call))
                .map(|signed| signed.signature)
                .collect();
            let signature = text(part, "thoughtSignature");
            if !expected.is_empty() && !expected.contains(&signature) {
                wrong.push(format!(
                    "content {index}: the call of {:?} has the signature {signature:?}, sent was {expected:?}",
                    text(call, "name")
                ));
            }
        }
        wrong.extend(lost_text_signature(content, sent).map(|signature| {
            format!("content {index}: the signature {signature:?} of the text is missing")
        }));
    }
    wrong
}

/// A call and the signature that it was sent with.
struct SignedCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    signature: &'a str,
}

impl SignedCall<'_> {
    /// Returns true if `call` has the same id, or no id but the same name and arguments.
    fn is(&self, call: &Value) -> bool {
        let is_same_id = !self.id.is_empty() && text(call, "id") == self.id;
        let is_same_call = text(call, "id").is_empty()
            && text(call, "name") == self.name
            && serde_json::from_str::<Value>(self.arguments)
                .is_ok_and(|arguments| &arguments == field(call, "args"));
        is_same_id || is_same_call
    }
}

fn signed_calls(reply: &SentReply) -> Vec<SignedCall<'_>> {
    let (calls, _) = signatures(reply);
    calls
}

/// Returns the calls with their signatures, and the signatures sent after a text.
fn signatures(reply: &SentReply) -> (Vec<SignedCall<'_>>, Vec<&str>) {
    // A signature applies to the next text or call; `pending` is the one not yet used.
    let (mut calls, mut texts, mut pending) = (Vec::new(), Vec::new(), "");
    for block in &reply.blocks {
        match block {
            ScriptedBlock::Thinking { signature, .. } => pending = signature,
            ScriptedBlock::RedactedThinking(data) => pending = data,
            ScriptedBlock::Text(_) => texts.push(std::mem::take(&mut pending)),
            ScriptedBlock::Call { id, name, arguments } => calls.push(SignedCall {
                id,
                name,
                arguments,
                signature: std::mem::take(&mut pending),
            }),
        }
    }
    texts.push(pending);
    texts.retain(|signature| !signature.is_empty());
    (calls, texts)
}

/// Returns a missing signature of a text reply; `None` if the signatures of one matching reply are complete.
fn lost_text_signature<'a>(content: &Value, sent: &[&'a SentReply]) -> Option<&'a str> {
    let is_text = |part: &&Value| {
        field(part, "text").is_string() && field(part, "thought") != &Value::Bool(true)
    };
    let parts: Vec<_> = list(content, "parts").iter().filter(is_text).collect();
    let joined: String = parts.iter().map(|part| text(part, "text")).collect();
    let has =
        |signature: &str| parts.iter().any(|part| text(part, "thoughtSignature") == signature);
    let mut lost = None;
    for reply in sent.iter().filter(|reply| !joined.is_empty() && reply.text == joined) {
        let (_, texts) = signatures(reply);
        match texts.into_iter().find(|signature| !has(signature)) {
            Some(signature) => lost = Some(signature),
            None => return None,
        }
    }
    lost
}
