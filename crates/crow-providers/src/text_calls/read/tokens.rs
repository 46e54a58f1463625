//! Calls after the special tokens of model families, which some servers pass on as text.
//!
//! In the channels of gpt-oss (Harmony), reasoning, comments, calls and the answer are messages of one reply.

use crow_core::call::read_json_prefix;

use super::{
    envelope::{EnvelopeContext, OfferedTools, push_calls, read_arguments, skip_tokens},
    marker::after_name,
    reading::{CallFailure, PlaceContent, ReadingPart},
    scanner::line_of,
};

/// Tokens that end a reply or a list of calls.
pub(super) const END_TOKENS: [&str; 9] = [
    "<|python_end|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|end|>",
    "<|/tool_call|>",
    "<|tool_call_end|>",
    "<|im_end|>",
    "</s>",
    DEEPSEEK_END,
];
const DEEPSEEK_END: &str = "<｜end▁of▁sentence｜>";

/// Reads JSON calls after a token.
pub(super) fn read_json_token(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let Some(start) = text.find("|>").map(|end| end + 2) else { return PlaceContent::default() };
    read_json_list(text, &text[start..], tools)
}

/// Reads JSON calls at the beginning of `rest`, which is the end of `text`.
pub(super) fn read_json_list(text: &str, mut rest: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let mut parsed = PlaceContent::default();
    loop {
        let next = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | ','));
        if !next.starts_with(['{', '[']) {
            break;
        }
        let Some(json) = read_json_prefix(next).filter(|json| json.is_closed) else {
            parsed.fail(CallFailure::Incomplete);
            break;
        };
        push_calls(&json, tools, EnvelopeContext::Marked, &mut parsed);
        rest = json.rest;
    }
    if parsed.parts.is_empty() {
        parsed.fail(CallFailure::Incomplete);
    }
    parsed.length = text.len() - skip_tokens(rest, &END_TOKENS).len();
    parsed
}

/// Reads Mistral's calls: a JSON list, or names with arguments.
pub(super) fn read_mistral(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    const START: &str = "[TOOL_CALLS]";
    let mut rest = text.strip_prefix(START).expect("invariant: the mark is there").trim_start();
    if rest.starts_with(['{', '[']) {
        return read_json_list(text, rest, tools);
    }
    let mut parsed = PlaceContent::default();
    loop {
        let after = after_name(rest);
        let name = &rest[..rest.len() - after.len()];
        // `NAME[CALL_ID]id[ARGS]{…}`, with all but name and arguments optional.
        let after = after.strip_prefix("[CALL_ID]").map_or(after, after_name);
        let after = after.strip_prefix("[ARGS]").unwrap_or(after);
        if !push_named(name, after, &[START, "</s>"], tools, &mut parsed, &mut rest) {
            break;
        }
        let next = rest.trim_start();
        let next = next.strip_prefix(START).unwrap_or(next);
        let is_next = next.starts_with(|c: char| c.is_ascii_alphabetic())
            && after_name(next).starts_with(['[', '{']);
        if !is_next {
            break;
        }
        rest = next;
    }
    parsed.length = text.len() - skip_tokens(rest, &END_TOKENS).len();
    parsed
}

/// Reads `DeepSeek`'s calls: `NAME<sep>{…}`, in older versions `function<sep>NAME` and a code block.
pub(super) fn read_deepseek(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    const START: &str = "<｜tool▁call▁begin｜>";
    const END: &str = "<｜tool▁call▁end｜>";
    const LIST_START: &str = "<｜tool▁calls▁begin｜>";
    const LIST_END: &str = "<｜tool▁calls▁end｜>";
    let mut parsed = PlaceContent::default();
    let mut rest = skip_tokens(text, &[LIST_START]);
    while let Some(call) = rest.trim_start().strip_prefix(START) {
        let Some((head, after)) = call.split_once("<｜tool▁sep｜>") else {
            parsed.fail(CallFailure::Incomplete);
            break;
        };
        let (name, after) = if head.trim() == "function" {
            let line = line_of(after);
            (line.trim(), after[line.len()..].trim_start().trim_start_matches("```json"))
        } else {
            (head.trim(), after)
        };
        if !push_named(name, after, &["```", END], tools, &mut parsed, &mut rest) {
            break;
        }
        rest = skip_tokens(rest, &["```", END]);
    }
    if parsed.parts.is_empty() {
        parsed.fail(CallFailure::Incomplete);
    }
    parsed.length = text.len() - skip_tokens(rest, &[LIST_END, DEEPSEEK_END]).len();
    parsed
}

