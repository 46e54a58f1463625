//! The channels of gpt-oss (Harmony): reasoning, comments, calls and the answer are messages of one reply.

use super::{
    arguments::read_arguments,
    offered::OfferedTools,
    place_content::{CallFailure, PlaceContent, ReadingPart},
};

const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";
/// Tokens that end a message.
const ENDS: [&str; 3] = ["<|end|>", "<|call|>", "<|return|>"];

/// Reads messages up to the end of the last one.
pub(super) fn read_harmony(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let mut parsed = PlaceContent::default();
    let mut rest = text;
    while rest.starts_with(START) || rest.starts_with(CHANNEL) {
        let Some((head, content)) = rest.split_once(MESSAGE) else {
            parsed.fail(CallFailure::Incomplete);
            break;
        };
        let is_call = recipient(head).is_some();
        let after = if let Some(name) = recipient(head) {
            let Some(read) = read_arguments(content, &ENDS) else {
                parsed.fail(CallFailure::Incomplete);
                break;
            };
            match tools.find(name) {
                Some(_) => parsed.push_call(name, read.arguments),
                None => parsed.fail(CallFailure::UnknownTool(name.to_owned())),
            }
            parsed.note(read.repairs);
            read.rest
        } else {
            let end = ENDS.iter().chain(&[START, CHANNEL]).filter_map(|end| content.find(end));
            let (said, after) = content.split_at(end.min().unwrap_or(content.len()));
            push_message(channel(head), said, &mut parsed);
            after
        };
        let trimmed = after.trim_start();
        let ended = ENDS.iter().find_map(|end| trimmed.strip_prefix(end));
        rest = ended.map_or(if is_call { trimmed } else { after }, str::trim_start);
    }
    parsed.length = text.len() - rest.len();
    parsed
}

fn push_message(channel: &str, said: &str, parsed: &mut PlaceContent) {
    let said = said.trim();
    if said.is_empty() {
        return;
    }
    match channel {
        "analysis" => parsed.parts.push(ReadingPart::Thinking(said.to_owned())),
        _ => parsed.parts.push(ReadingPart::Text(said.to_owned())),
    }
}

/// Returns the channel that the head of a message names.
fn channel(head: &str) -> &str {
    let name = head.split_once(CHANNEL).map_or("final", |(_, name)| name);
    name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(name)
}

/// Returns the tool that a message is sent to. The head is `<|channel|>commentary to=functions.NAME <|constrain|>json`,
/// or has the recipient before the channel.
fn recipient(head: &str) -> Option<&str> {
    let (_, name) = head.split_once("to=")?;
    let name = name.split(|c: char| c.is_whitespace() || c == '<').next()?;
    (name != "user" && !name.is_empty()).then_some(name)
}
