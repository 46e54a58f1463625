//! Where providers are called while the program runs: where the configuration says, where somebody chose, or nowhere.

mod change;
mod configured;
mod following;
mod protocol;
mod state;

pub(crate) use change::check;
pub use change::{RouteChange, RouteError};
pub(crate) use following::Following;
pub use protocol::Protocol;
pub(crate) use state::{Asker, Chosen, Place, Route};
pub use state::{RouteAddress, RouteSummary};
