//! The marks at which a call may begin.

use super::python::is_name_start;

/// The form of a call, by the mark at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// `<tool_call>` and its like, with a call inside.
    Wrapper,
    /// `<function=NAME>` or `<invoke name="NAME">`.
    Element,
    /// Special tokens before JSON: `<|tool_call|>` and its like.
    JsonToken,
    /// Llama's tokens before Python or JSON.
    PythonToken,
    /// Mistral's `[TOOL_CALLS]`.
    Mistral,
    /// `DeepSeek`'s tokens.
    DeepSeek,
    /// Kimi's tokens.
    Kimi,
    /// The channels of gpt-oss.
    Harmony,
    /// JSON without marks.
    Json,
    /// A list of calls in Python, without marks.
    Python,
    /// A code block.
    Fence,
    /// A code block that is a command.
    Script,
}

/// Judgement of the text after a mark. It never changes when more text arrives, except from `Undecided`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plausibility {
    Call,
    Text,
    /// More text is needed.
    Undecided,
}

/// Names of elements that contain calls.
const WRAPPERS: [&str; 8] = [
    "tool_call",
    "tool_calls",
    "tool",
    "tools",
    "tool_use",
    "function_call",
    "function_calls",
    "functioncall",
];
/// Names of elements that are a call themselves.
const ELEMENTS: [&str; 2] = ["function", "invoke"];
/// Maximum number of bytes of an element's name with its namespace.
const LONGEST_TAG: usize = 48;

/// Marks that are not elements.
const TOKENS: [(&str, Marker); 13] = [
    ("<|python_tag|>", Marker::PythonToken),
    ("<|python_start|>", Marker::PythonToken),
    ("<|tool_call|>", Marker::JsonToken),
    ("<|tool_calls|>", Marker::JsonToken),
    ("[TOOL_CALLS]", Marker::Mistral),
    ("<｜tool▁calls▁begin｜>", Marker::DeepSeek),
    ("<｜tool▁call▁begin｜>", Marker::DeepSeek),
    ("<|tool_calls_section_begin|>", Marker::Kimi),
    ("<|tool_call_begin|>", Marker::Kimi),
    ("<|channel|>analysis", Marker::Harmony),
    ("<|channel|>commentary", Marker::Harmony),
    ("<|channel|>final", Marker::Harmony),
    ("<|start|>assistant", Marker::Harmony),
];

/// An opening tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// The name without its namespace.
    pub name: &'a str,
    /// The text after the name: `>`, `=NAME>` or attributes.
    pub rest: &'a str,
}

/// Reads the name of the tag at the beginning of a text, of an end tag with `open` = `</`. Returns `Err(Undecided)` if
/// more text may follow, `Err(Text)` if there is no tag.
pub(super) fn read_tag<'a>(text: &'a str, open: &str) -> Result<Tag<'a>, Plausibility> {
    let Some(inner) = text.strip_prefix(open) else {
        let may_follow = open.starts_with(text);
        return Err(if may_follow { Plausibility::Undecided } else { Plausibility::Text });
    };
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.' | '｜');
    let end = inner.find(|c| !is_name(c));
    if end.unwrap_or(inner.len()) > LONGEST_TAG {
        return Err(Plausibility::Text);
    }
    let (full, rest) = inner.split_at(end.ok_or(Plausibility::Undecided)?);
    let name = full.rsplit([':', '｜']).next().unwrap_or(full);
    Ok(Tag { name, rest })
}

/// Returns the tag at the beginning of a text if it is one of a call.
pub(super) fn call_tag(text: &str) -> Result<(Marker, Tag<'_>), Plausibility> {
    let tag = read_tag(text, "<")?;
    if WRAPPERS.contains(&tag.name) && tag.rest.starts_with('>') {
        return Ok((Marker::Wrapper, tag));
    }
    if ELEMENTS.contains(&tag.name) && tag.rest.starts_with(['=', ' ']) {
        return Ok((Marker::Element, tag));
    }
    Err(Plausibility::Text)
}

