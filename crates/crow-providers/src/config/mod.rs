//! Configuration of providers: the built-in ones, and those described by TOML.
//!
//! Nothing here reads a file or the environment: a text is passed with its path, variables are read by a lookup
//! function.

mod address;
mod built_in;
mod destination;
mod key;
mod provider;
mod raw;
mod resolve;

pub(crate) use address::{base_url, host};
pub(crate) use built_in::{Address, BUILT_IN, BuiltIn, KeyRule};
pub use destination::ProviderDestination;
pub(crate) use key::{KeyLookup, KeySource, find as find_key};
pub(crate) use provider::{ModelSettings, PriceSettings, ProviderKind};
pub use provider::{ProviderConfig, is_built_in};
pub use raw::provider_schema;
