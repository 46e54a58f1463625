//! One provider, from all sources: built-in data, its file, the environment, and a route chosen at run time.

mod configured_provider;
mod routing;
mod summary;

pub(crate) use configured_provider::ConfiguredProvider;
pub use summary::{CredentialStatus, ModelSummary, ProviderSummary};
