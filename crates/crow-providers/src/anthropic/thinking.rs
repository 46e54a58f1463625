//! Request fields for thinking, which depend on the generation of the model.

use crow_core::model::{ModelConfig, ModelInfo, Thinking};
use serde_json::{Value, json};

use crate::codec::ConversationRoute;

/// Tokens reserved for the answer where the model's limit is unknown.
const ANSWER: u64 = 8192;
/// Minimum budget that the service accepts.
const LEAST_BUDGET: u64 = 1024;

/// Request fields that depend on each other.
#[derive(Debug, PartialEq)]
pub(super) struct SamplingFields {
    pub(super) max_tokens: u64,
    pub(super) thinking: Option<Value>,
    pub(super) effort: Option<&'static str>,
    pub(super) temperature: Option<f32>,
}

/// Way in which a model is configured to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnthropicThinkingStyle {
    /// A budget of tokens; also used for models of other vendors.
    Budget,
    /// By effort; the model decides the amount (4.6). Off by default.
    Adaptive,
    /// By effort alone; other sampling parameters are refused (4.7, 4.8).
    AdaptiveOnly,
    /// By effort; on by default (5 and later).
    AlwaysAdaptive,
}

/// Returns the fields for a model and configuration.
pub(super) fn sampling(model: &ModelInfo, config: &ModelConfig) -> SamplingFields {
    let generation = generation(&model.reference.model);
    let limit = config.max_tokens.or(model.max_output_tokens);
    let mut sampling = SamplingFields {
        max_tokens: limit.unwrap_or(ANSWER),
        thinking: None,
        effort: None,
        temperature: config.temperature,
    };
    match generation {
        AnthropicThinkingStyle::Budget => {
            if let Some(budget) = config.thinking.and_then(budget) {
                with_budget(&mut sampling, budget, limit);
            }
        }
        AnthropicThinkingStyle::Adaptive
        | AnthropicThinkingStyle::AdaptiveOnly
        | AnthropicThinkingStyle::AlwaysAdaptive => {
            sampling.effort = config.thinking.and_then(effort);
            sampling.thinking = match (sampling.effort, config.thinking) {
                (Some(_), _) => Some(adaptive(generation)),
                (None, Some(Thinking::Off))
                    if generation == AnthropicThinkingStyle::AlwaysAdaptive =>
                {
                    Some(json!({"type": "disabled"}))
                }
                (None, _) => None,
            };
            let accepts_temperature =
                generation == AnthropicThinkingStyle::Adaptive && sampling.thinking.is_none();
            sampling.temperature = sampling.temperature.filter(|_| accepts_temperature);
        }
    }
    sampling
}

/// Returns the beta that lets models with a budget think between calls, if the server is known to support it.
pub(super) fn beta(route: &ConversationRoute) -> Option<&'static str> {
    let model = &route.model.reference.model;
    let is_supported = route.origin.base_url.contains("api.anthropic.com")
        && generation(model) == AnthropicThinkingStyle::Budget
        && version(model).is_some_and(|version| version >= (4, 0));
    is_supported.then_some("interleaved-thinking-2025-05-14")
}

fn with_budget(sampling: &mut SamplingFields, budget: u64, limit: Option<u64>) {
    let mut budget = budget.max(LEAST_BUDGET);
    if let Some(limit) = limit {
        // Leaves room for the answer.
        budget = budget.min(limit.saturating_sub(LEAST_BUDGET).max(limit / 2));
    } else {
        sampling.max_tokens = budget.saturating_add(ANSWER);
    }
    if budget >= LEAST_BUDGET {
        sampling.thinking = Some(enabled(budget));
        sampling.temperature = None;
    }
}

fn enabled(budget: u64) -> Value {
    json!({"type": "enabled", "budget_tokens": budget})
}

fn adaptive(generation: AnthropicThinkingStyle) -> Value {
    match generation {
        AnthropicThinkingStyle::Budget | AnthropicThinkingStyle::Adaptive => {
            json!({"type": "adaptive"})
        }
        // These omit the text of their thinking unless it is requested.
        AnthropicThinkingStyle::AdaptiveOnly | AnthropicThinkingStyle::AlwaysAdaptive => {
            json!({"type": "adaptive", "display": "summarized"})
        }
    }
}

fn budget(thinking: Thinking) -> Option<u64> {
    match thinking {
        Thinking::Off | Thinking::Tokens(0) => None,
        Thinking::Low => Some(4096),
        Thinking::Medium => Some(12_288),
        Thinking::High => Some(32_768),
        Thinking::Tokens(tokens) => Some(tokens),
    }
}

