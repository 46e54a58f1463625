//! Calls in the form of Python: `[read_file(path="a"), list()]` of Llama 3.2 and 4, `name.call(x=1)` after Llama's
//! tokens, and blocks of `tool_code` as Gemini and Gemma write them.
//!
//! Arguments are literals; nothing is computed. What is not a call with literals is no call.

use crow_core::{message::CallArguments, model::ToolDefinition};
use serde_json::{Map, Value};

use super::{
    envelope::{OfferedTools, skip_tokens},
    marker::after_name,
    python_literal::{LiteralError, PythonCursor},
    reading::{CallFailure, PlaceContent},
    scanner::{is_fence_end, line_of},
    tokens::{END_TOKENS, read_json_list},
};

/// The language of code blocks that contain calls and nothing else.
pub(super) const TOOL_CODE: &str = "tool_code";
/// Languages of ordinary code blocks that may be a call.
const PYTHON: [&str; 4] = ["", "python", "py", "python3"];
/// The module that Gemini finds its tools in.
const MODULE: &str = "default_api.";
/// The method of a tool in calls of Llama 3.1.
const METHOD: &str = ".call";
/// Note on arguments without names.
const POSITIONAL: &str = "arguments without names were taken in the order of the schema";

/// How sure it is that Python is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PythonContext {
    /// A token or the language of the block says so.
    Marked,
    /// Nothing but the call says so: only exact names of tools and named arguments count.
    Unmarked,
}

/// A call with its arguments.
#[derive(Debug)]
struct PythonCall<'a> {
    name: &'a str,
    positional: Vec<Value>,
    named: Map<String, Value>,
    /// True in a list of calls, which nothing else in Python looks like.
    is_listed: bool,
}

/// Returns the context in which the block of a language may contain calls in Python, if it may.
pub(super) fn context_of_language(language: &str) -> Option<PythonContext> {
    match language {
        TOOL_CODE => Some(PythonContext::Marked),
        _ => PYTHON.contains(&language).then_some(PythonContext::Unmarked),
    }
}

/// Reads a list of calls without marks.
pub(super) fn read_python_list(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let mut cursor = PythonCursor::new(text);
    let mut parsed = PlaceContent::default();
    match read_list(&mut cursor) {
        Ok(calls) => {
            if let Some(failure) = push_calls(&calls, tools, PythonContext::Unmarked, &mut parsed) {
                // Data, unless some of it is a call.
                let has_calls = parsed.has_calls();
                parsed = PlaceContent::default();
                if has_calls {
                    parsed.fail(failure);
                }
            }
            parsed.note(cursor.repairs());
            parsed.length = cursor.position();
        }
        Err(error) => push_half_call(error, text, tools, &mut parsed),
    }
    parsed
}

/// Reads calls after one of Llama's tokens: in Python, or as JSON.
pub(super) fn read_python_token(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let Some(start) = text.find("|>").map(|end| end + 2) else { return PlaceContent::default() };
    let rest = &text[start..];
    let is_python =
        rest.trim_start().trim_start_matches('[').trim_start().starts_with(is_name_start);
    if !is_python {
        return read_json_list(text, rest, tools);
    }
    let mut cursor = PythonCursor::new(rest);
    let mut parsed = PlaceContent::default();
    loop {
        let end = cursor.position();
        cursor.skip_separators();
        let start = cursor.position();
        match read_statement(&mut cursor) {
            Ok(calls) => {
                if let Some(failure) = push_calls(&calls, tools, PythonContext::Marked, &mut parsed)
                {
                    parsed.fail(failure);
                }
            }
            Err(error) => {
                cursor.return_to(start);
                let is_call = cursor.name().is_ok() && cursor.rest().starts_with('(');
                // Otherwise it is text after the calls.
                if is_call || parsed.is_text() {
                    parsed.fail(failure_of(error));
                }
                cursor.return_to(end);
                break;
            }
        }
    }
    parsed.note(cursor.repairs());
    parsed.length = text.len() - skip_tokens(cursor.rest(), &END_TOKENS).len();
    parsed
}

