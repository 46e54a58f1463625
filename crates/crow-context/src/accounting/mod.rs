//! Accounting of a context window: what fills it, by owner, and how much of each request the provider had in its cache.
//!
//! [`ContextAudit`] folds the log of a session, live or stored. [`ContextAudit::usage`] divides the next request among
//! its owners; [`ContextAudit::requests`] has every model call with what became of its cached prefix, and why;
//! [`ContextAudit::compactions`] has what was left out of the conversation.

mod audit;
mod sent_messages;
mod shares;
#[cfg(test)]
mod tests;

pub use audit::{
    CacheMissCause, CacheOutcome, CompactionRecord, ContextAudit, RequestKind, RequestRecord,
};
pub use sent_messages::PrefixDifference;
pub use shares::{ContextOwner, ContextShare, ContextUsage, LargeOutput};
