//! Where one provider is called at the moment.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::model::Provider;

use super::Protocol;
use crate::{endpoint::ExtraHeader, secret::ApiKey};

/// A provider with where it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSummary {
    /// Its name.
    pub provider: String,
    /// What can be spoken with it, its own first.
    pub supported: Vec<Protocol>,
    /// Where it is called; none while it is disabled, or while what is configured is no address.
    pub current: Option<RouteAddress>,
}

/// Where a provider is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteAddress {
    /// What is spoken there.
    pub protocol: Protocol,
    /// The address that the protocol's paths are appended to, without any secret.
    pub base_url: String,
}

/// What asks a provider, and the number of the place where it does.
pub(crate) type Asker = (u64, Arc<dyn Provider>);

/// Where a provider is called at the moment.
#[derive(Default)]
pub(crate) struct ProviderRouteState(Mutex<CurrentRoute>);

#[derive(Default)]
struct CurrentRoute {
    /// Another one whenever it is called elsewhere.
    number: u64,
    place: RouteTarget,
    /// What asks it there, once it was made.
    provider: Option<Arc<dyn Provider>>,
    /// The key that it sends, if that is one which is kept for it.
    stored_key: Option<ApiKey>,
}

/// Who says where a provider is called.
#[derive(Debug, Clone, Default)]
pub(crate) enum RouteTarget {
    /// The configuration.
    #[default]
    Configured,
    /// Somebody who chose it for this process.
    Chosen(ClientRoute),
    /// It is disabled.
    Nowhere,
}

/// A place that somebody chose.
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

    /// Returns what asks the provider, and the number of the place where; none where there is nothing to ask.
    pub(crate) fn current(&self) -> Option<Asker> {
        let now = self.now();
        now.provider.as_ref().map(|provider| (now.number, Arc::clone(provider)))
    }

    /// Keeps what asks the provider where the configuration says, with the stored key that it sends, if it is still called
    /// there and nothing is kept yet.
    pub(crate) fn keep(&self, provider: Arc<dyn Provider>, stored_key: Option<ApiKey>) {
        let mut now = self.now();
        if matches!(now.place, RouteTarget::Configured) && now.provider.is_none() {
            now.provider = Some(provider);
            now.stored_key = stored_key;
        }
    }

    /// Returns the stored key that is sent where the configuration says.
    pub(crate) fn stored_key(&self) -> Option<ApiKey> {
        self.now().stored_key.clone()
    }

    /// Drops what asks the provider where the configuration says: it is made again when it is needed.
    pub(crate) fn make_again(&self) {
        let mut now = self.now();
        if matches!(now.place, RouteTarget::Configured) {
            *now = CurrentRoute { number: now.number + 1, ..CurrentRoute::default() };
        }
    }

    /// Returns whether it is known already what asks the provider, or that nothing does.
    pub(crate) fn is_settled(&self) -> bool {
        let now = self.now();
        now.provider.is_some() || !matches!(now.place, RouteTarget::Configured)
    }

    pub(crate) fn choose(&self, chosen: ClientRoute, provider: Arc<dyn Provider>) {
        self.go(RouteTarget::Chosen(chosen), Some(provider));
    }

    pub(crate) fn disable(&self) {
        self.go(RouteTarget::Nowhere, None);
    }

    fn go(&self, place: RouteTarget, provider: Option<Arc<dyn Provider>>) {
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
    /// Leaves the address out: it may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
