//! Calls in angle brackets: `<tool_call>` and its like around JSON, elements or GLM's pairs, and elements alone.
//!
//! The elements are those of Qwen (`<function=NAME><parameter=KEY>…`), Anthropic, `MiniMax` and `DeepSeek`
//! (`<invoke name="NAME"><parameter name="KEY">…`), with any namespace.

use crow_core::{call::read_json_prefix, message::CallArguments, model::ToolDefinition};
use serde_json::{Map, Value};

use super::{
    envelope::{
        EnvelopeContext, OfferedTools, broken_call, push_calls, raw_argument, read_arguments,
    },
    marker::{Marker, after_name, call_tag, find_wrapper_end, read_tag, wrapper_end},
    reading::{CallFailure, PlaceContent},
    scanner::line_of,
};

/// Reads a wrapper with everything in it, other wrappers included.
pub(super) fn read_wrapper(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let Ok((Marker::Wrapper, tag)) = call_tag(text) else { return PlaceContent::default() };
    let mut parsed = PlaceContent::default();
    let mut rest = &tag.rest[1..];
    let mut open_wrappers = 1;
    // The end of the last call that was read, with the end tags after it.
    let mut read_end = 0;
    while open_wrappers > 0 {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
        // 1) Tags of wrappers, and the end of the text: without an end tag, complete calls count all the same.
        if let Some(length) = wrapper_end(rest) {
            rest = &rest[length..];
            open_wrappers -= 1;
        } else if let Ok((Marker::Wrapper, inner)) = call_tag(rest) {
            rest = &inner.rest[1..];
            open_wrappers += 1;
            continue;
        } else if rest.is_empty() {
            if parsed.parts.is_empty() {
                parsed.fail(CallFailure::Incomplete);
            }
            break;
        } else {
            // 2) A call, or what should be one.
            match read_item(rest, tag.name, tools, &mut parsed) {
                Ok(after) => {
                    debug_assert!(after.len() < rest.len(), "invariant: an item has a length");
                    rest = after;
                }
                Err(failure) => {
                    let after = unreadable_end(rest);
                    // Words after a call are no failure.
                    if failure != CallFailure::Unreadable || parsed.parts.is_empty() {
                        let is_closed = after.is_some();
                        parsed.fail(if is_closed { failure } else { CallFailure::Incomplete });
                    }
                    rest = after.unwrap_or("");
                    if after.is_none() && read_end > 0 {
                        parsed.length = read_end;
                        return parsed;
                    }
                    break;
                }
            }
        }
        if !parsed.parts.is_empty() {
            read_end = text.len() - rest.len();
        }
    }
    parsed.length = text.len() - rest.len();
    parsed
}

/// Returns the text after the end tag to which something unreadable reaches, unless another call begins before it.
fn unreadable_end(text: &str) -> Option<&str> {
    let (start, end) = find_wrapper_end(text)?;
    let is_other = |(at, _): (usize, &str)| call_tag(&text[at..]).is_ok();
    (!text[..start].match_indices('<').any(is_other)).then_some(&text[end..])
}

/// Reads one item inside a wrapper. Returns the text after it.
fn read_item<'a>(
    text: &'a str,
    wrapper: &str,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) -> Result<&'a str, CallFailure> {
    if text.starts_with(['{', '[']) {
        return read_json_item(text, tools, parsed);
    }
    if text.starts_with("```") {
        return Ok(&text[line_of(text).len()..]);
    }
    // A superfluous closing bracket after JSON.
    if text.starts_with(['}', ']']) && !parsed.parts.is_empty() {
        return Ok(&text[1..]);
    }
    match call_tag(text) {
        Ok((Marker::Element, _)) => read_element_into(text, tools, parsed),
        Ok(_) | Err(_) if wrapper == "tool_call" => read_pairs(text, tools, parsed),
        Ok(_) | Err(_) => Err(CallFailure::Unreadable),
    }
}

/// Reads a JSON item. One that is not JSON reaches to the end tag: missing brackets are added there, and otherwise the
/// arguments are malformed.
fn read_json_item<'a>(
    text: &'a str,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) -> Result<&'a str, CallFailure> {
    if let Some(json) = read_json_prefix(text).filter(|json| json.is_closed) {
        push_calls(&json, tools, EnvelopeContext::Marked, parsed);
        return Ok(json.rest);
    }
    let (end, _) = find_wrapper_end(text).ok_or(CallFailure::Incomplete)?;
    let (item, rest) = text.split_at(end);
    if let Some(json) = read_json_prefix(item).filter(|json| json.rest.trim().is_empty()) {
        push_calls(&json, tools, EnvelopeContext::Marked, parsed);
        return Ok(rest);
    }
    let (name, arguments) = broken_call(item).ok_or(CallFailure::Unreadable)?;
    if tools.find(name).is_none() {
        return Err(CallFailure::UnknownTool(name.to_owned()));
    }
    parsed.push_call(name, CallArguments::Malformed(arguments.to_owned()));
    Ok(rest)
}

/// Reads an element that stands alone.
pub(super) fn read_element(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let mut parsed = PlaceContent::default();
    match read_element_into(text, tools, &mut parsed) {
        Ok(rest) => parsed.length = text.len() - rest.len(),
        Err(failure) => {
            parsed.fail(failure);
            parsed.length = text.len();
        }
    }
    // Qwen sometimes leaves out the opening tag of the wrapper, not the closing one.
    let rest = text[parsed.length..].trim_start();
    if !parsed.parts.is_empty()
        && let Some(length) = wrapper_end(rest)
    {
        parsed.length = text.len() - rest.len() + length;
    }
    parsed
}

