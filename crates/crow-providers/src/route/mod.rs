//! Routes of providers at run time: to the configured address, to a chosen one, or to none.

mod change;
mod protocol;
mod state;

pub(crate) use change::check;
pub use change::{RouteChange, RouteError};
pub use protocol::Protocol;
pub(crate) use state::{ClientRoute, ProviderRouteState, RouteProvider, RouteTarget};
pub use state::{RouteAddress, RouteSummary};
