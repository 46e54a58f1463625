//! Verified completion: commands of the user whose success is the evidence that work is done.
//!
//! Neither what the model says nor what it wrote counts here, only the commands that the user configured, run with
//! the files as they are.

mod check;
mod list;
mod run;

pub use check::Check;
pub use list::Checks;

pub(crate) use list::CheckOutcome;
