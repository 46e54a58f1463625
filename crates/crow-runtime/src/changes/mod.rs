//! Recording of the changes of calls: files are captured before and after a call, and the difference goes into its
//! result.

mod change_description;
mod job_watch;
mod leases;
mod recording;
mod stores;
mod tool_snapshots;

pub(crate) use change_description::{ChangeDescription, describe, describe_all};
pub(crate) use job_watch::{JobWatch, WatchedJob, is_known};
pub(crate) use leases::{Lease, Leases};
pub(crate) use recording::{ChangeRecording, ChangeScope};
pub use stores::SnapshotStores;
pub(crate) use tool_snapshots::ToolSnapshots;
