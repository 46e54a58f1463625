//! What is read, decided and moved, without a sandbox around it.

mod dial;
mod request;
mod server;
