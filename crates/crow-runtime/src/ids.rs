//! Identifiers that sort by time.

use std::sync::Arc;

use crow_core::ids::IdSource;
use uuid::Uuid;

/// Generates UUIDs of version 7: later ones sort later.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidSource;

impl IdSource for UuidSource {
    fn next_id(&self) -> Arc<str> {
        Uuid::now_v7().to_string().into()
    }
}
