//! The report of a run, built from its events, and the exit code that it means.

mod advice;
mod builder;
mod run_report;
mod run_state;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use advice::SAMPLE_HINTS;
pub use advice::{PermissionsHint, ProgramHints};
pub use builder::{ReportBuilder, prices_of, usage_of};
pub use run_report::{
    ErrorReport, ExitCode, FailureReport, RefusalReport, ReportOutcome, RunFacts, RunReport,
    UsageReport,
};
