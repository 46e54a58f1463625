//! The TOML of a provider as people write it.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProvider {
    pub(super) provider: RawIdentity,
    #[serde(default)]
    pub(super) auth: RawAuth,
    #[serde(default)]
    pub(super) defaults: RawDefaults,
    #[serde(default)]
    pub(super) models: BTreeMap<String, RawModel>,
    #[serde(default)]
    pub(super) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pub(super) timeouts: RawTimeouts,
    #[serde(default)]
    pub(super) limits: RawLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIdentity {
    pub(super) name: Spanned<String>,
    #[serde(rename = "type")]
    pub(super) kind: Spanned<String>,
    pub(super) base_url: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAuth {
    pub(super) api_key: Option<Spanned<RawKey>>,
}

/// `{ env = "NAME" }`, or the key itself.
#[derive(Debug)]
pub(super) enum RawKey {
    Variable(String),
    Direct(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariable {
    env: String,
}

impl<'de> Deserialize<'de> for RawKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = RawKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ env = \"NAME_OF_A_VARIABLE\" } or the key as a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<RawKey, E> {
        Ok(RawKey::Direct(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawKey, A::Error> {
        let variable = RawVariable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(RawKey::Variable(variable.env))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefaults {
    pub(super) model: Option<Spanned<String>>,
    pub(super) max_tokens: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModel {
    pub(super) context_window: Option<Spanned<u64>>,
    pub(super) max_output_tokens: Option<Spanned<u64>>,
    pub(super) supports_tools: Option<bool>,
    pub(super) supports_vision: Option<bool>,
    pub(super) supports_extended_thinking: Option<bool>,
    pub(super) price: Option<RawPrice>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrice {
    pub(super) input: Spanned<f64>,
    pub(super) output: Spanned<f64>,
    pub(super) cache_read: Option<Spanned<f64>>,
    pub(super) cache_write: Option<Spanned<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTimeouts {
    pub(super) idle_seconds: Option<Spanned<u64>>,
    pub(super) progress_seconds: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) concurrency: Option<Spanned<u64>>,
    pub(super) requests_per_minute: Option<Spanned<u64>>,
    pub(super) tokens_per_minute: Option<Spanned<u64>>,
}
