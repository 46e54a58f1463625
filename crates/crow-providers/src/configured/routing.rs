//! A provider with what somebody chose for it.

use super::configured_provider::{ConfiguredProvider, without_secret};
use crate::{
    config::{Address, FoundKey},
    endpoint::{Endpoint, EndpointError, ExtraHeader},
    http::HttpClient,
    provider::HttpProvider,
    route::{Protocol, RouteAddress, RouteChange, RouteError, RouteSummary, RouteTarget, check},
    stored::Sources,
};

impl ConfiguredProvider {
    /// Says where the provider is called; none for one that is called nowhere.
    pub(crate) fn route(&self, sources: &Sources) -> Option<RouteSummary> {
        let own = self.dialect()?;
        let current = match self.route.place() {
            RouteTarget::Configured => {
                let base_url = self.base_url(sources).ok();
                base_url.map(|base_url| (Protocol::of(own), base_url))
            }
            RouteTarget::Chosen(chosen) => Some((chosen.protocol, chosen.base_url)),
            RouteTarget::Nowhere => None,
        };
        let current = current.map(|(protocol, base_url)| RouteAddress {
            protocol,
            base_url: without_secret(&base_url),
        });
        let provider = self.name().to_owned();
        Some(RouteSummary { provider, supported: Protocol::supported(own), current })
    }

    /// Lets the provider be called elsewhere. Neither its key nor the headers of its file are sent there.
    pub(crate) fn choose(
        &self,
        change: RouteChange,
        client: &HttpClient,
    ) -> Result<(), RouteError> {
        let name = || self.name().to_owned();
        let own = self.dialect().ok_or_else(|| RouteError::Recording { provider: name() })?;
        if !Protocol::supported(own).contains(&change.protocol) {
            return Err(RouteError::Protocol { provider: name() });
        }
        let chosen = check(change)?;
        let endpoint = Endpoint {
            provider: name(),
            dialect: chosen.protocol.dialect(own),
            base_url: chosen.base_url.clone(),
            key: None,
            headers: chosen.headers.clone(),
        };
        let timeouts = self.timeouts(&chosen.base_url);
        let made = HttpProvider::with_secret_headers(endpoint, client.clone(), timeouts);
        let made = made.map_err(|error| match error {
            EndpointError::InvalidHeader { name } => {
                RouteError::Header { name, reason: "no header is like that" }
            }
            EndpointError::InvalidUrl { reason, .. } => RouteError::Address { reason },
            EndpointError::InvalidKey { .. } => {
                RouteError::Address { reason: "no key can be sent there".to_owned() }
            }
        })?;
        self.route.choose(chosen, self.within_limits(made));
        Ok(())
    }

    /// Lets the provider be called no more.
    pub(crate) fn disable(&self) {
        if self.dialect().is_some() {
            self.route.disable();
        }
    }

    pub(crate) fn is_disabled(&self) -> bool {
        matches!(self.route.place(), RouteTarget::Nowhere)
    }

    /// Returns whether there is something to show it that it is asked with: a key, or what somebody chose.
    pub(crate) fn has_credentials(&self, sources: &Sources) -> bool {
        match self.route.place() {
            RouteTarget::Configured => self.key(sources).is_there(),
            RouteTarget::Chosen(_) => true,
            RouteTarget::Nowhere => false,
        }
    }

    /// Returns whether it is called where the configuration says, without any key.
    pub(crate) fn needs_no_key(&self, sources: &Sources) -> bool {
        matches!(self.route.place(), RouteTarget::Configured)
            && matches!(self.key(sources), FoundKey::NotNeeded)
    }

    /// Returns where a local server is asked for its models, and with which headers.
    pub(crate) fn local_server(&self, sources: &Sources) -> Option<(String, Vec<ExtraHeader>)> {
        if !matches!(self.address(), Some(Address::Local { .. })) {
            return None;
        }
        match self.route.place() {
            RouteTarget::Configured => {
                let key = match self.key(sources) {
                    FoundKey::Key(key) | FoundKey::Stored(key) => Some(key),
                    FoundKey::NotNeeded | FoundKey::Missing { .. } | FoundKey::Unusable { .. } => {
                        None
                    }
                };
                let bearer = key.map(|key| ExtraHeader {
                    name: "Authorization".to_owned(),
                    value: format!("Bearer {}", key.reveal()),
                });
                Some((self.base_url(sources).ok()?, bearer.into_iter().collect()))
            }
            RouteTarget::Chosen(chosen) => match chosen.protocol {
                Protocol::OpenAi => Some((chosen.base_url, chosen.headers)),
                Protocol::Anthropic | Protocol::Gemini => None,
            },
            RouteTarget::Nowhere => None,
        }
    }
}
