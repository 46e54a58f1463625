//! Built-in data about models, available offline: window, limits, abilities and price, as of 21 November 2026.
//!
//! Prices are those of the crate `genai-prices` 0.2.1 (MIT licence), in US dollars per million tokens: input, output,
//! cache read, cache write, cache write for an hour. Where a vendor charges more above a prompt length, the window is
//! limited to that length, so that a cost is never understated; `context_window` in the provider's TOML raises it.
//! Limits of output are those of the vendors' model pages.

use crow_core::model::{Abilities, Price};

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownModel {
    pub(crate) id: &'static str,
    pub(crate) context_window: u64,
    pub(crate) max_output_tokens: u64,
    pub(crate) abilities: Abilities,
    pub(crate) price: Price,
}

/// Vendor of a provider's models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    OpenAi,
    Google,
    /// Models of all vendors, named `vendor/model`.
    OpenRouter,
    /// Unknown models on a machine of the user.
    Local,
    /// Unknown models.
    Unknown,
}

impl Vendor {
    /// Returns the known models, the recommended first.
    pub(crate) fn models(self) -> &'static [KnownModel] {
        match self {
            Self::Anthropic => ANTHROPIC,
            Self::OpenAi => OPENAI,
            Self::Google => GOOGLE,
            Self::OpenRouter | Self::Local | Self::Unknown => &[],
        }
    }

    /// Finds a model. A date or `-latest` at the end of an id is ignored if there is no exact match.
    pub(crate) fn find(self, id: &str) -> Option<&'static KnownModel> {
        if self == Self::OpenRouter {
            return find_routed(id);
        }
        let exact = |id: &str| self.models().iter().find(|model| model.id == id);
        exact(id).or_else(|| exact(without_date(id)))
    }

    /// Returns the assumed abilities of a model that is not in the table. A vendor's next model is assumed to have
    /// those of its last ones.
    pub(crate) fn default_abilities(self) -> Abilities {
        match self {
            Self::Anthropic | Self::OpenAi | Self::Google => {
                Abilities { tools: true, vision: true, thinking: true }
            }
            Self::OpenRouter | Self::Local | Self::Unknown => Abilities::default(),
        }
    }

    /// Returns the price of a model that is not in the table, if it can be known.
    pub(crate) fn default_price(self) -> Option<Price> {
        match self {
            Self::Local => Some(FREE),
            Self::Anthropic | Self::OpenAi | Self::Google | Self::OpenRouter | Self::Unknown => {
                None
            }
        }
    }
}

/// Price of models on the user's own machine.
pub(crate) const FREE: Price =
    Price { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0, cache_write_1h: 0.0 };

/// Finds a model by its id at `OpenRouter`, which charges the vendors' prices, and writes `claude-sonnet-4.5` where
/// Anthropic writes `claude-sonnet-4-5`.
fn find_routed(id: &str) -> Option<&'static KnownModel> {
    let (vendor, model) = id.split_once('/')?;
    match vendor {
        "anthropic" => Vendor::Anthropic.find(&model.replace('.', "-")),
        "openai" => Vendor::OpenAi.find(model),
        "google" => Vendor::Google.find(model),
        _ => None,
    }
}

/// Cuts off `-20250929`, `@20250929`, `-2025-08-07` and `-latest`.
fn without_date(id: &str) -> &str {
    if let Some(name) = id.strip_suffix("-latest") {
        return name;
    }
    // Eight digits, with or without dashes between them.
    ["-20250807".len(), "-2025-08-07".len()]
        .into_iter()
        .find_map(|length| {
            let (name, date) = id.split_at_checked(id.len().checked_sub(length)?)?;
            let digits = date.strip_prefix(['-', '@'])?.replace('-', "");
            let is_date = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_date.then_some(name)
        })
        .unwrap_or(id)
}

