//! Provider addresses as clients see and change them.

use crow_core::model::ModelRef;
use crow_providers::{ExtraHeader, Protocol, ProviderModels, RouteChange, RouteError};
use crow_runtime::{
    HostError, ProviderAddress, ProviderChange, ProviderHeader, ProviderNecessity,
    ProviderProtocol, ProviderRoute, SecretText,
};

use crate::known_secrets;

/// Protocol name of Gemini. The leading underscore marks names that the client protocol does not define.
const GEMINI: &str = "_gemini";

/// Returns the providers that have an address. None is required: a session whose provider is disabled fails at its
/// next request and can continue with another model.
pub(super) fn routes(providers: &ProviderModels) -> Vec<ProviderRoute> {
    let routes = providers.routes().into_iter();
    routes
        .map(|route| ProviderRoute {
            id: route.provider,
            supported: route.supported.into_iter().map(name_of).collect(),
            necessity: ProviderNecessity::Optional,
            current: route.current.map(|address| ProviderAddress {
                protocol: name_of(address.protocol),
                base_url: address.base_url,
            }),
        })
        .collect()
}

/// Returns the values of a change that must be redacted: from the address and the headers.
pub(super) fn secrets(change: &ProviderChange) -> Vec<String> {
    let of_headers = change.headers.iter().flat_map(|header| {
        known_secrets::secrets_of_client_header(&header.name, header.value.reveal())
    });
    known_secrets::secrets_of_url(change.base_url.reveal()).into_iter().chain(of_headers).collect()
}

/// Sets the address, protocol and headers of a provider.
pub(super) fn set(providers: &ProviderModels, change: ProviderChange) -> Result<(), HostError> {
    let ProviderChange { id, protocol, base_url, headers } = change;
    let header = |ProviderHeader { name, value }| ExtraHeader {
        name,
        value: SecretText::reveal(&value).to_owned(),
    };
    let headers = headers.into_iter().map(header).collect();
    // An unknown provider is reported before an unknown protocol: for it the protocol is a placeholder, and
    // `set_route` fails.
    let route = providers.routes().into_iter().find(|route| route.provider == id);
    let protocol = match (to_protocol(&protocol), route) {
        (Some(protocol), _) => protocol,
        (None, Some(route)) => {
            let supported: Vec<_> =
                route.supported.into_iter().map(|one| name_of(one).to_string()).collect();
            return Err(refused(
                format!("{id} cannot be called with the protocol \"{protocol}\""),
                format!("it can be called with {}", supported.join(", ")),
            ));
        }
        (None, None) => Protocol::OpenAi,
    };
    let change =
        RouteChange { provider: id, protocol, base_url: base_url.reveal().to_owned(), headers };
    providers.set_route(change).map_err(|error| route_refusal(&error))
}

/// Fails if the provider of the chosen model is disabled.
pub(super) fn enabled(
    providers: Option<&ProviderModels>,
    model: Option<&ModelRef>,
) -> Result<(), HostError> {
    match (providers, model) {
        (Some(providers), Some(model)) if providers.is_disabled(&model.provider) => Err(refused(
            format!("{model} cannot be chosen: {} is disabled", model.provider),
            "enable it with providers/set, or choose a model of another provider".to_owned(),
        )),
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

fn name_of(protocol: Protocol) -> ProviderProtocol {
    match protocol {
        Protocol::Anthropic => ProviderProtocol::Anthropic,
        Protocol::OpenAi => ProviderProtocol::OpenAi,
        Protocol::Gemini => ProviderProtocol::Named(GEMINI.to_owned()),
    }
}

fn to_protocol(protocol: &ProviderProtocol) -> Option<Protocol> {
    match protocol {
        ProviderProtocol::Anthropic => Some(Protocol::Anthropic),
        ProviderProtocol::OpenAi => Some(Protocol::OpenAi),
        ProviderProtocol::Named(name) => (name == GEMINI).then_some(Protocol::Gemini),
    }
}

fn route_refusal(error: &RouteError) -> HostError {
    let hint = match error {
        RouteError::Unknown(_) => "providers/list lists those that can be called",
        RouteError::Recording { .. }
        | RouteError::Protocol { .. }
        | RouteError::Address { .. }
        | RouteError::Header { .. }
        | RouteError::Headers
        | _ => "",
    };
    refused(error.to_string(), hint.to_owned())
}

fn refused(message: String, hint: String) -> HostError {
    HostError::Refused { message, hint }
}
