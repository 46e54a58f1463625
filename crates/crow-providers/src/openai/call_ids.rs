//! Call ids that pair calls with results across a whole conversation.

use std::{collections::HashSet, sync::Arc};

use crow_core::{ids::CallId, message::AssistantMessage};
use uuid::Uuid;

/// The ids of all calls of a conversation.
///
/// Some servers give no id, some give the same id again, in one reply or in the next. A result names its call by the
/// id alone, so such a call gets an id of ours.
#[derive(Debug, Clone, Default)]
pub(super) struct CallIds {
    known: Arc<HashSet<CallId>>,
}

impl CallIds {
    /// Takes in the calls of a reply that is part of the history.
    pub(super) fn on_message(&mut self, message: &AssistantMessage) {
        for call in message.calls() {
            Arc::make_mut(&mut self.known).insert(call.id.clone());
        }
    }

    /// Returns the id under which a new call is known: the one that was given, if it names no other call.
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
    use super::*;

    #[test]
    fn an_id_is_passed_through_unless_it_is_missing_or_taken() {
        let mut ids = CallIds::default();
        assert_eq!(ids.assign(Some("call_1")).as_str(), "call_1");
        assert_eq!(ids.assign(Some("call_2")).as_str(), "call_2");
        for given in [Some("call_1"), Some(""), Some(" "), None] {
            let id = ids.assign(given);
            assert!(id.as_str().len() > 20 && id.as_str().starts_with("call_"), "{given:?}: {id}");
        }
    }
}
