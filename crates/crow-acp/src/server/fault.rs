//! What is answered when something cannot be done.

use agent_client_protocol::Error;
use crow_core::ids::SessionId;
use crow_runtime::{HandleError, HostError};

use crate::view::{self, PromptFault};

/// The code of something that does not exist.
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

/// Makes the error of parameters that cannot be used.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    let mut error = Error::invalid_params();
    error.message = message.into();
    error
}

/// Makes the error of a session that the connection does not show.
pub(super) fn not_open(id: &SessionId) -> Error {
    Error::new(NOT_FOUND, format!("session {id} is not open here; load or resume it"))
}
