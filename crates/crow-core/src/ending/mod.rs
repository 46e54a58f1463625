//! How a run ended: what a claim of finished work is held against, and what a last text means.

mod assessment;
mod closing_text;
mod phrases;
mod work_record;

pub use assessment::EndFacts;
pub use closing_text::{ClosingKind, ClosingText};
pub use work_record::{
    Contradiction, SharedWorkRecord, WorkCall, WorkKind, WorkRecord, WorkStatus,
};

pub use crate::run::{EndAssessment, EndKind};
