//! Where providers are called while the program runs: where the configuration says, where somebody chose, or nowhere.

mod change;
mod protocol;
mod state;

pub(crate) use change::check;
pub use change::{RouteChange, RouteError};
pub use protocol::Protocol;
pub(crate) use state::{Asker, ClientRoute, ProviderRouteState, RouteTarget};
pub use state::{RouteAddress, RouteSummary};
