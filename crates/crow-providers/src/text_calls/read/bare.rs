//! Calls without any marks: JSON alone, or in code blocks.
//!
//! They count only where nothing can follow: to the end of the reply. Elsewhere they may be an example.

use crow_core::{call::read_json_prefix, model::ToolCallFormat};

use super::{
    envelope::{EnvelopeContext, OfferedTools, broken_call, push_calls},
    reading::{CallFailure, PlaceContent, ReadingPart, read_text_calls},
    scanner::line_of,
};

/// Reads JSON calls, one after the other, up to the end of the text.
pub(super) fn read_bare(
    text: &str,
    tools: OfferedTools<'_>,
    format: ToolCallFormat,
) -> PlaceContent {
    let mut parsed = read_json(text, tools);
    settle(text, &mut parsed, format);
    parsed
}

/// Reads code blocks with calls, one after the other, up to the end of the text.
pub(super) fn read_fenced(
    text: &str,
    tools: OfferedTools<'_>,
    format: ToolCallFormat,
) -> PlaceContent {
    let mut parsed = PlaceContent::default();
    let mut rest = text;
    loop {
        let next = rest.trim_start();
        let mark = next.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let Some(mark) = mark else { break };
        let run = next.chars().take_while(|c| *c == mark).count();
        if run < 3 {
            break;
        }
        let body = &next[line_of(next).len()..];
        let (body, after) = split_block(body, mark, run);
        let block = read_block(body, tools);
        if block.is_text() {
            break;
        }
        parsed.parts.extend(block.parts);
        parsed.note(block.repairs);
        if let Some(failure) = block.failure {
            parsed.fail(failure);
        }
        rest = after;
    }
    parsed.length = text.len() - rest.len();
    settle(text, &mut parsed, format);
    parsed
}

/// Discards calls that other text follows. Where the model can call in no other way, it must learn that they were not
/// run.
fn settle(text: &str, parsed: &mut PlaceContent, format: ToolCallFormat) {
    let is_end = text[parsed.length..].trim().is_empty();
    if is_end {
        return;
    }
    let has_calls = !parsed.parts.is_empty();
    parsed.parts.clear();
    parsed.failure = (has_calls && format == ToolCallFormat::Text).then_some(CallFailure::AmidText);
}

/// Returns the content of a block and the text after it. A block without an end reaches to the end of the text.
fn split_block(text: &str, mark: char, run: usize) -> (&str, &str) {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim();
        let is_end = content.chars().count() >= run && content.chars().all(|c| c == mark);
        if is_end {
            return (&text[..end], &text[end + line.len()..]);
        }
        end += line.len();
    }
    (text, "")
}

/// Reads the content of a code block: JSON, or a call with marks that fills the block.
fn read_block(body: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let body = body.trim();
    if !body.starts_with('<') && !body.starts_with("[TOOL_CALLS]") {
        let parsed = read_json(body, tools);
        let is_whole = body[parsed.length..].trim().is_empty();
        return if is_whole { parsed } else { PlaceContent::default() };
    }
    let inner = read_text_calls(body, tools, ToolCallFormat::Native, &|_| false);
    let is_filled = inner.parts.iter().all(|part| matches!(part, ReadingPart::Call(_)));
    let is_failed = inner.failure.is_some();
    let parts = if is_filled { inner.parts } else { Vec::new() };
    if is_filled || is_failed {
        PlaceContent { parts, length: body.len(), repairs: inner.repairs, failure: inner.failure }
    } else {
        PlaceContent::default()
    }
}

fn read_json(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let mut parsed = PlaceContent::default();
    let mut rest = text;
    loop {
        let next = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | ','));
        if !next.starts_with(['{', '[']) {
            break;
        }
        let Some(json) = read_json_prefix(next).filter(|json| json.is_closed) else {
            if broken_call(next).is_some_and(|(name, _)| tools.exact(name).is_some()) {
                parsed.fail(CallFailure::Incomplete);
                rest = "";
            }
            break;
        };
        let before = (parsed.parts.len(), parsed.failure.is_some());
        push_calls(&json, tools, EnvelopeContext::Unmarked, &mut parsed);
        if before == (parsed.parts.len(), parsed.failure.is_some()) {
            // Data: nothing of it is a call.
            return PlaceContent::default();
        }
        rest = json.rest;
    }
    parsed.length = text.len() - rest.len();
    parsed
}
