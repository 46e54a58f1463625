//! The report of a run, built from its events, and the exit code that it means.

mod advice;
mod builder;
mod exit_code;
mod joined_commands;
mod model_usage;
mod run_report;
mod run_state;
#[cfg(test)]
mod tests;

pub use builder::{ReportBuilder, prices_of, usage_of};
pub use exit_code::{ExitCode, RunFacts};
pub use run_report::{
    ErrorReport, FailureReport, RefusalReport, ReportOutcome, RunReport, UsageReport,
};
