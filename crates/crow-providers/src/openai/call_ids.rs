//! Call ids that pair calls with results across a whole conversation.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crow_core::{ids::CallId, message::AssistantMessage};
use uuid::Uuid;

/// The ids of all calls of a conversation.
///
/// A result refers to its call by the id alone. But some servers give no id, and some repeat one, in the same reply or
/// in the next: such a call gets a new id when it is received. A history may contain replies of other services, whose
/// ids may repeat or be too long for this one: those get another id on the wire, always the same one.
#[derive(Debug, Clone)]
pub(super) struct CallIds {
    known: Arc<HashSet<CallId>>,
    /// Ids that were sent.
    sent: HashSet<String>,
    /// Wire ids of the last reply's calls, for the results that follow.
    open: HashMap<CallId, String>,
    /// Maximum number of characters that the service accepts.
    longest: usize,
}

impl CallIds {
    pub(super) fn new(longest: usize) -> Self {
        Self { known: Arc::default(), sent: HashSet::new(), open: HashMap::new(), longest }
    }

    /// Registers the calls of a reply in the history.
    pub(super) fn on_message(&mut self, message: &AssistantMessage) {
        self.open.clear();
        for call in message.calls() {
            Arc::make_mut(&mut self.known).insert(call.id.clone());
            let wire = self.free_id(call.id.as_str());
            self.sent.insert(wire.clone());
            self.open.insert(call.id.clone(), wire);
        }
    }

    /// Returns the wire id of a call of the last reply.
    pub(super) fn wire<'a>(&'a self, id: &'a CallId) -> &'a str {
        self.open.get(id).map_or(id.as_str(), String::as_str)
    }

    /// Returns the taken ids for the decoder of a new reply.
    pub(super) fn for_reply(&self) -> ReplyIds {
        ReplyIds { known: Arc::clone(&self.known) }
    }

    fn free_id(&self, id: &str) -> String {
        let is_free = |id: &str| !self.sent.contains(id);
        let id = if id.is_empty() { "call" } else { id };
        if id.chars().count() <= self.longest && is_free(id) {
            return id.to_owned();
        }
        let mut numbered = (2_usize..).map(|number| {
            let end = format!("_{number}");
            let start: String = id.chars().take(self.longest.saturating_sub(end.len())).collect();
            start + &end
        });
        numbered.find(|id| is_free(id)).expect("invariant: there are fewer calls than numbers")
    }
}

/// Taken ids, which the calls of a new reply may not have.
#[derive(Debug)]
pub(super) struct ReplyIds {
    known: Arc<HashSet<CallId>>,
}

impl ReplyIds {
    /// Returns the id of a new call: the given one if it is not taken, otherwise a generated one.
    pub(super) fn assign(&mut self, given: Option<&str>) -> CallId {
        let given = given.filter(|id| !id.trim().is_empty()).map(CallId::new);
        let id = given
            .filter(|id| !self.known.contains(id))
            .unwrap_or_else(|| CallId::new(format!("call_{}", Uuid::now_v7().simple())));
        Arc::make_mut(&mut self.known).insert(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use crow_core::message::{CallArguments, ReplyBlock};

    use super::*;
    use crate::openai::testing;

    #[test]
    fn an_id_is_passed_through_unless_it_is_missing_or_taken() {
        let mut ids = CallIds::new(40).for_reply();
        assert_eq!(ids.assign(Some("call_1")).as_str(), "call_1");
        assert_eq!(ids.assign(Some("call_2")).as_str(), "call_2");
        for given in [Some("call_1"), Some(""), Some(" "), None] {
            let id = ids.assign(given);
            assert!(id.as_str().len() > 20 && id.as_str().starts_with("call_"), "{given:?}: {id}");
        }
    }

    #[test]
    fn wire_ids_are_unique_and_not_too_long() {
        let mut ids = CallIds::new(10);
        for (given, expected) in [
            ("call_1", "call_1"),
            ("call_2", "call_2"),
            ("call_1", "call_1_2"),
            ("call_1", "call_1_3"),
            ("functions.bash:0", "function_2"),
            ("functions.bash:1", "function_3"),
            ("", "call"),
            ("", "call_3"),
        ] {
            let call = testing::call(given, CallArguments::parse("{}"));
            let message = testing::assistant_message(vec![ReplyBlock::without_native_item(call)]);
            ids.on_message(&message);
            assert_eq!(ids.wire(&CallId::new(given)), expected, "{given}");
        }
    }
}
