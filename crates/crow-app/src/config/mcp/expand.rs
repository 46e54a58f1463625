//! Expansion of `${NAME}` and `${NAME:-otherwise}` in the configuration of a server.

use crow_core::mcp::McpTransport;

/// A text cannot be expanded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    /// The variable is unset or empty, and the text gives no default.
    #[error("the variable {0} is not set")]
    NotSet(String),
    /// A brace is not closed, or its name is empty or has characters other than ASCII letters, digits and `_`.
    #[error("\"${{\" does not start a variable; write ${{NAME}} or ${{NAME:-otherwise}}")]
    Broken,
}

/// Expands the variables in the command, arguments, environment, URL and headers of a server; not in the directory.
pub(super) fn expand(
    transport: McpTransport,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<McpTransport, ExpandError> {
    let text = |text: String| expand_text(&text, lookup);
    Ok(match transport {
        McpTransport::Stdio { command, args, env, cwd } => McpTransport::Stdio {
            command: text(command)?,
            args: args.into_iter().map(text).collect::<Result<_, _>>()?,
            env: env
                .into_iter()
                .map(|(name, value)| Ok((name, text(value)?)))
                .collect::<Result<_, _>>()?,
            cwd,
        },
        McpTransport::Http { url, headers } => McpTransport::Http {
            url: text(url)?,
            headers: headers
                .into_iter()
                .map(|(name, value)| Ok((name, text(value)?)))
                .collect::<Result<_, _>>()?,
        },
        // Defined by the client, not by a configuration.
        McpTransport::Client(server) => McpTransport::Client(server),
    })
}

/// Returns true if a text of the transport names a variable or has a broken `${`.
pub(super) fn names_variables(transport: &McpTransport) -> bool {
    let nothing = |_: &str| None;
    expand(transport.clone(), &nothing).as_ref() != Ok(transport)
}

/// Expands one text. The value of a variable is not expanded again.
fn expand_text(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let (inner, after) = after.split_once('}').ok_or(ExpandError::Broken)?;
        let (name, otherwise) = match inner.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inner, None),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(ExpandError::Broken);
        }
        let value = lookup(name).filter(|value| !value.is_empty());
        let value = value.or_else(|| otherwise.map(str::to_owned));
        expanded.push_str(&value.ok_or_else(|| ExpandError::NotSet(name.to_owned()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_and_missing_ones_are_named() {
        let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
        for (text, expanded) in [
            ("x${A}y${A}", Ok("x1y1")),
            ("${B:-z}${A:-z}", Ok("z1")),
            ("$A {A} $$", Ok("$A {A} $$")),
            ("${B}", Err(ExpandError::NotSet("B".to_owned()))),
            ("${A", Err(ExpandError::Broken)),
            ("${}", Err(ExpandError::Broken)),
            ("${A B}", Err(ExpandError::Broken)),
        ] {
            assert_eq!(expand_text(text, &lookup), expanded.map(str::to_owned), "{text}");
        }
        // Values are not expanded again.
        let nested = |_: &str| Some("${A}".to_owned());
        assert_eq!(expand_text("${A}", &nested), Ok("${A}".to_owned()));
    }
}
