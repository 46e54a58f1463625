//! Event output: every event of a root session goes to its main stream and to any number of observers.

mod open_reply;
mod outlet;
mod stream;

pub use open_reply::OpenReply;
pub use stream::EventStream;

pub(crate) use outlet::{EventSlot, Outlet};