/// Reads the statements of a code block up to the line that ends it, or the end of the text. Returns the number of bytes
/// up to there. The result is text if it is an ordinary block with anything but calls.
pub(super) fn read_python_block(
    body: &str,
    fence: &str,
    tools: OfferedTools<'_>,
    context: PythonContext,
) -> PlaceContent {
    let mut cursor = PythonCursor::new(body);
    let mut parsed = PlaceContent::default();
    loop {
        cursor.skip_separators();
        let line = line_of(cursor.rest());
        if is_fence_end(line, fence) {
            cursor.skip(line.len());
            break;
        }
        if cursor.rest().is_empty() {
            // A block without an end counts, an empty one is half a call.
            if parsed.is_text() && context == PythonContext::Marked {
                parsed.fail(CallFailure::Incomplete);
            }
            break;
        }
        match (read_statement(&mut cursor), context) {
            (Ok(calls), _) => match (push_calls(&calls, tools, context, &mut parsed), context) {
                (Some(_), PythonContext::Unmarked) => return PlaceContent::default(),
                (Some(failure), PythonContext::Marked) => parsed.fail(failure),
                (None, _) => {}
            },
            (Err(error), PythonContext::Marked) => {
                parsed.fail(failure_of(error));
                cursor.skip(block_length(cursor.rest(), fence));
                break;
            }
            (Err(error), PythonContext::Unmarked) => {
                let mut half = PlaceContent::default();
                push_half_call(error, body, tools, &mut half);
                return half;
            }
        }
    }
    parsed.note(cursor.repairs());
    parsed.length = cursor.position();
    parsed
}

/// Reads a call, a list of calls, one whose result is assigned or printed. Printing a variable is no call.
fn read_statement<'a>(cursor: &mut PythonCursor<'a>) -> Result<Vec<PythonCall<'a>>, LiteralError> {
    if cursor.rest().starts_with('[') {
        return read_list(cursor);
    }
    let start = cursor.position();
    cursor.name()?;
    cursor.skip_blanks();
    if cursor.rest().starts_with('=') && !cursor.rest().starts_with("==") {
        cursor.skip(1);
        cursor.skip_blanks();
    } else {
        cursor.return_to(start);
    }
    let start = cursor.position();
    if cursor.name()? == "print" && cursor.take('(').is_ok() {
        cursor.skip_space();
        if cursor.rest().starts_with(is_name_start) {
            let inner = cursor.position();
            cursor.name()?;
            if cursor.take(')').is_ok() {
                return Ok(Vec::new());
            }
            if cursor.rest().starts_with('(') {
                cursor.return_to(inner);
                let call = read_call(cursor)?;
                cursor.skip_space();
                cursor.take(')')?;
                return Ok(vec![call]);
            }
        }
    }
    cursor.return_to(start);
    Ok(vec![read_call(cursor)?])
}

fn read_list<'a>(cursor: &mut PythonCursor<'a>) -> Result<Vec<PythonCall<'a>>, LiteralError> {
    cursor.take('[')?;
    let mut calls = Vec::new();
    loop {
        cursor.skip_space();
        if !calls.is_empty() && cursor.take(']').is_ok() {
            return Ok(calls);
        }
        calls.push(PythonCall { is_listed: true, ..read_call(cursor)? });
        cursor.skip_space();
        if cursor.take(',').is_err() {
            cursor.take(']')?;
            return Ok(calls);
        }
    }
}

fn read_call<'a>(cursor: &mut PythonCursor<'a>) -> Result<PythonCall<'a>, LiteralError> {
    let name = cursor.name()?;
    let mut call = PythonCall { name, positional: Vec::new(), named: Map::new(), is_listed: false };
    cursor.skip_blanks();
    cursor.take('(')?;
    loop {
        cursor.skip_space();
        if cursor.take(')').is_ok() {
            return Ok(call);
        }
        match cursor.argument_name() {
            Some(name) => {
                let value = cursor.value()?;
                if call.named.insert(name.to_owned(), value).is_some() {
                    return Err(LiteralError::Other);
                }
            }
            None if call.named.is_empty() => call.positional.push(cursor.value()?),
            None => return Err(cursor.error()),
        }
        cursor.skip_space();
        if cursor.take(',').is_err() {
            cursor.take(')')?;
            return Ok(call);
        }
    }
}

