//! Settings that a session is reopened with: its agent, its permission mode and its directories.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    control::Preset,
    model::{ModelRef, Thinking},
    permission::PermissionMode,
};

/// The settings in a session's header with which it continues. The log has it as well, so that a header that is lost is made anew
/// without a guess.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSettings {
    /// The agent that the session was opened with, where the product has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_with: Option<OpenedWith>,
    /// What happens to calls that no rule matches; none if the configuration sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionMode>,
    /// The folders beside the working directory in which the agent works as well, absolute and resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<PathBuf>,
}

/// A change of a system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "text", rename_all = "snake_case")]
pub enum SystemPrompt {
    /// A text that is appended to it.
    Append(String),
    /// A text that replaces it.
    Replace(String),
}

/// The agent that a session was opened with, and what the user chose for it over what its files say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct OpenedWith {
    /// The agent's name: that of a composition, or of a base agent that works alone.
    pub agent: String,
    /// The model that all of its agents use; none if each uses its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The model of the reviewers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer_model: Option<ModelRef>,
    /// What comes after a turn; none if the agent sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Preset>,
    /// The reviewers, if the mode uses them; none if the agent sets them, an empty list for no reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewers: Option<Vec<String>>,
    /// How much the model of the agent that does the work thinks; none if the agent sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The change of the system prompt of the agent that does the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
}

impl OpenedWith {
    /// Makes the choice of an agent as its files describe it.
    pub fn new(agent: impl Into<String>) -> Self {
        Self { agent: agent.into(), ..Self::default() }
    }

    /// Describes what differs in `after`, which the session continues with: one `name: before -> after` text per
    /// setting. The model is not compared: it is recorded with the requests to it.
    pub fn describe_changes(&self, after: &Self) -> Vec<String> {
        let reviewers = |with: &Self| with.reviewers.as_ref().map(|names| words(names));
        let mode = |with: &Self| with.mode.map(|mode| mode.to_string());
        let thinking = |with: &Self| with.thinking.map(thinking_word);
        let prompt = |with: &Self| with.system_prompt.as_ref().map(prompt_word);
        let table = [
            ("agent", Some(self.agent.clone()), Some(after.agent.clone())),
            ("mode", mode(self), mode(after)),
            ("reviewer", reviewers(self), reviewers(after)),
            ("thinking", thinking(self), thinking(after)),
            ("system prompt", prompt(self), prompt(after)),
        ];
        let own = || "the agent's own".to_owned();
        let changes = table.into_iter().filter(|(_, before, after)| before != after);
        let mut switches: Vec<String> = changes
            .map(|(name, before, after)| {
                let (before, after) = (before.unwrap_or_else(own), after.unwrap_or_else(own));
                format!("{name}: {before} -> {after}")
            })
            .collect();
        // Two prompts of the same kind have the same word in the table, although their texts differ.
        let is_listed = switches.iter().any(|switch| switch.starts_with("system prompt"));
        if self.system_prompt != after.system_prompt && !is_listed {
            switches.push("system prompt: another text".to_owned());
        }
        switches
    }
}

fn words(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn thinking_word(thinking: Thinking) -> String {
    match thinking {
        Thinking::Off => "off".to_owned(),
        Thinking::Low => "low".to_owned(),
        Thinking::Medium => "medium".to_owned(),
        Thinking::High => "high".to_owned(),
        Thinking::Tokens(number) => format!("{number} tokens"),
    }
}

fn prompt_word(prompt: &SystemPrompt) -> String {
    match prompt {
        SystemPrompt::Append(_) => "with words after it".to_owned(),
        SystemPrompt::Replace(_) => "another one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_setting_is_described() {
        let before = OpenedWith::new("builder");
        let after = OpenedWith {
            agent: "planner".to_owned(),
            mode: Some(Preset::Judge),
            reviewers: Some(Vec::new()),
            thinking: Some(Thinking::High),
            system_prompt: Some(SystemPrompt::Append("x".to_owned())),
            ..before.clone()
        };
        assert_eq!(
            before.describe_changes(&after),
            [
                "agent: builder -> planner",
                "mode: the agent's own -> judge",
                "reviewer: the agent's own -> none",
                "thinking: the agent's own -> high",
                "system prompt: the agent's own -> with words after it",
            ]
        );
        let other = SystemPrompt::Append("y".to_owned());
        let other = OpenedWith { system_prompt: Some(other), ..after.clone() };
        assert_eq!(after.describe_changes(&other), ["system prompt: another text"]);
        assert_eq!(after.describe_changes(&after), Vec::<String>::new());
    }

    #[test]
    fn settings_of_older_sessions_can_be_read() {
        let json = r#"{"agent":"BUILD-HITL","model":{"provider":"p","model":"m"}}"#;
        let read: OpenedWith = serde_json::from_str(json).unwrap();
        assert_eq!((read.agent.as_str(), read.mode), ("BUILD-HITL", None));
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
}
