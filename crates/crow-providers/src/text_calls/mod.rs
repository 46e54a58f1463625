//! Tool calls as text, for models that cannot call tools natively, and for those that sometimes write a call into their
//! text all the same.
//!
//! [`TextCallProvider`] wraps any provider. For a model without native calls it describes the tools in the system
//! prompt and sends earlier calls and results as text ([`request`]), and reads the calls of a reply from its
//! text ([`read`]). For a model with native calls it changes no request, and only reads replies without a native call. A
//! model that turns out to accept no tools is switched to text ([`refusal`]).

mod provider;
mod read;
mod refusal;
mod request;

pub use provider::TextCallProvider;
