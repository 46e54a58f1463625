//! Replies of models: every byte is shown once, even if deltas are lost or repeated.
//!
//! A delta has its offset in the reply. For each agent, the view keeps the text that was shown of its current reply
//! ([`ShownReply`]), and shows only what extends it. After a gap it waits for the whole text: that of an open reply, or
//! the final event. Text that contradicts the shown one belongs to another attempt, and begins a new message.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, MessageId, SessionUpdate, TextContent,
};
use crow_core::{
    ids::{ReplyId, SessionId},
    message::{ReplyBlock, ReplyContent, calls_of},
};

use super::{
    call::CallViews,
    child::ChildDisplay,
    event::{EventContext, SessionView},
    notice::Weight,
};

/// Kind of a text in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyPart {
    /// Text for the user.
    Text,
    /// Reasoning of the model.
    Thought,
}

/// The replies that the agents are receiving, as far as they are shown.
#[derive(Debug, Default)]
pub(super) struct ReplyViews {
    /// By the session of the agent.
    shown: HashMap<SessionId, ShownReply>,
}

/// Shown part of the reply that an agent is receiving.
#[derive(Debug)]
struct ShownReply {
    id: ReplyId,
    /// Number of the attempt, from 1.
    attempt: u32,
    text: String,
    thought: String,
}

impl ShownReply {
    fn new(id: &ReplyId) -> Self {
        Self { id: id.clone(), attempt: 1, text: String::new(), thought: String::new() }
    }

    fn part(&mut self, part: ReplyPart) -> &mut String {
        match part {
            ReplyPart::Text => &mut self.text,
            ReplyPart::Thought => &mut self.thought,
        }
    }

    fn shows_something(&self) -> bool {
        !self.text.is_empty() || !self.thought.is_empty()
    }

    /// Begins a new attempt: the text shown so far is void.
    fn reset(&mut self) {
        if self.shows_something() {
            self.attempt += 1;
            self.text.clear();
            self.thought.clear();
        }
    }

    fn message_id(&self, part: ReplyPart) -> MessageId {
        let id = self.id.as_str();
        let part = match part {
            ReplyPart::Text => "",
            ReplyPart::Thought => ".thought",
        };
        MessageId::new(match self.attempt {
            1 => format!("{id}{part}"),
            attempt => format!("{id}.{attempt}{part}"),
        })
    }
}

/// Relation of a delta to the shown text.
enum DeltaMeaning<'a> {
    /// This part of it is new.
    New(&'a str),
    /// Text before it was missed. The whole text follows.
    Gap,
    /// It belongs to another attempt.
    Another,
}

fn meaning<'a>(shown: &str, offset: u64, delta: &'a str) -> DeltaMeaning<'a> {
    let Some(known) = usize::try_from(offset).ok().and_then(|offset| shown.get(offset..)) else {
        return DeltaMeaning::Gap;
    };
    if let Some(new) = delta.strip_prefix(known) {
        DeltaMeaning::New(new)
    } else if known.starts_with(delta) {
        DeltaMeaning::New("")
    } else {
        DeltaMeaning::Another
    }
}

impl ReplyViews {
    /// Shows a delta.
    pub(super) fn on_delta(
        &mut self,
        at: &mut EventContext<'_>,
        calls: &mut CallViews,
        part: ReplyPart,
        reply: &ReplyId,
        (offset, delta): (u64, &str),
    ) {
        let shown = self.reply_of(at, reply);
        let new = match meaning(shown.part(part), offset, delta) {
            DeltaMeaning::New(new) => new,
            DeltaMeaning::Another if offset == 0 => {
                shown.reset();
                delta
            }
            DeltaMeaning::Gap | DeltaMeaning::Another => return,
        };
        shown.part(part).push_str(new);
        let id = shown.message_id(part);
        say(at, calls, part, id, new);
    }

    /// Shows the part that was not shown yet of a text; `whole` is all of it so far.
    pub(super) fn on_text_so_far(
        &mut self,
        at: &mut EventContext<'_>,
        calls: &mut CallViews,
        part: ReplyPart,
        reply: &ReplyId,
        whole: &str,
    ) {
        let shown = self.reply_of(at, reply);
        if !whole.starts_with(shown.part(part).as_str()) {
            shown.reset();
        }
        let new = whole.strip_prefix(shown.part(part).as_str()).unwrap_or(whole);
        shown.part(part).push_str(new);
        let id = shown.message_id(part);
        say(at, calls, part, id, new);
    }

