//! Conversion of failures to `ProviderError`: HTTP answers, errors within a stream, and network errors.
//!
//! One parser serves all vendors, since servers with one vendor's format often report errors in another's.

mod answer;
mod error_object;
mod kind;
mod network;
mod text;
mod wait;

pub(crate) use answer::{ErrorAnswer, answer_error, request_id};
pub(crate) use error_object::error_event;
pub(crate) use network::{body_error, send_error};
pub(crate) use text::{one_line, shorten};
pub(crate) use wait::in_words as wait_in_words;