/// Adds calls. Returns why the first one that is not added is none.
fn push_calls(
    calls: &[PythonCall<'_>],
    tools: OfferedTools<'_>,
    context: PythonContext,
    parsed: &mut PlaceContent,
) -> Option<CallFailure> {
    let mut failure = None;
    for call in calls {
        let added = match context {
            PythonContext::Marked => push_marked(call, tools, parsed),
            PythonContext::Unmarked => push_unmarked(call, tools, parsed),
        };
        failure = failure.or(added.err());
    }
    failure
}

fn push_marked(
    call: &PythonCall<'_>,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) -> Result<(), CallFailure> {
    let name = call.name.strip_prefix(MODULE).unwrap_or(call.name);
    let names = [Some(name), name.strip_suffix(METHOD)];
    let found = names.into_iter().flatten().find_map(|name| Some((name, tools.find(name)?)));
    let (name, tool) = found.ok_or_else(|| CallFailure::UnknownTool(name.to_owned()))?;
    let arguments = arguments(call, tool).ok_or(CallFailure::Unreadable)?;
    if !call.positional.is_empty() {
        parsed.note(vec![POSITIONAL.to_owned()]);
    }
    parsed.push_call(name, CallArguments::Json(arguments));
    Ok(())
}

fn push_unmarked(
    call: &PythonCall<'_>,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) -> Result<(), CallFailure> {
    let (name, is_in_module) = match call.name.strip_prefix(MODULE) {
        Some(name) => (name, true),
        None => (call.name, false),
    };
    if tools.exact(name).is_none() {
        return Err(CallFailure::UnknownTool(name.to_owned()));
    }
    // `list()` is ordinary Python, too.
    let is_certain = call.is_listed || is_in_module || !call.named.is_empty();
    if !call.positional.is_empty() || !is_certain {
        return Err(CallFailure::Unreadable);
    }
    parsed.push_call(name, CallArguments::Json(Value::Object(call.named.clone())));
    Ok(())
}

/// Returns the arguments by name. Those without one get the names of the required ones, in their order, or of the only
/// one.
fn arguments(call: &PythonCall<'_>, tool: &ToolDefinition) -> Option<Value> {
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let names: Vec<&str> = match (required, properties) {
        (Some(required), _) if !required.is_empty() => {
            required.iter().filter_map(Value::as_str).collect()
        }
        (_, Some(only)) if only.len() == 1 => only.keys().map(String::as_str).collect(),
        (_, _) => Vec::new(),
    };
    let mut arguments = Map::new();
    for (index, value) in call.positional.iter().enumerate() {
        arguments.insert((*names.get(index)?).to_owned(), value.clone());
    }
    for (name, value) in &call.named {
        if arguments.insert(name.clone(), value.clone()).is_some() {
            return None;
        }
    }
    Some(Value::Object(arguments))
}

/// Adds the failure of a call without marks whose end is missing, if it is certainly one of an offered tool.
fn push_half_call(
    error: LiteralError,
    text: &str,
    tools: OfferedTools<'_>,
    parsed: &mut PlaceContent,
) {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '[');
    let name = &start[..start.len() - after_name(start).len()];
    let name = name.strip_prefix(MODULE).unwrap_or(name);
    if error == LiteralError::Incomplete && tools.exact(name).is_some() {
        parsed.fail(CallFailure::Incomplete);
        parsed.length = text.len();
    }
}

fn failure_of(error: LiteralError) -> CallFailure {
    match error {
        LiteralError::Incomplete => CallFailure::Incomplete,
        LiteralError::Other => CallFailure::Unreadable,
    }
}

/// Returns the length of a text up to the end of the block, or of all of it.
fn block_length(text: &str, fence: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        if is_fence_end(line, fence) {
            break;
        }
    }
    length
}

pub(super) fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}
