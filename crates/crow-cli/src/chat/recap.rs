//! A recap of a resumed session in a few lines.

use crow_console::text_of;
use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
    permission::Grant,
    tool::Access,
};
use crow_text::one_line;

/// Maximum length of a shown prompt or answer, in characters.
const SHOWN: usize = 300;

/// Formats the last prompt, its answer and the grants of the session; empty for an empty session.
pub(super) fn recap(events: &[Envelope]) -> String {
    let (mut prompt, mut answer) = (String::new(), String::new());
    for envelope in events.iter().filter(|envelope| envelope.is_root()) {
        if let AgentEvent::UserInput { source: InputSource::Prompt, content, .. } = &envelope.event
        {
            prompt = text_of_input(content);
            answer.clear();
        }
        if let AgentEvent::Reply { blocks, .. } = &envelope.event
            && !text_of(blocks).trim().is_empty()
        {
            answer = text_of(blocks);
        }
    }
    let mut lines = Vec::new();
    if !prompt.is_empty() {
        lines.push(format!("> {}", shorten(&prompt)));
    }
    if !answer.is_empty() {
        lines.push(format!("  {}", shorten(&answer)));
    }
    let allowed = allowed(events);
    if !allowed.is_empty() {
        lines.push(format!("allowed in this session: {}", allowed.join(", ")));
    }
    lines.join("\n")
}

/// Describes each grant of the session once.
fn allowed(events: &[Envelope]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for envelope in events {
        let AgentEvent::PermissionDecision {
            answer: PermissionAnswer::AllowSession { grants },
            ..
        } = &envelope.event
        else {
            continue;
        };
        for name in grants.iter().map(name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn name(grant: &Grant) -> String {
    match grant {
        Grant::Tool(tool) => format!("`{}`", one_line(tool)),
        Grant::Command(words) => format!("`{} …`", one_line(&words.join(" "))),
        Grant::Path { access: Access::Read, path } => {
            format!("reading `{}`", one_line(&path.display().to_string()))
        }
        Grant::Path { access: Access::Write, path } => {
            format!("changes of `{}`", one_line(&path.display().to_string()))
        }
    }
}

fn text_of_input(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn shorten(text: &str) -> String {
    let text = one_line(text);
    let prefix: String = text.chars().take(SHOWN).collect();
    if prefix.len() < text.len() { prefix + "…" } else { prefix }
}
