//! Conversion of failures to `ProviderError`: HTTP answers, errors within a stream, and network errors.
//!
//! One parser serves all vendors, since servers with one vendor's format often report errors in another's.

mod answer;
mod kind;
mod network;
mod tool_refusal;

pub(crate) use answer::{ErrorAnswer, answer_error, error_event, one_line, request_id, shorten};
pub(crate) use network::{body_error, send_error};
pub(crate) use tool_refusal::refuses_tools;
