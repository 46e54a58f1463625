//! Profile files in the form in which people write them, and the source of their JSON schema.

use std::collections::BTreeMap;

use crow_core::model::ToolCallFormat;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Deserialize;

use super::EditTool;
use crate::{definition::RawThinking, prompt::PromptStyle};

/// A profile of models: `profiles/NAME.toml`. A file beside a shipped one needs to name only what it changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfile {
    #[serde(default)]
    pub(super) profile: RawProfileIdentity,
    #[serde(default, rename = "match")]
    pub(super) condition: RawMatch,
    #[serde(default)]
    pub(super) prompt: RawProfilePrompt,
    #[serde(default)]
    pub(super) tools: RawProfileTools,
    pub(super) thinking: Option<RawStepThinking>,
    #[serde(default)]
    pub(super) run: RawProfileRun,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfileIdentity {
    /// The models that it is for, in a line.
    #[serde(default)]
    pub(super) description: String,
    /// Profiles are tried in this order, and the first one that matches is used [default: 0].
    #[serde(default)]
    pub(super) order: i64,
}

/// The models of the profile: those that match one of the patterns, and those with few parameters. Without any
/// condition: all.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMatch {
    /// Patterns for "PROVIDER/MODEL". "*" stands for any text, and case does not count.
    pub(super) models: Option<Vec<String>>,
    /// The most parameters, in billions, as the name of the model gives them: 7 for "qwen2.5-coder:7b".
    pub(super) max_parameters: Option<f64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfilePrompt {
    /// Style of the system prompt: "full", or "brief" for models that follow few instructions [default: full].
    #[serde(default)]
    pub(super) style: RawPromptStyle,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawPromptStyle {
    #[default]
    Full,
    Brief,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfileTools {
    /// The form of tool calls: `native`, `text`, or `code_blocks`. `tool_calls` of a model in its provider's file counts
    /// more [default: native].
    pub(super) calls: Option<RawCalls>,
    /// The tool that changes files, in place of the other one: `edit_file` or `apply_patch` [default: the one that the
    /// agent's file names].
    pub(super) edit: Option<RawEditTool>,
    /// The names of tools that the models do not get.
    #[serde(default)]
    pub(super) leave_out: Vec<String>,
    /// Other descriptions, by the names of the tools.
    #[serde(default)]
    pub(super) describe: BTreeMap<String, RawToolDescription>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawCalls {
    Native,
    Text,
    CodeBlocks,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawEditTool {
    EditFile,
    ApplyPatch,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawToolDescription {
    /// The description of the tool [default: its own].
    pub(super) description: Option<String>,
    /// Arguments that are not shown.
    #[serde(default)]
    pub(super) leave_out: Vec<String>,
    /// Descriptions of arguments, by their names; an empty one removes it.
    #[serde(default)]
    pub(super) arguments: BTreeMap<String, String>,
}

/// Thinking at each step of a turn, where neither the user nor the agent says it.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStepThinking {
    /// Thinking in the first steps.
    pub(super) opening: RawThinking,
    /// Number of the first steps [default: 2].
    pub(super) opening_steps: Option<u32>,
    /// Thinking in the steps between.
    pub(super) between: RawThinking,
    /// Thinking after a claim of finished work was refused [default: that of the first steps].
    pub(super) closing: Option<RawThinking>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfileRun {
    /// Shows the beginning of the files that a message of the user names [default: false].
    pub(super) show_named_files: Option<bool>,
    /// Tells the model once what contradicts its claim that the work is done [default: true].
    pub(super) tell_contradictions: Option<bool>,
}

impl From<RawPromptStyle> for PromptStyle {
    fn from(raw: RawPromptStyle) -> Self {
        match raw {
            RawPromptStyle::Full => Self::Full,
            RawPromptStyle::Brief => Self::Brief,
        }
    }
}

impl From<RawCalls> for ToolCallFormat {
    fn from(raw: RawCalls) -> Self {
        match raw {
            RawCalls::Native => Self::Native,
            RawCalls::Text => Self::Text,
            RawCalls::CodeBlocks => Self::CodeBlocks,
        }
    }
}

impl From<RawEditTool> for EditTool {
    fn from(raw: RawEditTool) -> Self {
        match raw {
            RawEditTool::EditFile => Self::EditFile,
            RawEditTool::ApplyPatch => Self::ApplyPatch,
        }
    }
}

/// Returns the schema of profile files.
pub fn profile_schema() -> Schema {
    schema_for!(RawProfile)
}