/// Anthropic, the recommended first.
const ANTHROPIC: &[KnownModel] = &[
    model("claude-sonnet-5-5", 1_000_000, 128_000, BOTH, [2.0, 10.0, 0.1, 2.5, 4.0]),
    model("claude-opus-5-5", 1_000_000, 128_000, BOTH, [4.0, 20.0, 0.2, 5.0, 8.0]),
    model("claude-haiku-5-5", 100_000, 64_000, BOTH, [0.1, 0.5, 0.01, 0.125, 0.2]),
    model("claude-fable-5-1", 1_000_000, 128_000, BOTH, [10.0, 50.0, 0.25, 12.5, 20.0]),
    model("claude-sonnet-5", 1_000_000, 128_000, BOTH, [2.0, 10.0, 0.2, 2.5, 4.0]),
    model("claude-opus-5", 1_000_000, 128_000, BOTH, [5.0, 25.0, 0.5, 6.25, 10.0]),
    model("claude-fable-5", 1_000_000, 128_000, BOTH, [10.0, 50.0, 1.0, 12.5, 20.0]),
    model("claude-opus-4-8", 1_000_000, 128_000, BOTH, [5.0, 25.0, 0.5, 6.25, 10.0]),
    model("claude-opus-4-7", 1_000_000, 128_000, BOTH, [5.0, 25.0, 0.5, 6.25, 10.0]),
    model("claude-opus-4-6", 1_000_000, 128_000, BOTH, [5.0, 25.0, 0.5, 6.25, 10.0]),
    model("claude-sonnet-4-6", 1_000_000, 64_000, BOTH, [3.0, 15.0, 0.3, 3.75, 6.0]),
    model("claude-opus-4-5", 200_000, 64_000, BOTH, [5.0, 25.0, 0.5, 6.25, 10.0]),
    model("claude-sonnet-4-5", 200_000, 64_000, BOTH, [3.0, 15.0, 0.3, 3.75, 6.0]),
    model("claude-haiku-4-5", 200_000, 64_000, BOTH, [1.0, 5.0, 0.1, 1.25, 2.0]),
    model("claude-opus-4-1", 200_000, 32_000, BOTH, [15.0, 75.0, 1.5, 18.75, 30.0]),
    model("claude-opus-4-0", 200_000, 32_000, BOTH, [15.0, 75.0, 1.5, 18.75, 30.0]),
    model("claude-opus-4", 200_000, 32_000, BOTH, [15.0, 75.0, 1.5, 18.75, 30.0]),
    model("claude-sonnet-4-0", 200_000, 64_000, BOTH, [3.0, 15.0, 0.3, 3.75, 6.0]),
    model("claude-sonnet-4", 200_000, 64_000, BOTH, [3.0, 15.0, 0.3, 3.75, 6.0]),
];