/// Finds the end tag of a wrapper. Returns the offsets of its beginning and its end.
pub(super) fn find_wrapper_end(text: &str) -> Option<(usize, usize)> {
    text.match_indices("</")
        .find_map(|(start, _)| Some((start, start + wrapper_end(&text[start..])?)))
}

/// Returns the length of the end tag of a wrapper at the beginning of a text.
pub(super) fn wrapper_end(text: &str) -> Option<usize> {
    let tag = read_tag(text, "</").ok().filter(|tag| WRAPPERS.contains(&tag.name))?;
    tag.rest.starts_with('>').then(|| text.len() - tag.rest.len() + 1)
}

/// Judges a text that begins with `<` or `[`. Returns the marker with the judgement.
pub(super) fn judge(text: &str) -> (Plausibility, Marker) {
    for (token, marker) in TOKENS {
        if let Some(rest) = text.strip_prefix(token) {
            return (judge_after_token(marker, rest), marker);
        }
    }
    if TOKENS.iter().any(|(token, _)| token.starts_with(text)) {
        return (Plausibility::Undecided, Marker::JsonToken);
    }
    match call_tag(text) {
        Ok((Marker::Element, tag)) => (judge_element(tag.rest), Marker::Element),
        Ok((marker, tag)) => (judge_wrapper(tag.name, &tag.rest[1..]), marker),
        Err(judgement) => (judgement, Marker::Wrapper),
    }
}

fn judge_after_token(marker: Marker, rest: &str) -> Plausibility {
    match marker {
        Marker::JsonToken => judge_start(rest.trim_start(), &["{", "["]),
        Marker::PythonToken => {
            let rest = rest.trim_start();
            match judge_start(rest, &["{", "["]) {
                Plausibility::Text => {
                    judge_function(rest).map_or_else(|judged| judged, |_| Plausibility::Call)
                }
                judged => judged,
            }
        }
        Marker::Mistral => {
            let rest = rest.trim_start();
            match judge_start(rest, &["{", "["]) {
                Plausibility::Text => judge_start(after_name(rest), &["{", "["]),
                judged => judged,
            }
        }
        Marker::Wrapper
        | Marker::Element
        | Marker::DeepSeek
        | Marker::Kimi
        | Marker::Harmony
        | Marker::Json
        | Marker::Python
        | Marker::Fence
        | Marker::Script => Plausibility::Call,
    }
}

/// Judges the text after the opening tag of a wrapper.
fn judge_wrapper(name: &str, body: &str) -> Plausibility {
    let body = body.trim_start();
    match judge_start(body, &["{", "[", "```"]) {
        Plausibility::Text => {}
        judged => return judged,
    }
    if body.starts_with('<') {
        return match call_tag(body) {
            Ok((Marker::Element, tag)) => judge_element(tag.rest),
            Ok(_) => Plausibility::Call,
            Err(judgement) => judgement,
        };
    }
    // GLM: the name of the tool, then its arguments as pairs of elements.
    let rest = after_name(body);
    if name != "tool_call" || rest.len() == body.len() {
        return Plausibility::Text;
    }
    judge_start(rest.trim_start(), &["<arg_key>", "</tool_call>"])
}

/// Judges the text after the name of an element: `=NAME>` or ` name="NAME"`.
fn judge_element(rest: &str) -> Plausibility {
    if let Some(name) = rest.strip_prefix('=') {
        let name = name.strip_prefix('"').unwrap_or(name);
        let after = after_name(name);
        return match (after.len() < name.len(), after.is_empty()) {
            (_, true) => Plausibility::Undecided,
            (true, false) => judge_start(after, &[">", "\">"]),
            (false, false) => Plausibility::Text,
        };
    }
    judge_start(rest.trim_start(), &["name=\""])
}

/// Judges whether a text begins with one of `starts`.
fn judge_start(text: &str, starts: &[&str]) -> Plausibility {
    if starts.iter().any(|start| text.starts_with(start)) {
        Plausibility::Call
    } else if starts.iter().any(|start| start.starts_with(text)) {
        Plausibility::Undecided
    } else {
        Plausibility::Text
    }
}

