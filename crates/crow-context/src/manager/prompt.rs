//! Prompts as one text: a template with the environment, the conversation and the task.

use std::{borrow::Cow, fmt::Write as _, sync::Arc};

use crow_core::message::{Block, Message, ReplyContent};

/// Place of the environment in a template.
pub(super) const ENVIRONMENT: &str = "{{environment}}";
/// Place of the conversation in a template.
pub(super) const HISTORY: &str = "{{history}}";
/// Place of the task in a template.
pub(super) const TASK: &str = "{{task}}";

/// A template in which every place occurs.
pub(super) fn complete(template: &str) -> Cow<'_, str> {
    let missing: Vec<_> = [ENVIRONMENT, HISTORY, TASK]
        .into_iter()
        .filter(|place| !template.contains(place))
        .collect();
    if missing.is_empty() {
        Cow::Borrowed(template)
    } else {
        Cow::Owned(format!("{}\n{}\n", template.trim_end(), missing.join("\n")))
    }
}

/// Returns the length of a template without its places.
pub(super) fn without_places(template: &str) -> String {
    [ENVIRONMENT, HISTORY, TASK]
        .into_iter()
        .fold(template.to_owned(), |text, place| text.replace(place, ""))
}

/// Fills the places. A text is inserted as it is: places in it are not filled again.
pub(super) fn fill(template: &str, environment: &str, history: &str, task: &str) -> String {
    let places = [(ENVIRONMENT, environment), (HISTORY, history), (TASK, task)];
    let mut text = String::new();
    let mut rest = template;
    loop {
        let next = places
            .iter()
            .filter_map(|(place, value)| Some((rest.find(place)?, *place, *value)))
            .min_by_key(|(at, _, _)| *at);
        let Some((at, place, value)) = next else { break };
        text.push_str(&rest[..at]);
        text.push_str(value.trim_end_matches('\n'));
        rest = &rest[at + place.len()..];
    }
    text.push_str(rest);
    text
}

/// Renders a message as a paragraph with its author.
pub(super) fn paragraph(message: &Message) -> String {
    match message {
        Message::User(user) => format!("user: {}\n", Block::text_of(&user.content)),
        Message::Assistant(reply) => {
            let mut text = String::new();
            for block in &reply.blocks {
                match &block.content {
                    ReplyContent::Text { text: words } => {
                        text.push_str("agent: ");
                        text.push_str(words);
                        text.push('\n');
                    }
                    ReplyContent::Call(call) => {
                        let arguments = call.arguments.to_object();
                        // Writing to a string cannot fail.
                        let _ = writeln!(text, "call of {}: {arguments}", call.name);
                    }
                    ReplyContent::Thinking { .. } | ReplyContent::Opaque => {}
                }
            }
            text
        }
        Message::Results(results) => {
            let outputs = results.results.iter().map(|result| {
                let failed = if result.is_error { ", which failed" } else { "" };
                format!("output of {}{failed}: {}\n", result.tool, Block::text_of(&result.content))
            });
            outputs.collect()
        }
    }
}

/// Renders messages, each as a paragraph.
pub(super) fn transcript(messages: &[Arc<Message>]) -> String {
    messages.iter().map(|message| paragraph(message)).collect()
}
