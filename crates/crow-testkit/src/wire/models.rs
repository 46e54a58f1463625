//! The list of models, `GET /v1/models`.

use serde_json::{Value, json};

use super::WireDialect;
use super::chat::CREATED;

/// Returns the vendor's list response with these model ids.
pub fn model_list(dialect: WireDialect, ids: &[String]) -> Value {
    match dialect {
        WireDialect::AnthropicMessages => {
            let data: Vec<_> = ids
                .iter()
                .map(|id| {
                    json!({
                        "type": "model", "id": id, "display_name": id,
                        "created_at": "2025-11-13T00:00:00Z",
                    })
                })
                .collect();
            json!({
                "data": data, "has_more": false, "first_id": ids.first(), "last_id": ids.last(),
            })
        }
        WireDialect::OpenAiResponses | WireDialect::OpenAiChat => {
            let data: Vec<_> = ids
                .iter()
                .map(|id| {
                    json!({"id": id, "object": "model", "created": CREATED, "owned_by": "crow"})
                })
                .collect();
            json!({"object": "list", "data": data})
        }
        WireDialect::Gemini => {
            let models: Vec<_> = ids
                .iter()
                .map(|id| {
                    json!({
                        "name": format!("models/{id}"), "displayName": id,
                        "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
                        "supportedGenerationMethods": ["generateContent", "countTokens"],
                    })
                })
                .collect();
            json!({"models": models})
        }
    }
}
