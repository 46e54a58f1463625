//! One provider, from all sources: built-in data, its file, the environment, and a route chosen at run time.

mod configured_provider;
mod routed_provider;
mod routing;

pub(crate) use configured_provider::ConfiguredProvider;
