//! Tests of the snapshot store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, too"
)]

mod activities;
mod hazards;
mod laws;
mod packs;
mod project;
mod race;
mod scans;
mod undos;
mod upkeep;

use proptest::test_runner::Config as ProptestConfig;

/// Proptest configuration with `default_cases` cases, unless `PROPTEST_CASES` sets another number.
pub(crate) fn cases(default_cases: u32) -> ProptestConfig {
    let defaults = ProptestConfig::default();
    let cases = if defaults.cases == 256 { default_cases } else { defaults.cases };
    ProptestConfig { cases, failure_persistence: None, ..defaults }
}
