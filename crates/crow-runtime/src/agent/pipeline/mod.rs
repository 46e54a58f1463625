//! The pipeline of every tool call: resolve, plan, decide, ask, capture, log, run, capture, log.

mod call;
mod call_reports;
mod changes;
mod moved_files;
mod output_bound;
mod prepare;
mod run;
mod sandbox;
mod unasked_read;

pub use call::ExecutedCall;
pub(crate) use call::{CallHookResults, CallPipeline, CallPipelineParts};
pub(crate) use changes::{ChangeTracker, ChangeTrackerParts, wait_for_scan};
pub(crate) use moved_files::{MovedFileNotices, report_last_moved_files};
pub(crate) use sandbox::{CallSandbox, CallSandboxParts};
pub use unasked_read::{ReadingLine, ReadingLineEnd, UnaskedRead};
