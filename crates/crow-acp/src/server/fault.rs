//! Error responses.

use agent_client_protocol::Error;
use crow_core::ids::SessionId;
use crow_runtime::{HandleError, HostError};

use crate::view::{self, PromptFault};

/// Error code of a resource that does not exist.
const NOT_FOUND: i32 = -32002;

pub(super) fn host_error(error: &HostError) -> Error {
    view::host_error(error).into()
}

pub(super) fn handle_error(error: &HandleError) -> Error {
    view::handle_error(error).into()
}

pub(super) fn prompt_fault(fault: &PromptFault) -> Error {
    view::prompt_error(fault).into()
}

/// Returns the error for invalid parameters.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    let mut error = Error::invalid_params();
    error.message = message.into();
    error
}

/// Returns the error for a session that is not attached to the connection.
pub(super) fn not_open(id: &SessionId) -> Error {
    Error::new(NOT_FOUND, format!("session {id} is not open here; load or resume it"))
}