/// `OpenAI`, the recommended first.
pub(super) const OPENAI: &[KnownModel] = &[
    model("gpt-6.1-sol", 272_000, 128_000, BOTH, [2.0, 10.0, 0.1, 2.5, 2.5]),
    model("gpt-6.1-terra", 272_000, 128_000, BOTH, [1.0, 5.0, 0.05, 1.25, 1.25]),
    model("gpt-6-astra", 272_000, 128_000, BOTH, [10.0, 50.0, 1.0, 12.5, 12.5]),
    model("gpt-6-sol", 272_000, 128_000, BOTH, [2.0, 10.0, 0.2, 2.5, 2.5]),
    model("gpt-6-luna", 272_000, 128_000, BOTH, [0.1, 0.5, 0.01, 0.125, 0.125]),
    model("gpt-5.6-sol", 272_000, 128_000, BOTH, [4.0, 20.0, 0.4, 5.0, 5.0]),
    model("gpt-5.6-terra", 272_000, 128_000, BOTH, [2.0, 12.0, 0.2, 2.5, 2.5]),
    model("gpt-5.6-luna", 272_000, 128_000, BOTH, [0.2, 1.2, 0.02, 0.25, 0.25]),
    model("gpt-5.5", 272_000, 128_000, BOTH, [5.0, 30.0, 0.5, 5.0, 5.0]),
    model("gpt-5.4", 272_000, 128_000, BOTH, [2.5, 15.0, 0.25, 2.5, 2.5]),
    model("gpt-5.4-mini", 400_000, 128_000, BOTH, [0.75, 4.5, 0.075, 0.75, 0.75]),
    model("gpt-5.4-nano", 400_000, 128_000, BOTH, [0.2, 1.25, 0.02, 0.2, 0.2]),
    model("gpt-5.3-codex", 400_000, 128_000, BOTH, [1.75, 14.0, 0.175, 1.75, 1.75]),
    model("gpt-5.2", 400_000, 128_000, BOTH, [1.75, 14.0, 0.175, 1.75, 1.75]),
    model("gpt-5.2-codex", 400_000, 128_000, BOTH, [1.75, 14.0, 0.175, 1.75, 1.75]),
    model("gpt-5.1", 400_000, 128_000, BOTH, [1.25, 10.0, 0.125, 1.25, 1.25]),
    model("gpt-5.1-codex", 400_000, 128_000, BOTH, [1.25, 10.0, 0.125, 1.25, 1.25]),
    model("gpt-5.1-codex-max", 400_000, 128_000, BOTH, [1.25, 10.0, 0.125, 1.25, 1.25]),
    model("gpt-5.1-codex-mini", 400_000, 128_000, BOTH, [0.25, 2.0, 0.025, 0.25, 0.25]),
    model("gpt-5", 400_000, 128_000, BOTH, [1.25, 10.0, 0.125, 1.25, 1.25]),
    model("gpt-5-codex", 400_000, 128_000, BOTH, [1.25, 10.0, 0.125, 1.25, 1.25]),
    model("gpt-5-mini", 400_000, 128_000, BOTH, [0.25, 2.0, 0.025, 0.25, 0.25]),
    model("gpt-5-nano", 400_000, 128_000, BOTH, [0.05, 0.4, 0.005, 0.05, 0.05]),
    model("o3", 200_000, 100_000, BOTH, [2.0, 8.0, 0.5, 2.0, 2.0]),
    model("o4-mini", 200_000, 100_000, BOTH, [1.1, 4.4, 0.275, 1.1, 1.1]),
    model("o3-mini", 200_000, 100_000, THINKS, [1.1, 4.4, 0.55, 1.1, 1.1]),
    model("o1", 200_000, 100_000, BOTH, [15.0, 60.0, 7.5, 15.0, 15.0]),
    model("gpt-4.1", 1_047_576, 32_768, SEES, [2.0, 8.0, 0.5, 2.0, 2.0]),
    model("gpt-4.1-mini", 1_047_576, 32_768, SEES, [0.4, 1.6, 0.1, 0.4, 0.4]),
    model("gpt-4.1-nano", 1_047_576, 32_768, SEES, [0.1, 0.4, 0.025, 0.1, 0.1]),
    model("gpt-4o", 128_000, 16_384, SEES, [2.5, 10.0, 1.25, 2.5, 2.5]),
    model("gpt-4o-mini", 128_000, 16_384, SEES, [0.15, 0.6, 0.075, 0.15, 0.15]),
];

/// Google, the recommended first.
const GOOGLE: &[KnownModel] = &[
    model("gemini-3.8-flash", 1_048_576, 65_536, BOTH, [1.5, 7.5, 0.15, 1.5, 1.5]),
    model("gemini-4-argon", 1_048_576, 65_536, BOTH, [4.0, 20.0, 0.2, 4.0, 4.0]),
    model("gemini-3.7-flash", 1_048_576, 65_536, BOTH, [1.5, 7.5, 0.15, 1.5, 1.5]),
    model("gemini-3.6-flash", 1_048_576, 65_536, BOTH, [1.5, 7.5, 0.15, 1.5, 1.5]),
    model("gemini-3.5-flash", 1_048_576, 65_536, BOTH, [1.5, 9.0, 0.15, 1.5, 1.5]),
    model("gemini-3.5-flash-lite", 1_048_576, 65_536, BOTH, [0.3, 2.5, 0.03, 0.3, 0.3]),
    model("gemini-3.1-pro-preview", 200_000, 65_536, BOTH, [2.0, 12.0, 0.2, 2.0, 2.0]),
    model("gemini-3.1-flash-lite", 1_048_576, 65_536, BOTH, [0.25, 1.5, 0.025, 0.25, 0.25]),
    model("gemini-3-pro-preview", 200_000, 65_536, BOTH, [2.0, 12.0, 0.2, 2.0, 2.0]),
    model("gemini-3-flash-preview", 1_048_576, 65_536, BOTH, [0.5, 3.0, 0.05, 0.5, 0.5]),
    model("gemini-2.5-pro", 200_000, 65_536, BOTH, [1.25, 10.0, 0.125, 1.25, 1.25]),
    model("gemini-2.5-flash", 1_048_576, 65_536, BOTH, [0.3, 2.5, 0.03, 0.3, 0.3]),
    model("gemini-2.5-flash-lite", 1_048_576, 65_536, BOTH, [0.1, 0.4, 0.01, 0.1, 0.1]),
    model("gemini-2.0-flash", 1_048_576, 8_192, SEES, [0.1, 0.4, 0.025, 0.1, 0.1]),
];

