//! Request fields for thinking, which depend on the generation of the model.

use crow_core::model::{ModelConfig, ModelInfo, Thinking};
use serde_json::{Value, json};

/// Placeholder that the service accepts as the signature of a call that the model did not make itself.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Way in which a model is configured to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeminiThinkingStyle {
    /// Cannot think.
    Never,
    /// A budget of tokens (2.5).
    Budget,
    /// A level (3 and later).
    Level,
}

/// Returns the `thinkingConfig`, if there is something to set.
pub(super) fn config(model: &ModelInfo, config: &ModelConfig) -> Option<Value> {
    let name = model.reference.model.as_str();
    let is_pro = name.contains("pro");
    let setting = match (generation(name), config.thinking) {
        (GeminiThinkingStyle::Never, _) => return None,
        (GeminiThinkingStyle::Budget | GeminiThinkingStyle::Level, None) => {
            return model.abilities.thinking.then(|| json!({"includeThoughts": true}));
        }
        (GeminiThinkingStyle::Level, Some(Thinking::Off | Thinking::Tokens(0))) => {
            // These models always think: the lowest level is set.
            return Some(json!({"thinkingLevel": if is_pro { "low" } else { "minimal" }}));
        }
        (GeminiThinkingStyle::Budget, Some(Thinking::Off | Thinking::Tokens(0))) => {
            return Some(json!({"thinkingBudget": if is_pro { 128 } else { 0 }}));
        }
        (GeminiThinkingStyle::Level, Some(Thinking::Low)) => ("thinkingLevel", json!("low")),
        // The first of them had only two levels.
        (GeminiThinkingStyle::Level, Some(Thinking::Medium)) if name.contains("gemini-3-pro") => {
            ("thinkingLevel", json!("high"))
        }
        (GeminiThinkingStyle::Level, Some(Thinking::Medium)) => ("thinkingLevel", json!("medium")),
        (GeminiThinkingStyle::Level, Some(Thinking::High)) => ("thinkingLevel", json!("high")),
        (GeminiThinkingStyle::Budget, Some(Thinking::Low)) => ("thinkingBudget", json!(2048)),
        (GeminiThinkingStyle::Budget, Some(Thinking::Medium)) => ("thinkingBudget", json!(8192)),
        (GeminiThinkingStyle::Budget, Some(Thinking::High)) => ("thinkingBudget", json!(24_576)),
        (
            GeminiThinkingStyle::Budget | GeminiThinkingStyle::Level,
            Some(Thinking::Tokens(tokens)),
        ) => ("thinkingBudget", json!(tokens)),
    };
    Some(json!({"includeThoughts": true, setting.0: setting.1}))
}

/// Returns true if the model refuses calls without a signature.
pub(super) fn wants_signatures(model: &str) -> bool {
    generation(model) == GeminiThinkingStyle::Level
}

fn generation(model: &str) -> GeminiThinkingStyle {
    let Some((_, name)) = model.split_once("gemini-") else { return GeminiThinkingStyle::Never };
    let version = name.split('-').next().unwrap_or_default();
    match version.parse::<f32>() {
        Ok(version) if version < 2.5 => GeminiThinkingStyle::Never,
        Ok(version) if version < 3.0 => GeminiThinkingStyle::Budget,
        // Names such as `gemini-flash-latest` refer to the newest model.
        Ok(_) | Err(_) => GeminiThinkingStyle::Level,
    }
}

#[cfg(test)]
mod tests {
    use crow_core::model::{Abilities, ModelRef, ToolCallFormat};

    use super::*;

    fn config_of(model: &str, thinking: Option<Thinking>) -> Option<Value> {
        let info = ModelInfo {
            reference: ModelRef { provider: "gemini".to_owned(), model: model.to_owned() },
            context_window: None,
            max_output_tokens: None,
            abilities: Abilities { tools: true, vision: true, thinking: true },
            tool_calls: ToolCallFormat::Native,
        };
        config(&info, &ModelConfig { thinking, ..ModelConfig::default() })
    }

    #[test]
    fn each_generation_gets_its_own_fields() {
        for (model, thinking, expected) in [
            ("gemini-2.0-flash", Some(Thinking::High), Value::Null),
            ("gemma-3", None, Value::Null),
            ("gemini-2.5-flash", None, json!({"includeThoughts": true})),
            ("gemini-2.5-flash", Some(Thinking::Off), json!({"thinkingBudget": 0})),
            ("gemini-2.5-pro", Some(Thinking::Off), json!({"thinkingBudget": 128})),
            (
                "gemini-2.5-pro",
                Some(Thinking::Tokens(500)),
                json!({"includeThoughts": true, "thinkingBudget": 500}),
            ),
            (
                "gemini-3-pro-preview",
                Some(Thinking::Medium),
                json!({"includeThoughts": true, "thinkingLevel": "high"}),
            ),
            (
                "models/gemini-3.8-flash",
                Some(Thinking::Medium),
                json!({"includeThoughts": true, "thinkingLevel": "medium"}),
            ),
            ("gemini-flash-latest", Some(Thinking::Off), json!({"thinkingLevel": "minimal"})),
        ] {
            assert_eq!(
                config_of(model, thinking).unwrap_or_default(),
                expected,
                "{model} {thinking:?}"
            );
        }
    }
}
