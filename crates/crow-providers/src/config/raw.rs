//! The TOML of a provider as users write it.
//!
//! The fields are [`Spanned`], so that errors name line and column; the JSON Schema is that of the inner value.

use std::{collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, schema_for};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::json;
use toml::Spanned;

use super::resolve::known_types;

/// A model provider: `providers/NAME.toml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProvider {
    pub(super) provider: RawIdentity,
    #[serde(default)]
    pub(super) auth: RawAuth,
    #[serde(default)]
    pub(super) defaults: RawDefaults,
    /// Properties of single models, by the id that the provider has for them.
    #[serde(default)]
    pub(super) models: BTreeMap<String, RawProviderModel>,
    /// Headers of every request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(super) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pub(super) timeouts: RawTimeouts,
    /// Limits that all agents of a process share. Omitted ones are not limited.
    #[serde(default)]
    pub(super) limits: RawProviderLimits,
}

/// Returns the JSON Schema of `providers/NAME.toml`.
pub fn provider_schema() -> Schema {
    schema_for!(RawProvider)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIdentity {
    /// The name before the slash in "provider/model": letters, digits, "-", "_" and ".".
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z0-9_.-]+$"))]
    pub(super) name: Spanned<String>,
    /// A built-in provider, or a wire format, which needs a `base_url`.
    #[serde(rename = "type")]
    #[schemars(with = "String", transform = list_types)]
    pub(super) kind: Spanned<String>,
    /// The address of the service.
    #[schemars(with = "Option<String>")]
    pub(super) base_url: Option<Spanned<String>>,
}

fn list_types(schema: &mut Schema) {
    schema.insert("enum".to_owned(), json!(known_types()));
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAuth {
    /// The key [default: the variable of the built-in provider].
    #[schemars(with = "Option<RawKey>")]
    pub(super) api_key: Option<Spanned<RawKey>>,
}

/// `{ env = "NAME" }`, or the key itself.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum RawKey {
    Variable(#[schemars(with = "RawVariable")] String),
    Direct(String),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawVariable {
    /// The name of an environment variable.
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

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefaults {
    /// The default model.
    #[schemars(with = "Option<String>")]
    pub(super) model: Option<Spanned<String>>,
    /// The most tokens of one reply.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub(super) max_tokens: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProviderModel {
    /// Tokens of a request, reply included.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub(super) context_window: Option<Spanned<u64>>,
    /// Tokens of a reply.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub(super) max_output_tokens: Option<Spanned<u64>>,
    /// True if the model can call tools. False: it is offered none, unless `tool_calls` is another form than "native".
    pub(super) supports_tools: Option<bool>,
    /// How the model calls tools: "native", by the fields of the provider, or "text", for models and servers without
    /// such fields: the system prompt describes the tools, and calls are read from the reply, or `code_blocks`, for
    /// small models: code blocks of shell and Python in a reply are run [default: that of the model's profile, or
    /// native].
    #[schemars(with = "Option<RawToolCallFormat>")]
    pub(super) tool_calls: Option<Spanned<RawToolCallFormat>>,
    /// True if the model accepts pictures.
    pub(super) supports_vision: Option<bool>,
    /// True if the model can think before it answers.
    pub(super) supports_extended_thinking: Option<bool>,
    pub(super) price: Option<RawPrice>,
}

/// The form of a model's tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawToolCallFormat {
    Native,
    Text,
    CodeBlocks,
}

/// US dollars per million tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrice {
    /// Of fresh input.
    #[schemars(with = "f64", range(min = 0))]
    pub(super) input: Spanned<f64>,
    /// Of output.
    #[schemars(with = "f64", range(min = 0))]
    pub(super) output: Spanned<f64>,
    /// Of input that was read from the cache.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) cache_read: Option<Spanned<f64>>,
    /// Of input that was written to the cache.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) cache_write: Option<Spanned<f64>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTimeouts {
    /// How long the connection may be silent.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub(super) idle_seconds: Option<Spanned<u64>>,
    /// How long no part of a reply may come, with keep-alives or without.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub(super) progress_seconds: Option<Spanned<u64>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProviderLimits {
    /// Requests in flight.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(super) concurrency: Option<Spanned<u64>>,
    /// Requests in a minute.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(super) requests_per_minute: Option<Spanned<u64>>,
    /// Tokens in a minute, input and output together.
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub(super) tokens_per_minute: Option<Spanned<u64>>,
}
