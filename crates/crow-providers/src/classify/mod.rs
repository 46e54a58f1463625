//! What went wrong: from an HTTP answer, an error in the middle of a stream, or the network, to a `ProviderError`.
//!
//! One reader serves all vendors, since servers that speak one vendor's format often complain in another's.

mod answer;
mod complaint;
mod kind;
mod network;
mod text;
mod wait;

pub(crate) use answer::{ErrorAnswer, refused, request_id};
pub(crate) use complaint::error_event;
pub(crate) use network::{broken_reply, not_sent};
pub(crate) use text::{one_line, shorten};
pub(crate) use wait::in_words as wait_in_words;
