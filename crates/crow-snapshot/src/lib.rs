//! The snapshot store: content-addressed states of files, so that the changes of a call can be shown and undone.
//!
//! It needs no git and never touches `.git`. Contents and folders are objects named by their hash; a snapshot is the
//! hash of the root folder, or of a list of paths. The crate knows neither tools nor events: callers decide when to
//! capture what.

mod activity;
mod atomic_replace;
mod backup_copy;
mod capture;
mod codec;
mod counter;
mod diff;
mod entry;
mod error;
mod file_overlay;
mod ignore_rules;
mod index;
mod job_marks;
mod node;
mod objects;
mod own_output;
mod packs;
mod parallel_stat;
mod path_stat;
mod policy;
mod reachable_objects;
mod read_file;
mod refs;
mod restore;
mod roots;
mod scan;
mod storage_budget;
mod store;
mod store_data;
mod undo_in_progress;
mod version;
mod write_in_progress;

pub use activity::{Activities, Activity, JobActivity};
pub use capture::Capture;
pub use diff::PathChange;
pub use entry::{
    ContentRef, FileStamp, NotCovered, NotCoveredReason, NotScanned, ObjectHash, SnapshotEntry,
};
pub use error::SnapshotStoreError;
pub use job_marks::{JobMark, KilledJob};
pub use policy::SnapshotLimits;
pub use refs::is_of_project;
pub use restore::{RestoreOutcome, RestoreResult};
pub use scan::Scan;
pub use store::SnapshotStore;
pub use store_data::{CollectionReport, StoreCheckReport, StoreData};
pub use write_in_progress::WriteInProgress;
