//! Calls without any marks: JSON or Python alone, or in code blocks.
//!
//! They count only where nothing can follow: to the end of the reply. Elsewhere they may be an example.

use crow_core::{call::read_json_prefix, model::ToolCallFormat};

use super::{
    envelope::{EnvelopeContext, OfferedTools, broken_call, push_calls},
    marker::{Plausibility, judge_python},
    python::{PythonContext, context_of_language, read_python_block, read_python_list},
    reading::{CallFailure, PlaceContent, RESULT_MARKS, ReadingPart, read_text_calls},
    scanner::{is_fence_end, language_of, line_of},
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

/// Reads a list of calls in Python up to the end of the text.
pub(super) fn read_bare_python(
    text: &str,
    tools: OfferedTools<'_>,
    format: ToolCallFormat,
) -> PlaceContent {
    let mut parsed = read_python_list(text, tools);
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
        let line = line_of(next);
        let (block, after) = read_block(line, &next[line.len()..], &next[..run], tools);
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
    let rest = text[parsed.length..].trim_start();
    // What the model invents as the result is cut off.
    let is_end = rest.is_empty() || RESULT_MARKS.iter().any(|mark| rest.starts_with(mark));
    if is_end {
        return;
    }
    let has_calls = !parsed.parts.is_empty();
    parsed.parts.clear();
    parsed.failure =
        (has_calls && format != ToolCallFormat::Native).then_some(CallFailure::AmidText);
}

/// Reads the code block that begins with a line and goes on with a text. Returns its calls and the text after it.
fn read_block<'a>(
    line: &str,
    text: &'a str,
    fence: &str,
    tools: OfferedTools<'_>,
) -> (PlaceContent, &'a str) {
    if let Some(context) = context_of_language(language_of(line))
        && (context == PythonContext::Marked
            || judge_python(text.trim_start()) != Plausibility::Text)
        && !is_json_or_markup(text)
    {
        let block = read_python_block(text, fence, tools, context);
        let after = &text[block.length..];
        return (block, after);
    }
    let (body, after) = split_block(text, fence);
    (read_json_block(body, tools), after)
}

/// Returns true if a text begins like JSON or markup, which no call in Python does.
fn is_json_or_markup(text: &str) -> bool {
    let text = text.trim_start();
    let inner = text.strip_prefix('[').map_or(text, str::trim_start);
    inner.starts_with('{') || text.starts_with('<')
}

/// Returns the content of a block and the text after it. A block without an end reaches to the end of the text.
fn split_block<'a>(text: &'a str, fence: &str) -> (&'a str, &'a str) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if is_fence_end(line, fence) {
            return (&text[..start], &text[start + line.len()..]);
        }
        start += line.len();
    }
    (text, "")
}

/// Reads the content of a code block: JSON, or a call with marks that fills the block.
fn read_json_block(body: &str, tools: OfferedTools<'_>) -> PlaceContent {
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
        PlaceContent {
            parts,
            length: body.len(),
            repairs: inner.repairs,
            failure: inner.failure,
            is_open: false,
        }
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