fn effort(thinking: Thinking) -> Option<&'static str> {
    match thinking {
        Thinking::Off | Thinking::Tokens(0) => None,
        Thinking::Low | Thinking::Tokens(..=8191) => Some("low"),
        Thinking::Medium | Thinking::Tokens(..=24_575) => Some("medium"),
        Thinking::High | Thinking::Tokens(_) => Some("high"),
    }
}

fn generation(model: &str) -> AnthropicThinkingStyle {
    match version(model) {
        None => AnthropicThinkingStyle::Budget,
        Some(version) if version < (4, 6) => AnthropicThinkingStyle::Budget,
        Some(version) if version < (4, 7) => AnthropicThinkingStyle::Adaptive,
        Some(version) if version < (5, 0) => AnthropicThinkingStyle::AdaptiveOnly,
        Some(_) => AnthropicThinkingStyle::AlwaysAdaptive,
    }
}

/// Extracts the version from a name such as `claude-opus-4-7`, `claude-3-7-sonnet-20250219`,
/// `anthropic/claude-opus-4.5`.
fn version(model: &str) -> Option<(u32, u32)> {
    let (_, name) = model.split_once("claude")?;
    let mut numbers = name.split(['-', '.', '@', ':', '_']).filter_map(|part| {
        // Longer numbers are dates.
        (part.len() <= 2).then(|| part.parse::<u32>().ok()).flatten()
    });
    let major = numbers.next()?;
    Some((major, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use crow_core::model::{Abilities, ModelRef, ToolCallFormat};

    use super::*;

    fn sampling_of(model: &str, most: Option<u64>, config: &ModelConfig) -> SamplingFields {
        let info = ModelInfo {
            reference: ModelRef { provider: "anthropic".to_owned(), model: model.to_owned() },
            context_window: None,
            max_output_tokens: most,
            abilities: Abilities::default(),
            tool_calls: Some(ToolCallFormat::Native),
        };
        sampling(&info, config)
    }

    fn thinking(thinking: Thinking) -> ModelConfig {
        ModelConfig {
            temperature: Some(0.5),
            seed: Some(7),
            max_tokens: None,
            thinking: Some(thinking),
        }
    }

    #[test]
    fn the_version_is_read_from_the_name() {
        for (model, expected) in [
            ("claude-opus-4-7", Some((4, 7))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-haiku-4-5-20251001", Some((4, 5))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("anthropic/claude-opus-4.6", Some((4, 6))),
            ("claude-opus-5", Some((5, 0))),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some((4, 5))),
            ("kimi-k2", None),
        ] {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn a_budget_is_always_smaller_than_the_limit() {
        for (most, wanted, limit, budget) in [
            (None, Thinking::Low, 8192 + 4096, Some(4096)),
            (None, Thinking::Tokens(10), 8192 + 1024, Some(1024)),
            (Some(64_000), Thinking::High, 64_000, Some(32_768)),
            (Some(8192), Thinking::High, 8192, Some(7168)),
            (Some(1500), Thinking::High, 1500, None),
            (Some(64_000), Thinking::Off, 64_000, None),
        ] {
            let sampling = sampling_of("claude-sonnet-4-5", most, &thinking(wanted));
            assert_eq!(sampling.max_tokens, limit);
            assert_eq!(sampling.thinking, budget.map(enabled), "{most:?} {wanted:?}");
            assert_eq!(sampling.temperature.is_some(), budget.is_none());
        }
    }

    #[test]
    fn newer_models_get_an_effort_instead_of_a_budget() {
        let fields = sampling_of("claude-opus-4-6", None, &thinking(Thinking::Medium));
        assert_eq!(fields.thinking, Some(json!({"type": "adaptive"})));
        assert_eq!((fields.effort, fields.temperature), (Some("medium"), None));
        let fields = sampling_of("claude-opus-4-8", None, &thinking(Thinking::Tokens(50_000)));
        assert_eq!(fields.effort, Some("high"));
        let off = sampling_of("claude-opus-4-8", None, &thinking(Thinking::Off));
        assert_eq!((off.thinking, off.effort, off.temperature), (None, None, None));
        let off = sampling_of("claude-opus-5", None, &thinking(Thinking::Off));
        assert_eq!(off.thinking, Some(json!({"type": "disabled"})));
    }

    #[test]
    fn thinking_is_absent_unless_configured() {
        let config = ModelConfig { max_tokens: Some(100), ..ModelConfig::default() };
        let plain =
            SamplingFields { max_tokens: 100, thinking: None, effort: None, temperature: None };
        for model in ["claude-sonnet-4-5", "claude-opus-4-7", "kimi-k2"] {
            assert_eq!(sampling_of(model, Some(64_000), &config), plain, "{model}");
        }
    }
}
