//! The reader beside `SQLite` itself.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod common;
mod random;
mod reading;
