//! Check of the frozen prefix: request n + 1 must begin with request n.

use std::collections::HashMap;

use super::sequence::{conversation_key, prefix_sequence};
use super::{Rule, Violation};
use crate::server::RecordedRequest;
use crate::wire::WireDialect;

/// Scope of the prefix check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrefixCheck {
    /// Requests of one conversation: same model, same system prompt and same first user message.
    #[default]
    PerConversation,
    /// All requests of one model: this also detects a changed system prompt or first message.
    OneConversation,
    /// No check.
    Off,
}

/// The last request of each conversation.
#[derive(Debug, Default)]
pub(in super::super) struct PrefixHistory(HashMap<(WireDialect, String, String), Vec<String>>);

impl PrefixHistory {
    /// Forgets all requests, so that the next ones may begin anew.
    pub(in super::super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Compares a request with the previous one of its conversation, and stores it as the new previous one.
    pub(in super::super) fn check(
        &mut self,
        request: &RecordedRequest,
        check: PrefixCheck,
    ) -> Option<Violation> {
        let conversation = match check {
            PrefixCheck::PerConversation => conversation_key(request.dialect, &request.body),
            PrefixCheck::OneConversation => String::new(),
            PrefixCheck::Off => return None,
        };
        let key = (request.dialect, request.model().to_owned(), conversation);
        let now = prefix_sequence(request.dialect, &request.body);
        let violation = self.0.get(&key).and_then(|before| compare(before, &now));
        self.0.insert(key, now);
        violation
    }
}

fn compare(before: &[String], now: &[String]) -> Option<Violation> {
    let is_changed = |(position, element): (usize, &String)| now.get(position) != Some(element);
    let position = before.iter().enumerate().position(is_changed)?;
    let was = before.get(position).map_or("", String::as_str);
    let is = now.get(position).map_or("", String::as_str);
    Some(Violation::new(Rule::Prefix, describe(position, before.len(), was, is)))
}

fn describe(position: usize, count: usize, was: &str, is: &str) -> String {
    let same = was.bytes().zip(is.bytes()).take_while(|(left, right)| left == right).count();
    format!(
        "element {position} of {count} (tools, system, messages) was not sent as before, from byte {same} on:\n    was \
         {}\n    is  {}",
        excerpt(was, same),
        excerpt(is, same)
    )
}

/// Returns the text from 40 bytes before to 80 bytes after a position.
fn excerpt(text: &str, byte: usize) -> String {
    let is_near = |position: usize| position + 40 >= byte && position <= byte + 80;
    let near: String = text
        .char_indices()
        .filter(|(position, _)| is_near(*position))
        .map(|(_, character)| character)
        .collect();
    if near.is_empty() { "(nothing)".to_owned() } else { format!("...{near}...") }
}
