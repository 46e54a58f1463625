//! Tests of the proxy without a sandbox around it: parsing, decisions and relaying.

mod dial;
mod request;
mod server;
