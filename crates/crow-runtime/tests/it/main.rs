//! Tests of the runtime's behaviour.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, too"
)]

mod answers;
mod children;
mod damage;
mod external_results;
mod jobs;
mod observers;
mod orphans;
mod questions;
mod rule_links;
mod rules;
mod runtime;
mod schedules;
mod sessions;
mod shutdown;
mod support;
mod undo;
