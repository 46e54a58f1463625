//! Hosts of a network: their names, which of them may be reached, and which addresses are public. No I/O.

mod hosts;
mod public_address;

pub use hosts::{
    AllowedHosts, HostAddress, HostPattern, HostPatternError, Network, normalize_host,
};
pub use public_address::is_public;
