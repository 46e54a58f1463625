//! Model providers: HTTP, event streams, the wire formats of the vendors, and data about their models.

#![expect(
    clippy::result_large_err,
    reason = "the provider traits name the error, and errors are rare"
)]

mod anthropic;
mod catalogue;
mod classify;
mod codec;
mod config;
mod configured;
mod dialect;
mod endpoint;
mod gemini;
mod http;
mod limit;
mod local_server;
mod model_list;
mod models;
mod openai;
mod provider;
mod replay;
mod retry;
mod route;
mod secret;
mod sse;
mod text_calls;
mod wire_json;

pub use config::{ProviderConfig, ProviderDestination, is_built_in, provider_schema};
pub use configured::{CredentialStatus, ModelSummary, ProviderSummary};
pub use dialect::{Dialect, Protocol};
pub use endpoint::{Endpoint, EndpointError, ExtraHeader};
pub use http::{HttpClient, HttpClientError, Proxies, Timeouts, WireExchange, WireLog};
pub use limit::{RateLimitedProvider, RateLimiter, RateLimits, RequestSlot};
pub use model_list::ModelListError;
pub use models::{FoundModel, FoundServer, ProviderModels, discover};
pub use openai::ChatVariant;
pub use provider::HttpProvider;
pub use replay::{RecordingError, ReplayProvider};
pub use retry::RetryPolicy;
pub use route::{RouteAddress, RouteChange, RouteError, RouteSummary};
pub use secret::{ApiKey, KeyDestination, KeyStore, StoredKey};
pub use text_calls::TextCallProvider;
