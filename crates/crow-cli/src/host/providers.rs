//! Where providers are called, as clients see and choose it.

use crow_core::model::ModelRef;
use crow_providers::{ExtraHeader, Protocol, ProviderModels, RouteChange, RouteError};
use crow_runtime::{
    HostError, ProviderAddress, ProviderChange, ProviderHeader, ProviderProtocol, ProviderRoute,
    ProviderStanding, SecretText,
};

use crate::known_secrets;

/// The name of Gemini's protocol. Names without the mark at their beginning are not ours to give.
const GEMINI: &str = "_gemini";

/// Returns the providers that are called anywhere. None is required: a session whose provider is disabled says so when it is
/// asked something, and can go on with another model.
pub(super) fn routes(providers: &ProviderModels) -> Vec<ProviderRoute> {
    let routes = providers.routes().into_iter();
    routes
        .map(|route| ProviderRoute {
            id: route.provider,
            supported: route.supported.into_iter().map(name_of).collect(),
            standing: ProviderStanding::Optional,
            current: route.current.map(|address| ProviderAddress {
                protocol: name_of(address.protocol),
                base_url: address.base_url,
            }),
        })
        .collect()
}

/// Returns what of a change may not show anywhere.
pub(super) fn secrets(change: &ProviderChange) -> Vec<String> {
    let of_headers = change
        .headers
        .iter()
        .flat_map(|header| known_secrets::of_client_header(&header.name, header.value.reveal()));
    known_secrets::of_address(change.base_url.reveal()).into_iter().chain(of_headers).collect()
}

/// Lets a provider be called elsewhere.
pub(super) fn set(providers: &ProviderModels, change: ProviderChange) -> Result<(), HostError> {
    let ProviderChange { id, protocol, base_url, headers } = change;
    let header = |ProviderHeader { name, value }| ExtraHeader {
        name,
        value: SecretText::reveal(&value).to_owned(),
    };
    let headers = headers.into_iter().map(header).collect();
    // Of the two faults the one of the provider is told first.
    let known = providers.routes().into_iter().find(|route| route.provider == id);
    let protocol = match (named(&protocol), known) {
        (Some(protocol), _) => protocol,
        (None, Some(known)) => {
            let supported: Vec<_> =
                known.supported.into_iter().map(|one| name_of(one).to_string()).collect();
            return Err(refused(
                format!("{id} cannot be called with the protocol \"{protocol}\""),
                format!("it can be called with {}", supported.join(", ")),
            ));
        }
        (None, None) => Protocol::OpenAi,
    };
    let change =
        RouteChange { provider: id, protocol, base_url: base_url.reveal().to_owned(), headers };
    providers.set_route(change).map_err(|error| told(&error))
}

/// Fails where a model is chosen that cannot be asked because its provider is disabled.
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

fn named(protocol: &ProviderProtocol) -> Option<Protocol> {
    match protocol {
        ProviderProtocol::Anthropic => Some(Protocol::Anthropic),
        ProviderProtocol::OpenAi => Some(Protocol::OpenAi),
        ProviderProtocol::Named(name) => (name == GEMINI).then_some(Protocol::Gemini),
    }
}

fn told(error: &RouteError) -> HostError {
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
