//! JSON arguments after the name of a tool.

use crow_core::{call::read_json_prefix, message::CallArguments};

/// Arguments with the text after them.
pub(super) struct ArgumentsPrefix<'a> {
    pub arguments: CallArguments,
    pub rest: &'a str,
    pub repairs: Vec<String>,
}

/// Reads the arguments at the beginning of a text. Those that are not JSON reach to the first of the marks `ends`, and
/// are malformed; without such a mark they are incomplete, and the result is `None`.
pub(super) fn read_arguments<'a>(text: &'a str, ends: &[&str]) -> Option<ArgumentsPrefix<'a>> {
    let trimmed = text.trim_start();
    if trimmed.starts_with('{')
        && let Some(json) = read_json_prefix(trimmed).filter(|json| json.is_closed)
    {
        let arguments = CallArguments::Json(json.value);
        return Some(ArgumentsPrefix { arguments, rest: json.rest, repairs: json.repairs });
    }
    let end = ends.iter().filter_map(|end| text.find(end)).min()?;
    let arguments = CallArguments::parse(text[..end].trim());
    Some(ArgumentsPrefix { arguments, rest: &text[end..], repairs: Vec::new() })
}

/// Skips white space, then each of `tokens` that follows, in any order.
pub(super) fn skip_tokens<'a>(mut text: &'a str, tokens: &[&str]) -> &'a str {
    loop {
        let trimmed = text.trim_start();
        match tokens.iter().find_map(|token| trimmed.strip_prefix(token)) {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}
