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
pub(crate) type Asker = (u64, Arc<dyn Provider>);

/// State of a provider's current route.
#[derive(Default)]
pub(crate) struct ProviderRouteState(Mutex<CurrentRoute>);

#[derive(Default)]
struct CurrentRoute {
    /// Incremented with each change of the route.
    number: u64,
    place: RouteTarget,
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
    Nowhere,
}

/// An address that was chosen at run time.
#[derive(Clone)]
pub(crate) struct ClientRoute {
    pub(crate) protocol: Protocol,
    pub(crate) base_url: String,
    pub(crate) headers: Vec<ExtraHeader>,
}

impl ProviderRouteState {
    pub(crate) fn place(&self) -> RouteTarget {
        self.now().place.clone()
    }

    /// Returns the provider that sends the requests, with the number of its route; none if it is disabled or not made
    /// yet.
    pub(crate) fn current(&self) -> Option<Asker> {
        let now = self.now();
        now.provider.as_ref().map(|provider| (now.number, Arc::clone(provider)))
    }

    /// Stores the provider for the configured address, with the stored key that it sends, if that is still the route
    /// and none is stored yet.
    pub(crate) fn keep(&self, provider: Arc<dyn Provider>, stored_key: Option<ApiKey>) {
        let mut now = self.now();
        if matches!(now.place, RouteTarget::Configured) && now.provider.is_none() {
            now.provider = Some(provider);
            now.stored_key = stored_key;
        }
    }

    /// Returns the stored key that is sent to the configured address.
    pub(crate) fn stored_key(&self) -> Option<ApiKey> {
        self.now().stored_key.clone()
    }

    /// Drops the provider for the configured address, so that it is made again when it is needed.
    pub(crate) fn make_again(&self) {
        let mut now = self.now();
        if matches!(now.place, RouteTarget::Configured) {
            *now = CurrentRoute { number: now.number + 1, ..CurrentRoute::default() };
        }
    }

    /// Returns true if no provider has to be made: there is one, or the route is not to the configured address.
    pub(crate) fn is_settled(&self) -> bool {
        let now = self.now();
        now.provider.is_some() || !matches!(now.place, RouteTarget::Configured)
    }

    pub(crate) fn choose(&self, chosen: ClientRoute, provider: Arc<dyn Provider>) {
        self.set(RouteTarget::Chosen(chosen), Some(provider));
    }

    pub(crate) fn disable(&self) {
        self.set(RouteTarget::Nowhere, None);
    }

    fn set(&self, place: RouteTarget, provider: Option<Arc<dyn Provider>>) {
        let mut now = self.now();
        let number = now.number + 1;
        *now = CurrentRoute { number, place, provider, stored_key: None };
    }

    fn now(&self) -> MutexGuard<'_, CurrentRoute> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProviderRouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.now().place).finish()
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
