//! Tests of the public functions.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, too")]

mod directory;
mod race;