const SEES: Abilities = Abilities { tools: true, vision: true, thinking: false };
const THINKS: Abilities = Abilities { tools: true, vision: false, thinking: true };
const BOTH: Abilities = Abilities { tools: true, vision: true, thinking: true };

const fn model(
    id: &'static str,
    context_window: u64,
    max_output_tokens: u64,
    abilities: Abilities,
    [input, output, cache_read, cache_write, cache_write_1h]: [f64; 5],
) -> KnownModel {
    let price = Price { input, output, cache_read, cache_write, cache_write_1h };
    KnownModel { id, context_window, max_output_tokens, abilities, price }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_each_of_its_names() {
        for (vendor, id, expected) in [
            (Vendor::Anthropic, "claude-sonnet-4-5", Some("claude-sonnet-4-5")),
            (Vendor::Anthropic, "claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            (Vendor::Anthropic, "claude-haiku-4-5@20251001", Some("claude-haiku-4-5")),
            (Vendor::Anthropic, "claude-sonnet-4-20250514", Some("claude-sonnet-4")),
            (Vendor::Anthropic, "claude-opus-4-1-latest", Some("claude-opus-4-1")),
            (Vendor::Anthropic, "claude-nova-9", None),
            (Vendor::OpenAi, "gpt-5-2025-08-07", Some("gpt-5")),
            (Vendor::OpenAi, "o4-mini-2025-04-16", Some("o4-mini")),
            (Vendor::OpenAi, "gpt-5-12345678-x", None),
            (Vendor::OpenAi, "-20250807", None),
            (Vendor::OpenAi, "", None),
            (Vendor::Google, "gemini-2.5-pro", Some("gemini-2.5-pro")),
            (Vendor::OpenRouter, "anthropic/claude-sonnet-4.5", Some("claude-sonnet-4-5")),
            (Vendor::OpenRouter, "openai/gpt-5.2", Some("gpt-5.2")),
            (Vendor::OpenRouter, "google/gemini-2.5-flash", Some("gemini-2.5-flash")),
            (Vendor::OpenRouter, "qwen/qwen3-coder", None),
            (Vendor::OpenRouter, "gpt-5", None),
            (Vendor::Local, "gpt-5", None),
        ] {
            assert_eq!(vendor.find(id).map(|model| model.id), expected, "{vendor:?} {id}");
        }
    }

    #[test]
    fn every_row_makes_sense() {
        for vendor in [Vendor::Anthropic, Vendor::OpenAi, Vendor::Google] {
            let mut ids = std::collections::HashSet::new();
            for model in vendor.models() {
                let KnownModel { id, context_window, max_output_tokens, price, .. } = *model;
                assert!(ids.insert(id), "{id} stands twice");
                assert!(max_output_tokens < context_window, "{id}");
                assert!(price.input > 0.0 && price.output > price.input, "{id}");
                assert!(price.cache_read < price.input, "{id}");
                assert!(price.cache_write >= price.input, "{id}");
                assert!(price.cache_write_1h >= price.cache_write, "{id}");
            }
        }
    }
}
