//! Call ids in the form that this format accepts: `[a-zA-Z0-9_-]+`, unique in a conversation.

use std::collections::{HashMap, HashSet};

use crow_core::{ids::CallId, message::AssistantMessage};

/// Mapping of call ids to ids on the wire. It is deterministic: the same conversation gets the same ids again.
#[derive(Debug, Default)]
pub(super) struct WireIds {
    used: HashSet<String>,
    /// Wire ids of the last reply's calls, which the following results refer to.
    open: HashMap<CallId, String>,
}

impl WireIds {
    /// Assigns a wire id to each call of a reply.
    pub(super) fn on_reply(&mut self, message: &AssistantMessage) {
        self.open.clear();
        for call in message.calls() {
            let mut wire = call.id.as_str().to_owned();
            let mut round = 0_u32;
            while !is_valid(&wire) || self.used.contains(&wire) {
                wire = format!("call_{:016x}", fnv1a(&format!("{}#{round}", call.id)));
                round += 1;
            }
            self.used.insert(wire.clone());
            self.open.insert(call.id.clone(), wire);
        }
    }

    /// Returns the wire id of a call of the last reply; for other calls, the id itself.
    pub(super) fn wire_id<'a>(&'a self, id: &'a CallId) -> &'a str {
        self.open.get(id).map_or(id.as_str(), String::as_str)
    }
}

fn is_valid(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// FNV-1a hash: the same on every machine and in every version, unlike the standard library's hashes.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
