//! The ledger of changes, from which an undo computes what to revert.

mod change_ledger;
mod killed_jobs;
mod steps;

pub(super) use change_ledger::ChangeLedger;
