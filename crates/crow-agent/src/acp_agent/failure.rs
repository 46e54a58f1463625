//! Conversion of agent errors into the failures of events.

use crow_core::{
    event::{Failure, FailureKind},
    model::ModelsError,
};
use crow_runtime::AgentError;

/// Returns the failure of an error: its text, and the kind that says who must act.
pub(super) fn failure_of(error: &AgentError) -> Failure {
    let lacks_credentials = matches!(
        error,
        AgentError::Models(ModelsError::NoCredentials { .. } | ModelsError::NoneConfigured)
    );
    let kind = if let AgentError::Provider(error) = error {
        error.kind.into()
    } else if lacks_credentials {
        FailureKind::Credentials
    } else if matches!(error, AgentError::NoPrice { .. }) {
        FailureKind::Request
    } else {
        FailureKind::Other
    };
    Failure { error: error.to_string(), kind }
}
