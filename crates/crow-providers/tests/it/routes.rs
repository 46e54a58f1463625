//! Routes: the address of a provider is changed while the program runs.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use crow_core::model::{ModelRef, Models as _, ProviderErrorKind, ResolvedModel};
use crow_providers::{
    ApiKey, ExtraHeader, HttpClient, KeyStore, Protocol, ProviderConfig, ProviderModels,
    RouteAddress, RouteChange, RouteError, RouteSummary, StoredKey,
};
use crow_testkit::{
    ModelServer, RecordedRequest, ScriptStep, ScriptedReply, VendorError, WireDialect,
};

use crate::support::Talk;

const KEY: &str = "sk-of-the-user-0123456789";
const TOKEN: &str = "gateway-0123456789";

/// Returns the models of a provider whose file has a key and a header.
fn models(server: &ModelServer) -> ProviderModels {
    let base_url = server.base_url(WireDialect::AnthropicMessages);
    let file = format!(
        "[provider]\nname = 'work'\ntype = 'anthropic'\nbase_url = '{base_url}'\n\
         [auth]\napi_key = '{KEY}'\n[headers]\nx-file = 'of-the-file'\n\
         [models.test-model]\nsupports_extended_thinking = false\n"
    );
    let config = ProviderConfig::parse(Path::new("work.toml"), &file).unwrap();
    ProviderModels::new(vec![config], |_| None, HttpClient::default()).unwrap()
}

async fn resolved(models: &ProviderModels) -> ResolvedModel {
    let reference = ModelRef { provider: "work".to_owned(), model: "test-model".to_owned() };
    models.resolve(&reference).await.unwrap()
}

async fn talk(models: &ProviderModels) -> Talk {
    let resolved = resolved(models).await;
    Talk::of(resolved.provider.as_ref(), &resolved.info)
}

fn change(protocol: Protocol, base_url: String) -> RouteChange {
    let header = |name: &str, value: &str| ExtraHeader { name: name.into(), value: value.into() };
    RouteChange {
        provider: "work".to_owned(),
        protocol,
        base_url,
        headers: vec![
            header("Authorization", &format!("Bearer {TOKEN}")),
            header("x-tenant", "tenant-seven"),
        ],
    }
}

fn route_to(server: &ModelServer) -> RouteChange {
    change(Protocol::Anthropic, server.base_url(WireDialect::AnthropicMessages))
}

fn route(models: &ProviderModels) -> RouteSummary {
    models.routes().into_iter().find(|route| route.provider == "work").unwrap()
}

fn headers_of(request: &Arc<RecordedRequest>) -> String {
    format!("{:?}", request.headers)
}

#[tokio::test]
async fn an_open_conversation_follows_a_changed_route() {
    let first = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let second = ModelServer::start([
        ScriptedReply::new().text("Two."),
        ScriptedReply::new().text("Three."),
    ])
    .await;
    let models = models(&first);
    let mut talk = talk(&models).await;
    talk.step().await;
    models.set_route(route_to(&second)).unwrap();
    let reply = talk.step().await;
    talk.step().await;
    assert_eq!(reply.origin.base_url, second.base_url(WireDialect::AnthropicMessages));
    let (first, second) = (first.finish().await.unwrap(), second.finish().await.unwrap());
    assert_eq!((first.len(), second.len()), (1, 2));
    assert!(second[0].body.to_string().contains("One."), "it is told what was said elsewhere");
}

