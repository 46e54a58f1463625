//! Provider routes: a client chooses where models are called.

use agent_client_protocol::v1::schema::{ListProvidersResponse, LlmProtocol};
use serde_json::{Value, json};

use crate::client::{Client, Product};

const SECRET: &str = "Bearer sk-gateway-0123456789";

fn gateway(id: &str) -> Value {
    json!({
        "providerId": id,
        "apiType": "openai",
        "baseUrl": "https://gateway.test/v1",
        "headers": { "x-team": "crow", "authorization": SECRET },
    })
}

async fn list_providers(client: &mut Client) -> Value {
    let answer = client.request("providers/list", json!({})).await;
    assert!(!answer.to_string().contains(SECRET), "{answer}");
    answer["result"]["providers"].clone()
}

#[tokio::test]
async fn initialize_announces_that_providers_can_be_routed() {
    let product = Product::new([]);
    let mut client = product.connect_with(1 << 20);
    let answer = client.initialize(json!({})).await;
    assert_eq!(answer["result"]["agentCapabilities"]["providers"], json!({}));
}

#[tokio::test]
async fn providers_are_listed_with_their_protocols_and_addresses() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let list = json!([
        {
            "providerId": "main",
            "supported": ["anthropic", "openai"],
            "required": true,
            "current": { "apiType": "anthropic", "baseUrl": "https://main.test" },
        },
        {
            "providerId": "other",
            "supported": ["_own"],
            "required": false,
            "current": { "apiType": "_own", "baseUrl": "https://other.test" },
        },
    ]);
    assert_eq!(list_providers(&mut client).await, list);
    let typed: ListProvidersResponse =
        serde_json::from_value(json!({ "providers": list })).unwrap();
    let supported: Vec<_> = typed.providers.into_iter().map(|one| one.supported).collect();
    let own = LlmProtocol::Other("_own".to_owned());
    assert_eq!(supported, [vec![LlmProtocol::Anthropic, LlmProtocol::OpenAi], vec![own]]);
}

#[tokio::test]
async fn a_provider_that_was_set_is_listed_with_its_new_address() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let answer = client.request("providers/set", gateway("main")).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    let host_calls = product.host.requests();
    // The headers are sorted, whatever the order of the map.
    assert_eq!(host_calls, ["provider main openai https://gateway.test/v1 authorization,x-team"]);
    let current = json!({ "apiType": "openai", "baseUrl": "https://gateway.test/v1" });
    assert_eq!(list_providers(&mut client).await[0]["current"], current);
}

#[tokio::test]
async fn a_disabled_provider_stays_listed_without_an_address() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    for _ in 0..2 {
        let answer = client.request("providers/disable", json!({ "providerId": "other" })).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    let other = list_providers(&mut client).await[1].clone();
    assert_eq!((&other["providerId"], other.get("current")), (&json!("other"), None));
}

#[tokio::test]
async fn invalid_routes_are_refused_and_disabling_an_unknown_provider_does_nothing() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let before = list_providers(&mut client).await;
    let with = |name: &str, value: &str| {
        let mut params = gateway("main");
        params[name] = value.into();
        params
    };
    for (method, params) in [
        ("providers/set", with("apiType", "vertex")),
        ("providers/set", with("baseUrl", "nowhere")),
        ("providers/set", with("providerId", "nobody")),
        ("providers/set", json!({ "providerId": "main" })),
        ("providers/disable", json!({ "providerId": "main" })),
        ("providers/disable", json!({})),
    ] {
        let answer = client.request(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{method} {params}: {answer}");
        assert!(!answer.to_string().contains("sk-gateway"), "{answer}");
    }
    let unknown = client.request("providers/disable", json!({ "providerId": "nobody" })).await;
    assert_eq!(unknown["result"], json!({}), "{unknown}");
    assert_eq!(list_providers(&mut client).await, before);
}

#[tokio::test]
async fn errors_of_invalid_parameters_do_not_repeat_secrets() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let mut params = gateway("main");
    params["headers"]["x-team"] = json!(7);
    let answer = client.request("providers/set", params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(!answer.to_string().contains("sk-gateway"), "{answer}");
}

#[tokio::test]
async fn provider_requests_before_initialize_are_refused() {
    let product = Product::new([]);
    let mut client = product.connect_with(1 << 20);
    for (method, params) in [
        ("providers/list", json!({})),
        ("providers/set", gateway("main")),
        ("providers/disable", json!({ "providerId": "other" })),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer["error"]["code"], -32600, "{method}: {answer}");
    }
    assert!(product.host.requests().is_empty());
}

#[tokio::test]
async fn every_client_gets_the_changed_options_of_its_open_sessions() {
    let product = Product::new([]);
    let (mut one, mut other) = (product.connect().await, product.connect().await);
    one.session().await;
    other.session().await;
    for (method, params, is_enabled) in [
        ("providers/disable", json!({ "providerId": "other" }), false),
        (
            "providers/set",
            json!({ "providerId": "other", "apiType": "_own", "baseUrl": "https://x.test" }),
            true,
        ),
    ] {
        let answer = one.request(method, params).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
        for client in [&mut one, &mut other] {
            let update = client.await_update("config_option_update").await;
            let options = &update["params"]["update"]["configOptions"];
            let is_disabled = options.to_string().contains("with a provider disabled");
            assert_eq!(is_disabled, !is_enabled, "{update}");
        }
    }
}
