//! The environment of an agent: what it knows of its surroundings, as typed state.
//!
//! [`Environment`] holds an [`EnvironmentState`]: typed sections for the system, the task, jobs, checks, the workspace
//! and knowledge, and `extensions` for values of the program. Programs read and change it by typed accessors or by JSON
//! pointers. Results of tools update it through handlers.
//!
//! A model is sent the state as lines `label: value`. [`Environment::to_context`] gives all of them within a budget, for
//! the start of a conversation and after a compaction. [`Environment::delta_since`] gives what changed since a
//! [`EnvironmentRevision`], to be appended later: text that was sent is never changed, so that the provider's cache stays
//! valid. A revision can be read back from the texts that a conversation contains, so nothing has to be saved.
//!
//! Equal states give equal texts: maps are sorted, and there is no clock in it. Times are handed in as values.
//!
//! ```
//! use crow_context::environment::{DeltaOptions, Environment, TaskState, TaskStatus};
//! use crow_core::context::TokenEstimator;
//!
//! let counter = TokenEstimator::new("", &[]);
//! let mut environment = Environment::builder()
//!     .task(TaskState {
//!         objective: "Fix the parser".to_owned(),
//!         status: TaskStatus::InProgress,
//!         ..TaskState::default()
//!     })
//!     .build();
//! let told = environment.revision();
//! assert_eq!(environment.to_context(1_000, &counter), "objective: Fix the parser\nstatus: in progress\n");
//!
//! environment.system_mut().permissions = vec!["read-only".to_owned()];
//! let delta = environment.delta_since(&told, &DeltaOptions::default(), &counter).unwrap();
//! assert_eq!(delta.text, "permissions: read-only\n");
//! assert_eq!(environment.delta_since(&delta.revision, &DeltaOptions::default(), &counter), None);
//! ```

mod accessors;
mod delta;
mod entry;
mod pointer;
mod schema;
mod state;

#[cfg(test)]
mod tests;

pub use accessors::{Environment, EnvironmentSection, ToolResultHandler};
pub use delta::{DeltaOptions, EnvironmentDelta, EnvironmentRevision};
pub use entry::{EntryGroup, EnvironmentEntry};
pub use pointer::EnvironmentError;
pub use schema::StateSchema;
pub use state::{
    ArtifactInfo, CheckState, EnvironmentBuilder, EnvironmentState, FileInfo, ForeignChange,
    JobSummary, KnowledgeBase, SystemState, TaskState, TaskStatus, WorkspaceState,
};