#[tokio::test]
async fn configured_keys_and_headers_are_not_sent_to_a_chosen_address() {
    let first = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let second = ModelServer::start([ScriptedReply::new().text("Two.")]).await;
    let models = models(&first);
    let mut talk = talk(&models).await;
    talk.step().await;
    models.set_route(route_to(&second)).unwrap();
    talk.step().await;
    let (first, second) = (first.finish().await.unwrap(), second.finish().await.unwrap());
    assert_eq!(first[0].header("x-api-key"), Some(KEY));
    assert_eq!(first[0].header("x-file"), Some("of-the-file"));
    assert!(!headers_of(&first[0]).contains(TOKEN));
    assert_eq!(second[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(second[0].header("x-tenant"), Some("tenant-seven"));
    assert_eq!((second[0].header("x-api-key"), second[0].header("x-file")), (None, None));
    assert!(!headers_of(&second[0]).contains(KEY));
}

#[tokio::test]
async fn the_configured_address_gets_no_key_when_it_is_chosen_as_a_route() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let models = models(&server);
    models.set_route(RouteChange { headers: Vec::new(), ..route_to(&server) }).unwrap();
    talk(&models).await.step().await;
    let requests = server.finish().await.unwrap();
    assert!(!headers_of(&requests[0]).contains(KEY));
}

#[tokio::test]
async fn a_route_replaces_the_previous_one() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let models = models(&server);
    models.set_route(route_to(&server)).unwrap();
    models.set_route(RouteChange { headers: Vec::new(), ..route_to(&server) }).unwrap();
    talk(&models).await.step().await;
    let requests = server.finish().await.unwrap();
    assert!(!headers_of(&requests[0]).contains(TOKEN));
}

#[tokio::test]
async fn a_route_can_change_the_protocol_within_a_conversation() {
    let call = serde_json::json!({ "path": "a" });
    let first =
        ModelServer::start([ScriptedReply::new().text("One.").call("c1", "read_file", &call)])
            .await;
    let second = ModelServer::start([ScriptedReply::new().text("Two.")]).await;
    let models = models(&first);
    let mut talk = talk(&models).await;
    talk.step().await;
    let base_url = second.base_url(WireDialect::OpenAiChat);
    models.set_route(change(Protocol::OpenAi, base_url.clone())).unwrap();
    let reply = talk.step().await;
    assert_eq!(reply.origin.dialect, "openai-chat");
    let current = RouteAddress { protocol: Protocol::OpenAi, base_url };
    assert_eq!(route(&models).current, Some(current));
    let requests = second.finish().await.unwrap();
    assert_eq!(requests[0].dialect, WireDialect::OpenAiChat);
    first.finish().await.unwrap();
}

#[tokio::test]
async fn a_disabled_provider_gets_no_requests_until_a_route_is_set() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let models = models(&server);
    let mut talk = talk(&models).await;
    models.disable("work");
    let error = talk.ask().await.error();
    assert_eq!((error.kind, error.provider.as_str()), (ProviderErrorKind::Disabled, "work"));
    assert_eq!(route(&models).current, None);
    assert!(models.list().iter().all(|provider| provider.name != "work"));
    // Its sessions can still be opened.
    resolved(&models).await;
    models.set_route(route_to(&server)).unwrap();
    talk.step().await;
    assert_eq!(server.finish().await.unwrap().len(), 1);
}

#[tokio::test]
async fn headers_that_a_server_echoes_are_redacted_in_the_error() {
    let fault = VendorError::InvalidRequest(format!("{TOKEN} of tenant-seven"));
    let server = ModelServer::start([ScriptStep::Error(fault)]).await;
    let models = models(&server);
    models.set_route(route_to(&server)).unwrap();
    let error = talk(&models).await.ask().await.error();
    let text = format!("{error} {error:?}");
    assert!(text.contains("***") && !text.contains(TOKEN), "{text}");
    assert!(!text.contains("tenant-seven"), "{text}");
    drop(server.finish().await);
}

#[tokio::test]
async fn the_default_model_is_one_of_a_usable_provider() {
    let models = |variables: &'static [(&'static str, &'static str)]| {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ProviderModels::new(Vec::new(), lookup, HttpClient::default()).unwrap()
    };
    let default = |models: &ProviderModels| models.default_model().map(|model| model.provider);
    let both = models(&[("ANTHROPIC_API_KEY", "sk-a"), ("GEMINI_API_KEY", "sk-g")]);
    both.disable("anthropic");
    assert_eq!(default(&both).as_deref(), Some("gemini"));
    both.disable("gemini");
    assert_eq!(default(&both), None);
    let none = models(&[]);
    let change = RouteChange {
        provider: "openai".to_owned(),
        ..change(Protocol::OpenAi, "https://gateway.test/v1".to_owned())
    };
    none.set_route(change).unwrap();
    assert_eq!(default(&none).as_deref(), Some("openai"), "the headers are its credentials");
}