    /// Shows what is missing of a complete reply, and returns its text.
    pub(super) fn on_reply(
        &mut self,
        at: &mut EventContext<'_>,
        calls: &mut CallViews,
        reply: &ReplyId,
        blocks: &[ReplyBlock],
    ) -> String {
        // 1) Join the blocks: offsets and shown texts refer to the joined text.
        let (mut text, mut thought) = (String::new(), String::new());
        for block in blocks {
            match &block.content {
                ReplyContent::Text { text: more } => text.push_str(more),
                ReplyContent::Thinking { text: more } => thought.push_str(more),
                ReplyContent::Call(_) | ReplyContent::Opaque => {}
            }
        }
        // 2) Compare it with what was shown.
        let shown = self.reply_of(at, reply);
        if !text.starts_with(&shown.text) {
            shown.reset();
        }
        let text_id = shown.message_id(ReplyPart::Text);
        if !thought.starts_with(&shown.thought) {
            // Some providers send another reasoning at the end than they streamed. The text is the same.
            shown.attempt += 1;
            shown.thought.clear();
        }
        let thought_id = shown.message_id(ReplyPart::Thought);
        let (mut text_shown, mut thought_shown) = (shown.text.len(), shown.thought.len());
        // 3) Show what is missing, in the order of the blocks.
        self.forget(at);
        for block in blocks {
            match &block.content {
                ReplyContent::Text { text } => {
                    let new = after(text, &mut text_shown);
                    say(at, calls, ReplyPart::Text, text_id.clone(), new);
                }
                ReplyContent::Thinking { text } => {
                    let new = after(text, &mut thought_shown);
                    say(at, calls, ReplyPart::Thought, thought_id.clone(), new);
                }
                ReplyContent::Call(_) | ReplyContent::Opaque => {}
            }
        }
        text
    }

    /// Begins a new attempt of a reply. Returns true if something of the failed one was shown.
    pub(super) fn on_reset(&mut self, at: &EventContext<'_>, reply: &ReplyId) -> bool {
        let shown = self.reply_of(at, reply);
        let is_shown = shown.shows_something();
        shown.reset();
        is_shown
    }

    /// Forgets a reply that will not be completed.
    pub(super) fn forget(&mut self, at: &EventContext<'_>) {
        self.shown.remove(&at.who.session);
    }

    fn reply_of(&mut self, at: &EventContext<'_>, reply: &ReplyId) -> &mut ShownReply {
        let shown =
            self.shown.entry(at.who.session.clone()).or_insert_with(|| ShownReply::new(reply));
        if shown.id != *reply {
            *shown = ShownReply::new(reply);
        }
        shown
    }
}

impl SessionView {
    pub(super) fn on_reply(
        &mut self,
        at: &mut EventContext<'_>,
        reply: &ReplyId,
        blocks: &[ReplyBlock],
    ) {
        let text = self.replies.on_reply(at, &mut self.calls, reply, blocks);
        if at.who.session == self.root && !text.trim().is_empty() {
            self.last_words = text;
        }
        for call in calls_of(blocks) {
            self.calls.add_request((at.who.session.clone(), call.id.clone()), call);
        }
    }

    pub(super) fn on_reset(
        &mut self,
        at: &mut EventContext<'_>,
        reply: &ReplyId,
        error: &str,
        (attempt, wait_ms): (u32, u64),
    ) {
        let is_void = self.replies.on_reset(at, reply);
        let void = if is_void { " The partial answer is discarded." } else { "" };
        let wait = seconds(wait_ms);
        let text = format!("The model failed: {error}.{void} Retry {attempt} in {wait}.");
        self.notices.report(at, Weight::Info, &text);
    }

    pub(super) fn on_wait(
        &mut self,
        at: &mut EventContext<'_>,
        reason: &str,
        wait_ms: Option<u64>,
    ) {
        let wait = wait_ms.map(|wait| format!(" ({})", seconds(wait))).unwrap_or_default();
        let text = format!("Waiting for the model: {reason}{wait}");
        self.notices.report(at, Weight::Info, &text);
    }

    pub(super) fn on_tools_wait(&mut self, at: &mut EventContext<'_>, servers: &[String]) {
        let text = format!("Waiting for the tools of MCP servers: {}", servers.join(", "));
        self.notices.report(at, Weight::Info, &text);
    }
}

/// Shows a text of a reply: as a message, or in the call in which the agent works.
fn say(
    at: &mut EventContext<'_>,
    calls: &mut CallViews,
    part: ReplyPart,
    id: MessageId,
    text: &str,
) {
    if text.is_empty() {
        return;
    }
    match at.display {
        ChildDisplay::Session(session) => {
            let content = ContentBlock::Text(TextContent::new(text));
            let chunk = ContentChunk::new(content).message_id(id).meta(at.who.meta());
            let update = match part {
                ReplyPart::Text => SessionUpdate::AgentMessageChunk(chunk),
                ReplyPart::Thought => SessionUpdate::AgentThoughtChunk(chunk),
            };
            at.send(session.clone(), update);
        }
        ChildDisplay::InCall(Some(anchor)) if part == ReplyPart::Text => {
            calls.add_text(anchor, &id, text);
        }
        ChildDisplay::InCall(_) => {}
    }
}

/// Returns the part of a block that was not shown. `shown` is the number of shown bytes from its beginning on, and is
/// reduced by those of this block.
fn after<'a>(text: &'a str, shown: &mut usize) -> &'a str {
    let skipped = text.len().min(*shown);
    *shown -= skipped;
    // A character that was shown in part is shown again, rather than the rest lost.
    text.split_at(text.floor_char_boundary(skipped)).1
}

fn seconds(millis: u64) -> String {
    match millis {
        0 => "a moment".to_owned(),
        1..1000 => format!("{millis} ms"),
        _ => format!("{} s", millis.div_ceil(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_block_is_shown_from_where_it_was_left() {
        for (shown, rest, remaining) in
            [(0, "aéz", 0), (1, "éz", 0), (2, "éz", 0), (3, "z", 0), (4, "", 0), (9, "", 5)]
        {
            let mut count = shown;
            assert_eq!((after("aéz", &mut count), count), (rest, remaining), "{shown}");
        }
    }
}