/// Reads Kimi's calls: `functions.NAME:0<argument begin>{…}`.
pub(super) fn read_kimi(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    const START: &str = "<|tool_call_begin|>";
    const END: &str = "<|tool_call_end|>";
    const LIST_START: &str = "<|tool_calls_section_begin|>";
    const LIST_END: &str = "<|tool_calls_section_end|>";
    let mut parsed = PlaceContent::default();
    let mut rest = skip_tokens(text, &[LIST_START]);
    while let Some(call) = rest.trim_start().strip_prefix(START) {
        let Some((name, after)) = call.split_once("<|tool_call_argument_begin|>") else {
            parsed.fail(CallFailure::Incomplete);
            break;
        };
        if !push_named(name.trim(), after, &[END], tools, &mut parsed, &mut rest) {
            break;
        }
        rest = skip_tokens(rest, &[END]);
    }
    if parsed.parts.is_empty() {
        parsed.fail(CallFailure::Incomplete);
    }
    parsed.length = text.len() - skip_tokens(rest, &[LIST_END, "<|im_end|>"]).len();
    parsed
}

/// Reads the arguments of a named call from `text` and moves `rest` behind them. Returns false if they are incomplete.
fn push_named<'a>(
    name: &str,
    text: &'a str,
    ends: &[&str],
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
    rest: &mut &'a str,
) -> bool {
    let Some(read) = read_arguments(text, ends) else {
        parsed.fail(CallFailure::Incomplete);
        return false;
    };
    match tools.find(name) {
        Some(_) => parsed.push_call(name, read.arguments),
        None => parsed.fail(CallFailure::UnknownTool(name.to_owned())),
    }
    parsed.note(read.repairs);
    *rest = read.rest;
    true
}

const HARMONY_MESSAGE: &str = "<|message|>";
const HARMONY_CHANNEL: &str = "<|channel|>";
const HARMONY_START: &str = "<|start|>";
/// Tokens that end a message.
const HARMONY_ENDS: [&str; 3] = ["<|end|>", "<|call|>", "<|return|>"];

/// Reads messages up to the end of the last one.
pub(super) fn read_harmony(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let mut parsed = PlaceContent::default();
    let mut rest = text;
    while rest.starts_with(HARMONY_START) || rest.starts_with(HARMONY_CHANNEL) {
        let Some((head, content)) = rest.split_once(HARMONY_MESSAGE) else {
            parsed.fail(CallFailure::Incomplete);
            break;
        };
        let is_call = recipient(head).is_some();
        let after = if let Some(name) = recipient(head) {
            let Some(read) = read_arguments(content, &HARMONY_ENDS) else {
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
            let end = HARMONY_ENDS
                .iter()
                .chain(&[HARMONY_START, HARMONY_CHANNEL])
                .filter_map(|end| content.find(end));
            let (said, after) = content.split_at(end.min().unwrap_or(content.len()));
            push_message(channel(head), said, &mut parsed);
            after
        };
        let trimmed = after.trim_start();
        let ended = HARMONY_ENDS.iter().find_map(|end| trimmed.strip_prefix(end));
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
    let name = head.split_once(HARMONY_CHANNEL).map_or("final", |(_, name)| name);
    name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(name)
}

/// Returns the tool that a message is sent to. The head is `<|channel|>commentary to=functions.NAME <|constrain|>json`,
/// or has the recipient before the channel.
fn recipient(head: &str) -> Option<&str> {
    let (_, name) = head.split_once("to=")?;
    let name = name.split(|c: char| c.is_whitespace() || c == '<').next()?;
    (name != "user" && !name.is_empty()).then_some(name)
}
