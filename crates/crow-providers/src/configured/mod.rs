//! One provider with everything that is said about it: built in, configured, in the environment, and chosen while the program runs.

mod configured_provider;
mod following;
mod routing;

pub(crate) use configured_provider::ConfiguredProvider;
