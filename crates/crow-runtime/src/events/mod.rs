//! Event output: durable events go to the session log first, then every event to the main stream and to any number of
//! observers.

mod observer;
mod open_reply;
mod outlet;
mod recorder;
mod stream;

pub use observer::{Observer, ObserverItem};
pub use open_reply::OpenReply;
pub use stream::EventStream;

pub(crate) use observer::{ObserveFrom, OneAgent};
pub(crate) use outlet::Outlet;
pub(crate) use recorder::Recorder;
