//! What a session that goes on was about, in a few lines.

use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope, InputSource},
    ids::RequestId,
    message::Block,
    permission::GrantOffer,
};

use crate::render::{is_root, one_line, text_of};

/// How many characters of a prompt and of an answer are shown.
const SHOWN: usize = 300;

/// Writes the last prompt and what was answered, and what is allowed without a question. Nothing of an empty session.
pub(super) fn recap(events: &[Envelope]) -> String {
    let (mut prompt, mut answer) = (String::new(), String::new());
    for envelope in events.iter().filter(|envelope| is_root(envelope)) {
        if let AgentEvent::UserInput { source: InputSource::Prompt, content, .. } = &envelope.event
        {
            prompt = words(content);
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

/// Returns the offers that were taken, each once.
fn allowed(events: &[Envelope]) -> Vec<String> {
    let mut offered: Vec<(&RequestId, &[GrantOffer])> = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    for envelope in events {
        if let AgentEvent::PermissionRequest { request_id, offers, .. } = &envelope.event {
            offered.push((request_id, offers));
        }
        let AgentEvent::PermissionDecision {
            request_id,
            answer: PermissionAnswer::AllowSession { grants },
            ..
        } = &envelope.event
        else {
            continue;
        };
        let asked = offered.iter().filter(|(id, _)| *id == request_id);
        let mut taken = asked.flat_map(|(_, offers)| *offers);
        if let Some(offer) = taken.find(|offer| offer.grants == *grants) {
            let label = one_line(&offer.label);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    labels
}

fn words(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn shorten(text: &str) -> String {
    let text = one_line(text);
    let begin: String = text.chars().take(SHOWN).collect();
    if begin.len() < text.len() { begin + "…" } else { begin }
}
