//! The prompts of servers: texts with parameters, which a user puts into the conversation.

use std::{fmt, sync::Arc};

use crow_core::message::{Block, escape_tags};
use rmcp::model::{JsonObject, Role};
use tokio_util::sync::CancellationToken;

use crate::{connection::Requester, listed::ListedPrompt, result::block_text, server::McpServer};

/// Maximum size of the text of a prompt in bytes.
const LARGEST: usize = 128 * 1024;
/// Tag around the text of a prompt.
const TAG: &str = "mcp_prompt";

/// A prompt of a server.
#[derive(Clone)]
pub struct McpPrompt {
    /// Its name for users, unique in the session: `mcp__SERVER__PROMPT`.
    pub name: String,
    /// Its description, on one line. It may be empty.
    pub description: String,
    prompt: ListedPrompt,
    server: Arc<McpServer>,
}

impl McpPrompt {
    pub(crate) fn new(name: String, prompt: &ListedPrompt, server: &Arc<McpServer>) -> Self {
        Self {
            name,
            description: prompt.description.clone(),
            prompt: prompt.clone(),
            server: Arc::clone(server),
        }
    }

    /// Returns the placeholder of the arguments, such as `PATH [LANGUAGE]`; empty if there are none.
    pub fn usage(&self) -> String {
        self.prompt.usage()
    }

    /// Gets the prompt from the server. `argument` is what the user wrote after the name: the values in order, in quotes
    /// where they have blanks, or as `NAME=VALUE`; the last one takes the rest.
    ///
    /// # Errors
    /// Fails with a sentence if a required argument is missing, or the server does not return the prompt.
    pub async fn get(
        &self,
        argument: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Block>, String> {
        let arguments = arguments(&self.prompt, argument)?;
        let requester = Requester { ctx: None, cancel };
        let prompt = self.server.get_prompt(&self.prompt.name, &arguments, requester).await?;
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for message in prompt.messages {
            let Some(text) = block_text(message.content, &mut images) else { continue };
            texts.push(match message.role {
                Role::Assistant => format!("[answer of the assistant]\n{text}"),
                Role::User => text,
            });
        }
        if texts.is_empty() && images.is_empty() {
            return Err(format!("the prompt {} is empty", self.name));
        }
        let text = texts.join("\n\n");
        if text.len() > LARGEST {
            return Err(format!("the prompt {} has more than {LARGEST} bytes", self.name));
        }
        // Marked, since the user did not write it.
        let text = Some(escape_tags(&text, &[TAG])).filter(|text| !text.is_empty()).map(|text| {
            let server = &self.server.name_part;
            Block::text(format!("<{TAG} server=\"{server}\">\n{text}\n</{TAG}>"))
        });
        Ok(text.into_iter().chain(images.into_iter().map(Block::Image)).collect())
    }
}

impl fmt::Debug for McpPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPrompt").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Assigns the words of a user to the arguments of a prompt.
fn arguments(prompt: &ListedPrompt, text: &str) -> Result<JsonObject, String> {
    let declared = &prompt.arguments;
    let mut values = JsonObject::new();
    let mut rest = text.trim();
    let mut position = 0;
    while !rest.is_empty() {
        let named = rest.split_once('=').and_then(|(name, value)| {
            declared
                .iter()
                .find(|argument| argument.name.eq_ignore_ascii_case(name))
                .map(|it| (it, value))
        });
        let (argument, value) = if let Some(named) = named {
            named
        } else {
            while declared.get(position).is_some_and(|it| values.contains_key(&it.name)) {
                position += 1;
            }
            let argument = declared.get(position);
            let excess = || format!("the prompt takes {} arguments", declared.len());
            (argument.ok_or_else(excess)?, rest)
        };
        // The last argument takes the rest, unless it is in quotes.
        let unset = declared.iter().filter(|it| !values.contains_key(&it.name)).count();
        let (value, after) = match value.strip_prefix('"').and_then(|text| text.split_once('"')) {
            Some(quoted) => quoted,
            None if unset == 1 => (value, ""),
            None => value.split_once(char::is_whitespace).unwrap_or((value, "")),
        };
        values.insert(argument.name.clone(), value.into());
        rest = after.trim_start();
    }
    let is_missing = |argument: &&crate::listed::ListedArgument| {
        argument.is_required && !values.contains_key(&argument.name)
    };
    match declared.iter().find(is_missing) {
        Some(argument) => {
            let name = crate::text::one_line(&argument.name, 40);
            Err(format!("the prompt needs the argument {name}"))
        }
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::listed::ListedArgument;

    fn prompt(arguments: &[(&str, bool)]) -> ListedPrompt {
        let argument = |(name, is_required): &(&str, bool)| ListedArgument {
            name: (*name).to_owned(),
            is_required: *is_required,
        };
        ListedPrompt {
            name: "p".to_owned(),
            description: String::new(),
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    #[test]
    fn words_are_assigned_in_order_by_name_and_in_quotes() {
        let two = prompt(&[("path", true), ("style", false)]);
        for (text, expected) in [
            ("a.rs", json!({"path": "a.rs"})),
            ("a.rs short and dry", json!({"path": "a.rs", "style": "short and dry"})),
            ("\"a b.rs\" dry", json!({"path": "a b.rs", "style": "dry"})),
            ("style=dry a b.rs", json!({"path": "a b.rs", "style": "dry"})),
            ("a.rs style=\"x y\"", json!({"path": "a.rs", "style": "x y"})),
            ("x=1", json!({"path": "x=1"})),
        ] {
            let values = arguments(&two, text).map(Value::Object);
            assert_eq!(values, Ok(expected), "{text}");
        }
        assert_eq!(arguments(&prompt(&[]), ""), Ok(JsonObject::new()));
    }

    #[test]
    fn missing_and_excess_arguments_are_named() {
        let one = prompt(&[("path", true)]);
        assert_eq!(arguments(&one, " "), Err("the prompt needs the argument path".to_owned()));
        assert_eq!(arguments(&one, "\"a\" b"), Err("the prompt takes 1 arguments".to_owned()));
        assert!(arguments(&prompt(&[]), "x").is_err());
    }
}
