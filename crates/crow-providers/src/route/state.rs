//! The current route of a provider.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::model::Provider;

use super::Protocol;
use crate::{endpoint::ExtraHeader, secret::ApiKey};

/// A provider with its current route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSummary {
    /// Its name.
    pub provider: String,
    /// Protocols that it supports, its own first.
    pub supported: Vec<Protocol>,
    /// Current address; none while it is disabled, or while the configured address is invalid.
    pub current: Option<RouteAddress>,
}

/// Address of a provider's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteAddress {
    /// Protocol at the address.
    pub protocol: Protocol,
    /// Address to which the protocol's paths are appended, without any secret.
    pub base_url: String,
}

/// The provider that sends the requests, with the number of its route.
pub(crate) type RouteProvider = (u64, Arc<dyn Provider>);

/// State of a provider's current route.
#[derive(Default)]
pub(crate) struct ProviderRouteState(Mutex<CurrentRoute>);

#[derive(Default)]
struct CurrentRoute {
    /// Incremented with each change of the route.
    revision: u64,
    target: RouteTarget,
    /// The provider that sends the requests, once it was made.
    provider: Option<Arc<dyn Provider>>,
    /// The key that it sends, if that is from the store.
    stored_key: Option<ApiKey>,
}

/// Target of a provider's requests.
#[derive(Debug, Clone, Default)]
pub(crate) enum RouteTarget {
    /// The configured address.
    #[default]
    Configured,
    /// An address that was chosen for this process.
    Chosen(ClientRoute),
    /// None: the provider is disabled.
    Disabled,
}

/// An address that was chosen at run time.
#[derive(Clone)]
pub(crate) struct ClientRoute {
    pub(crate) protocol: Protocol,
    pub(crate) base_url: String,
    pub(crate) headers: Vec<ExtraHeader>,
}

impl ProviderRouteState {
    pub(crate) fn target(&self) -> RouteTarget {
        self.lock().target.clone()
    }

    /// Returns the provider that sends the requests, with the number of its route; none if it is disabled or not made
    /// yet.
    pub(crate) fn current(&self) -> Option<RouteProvider> {
        let now = self.lock();
        now.provider.as_ref().map(|provider| (now.revision, Arc::clone(provider)))
    }

    /// Stores the provider for the configured address, with the stored key that it sends, if that is still the route
    /// and none is stored yet.
    pub(crate) fn store_provider(&self, provider: Arc<dyn Provider>, stored_key: Option<ApiKey>) {
        let mut now = self.lock();
        if matches!(now.target, RouteTarget::Configured) && now.provider.is_none() {
            now.provider = Some(provider);
            now.stored_key = stored_key;
        }
    }

    /// Returns the stored key that is sent to the configured address.
    pub(crate) fn stored_key(&self) -> Option<ApiKey> {
        self.lock().stored_key.clone()
    }

    /// Drops the provider for the configured address, so that it is made again when it is needed.
    pub(crate) fn reset(&self) {
        let mut now = self.lock();
        if matches!(now.target, RouteTarget::Configured) {
            *now = CurrentRoute { revision: now.revision + 1, ..CurrentRoute::default() };
        }
    }

    /// Returns true if no provider has to be made: there is one, or the route is not to the configured address.
    pub(crate) fn is_settled(&self) -> bool {
        let now = self.lock();
        now.provider.is_some() || !matches!(now.target, RouteTarget::Configured)
    }

    pub(crate) fn set_chosen(&self, chosen: ClientRoute, provider: Arc<dyn Provider>) {
        self.set(RouteTarget::Chosen(chosen), Some(provider));
    }

    pub(crate) fn disable(&self) {
        self.set(RouteTarget::Disabled, None);
    }

    fn set(&self, place: RouteTarget, provider: Option<Arc<dyn Provider>>) {
        let mut now = self.lock();
        let number = now.revision + 1;
        *now = CurrentRoute { revision: number, target: place, provider, stored_key: None };
    }

    fn lock(&self) -> MutexGuard<'_, CurrentRoute> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProviderRouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.lock().target).finish()
    }
}

impl fmt::Debug for ClientRoute {
    /// Omits the address, which may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
