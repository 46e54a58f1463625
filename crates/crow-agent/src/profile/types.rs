//! Model profiles.

use std::collections::BTreeMap;

use crow_core::model::{ModelConfig, Thinking, ToolCallFormat};

use crate::prompt::PromptStyle;

/// Adaptation of agents to a family of models.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelProfile {
    /// Name, which is that of its file.
    pub name: String,
    /// The models that it is for, in one line.
    pub description: String,
    /// Style of the system prompt.
    pub prompt_style: PromptStyle,
    /// The form of tool calls, for models whose provider file gives none.
    pub tool_calls: Option<ToolCallFormat>,
    /// The tool that changes files, in place of the one that an agent's file names.
    pub edit_tool: Option<EditTool>,
    /// Names of tools that its models do not get.
    pub left_out: Vec<String>,
    /// Other descriptions of tools, by their names.
    pub descriptions: BTreeMap<String, ToolDescription>,
    /// Thinking at each step, where neither the user nor the agent sets it.
    pub thinking: Option<StepThinking>,
    /// True if the model is shown the beginning of the files that a message of the user names.
    pub shows_named_files: bool,
    /// True if the model is told once what contradicts its claim that the work is done.
    pub tells_contradictions: bool,
}

/// The tool that changes files in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditTool {
    /// `edit_file`, which replaces quoted text.
    EditFile,
    /// `apply_patch`, which applies a patch in the format that GPT models were trained on.
    ApplyPatch,
}

/// Another description of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolDescription {
    /// The description of the tool; its own if absent.
    pub description: Option<String>,
    /// Arguments that are not shown. Calls may have them all the same.
    pub left_out: Vec<String>,
    /// Other descriptions of arguments, by their names. An empty one removes the description.
    pub arguments: BTreeMap<String, String>,
}

/// Thinking at each step of a turn: most at its beginning and after a claim of finished work did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepThinking {
    /// Thinking in the first steps.
    pub opening: Thinking,
    /// Number of the first steps.
    pub opening_steps: u32,
    /// Thinking in the steps between.
    pub between: Thinking,
    /// Thinking after a claim of finished work was refused or contradicted.
    pub closing: Thinking,
}

impl ModelProfile {
    /// Makes a profile that changes nothing.
    pub(crate) fn unchanged(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            prompt_style: PromptStyle::Full,
            tool_calls: None,
            edit_tool: None,
            left_out: Vec::new(),
            descriptions: BTreeMap::new(),
            thinking: None,
            shows_named_files: false,
            tells_contradictions: true,
        }
    }
}

impl EditTool {
    /// Returns the name of the tool.
    pub fn tool_name(self) -> &'static str {
        match self {
            Self::EditFile => "edit_file",
            Self::ApplyPatch => "apply_patch",
        }
    }
}

impl StepThinking {
    /// Returns the settings of the request of a step. `step` counts from zero within the turn; `is_closing` is true
    /// after a claim of finished work was refused.
    pub(crate) fn config(&self, config: &ModelConfig, step: u32, is_closing: bool) -> ModelConfig {
        let thinking = if is_closing {
            self.closing
        } else if step < self.opening_steps {
            self.opening
        } else {
            self.between
        };
        ModelConfig { thinking: Some(thinking), ..config.clone() }
    }
}
