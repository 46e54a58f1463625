//! The provider's own form of a block.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ReplyContent;

/// Where a reply came from.
///
/// Signatures and encrypted items are valid only at the same place: same wire format, provider, address and model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The wire format.
    pub dialect: String,
    /// The provider's name.
    pub provider: String,
    /// The address that was asked.
    pub base_url: String,
    /// The model that was asked.
    pub model: String,
}

/// A provider's item, kept verbatim beside the block that we read from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    item: Value,
    digest: String,
}

impl Native {
    /// Retains `item` for as long as the block's content equals `content`.
    pub fn new(content: &ReplyContent, item: Value) -> Self {
        Self { item, digest: digest(content) }
    }

    /// Returns the item, unless the block was changed since (pruned, redacted).
    pub fn item_for(&self, content: &ReplyContent) -> Option<&Value> {
        (self.digest == digest(content)).then_some(&self.item)
    }
}

/// FNV-1a over the block's JSON: detects our own edits, not an attacker's.
fn digest(content: &ReplyContent) -> String {
    let bytes = serde_json::to_vec(content).expect("invariant: content of a reply is valid JSON");
    format!("{:016x}", crate::hash::fnv1a(&bytes))
}