/// Returns the text after the name of a tool.
pub(super) fn after_name(text: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    text.trim_start_matches(is_name)
}

/// First keys of objects that are calls.
const KEYS: [&str; 18] = [
    "name",
    "tool_name",
    "function_name",
    "tool",
    "function",
    "action",
    "arguments",
    "parameters",
    "args",
    "params",
    "input",
    "tool_input",
    "action_input",
    "id",
    "type",
    "index",
    "tool_calls",
    "call_id",
];

/// Judges a text that may be a JSON call without marks, by the first key of the object.
pub(super) fn judge_json(text: &str) -> Plausibility {
    let Some(inner) = text.strip_prefix('{') else {
        return match text.strip_prefix('[').map(str::trim_start) {
            Some("") => Plausibility::Undecided,
            Some(item) if item.starts_with('{') => judge_json(item),
            Some(_) | None => Plausibility::Text,
        };
    };
    let inner = inner.trim_start();
    let Some(key) = inner.strip_prefix(['"', '\'']) else {
        return if inner.is_empty() { Plausibility::Undecided } else { Plausibility::Text };
    };
    match key.split_once(['"', '\'']) {
        Some((key, _)) if KEYS.contains(&key) => Plausibility::Call,
        None if KEYS.iter().any(|known| known.starts_with(key)) => Plausibility::Undecided,
        Some(_) | None => Plausibility::Text,
    }
}

/// Maximum bytes of the name of a function, with those of its modules.
const LONGEST_FUNCTION: usize = 128;

/// Judges a text that may be a call in Python without marks, or a list of them, by the first argument.
pub(super) fn judge_python(text: &str) -> Plausibility {
    let call = text.strip_prefix('[').map_or(text, str::trim_start);
    if call.is_empty() {
        return Plausibility::Undecided;
    }
    let (name, arguments) = match judge_function(call) {
        Ok(function) => function,
        Err(judged) => return judged,
    };
    let arguments = arguments.trim_start();
    if arguments.is_empty() {
        return Plausibility::Undecided;
    }
    if arguments.starts_with(')') {
        return Plausibility::Call;
    }
    if name == "print" {
        // Gemini prints what its calls return.
        return match judge_function(arguments) {
            Ok(_) => Plausibility::Call,
            Err(judged) => judged,
        };
    }
    let after = after_name(arguments);
    if !arguments.starts_with(is_name_start) || arguments.len() - after.len() > LONGEST_FUNCTION {
        return Plausibility::Text;
    }
    match after.trim_start().strip_prefix('=') {
        Some("") => Plausibility::Undecided,
        Some(value) if !value.starts_with('=') => Plausibility::Call,
        None if after.trim_start().is_empty() => Plausibility::Undecided,
        Some(_) | None => Plausibility::Text,
    }
}

/// Reads the name of a function and its opening bracket. Returns the name and the text after the bracket.
fn judge_function(text: &str) -> Result<(&str, &str), Plausibility> {
    if text.is_empty() {
        return Err(Plausibility::Undecided);
    }
    let after = after_name(text);
    let name = &text[..text.len() - after.len()];
    if !text.starts_with(is_name_start) || name.len() > LONGEST_FUNCTION {
        return Err(Plausibility::Text);
    }
    let arguments = after.trim_start_matches([' ', '\t']);
    match arguments.strip_prefix('(') {
        Some(arguments) => Ok((name, arguments)),
        None if arguments.is_empty() => Err(Plausibility::Undecided),
        None => Err(Plausibility::Text),
    }
}

/// Judges a text that ends undecided: it is half a call if its mark is complete.
pub(super) fn judge_end(text: &str) -> Plausibility {
    let after_token = TOKENS.iter().find_map(|(token, _)| text.strip_prefix(token));
    let is_half = match (after_token, call_tag(text)) {
        (Some(rest), _) => rest.trim().is_empty(),
        (None, Ok((Marker::Element, _))) => true,
        (None, Ok((_, tag))) => !tag.rest[1..].trim_start().starts_with(char::is_alphanumeric),
        (None, Err(_)) => false,
    };
    if is_half { Plausibility::Call } else { Plausibility::Text }
}
