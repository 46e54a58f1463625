//! The files of agents in the form in which people write them, and the source of their JSON schema.

use std::{borrow::Cow, fmt, time::Duration};

use crow_core::control::{CoagentTools, Consensus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::AgentKind;

/// Removes `required` from the schema of a table. The schema describes one file, and a file may be an overlay: tables
/// of all layers are merged key by key, so a required key may be in another layer.
fn require_nothing(schema: &mut Schema) {
    schema.remove("required");
}

/// A base agent: `agents/base/NAME.toml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBase {
    #[serde(default)]
    pub(super) agent: RawAgent,
    /// Its model. Without it: the one of the command line, or the default.
    #[serde(default)]
    pub(super) model: RawModelChoice,
    #[serde(default)]
    pub(super) tools: RawTools,
    /// The limits of a turn.
    #[serde(default)]
    pub(super) react: RawReact,
    #[serde(default)]
    pub(super) prompt: RawPrompt,
}

/// A composition: `agents/acp/NAME.toml`. A file beside a shipped one needs to name only what it changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = require_nothing)]
pub(super) struct RawComposition {
    #[serde(default)]
    pub(super) agent: RawAgent,
    pub(super) composition: RawMembers,
    #[serde(default)]
    pub(super) control_flow: RawControlFlow,
    pub(super) handoff: Option<RawHandoff>,
    /// The limits of a run. The first one that is reached ends it.
    #[serde(default)]
    pub(super) limits: RawAgentLimits,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAgent {
    /// The name; that of the file.
    pub(super) name: Option<String>,
    /// Who starts it: people, or other agents by the `task` tool.
    #[serde(default)]
    pub(super) role: RawRole,
    /// What it is for, in a line. A model reads it when it chooses a subagent.
    #[serde(default)]
    pub(super) description: String,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawRole {
    #[default]
    Primary,
    Subagent,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModelChoice {
    /// Name of the provider.
    pub(super) provider: Option<String>,
    /// Id of the model, as the provider names it.
    pub(super) model: Option<String>,
    /// Sampling temperature [default: the provider's own].
    pub(super) temperature: Option<f32>,
    /// The most tokens of one reply.
    pub(super) max_tokens: Option<u64>,
    pub(super) thinking: Option<RawThinking>,
    /// The models used if it cannot answer, each as "provider/model".
    #[serde(default)]
    pub(super) fallbacks: Vec<String>,
}

/// "off", "low", "medium", "high", or a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawThinking {
    Word(ThinkingWord),
    Tokens(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThinkingWord {
    Off,
    Low,
    Medium,
    High,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTools {
    /// The names of the tools.
    pub(super) enabled: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReact {
    /// Model calls of one turn.
    pub(super) max_iterations: Option<u32>,
    /// How often the same call may give the same result before the turn is ended.
    pub(super) doom_loop_threshold: Option<u32>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrompt {
    /// The system prompt.
    pub(super) system: Option<RawText>,
}

/// A text, or `{ file = "…" }` with a path in the folder of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(super) enum RawText {
    Here(String),
    In(RawFile),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) file: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = require_nothing)]
pub(super) struct RawMembers {
    /// The base agent that does the work.
    pub(super) primary: String,
    /// The reviewer: a base agent or a composition.
    pub(super) coagent: Option<String>,
    /// Several reviewers at the same time, each with a vote.
    pub(super) coagents: Option<Vec<String>>,
    /// How many of them must approve.
    #[serde(default)]
    #[schemars(with = "ConsensusWord")]
    pub(super) consensus: Consensus,
}

/// The words of [`Consensus`], for the schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum ConsensusWord {
    All,
    Majority,
    Any,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawControlFlow {
    /// What comes after a turn.
    #[serde(rename = "type")]
    pub(super) kind: Option<FlowWord>,
    /// The same as a number, from -1 (hitl) to 5 (smart).
    pub(super) level: Option<i64>,
    /// Maximum number of rounds of a run.
    pub(super) max_rounds: Option<u32>,
    /// Another name of `max_rounds`.
    pub(super) max_iterations: Option<u32>,
    /// Another name of `max_rounds`.
    pub(super) max_turns: Option<u32>,
    /// Of static: what the agent is told.
    pub(super) message: Option<String>,
    /// Of generated: what a model is asked to write.
    pub(super) generator_prompt: Option<String>,
    /// Of coagent: what the coagent may use.
    #[schemars(with = "Option<ToolsWord>")]
    pub(super) tools: Option<CoagentTools>,
    /// Of coagent: whether only it may say that the task is done.
    pub(super) can_terminate: Option<bool>,
}

/// The words of [`CoagentTools`], for the schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum ToolsWord {
    None,
    ReadOnly,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlowWord {
    Hitl,
    Loop,
    Static,
    Generated,
    Advise,
    Judge,
    Smart,
    Chat,
    Coagent,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = require_nothing)]
pub(super) struct RawHandoff {
    /// How the input of the coagents is made.
    #[serde(rename = "type")]
    pub(super) kind: HandoffWord,
    /// Of static: the text.
    pub(super) text: Option<RawText>,
    /// Of template: the template.
    pub(super) template: Option<RawText>,
    /// Of generated: what a model is asked to write.
    pub(super) generator_prompt: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum HandoffWord {
    Static,
    Template,
    Generated,
    Verbatim,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the keys of the file")]
pub(super) struct RawAgentLimits {
    /// Rounds.
    pub(super) max_rounds: Option<u32>,
    /// Tokens, input and output together.
    pub(super) max_tokens: Option<u64>,
    /// US dollars.
    pub(super) max_money: Option<f64>,
    /// Time from the start of the run.
    pub(super) max_time: Option<Seconds>,
}

impl<'de> Deserialize<'de> for RawThinking {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordList;
        impl Visitor<'_> for WordList {
            type Value = RawThinking;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\", \"low\", \"medium\", \"high\" or a number of tokens")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<RawThinking, E> {
                let word: serde::de::value::StrDeserializer<'_, E> =
                    serde::de::IntoDeserializer::into_deserializer(word);
                ThinkingWord::deserialize(word).map(RawThinking::Word)
            }

            fn visit_i64<E: serde::de::Error>(self, tokens: i64) -> Result<RawThinking, E> {
                match u64::try_from(tokens) {
                    Ok(tokens) if tokens > 0 => Ok(RawThinking::Tokens(tokens)),
                    _ => Err(E::custom("thinking takes a positive number of tokens, or \"off\"")),
                }
            }
        }
        deserializer.deserialize_any(WordList)
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = RawText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or { file = \"prompts/…\" }")
            }

            fn visit_str<E>(self, text: &str) -> Result<RawText, E> {
                Ok(RawText::Here(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawText, A::Error> {
                RawFile::deserialize(MapAccessDeserializer::new(map)).map(RawText::In)
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

/// A span of time: seconds, or a text such as "90s", "30m" or "2h".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub u64);

impl From<Seconds> for Duration {
    fn from(seconds: Seconds) -> Self {
        Self::from_secs(seconds.0)
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Seconds, or a text such as \"90s\", \"30m\" or \"2h\".",
            "type": ["integer", "string"]
        })
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsOrText)
    }
}

struct SecondsOrText;

impl Visitor<'_> for SecondsOrText {
    type Value = Seconds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds, or a text such as \"90s\", \"30m\" or \"2h\"")
    }

    fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<Seconds, E> {
        match u64::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Ok(Seconds(seconds)),
            _ => Err(E::custom("0 is not possible here; leave the key out instead")),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seconds, E> {
        parse(text).map(Seconds).ok_or_else(|| {
            E::custom(format!("\"{text}\" is not a duration; write \"90s\", \"30m\" or \"2h\""))
        })
    }
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(number.len()..)? {
        "s" | "" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(unit).filter(|seconds| *seconds > 0)
}

/// Returns the schema of the files of a kind of agent.
pub fn schema(kind: AgentKind) -> Schema {
    match kind {
        AgentKind::Base => schema_for!(RawBase),
        AgentKind::Composition => schema_for!(RawComposition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_with_and_without_unit() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("30m", Some(1800)),
            ("30 min", Some(1800)),
            ("2h", Some(7200)),
            ("5", Some(5)),
            ("0s", None),
            ("2d", None),
            ("-1s", None),
            ("h", None),
            ("99999999999999999999h", None),
            ("9999999999999999999h", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
