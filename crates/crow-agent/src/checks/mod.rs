//! Verified completion: commands of the user whose success is the evidence that work is done.
//!
//! What the model says counts for nothing here, and neither does what it wrote: only the commands that the user configured,
//! run with the files as they are.

mod check;
mod list;
mod run;

pub use check::Check;
pub use list::Checks;

pub(crate) use list::CheckOutcome;
