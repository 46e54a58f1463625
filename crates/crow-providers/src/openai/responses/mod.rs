//! Responses, `POST …/responses`, without state on the server: every request contains the whole conversation.

mod decoder;
mod encode;
mod output;

pub(crate) use encode::ResponsesCodec;
