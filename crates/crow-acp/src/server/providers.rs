//! Provider routes, by which a client sees and chooses where models are called.

use agent_client_protocol::{
    Error,
    v1::schema::{
        DisableProviderRequest, DisableProviderResponse, InitializeResponse, ListProvidersResponse,
        LlmProtocol, ProviderCurrentConfig, ProviderInfo, ProvidersCapabilities,
        SetProviderRequest, SetProviderResponse,
    },
};
use crow_runtime::{
    ProviderAddress, ProviderChange, ProviderHeader, ProviderNecessity, ProviderProtocol,
    ProviderRoute, SecretText,
};

use super::{connection::AcpConnection, serve::ServerShared};
use crate::view::{host_error, invalid};

/// Adds the `providers` capability to the response to `initialize` if the host lets clients choose routes.
pub(super) fn with_provider_capability(
    shared: &ServerShared,
    mut answer: InitializeResponse,
) -> InitializeResponse {
    if shared.host().is_ok_and(|host| host.routes_providers()) {
        answer.agent_capabilities =
            answer.agent_capabilities.providers(ProvidersCapabilities::new());
    }
    answer
}

/// Answers `providers/list`.
pub(super) async fn list(connection: &AcpConnection) -> Result<ListProvidersResponse, Error> {
    let providers = connection.shared.host()?.providers().await;
    let providers = providers.map_err(|error| host_error(&error))?;
    Ok(ListProvidersResponse::new(providers.into_iter().map(info).collect()))
}

/// Answers `providers/set`, and has the changed options of sessions sent to all clients.
pub(super) async fn set(
    connection: &AcpConnection,
    request: SetProviderRequest,
) -> Result<SetProviderResponse, Error> {
    let headers = request.headers.into_iter();
    let mut headers: Vec<_> = headers
        .map(|(name, value)| ProviderHeader { name, value: SecretText::new(value) })
        .collect();
    // They come from a map without order; sorted, every request to the provider has the same order.
    headers.sort_by(|one, other| one.name.cmp(&other.name));
    let change = ProviderChange {
        id: request.provider_id.0.to_string(),
        protocol: protocol(request.api_type)?,
        base_url: SecretText::new(request.base_url),
        headers,
    };
    let set = connection.shared.host()?.set_provider(change).await;
    set.map_err(|error| host_error(&error))?;
    connection.shared.refresh_sessions();
    Ok(SetProviderResponse::new())
}

/// Answers `providers/disable`, and has the changed options of sessions sent to all clients.
pub(super) async fn disable(
    connection: &AcpConnection,
    request: DisableProviderRequest,
) -> Result<DisableProviderResponse, Error> {
    let disabled = connection.shared.host()?.disable_provider(&request.provider_id.0).await;
    disabled.map_err(|error| host_error(&error))?;
    connection.shared.refresh_sessions();
    Ok(DisableProviderResponse::new())
}

fn info(route: ProviderRoute) -> ProviderInfo {
    let ProviderRoute { id, supported, necessity: standing, current } = route;
    let supported = supported.iter().map(llm_protocol).collect();
    let current = current.map(|ProviderAddress { protocol, base_url }| {
        ProviderCurrentConfig::new(llm_protocol(&protocol), base_url)
    });
    ProviderInfo::new(id, supported, standing == ProviderNecessity::Required, current)
}

fn llm_protocol(protocol: &ProviderProtocol) -> LlmProtocol {
    match protocol {
        ProviderProtocol::Anthropic => LlmProtocol::Anthropic,
        ProviderProtocol::OpenAi => LlmProtocol::OpenAi,
        ProviderProtocol::Named(name) => LlmProtocol::Other(name.clone()),
    }
}

fn protocol(protocol: LlmProtocol) -> Result<ProviderProtocol, Error> {
    Ok(match protocol {
        LlmProtocol::Anthropic => ProviderProtocol::Anthropic,
        LlmProtocol::OpenAi => ProviderProtocol::OpenAi,
        LlmProtocol::Azure => ProviderProtocol::Named("azure".to_owned()),
        LlmProtocol::Vertex => ProviderProtocol::Named("vertex".to_owned()),
        LlmProtocol::Bedrock => ProviderProtocol::Named("bedrock".to_owned()),
        LlmProtocol::Other(name) => ProviderProtocol::Named(name),
        _ => return Err(invalid("the protocol is not supported")),
    })
}
