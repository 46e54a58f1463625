//! A conversation of another program, in terms that all of them share.

use std::{io::Write as _, path::PathBuf};

use crow_core::{
    message::{Block, Image, ReplyContent},
    model::ModelRef,
};
use jiff::Timestamp;

/// A conversation of another program.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) struct ImportedConversation {
    /// The id that the other program gave it.
    pub(in crate::import) id: String,
    /// The working directory.
    pub(in crate::import) cwd: PathBuf,
    /// The title that the other program gave it, if it gives titles.
    pub(in crate::import) title: Option<String>,
    pub(in crate::import) started: Timestamp,
    /// Messages, tool calls and summaries, oldest first.
    pub(in crate::import) entries: Vec<ConversationEntry>,
    /// Notes about content that could not be imported.
    pub(in crate::import) notes: Vec<String>,
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) struct ConversationEntry {
    /// The id of the entry in its file, where entries have one.
    pub(in crate::import) id: Option<String>,
    pub(in crate::import) time: Timestamp,
    pub(in crate::import) content: EntryContent,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) enum EntryContent {
    /// The user wrote this.
    Prompt(Vec<Block>),
    /// The model wrote this. Entries with the same `reply`, which follow each other but for results, are one reply.
    Reply { reply: Option<String>, model: ModelRef, blocks: Vec<ReplyContent> },
    /// A tool call of the last reply is answered.
    Result(EntryResult),
    /// A summary took the place of what came before, except for the part from the entry `first_kept` on.
    Summary { text: String, first_kept: Option<String> },
}

/// Returns the id of the first prompt or reply from the entry `at` on: the part that a summary keeps begins with one. A reply in
/// several entries begins with the first of them.
pub(super) fn first_message(entries: &[ConversationEntry], at: usize) -> Option<&str> {
    let is_message = |entry: &ConversationEntry| {
        matches!(entry.content, EntryContent::Prompt(_) | EntryContent::Reply { .. })
    };
    let mut first = at + entries.get(at..)?.iter().position(is_message)?;
    let reply_at = |position: usize| match &entries[position].content {
        EntryContent::Reply { reply, .. } => reply.as_deref(),
        EntryContent::Prompt(_) | EntryContent::Result(_) | EntryContent::Summary { .. } => None,
    };
    if let Some(reply) = reply_at(first) {
        for position in (0..first).rev() {
            match &entries[position].content {
                EntryContent::Result(_) => {}
                EntryContent::Reply { .. } if reply_at(position) == Some(reply) => first = position,
                EntryContent::Prompt(_)
                | EntryContent::Reply { .. }
                | EntryContent::Summary { .. } => break,
            }
        }
    }
    entries[first].id.as_deref()
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) struct EntryResult {
    pub(in crate::import) call_id: String,
    pub(in crate::import) output: String,
    pub(in crate::import) images: Vec<Image>,
    pub(in crate::import) is_error: bool,
}

impl ImportedConversation {
    /// Returns the number of prompts.
    pub(in crate::import) fn prompts(&self) -> usize {
        let is_prompt =
            |entry: &&ConversationEntry| matches!(entry.content, EntryContent::Prompt(_));
        self.entries.iter().filter(is_prompt).count()
    }

    /// Returns the time of the last entry.
    pub(in crate::import) fn updated(&self) -> Timestamp {
        self.entries.iter().map(|entry| entry.time).max().unwrap_or(self.started)
    }

    /// Returns a digest of the entries, by which a changed conversation is recognized.
    pub(in crate::import) fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        write!(hasher, "{:?}", self.entries).expect("invariant: hashing does not fail");
        hasher.finalize().to_hex().to_string()
    }

    /// Returns the title, or the first line of the first prompt.
    pub(in crate::import) fn title(&self) -> String {
        let first_lines = self.entries.iter().filter_map(|entry| match &entry.content {
            EntryContent::Prompt(blocks) => {
                let text = Block::text_of(blocks);
                text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
            }
            EntryContent::Reply { .. } | EntryContent::Result(_) | EntryContent::Summary { .. } => {
                None
            }
        });
        let given = self.title.iter().filter(|title| !title.trim().is_empty()).cloned();
        let title = given.chain(first_lines).next().unwrap_or_default();
        title.chars().take(LONGEST_TITLE).collect()
    }
}

/// Maximum length of a title, in characters.
const LONGEST_TITLE: usize = 80;
