//! The answerer for runs without a person.

use async_trait::async_trait;
use crow_core::{
    capability::{Answerer, PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionRequest},
    tool::Subject,
};

/// Answerer for runs without a terminal: the policy decides, and the hint says how the user can permit the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadlessAnswerer;

#[async_trait]
impl Answerer for HeadlessAnswerer {
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer {
        // The hint omits the resolved path: it may lie in a place that the model may not read.
        let remedy = match (request.least_mode, &request.subject) {
            (Some(mode), _) => format!("the user can permit it with --permissions {mode}"),
            (None, Subject::Path(_)) => {
                "no mode permits it, only a rule of the user that names this path".to_owned()
            }
            (None, Subject::Nothing | Subject::Command(_)) => {
                "no mode permits it, only a rule of the user".to_owned()
            }
        };
        let hint = format!("{}, and there is no terminal to ask at; {remedy}", request.reason);
        PermissionAnswer::Nobody { hint }
    }

    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        QuestionAnswer::Nobody { hint: "there is no terminal to ask at".to_owned() }
    }
}
