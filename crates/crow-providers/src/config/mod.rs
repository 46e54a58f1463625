//! Configuration of providers: the built-in ones, and those described by TOML.
//!
//! Nothing here reads a file or the environment: a text is passed with its path, variables are read by a lookup
//! function.

mod built_in;
mod provider;
mod raw;
mod resolve;

pub(crate) use built_in::{Address, BUILT_IN, BuiltIn, KeyRule};
pub(crate) use provider::{
    KeyLookup, KeySource, ModelSettings, PriceSettings, ProviderKind, find_key,
};
pub use provider::{ProviderConfig, ProviderDestination, is_built_in};
pub use raw::provider_schema;
pub(crate) use resolve::{base_url, host};
