//! What a conversation tells of the environment: a snapshot, then what changed.
//!
//! The messages stay where they are, so that a provider's cache remains valid.

use std::{collections::HashSet, sync::Arc};

use crow_core::{
    ids::MessageId,
    message::{Block, Message, UserMessage, wrap_in_tag},
};

use crate::{
    TokenCounter,
    environment::{DeltaOptions, Environment, EnvironmentRevision},
};

/// The tag around a snapshot.
const SNAPSHOT_TAG: &str = "environment";
/// The tag around later changes.
const UPDATE_TAG: &str = "environment_update";

/// The messages of a conversation that tell the environment, and the revision that their reader knows.
#[derive(Debug, Default)]
pub(super) struct ToldEnvironment {
    /// Absent before the first snapshot.
    revision: Option<EnvironmentRevision>,
    ids: HashSet<MessageId>,
    /// Number of messages that were made. It makes their ids unique: providers encode each id once.
    count: u64,
    /// The last message of the last request: nothing is inserted before it.
    last_sent: Option<MessageId>,
}

impl ToldEnvironment {
    /// Returns true if a snapshot was told and the conversation still has it, with all that came after it.
    pub(super) fn is_in(&self, messages: &[Arc<Message>]) -> bool {
        let found = messages.iter().filter(|message| self.contains(message)).count();
        self.revision.is_some() && found == self.ids.len()
    }

    /// Returns true if a message tells the environment.
    pub(super) fn contains(&self, message: &Message) -> bool {
        matches!(message, Message::User(user) if self.ids.contains(&user.id))
    }

    /// Removes the messages that tell the environment: a snapshot is due.
    pub(super) fn remove_from(&mut self, messages: &mut Vec<Arc<Message>>) {
        messages.retain(|message| !self.contains(message));
        self.ids.clear();
        self.revision = None;
    }

    /// Adds a snapshot. What it leaves out counts as told, since it says so.
    pub(super) fn add_snapshot(
        &mut self,
        messages: &mut Vec<Arc<Message>>,
        environment: &Environment,
        snapshot: &str,
    ) {
        self.revision = Some(environment.revision());
        if !snapshot.is_empty() {
            self.add(messages, SNAPSHOT_TAG, snapshot);
        }
    }

    /// Adds what changed since it was told last, if anything did, in at most `cap` tokens.
    pub(super) fn add_changes(
        &mut self,
        messages: &mut Vec<Arc<Message>>,
        environment: &Environment,
        cap: u64,
        counter: &dyn TokenCounter,
    ) {
        let default = DeltaOptions::default();
        // A program changes its environment to have the model know: no change waits for others.
        let options = DeltaOptions { max_tokens: default.max_tokens.min(cap), batch: 1, ..default };
        let revision = self.revision.as_ref().expect("invariant: a snapshot was told");
        if let Some(delta) = environment.delta_since(revision, &options, counter) {
            self.revision = Some(delta.revision);
            self.add(messages, UPDATE_TAG, &delta.text);
        }
    }

    /// Records that the conversation was sent.
    pub(super) fn on_sent(&mut self, messages: &[Arc<Message>]) {
        self.last_sent = messages.last().map(|message| message.id().clone());
    }

    /// Adds a message: before the input that ends the conversation, unless that was sent already, or at the end.
    fn add(&mut self, messages: &mut Vec<Arc<Message>>, tag: &str, text: &str) {
        let sent = self.last_sent.as_ref().and_then(|last| {
            messages.iter().rposition(|message| message.id() == last).map(|index| index + 1)
        });
        let new = &messages[sent.unwrap_or(0)..];
        let inputs =
            new.iter().rev().take_while(|message| matches!(message.as_ref(), Message::User(_)));
        let position = messages.len() - inputs.count();
        // The message beside it makes the id unique among conversations that are joined.
        let beside =
            messages.get(position).or(messages.last()).map_or("", |message| message.id().as_str());
        let id = MessageId::new(format!("{beside}-environment-{}", self.count));
        self.count += 1;
        self.ids.insert(id.clone());
        let text = wrap_in_tag(tag, "the program", text);
        let message = Message::User(UserMessage { id, content: vec![Block::text(text)] });
        messages.insert(position, Arc::new(message));
    }
}