#[tokio::test]
async fn an_invalid_route_changes_nothing() {
    let server = ModelServer::start([] as [ScriptedReply; 0]).await;
    let models = models(&server);
    let before = models.routes();
    assert!(before.iter().all(|route| route.provider != "replay"), "a recording is nowhere");
    let ok = route_to(&server);
    let refused = |change: RouteChange| models.set_route(change).unwrap_err();
    let with_url = |url: &str| RouteChange { base_url: url.to_owned(), ..ok.clone() };
    let of = |provider: &str| RouteChange { provider: provider.to_owned(), ..ok.clone() };
    assert!(matches!(refused(with_url("nowhere")), RouteError::Address { .. }));
    assert!(matches!(refused(of("nobody")), RouteError::Unknown(_)));
    assert!(matches!(refused(of("replay")), RouteError::Recording { .. }));
    let gemini = RouteChange { protocol: Protocol::Gemini, ..ok.clone() };
    assert!(matches!(refused(gemini), RouteError::Protocol { .. }));
    models.disable("nobody");
    models.disable("replay");
    assert_eq!(models.routes(), before);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_route_is_shown_without_its_secrets() {
    let server = ModelServer::start([] as [ScriptedReply; 0]).await;
    let models = models(&server);
    let url = "https://ann:pass-word@gateway.test/v1?key=query-secret".to_owned();
    models.set_route(change(Protocol::Anthropic, url)).unwrap();
    let base_url = "https://gateway.test/v1".to_owned();
    let current = RouteAddress { protocol: Protocol::Anthropic, base_url };
    assert_eq!(route(&models).current, Some(current));
    let shown = format!("{models:?}");
    for secret in [TOKEN, "tenant-seven", "pass-word", "query-secret"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    server.finish().await.unwrap();
}

/// Key store with at most one key, which it returns for every name.
#[derive(Debug, Default)]
struct OneKey(Mutex<Option<StoredKey>>);

impl OneKey {
    fn put(&self, key: &str, server: &ModelServer) {
        let base_url = server.base_url(WireDialect::AnthropicMessages);
        let origin = base_url.trim_end_matches('/').to_owned();
        *self.0.lock().unwrap() = Some(StoredKey { key: ApiKey::new(key).unwrap(), origin });
    }
}

impl KeyStore for OneKey {
    fn find(&self, _name: &str) -> Result<Option<StoredKey>, String> {
        Ok(self.0.lock().unwrap().clone())
    }
}

/// Returns the models of a provider whose key comes from a key store.
fn models_with(server: &ModelServer, keys: &Arc<OneKey>) -> ProviderModels {
    let base_url = server.base_url(WireDialect::AnthropicMessages);
    let file = format!(
        "[provider]\nname = 'work'\ntype = 'anthropic'\nbase_url = '{base_url}'\n\
         [auth.api_key]\nenv = 'WORK_KEY'\n\
         [models.test-model]\nsupports_extended_thinking = false\n"
    );
    let config = ProviderConfig::parse(Path::new("work.toml"), &file).unwrap();
    let models = ProviderModels::new(vec![config], |_| None, HttpClient::default()).unwrap();
    models.with_stored_keys(Arc::clone(keys) as _)
}

#[tokio::test]
async fn an_open_conversation_stops_sending_a_key_that_was_removed() {
    let server =
        ModelServer::start([ScriptedReply::new().text("One."), ScriptedReply::new().text("Two.")])
            .await;
    let keys = Arc::<OneKey>::default();
    keys.put("sk-first-0123456789", &server);
    let models = models_with(&server, &keys);
    let mut talk = talk(&models).await;
    talk.step().await;
    keys.0.lock().unwrap().take();
    let error = talk.ask().await.error();
    assert_eq!((error.kind, error.provider.as_str()), (ProviderErrorKind::Auth, "work"));
    assert!(error.message.contains("WORK_KEY"), "{error}");
    // Another key is sent from the next request on.
    keys.put("sk-second-0123456789", &server);
    talk.step().await;
    let requests = server.finish().await.unwrap();
    let keys: Vec<_> = requests.iter().map(|request| request.header("x-api-key")).collect();
    assert_eq!(keys, [Some("sk-first-0123456789"), Some("sk-second-0123456789")]);
}
