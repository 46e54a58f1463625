//! Lookup of models by their id at a provider.

use crow_core::model::{Abilities, Price};

use super::table::{ANTHROPIC, GOOGLE, OPENAI};

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
