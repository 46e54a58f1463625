//! The tools with which an agent ends its turn on purpose.

use std::sync::Arc;

use crow_core::{
    control::EndTool,
    tool::{Tool, TypedToolAdapter},
};

use crate::{submit_for_review::SubmitForReview, task_complete::TaskComplete};

/// The tools with which an agent ends its turn on purpose. The control flow decides which agent gets which.
#[derive(Clone)]
pub struct EndTools {
    /// Tool that reports the task as done.
    pub task_complete: Arc<dyn Tool>,
    /// Tool that hands the work to the reviewers.
    pub submit_for_review: Arc<dyn Tool>,
}

impl EndTools {
    /// Returns the tool of this kind.
    pub(super) fn get(&self, tool: EndTool) -> &Arc<dyn Tool> {
        match tool {
            EndTool::TaskComplete => &self.task_complete,
            EndTool::SubmitForReview => &self.submit_for_review,
        }
    }
}

impl Default for EndTools {
    fn default() -> Self {
        Self {
            task_complete: Arc::new(TypedToolAdapter::new(TaskComplete::default())),
            submit_for_review: Arc::new(TypedToolAdapter::new(SubmitForReview)),
        }
    }
}

impl std::fmt::Debug for EndTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndTools").finish_non_exhaustive()
    }
}