/// Reads an element and its parameters. Returns the text after it. An unknown tool is noted in `parsed`.
fn read_element_into<'a>(
    text: &'a str,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) -> Result<&'a str, CallFailure> {
    let (name, mut rest) = element_head(text).ok_or(CallFailure::Incomplete)?;
    let tool = tools.find(name);
    let mut arguments = Map::new();
    // 1) Llama writes JSON inside of the element.
    if rest.trim_start().starts_with('{') {
        let json = read_arguments(rest, &["</function", "</invoke"]);
        let json = json.ok_or(CallFailure::Incomplete)?;
        parsed.note(json.repairs);
        let rest = element_end(json.rest).unwrap_or(json.rest);
        match tool {
            Some(_) => parsed.push_call(name, json.arguments),
            None => parsed.fail(CallFailure::UnknownTool(name.to_owned())),
        }
        return Ok(rest);
    }
    // 2) All others write an element for each parameter.
    loop {
        let trimmed = rest.trim_start();
        if let Some(after) = element_end(trimmed) {
            rest = after;
            break;
        }
        // A missing end tag of the element is accepted only where the wrapper ends.
        if wrapper_end(trimmed).is_some() && !arguments.is_empty() {
            rest = trimmed;
            break;
        }
        let (key, value, after) = read_parameter(trimmed).ok_or(CallFailure::Incomplete)?;
        let value = match tool {
            Some(tool) => raw_argument(tool, key, value),
            None => Value::Null,
        };
        arguments.insert(key.to_owned(), value);
        rest = after;
    }
    match tool {
        Some(_) => parsed.push_call(name, CallArguments::Json(Value::Object(arguments))),
        None => parsed.fail(CallFailure::UnknownTool(name.to_owned())),
    }
    Ok(rest)
}

/// Reads the opening tag of an element. Returns the name and the text after the tag.
fn element_head(text: &str) -> Option<(&str, &str)> {
    let (Marker::Element, tag) = call_tag(text).ok()? else { return None };
    named_head(tag.rest)
}

/// Reads `=NAME>` or ` name="NAME" …>`. Returns the name and the text after the tag.
fn named_head(rest: &str) -> Option<(&str, &str)> {
    let (head, after) = rest.split_once('>')?;
    let name = match head.strip_prefix('=') {
        Some(name) => name.trim().trim_matches('"'),
        None => head.trim_start().strip_prefix("name=\"")?.split('"').next()?,
    };
    (!name.is_empty()).then_some((name, after))
}

/// Reads a parameter. Returns its key, its value and the text after it.
///
/// The value is not escaped and may contain the end tag itself, so it reaches to the first end tag that something
/// follows which can follow a parameter.
fn read_parameter(text: &str) -> Option<(&str, &str, &str)> {
    let tag = read_tag(text, "<").ok().filter(|tag| tag.name == "parameter")?;
    let (key, body) = named_head(tag.rest)?;
    let is_qwen = tag.rest.starts_with('=');
    let (end, after) = body.match_indices("</").find_map(|(start, _)| {
        let end = read_tag(&body[start..], "</").ok().filter(|end| end.name == "parameter")?;
        let after = end.rest.strip_prefix('>')?;
        can_follow_parameter(after.trim_start()).then_some((start, after))
    })?;
    let mut value = &body[..end];
    if is_qwen {
        // The template of Qwen puts the value on lines of its own.
        value = value.strip_prefix('\n').unwrap_or(value);
        value = value.strip_suffix('\n').unwrap_or(value);
    }
    Some((key, value, after))
}

fn can_follow_parameter(text: &str) -> bool {
    let opens = read_tag(text, "<").is_ok_and(|tag| tag.name == "parameter");
    opens || element_end(text).is_some() || wrapper_end(text).is_some()
}

/// Returns the text after the end tag of an element.
fn element_end(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let tag = read_tag(text, "</").ok()?;
    matches!(tag.name, "function" | "invoke").then_some(tag.rest)?.strip_prefix('>')
}

/// Reads GLM's form up to the end tag of its wrapper: the name, then pairs of `<arg_key>` and `<arg_value>`.
fn read_pairs<'a>(
    text: &'a str,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) -> Result<&'a str, CallFailure> {
    let mut rest = after_name(text);
    let name = &text[..text.len() - rest.len()];
    let follows = rest.trim_start();
    if name.is_empty() || !(follows.starts_with("<arg_key>") || wrapper_end(follows).is_some()) {
        return Err(CallFailure::Unreadable);
    }
    let tool: Option<&ToolDefinition> = tools.find(name);
    let mut arguments = Map::new();
    while let Some(key) = rest.trim_start().strip_prefix("<arg_key>") {
        let pair = key.split_once("</arg_key>").and_then(|(key, after)| {
            let value = after.trim_start().strip_prefix("<arg_value>")?;
            let (value, after) = value.split_once("</arg_value>")?;
            Some((key.trim(), value, after))
        });
        let (key, value, after) = pair.ok_or(CallFailure::Incomplete)?;
        let value = tool.map_or(Value::Null, |tool| raw_argument(tool, key, value));
        arguments.insert(key.to_owned(), value);
        rest = after;
    }
    // Without the end tag more pairs may be missing.
    if wrapper_end(rest.trim_start()).is_none() {
        return Err(CallFailure::Incomplete);
    }
    match tool {
        Some(_) => parsed.push_call(name, CallArguments::Json(Value::Object(arguments))),
        None => parsed.fail(CallFailure::UnknownTool(name.to_owned())),
    }
    Ok(rest)
}
