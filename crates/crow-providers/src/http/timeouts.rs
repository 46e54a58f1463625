//! How long the driver waits for a server.

use std::time::Duration;

/// How long the driver waits for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the beginning of an answer. A local server may first load a model or read a long prompt.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { first_byte: Duration::from_mins(3), idle: Duration::from_mins(1) }
    }
}
