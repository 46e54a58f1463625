//! Base agents: conversion of their merged files into a definition, and the tools that they can name.

use std::collections::BTreeSet;

use crow_core::{
    call,
    config::{ConfigError, unknown_word_message},
    model::{ModelConfig, Thinking},
    tool::{SOURCED_NAME, is_sourced_pattern},
    turn::TurnLimits,
};

use super::{
    BaseDefinition, DefinedRole, ModelChoice,
    raw::{
        RawAgent, RawBase, RawModelChoice, RawReact, RawRole, RawText, RawThinking, ThinkingWord,
    },
    text::DefinitionTexts,
};
use crate::layers::Node;

/// Default limit of model calls in a turn of a subagent.
const SUBAGENT_STEPS: u32 = 50;

/// Reads and checks a base agent.
pub(super) fn read(
    name: &str,
    node: &Node,
    texts: &DefinitionTexts<'_>,
    tools: &ToolNames,
) -> Result<BaseDefinition, ConfigError> {
    let raw: RawBase = node.read()?;
    check_name(name, &raw.agent, node)?;
    let role = raw.agent.role.into();
    let Some(enabled) = raw.tools.enabled else {
        return Err(node
            .origin_of(&["tools"])
            .error("the key tools.enabled is missing; enabled = [] gives no tools"));
    };
    let enabled = named_tools(&enabled, node, tools)?;
    let Some(prompt) = raw.prompt.system else {
        return Err(node.origin_of(&["prompt"]).error("the key prompt.system is missing"));
    };
    Ok(BaseDefinition {
        name: name.to_owned(),
        description: raw.agent.description.trim().to_owned(),
        role,
        prompt: system_prompt(&prompt, node, texts)?,
        tools: enabled,
        model: model(raw.model, node)?,
        limits: limits(&raw.react, role, node)?,
        warnings: Vec::new(),
    })
}

/// Checks that an agent has the name of its file, so that it is found without reading all other files.
pub(super) fn check_name(name: &str, agent: &RawAgent, node: &Node) -> Result<(), ConfigError> {
    match agent.name.as_deref() {
        Some(given) if given != name => Err(node.origin_of(&["agent", "name"]).error(format!(
            "the name \"{given}\" is not that of the file; name both \"{name}\" or both \"{given}\""
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Rejects zero, which is no limit and therefore a mistake.
pub(super) fn reject_zero<T: Copy + PartialEq + Default>(
    number: Option<T>,
    node: &Node,
    path: &[&str],
) -> Result<Option<T>, ConfigError> {
    if number == Some(T::default()) {
        let origin = node.origin_of(path);
        return Err(origin.error("0 is not possible here; leave the key out instead"));
    }
    Ok(number)
}

impl From<RawRole> for DefinedRole {
    fn from(role: RawRole) -> Self {
        match role {
            RawRole::Primary => Self::Primary,
            RawRole::Subagent => Self::Subagent,
        }
    }
}

fn named_tools(
    enabled: &[String],
    node: &Node,
    tools: &ToolNames,
) -> Result<Vec<String>, ConfigError> {
    let mut names: Vec<String> = Vec::new();
    for (number, given) in enabled.iter().enumerate() {
        match tools.find(given) {
            ToolName::Tool(name) if names.contains(&name) => {}
            ToolName::Tool(name) => names.push(name),
            ToolName::Unknown(message) => {
                return Err(node
                    .origin_of(&["tools", "enabled", &number.to_string()])
                    .error(message));
            }
        }
    }
    Ok(names)
}

fn system_prompt(
    raw: &RawText,
    node: &Node,
    texts: &DefinitionTexts<'_>,
) -> Result<String, ConfigError> {
    let path = ["prompt", "system"];
    let text = texts.read(raw, node, &path)?;
    if text.content.trim().is_empty() {
        return Err(text.error(None, "the system prompt is empty"));
    }
    let parsed = texts.prompts.parse_system(&text.content);
    parsed.map_err(|error| text.template_error(&error))?;
    Ok(text.content)
}

fn model(raw: RawModelChoice, node: &Node) -> Result<ModelChoice, ConfigError> {
    for (key, value) in [("provider", &raw.provider), ("model", &raw.model)] {
        if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
            let origin = node.origin_of(&["model", key]);
            return Err(origin.error(format!("{key} is empty; leave it out to use the default")));
        }
    }
    for (number, fallback) in raw.fallbacks.iter().enumerate() {
        let is_reference = fallback
            .split_once('/')
            .is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty());
        if !is_reference {
            let origin = node.origin_of(&["model", "fallbacks", &number.to_string()]);
            return Err(origin.error(format!("\"{fallback}\" is not of the form provider/model")));
        }
    }
    if raw.temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
        return Err(node.origin_of(&["model", "temperature"]).error("not between 0 and 2"));
    }
    Ok(ModelChoice {
        provider: raw.provider,
        model: raw.model,
        fallbacks: raw.fallbacks,
        config: ModelConfig {
            temperature: raw.temperature,
            seed: None,
            max_tokens: reject_zero(raw.max_tokens, node, &["model", "max_tokens"])?,
            thinking: raw.thinking.map(Into::into),
        },
    })
}

impl From<RawThinking> for Thinking {
    fn from(raw: RawThinking) -> Self {
        match raw {
            RawThinking::Word(ThinkingWord::Off) => Self::Off,
            RawThinking::Word(ThinkingWord::Low) => Self::Low,
            RawThinking::Word(ThinkingWord::Medium) => Self::Medium,
            RawThinking::Word(ThinkingWord::High) => Self::High,
            RawThinking::Tokens(tokens) => Self::Tokens(tokens),
        }
    }
}

fn limits(raw: &RawReact, role: DefinedRole, node: &Node) -> Result<TurnLimits, ConfigError> {
    let defaults = match role {
        DefinedRole::Primary => TurnLimits::default(),
        DefinedRole::Subagent => TurnLimits { max_steps: SUBAGENT_STEPS, ..TurnLimits::default() },
    };
    let steps = reject_zero(raw.max_iterations, node, &["react", "max_iterations"])?;
    let threshold = reject_zero(raw.doom_loop_threshold, node, &["react", "doom_loop_threshold"])?;
    if threshold == Some(1) {
        let origin = node.origin_of(&["react", "doom_loop_threshold"]);
        return Err(origin.error("a threshold of 1 would end every turn at its first call"));
    }
    Ok(TurnLimits {
        max_steps: steps.unwrap_or(defaults.max_steps),
        doom_loop_threshold: threshold.unwrap_or(defaults.doom_loop_threshold),
    })
}

/// Tools that every product has, because its agent loops need them.
const OF_LOOPS: [&str; 5] =
    ["task", "task_output", "task_cancel", "task_complete", "submit_for_review"];
/// Tools that a program has only if they are configured, or built in. An agent that names one works without it.
const OPTIONAL: [&str; 3] = ["skill", "web_fetch", "web_search"];

/// Returns true for a tool that a program need not have.
pub(crate) fn is_optional_tool(name: &str) -> bool {
    OPTIONAL.contains(&name)
}

/// The names of the available tools.
#[derive(Debug, Clone, Default)]
pub struct ToolNames {
    names: BTreeSet<String>,
}

/// Result of looking up a name from a list of tools.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolName {
    Tool(String),
    /// No tool, with a message for the user.
    Unknown(String),
}

impl ToolNames {
    /// Makes the names from the tools of a product and those of the agent loops.
    pub fn new<'a>(built: impl IntoIterator<Item = &'a str>) -> Self {
        let built = built.into_iter().chain(OF_LOOPS).chain(OPTIONAL).map(str::to_owned);
        Self { names: built.collect() }
    }

    /// Returns all names, and a pattern that matches all tools of servers.
    pub fn all(&self) -> Vec<String> {
        let sourced = format!("{SOURCED_NAME}*");
        self.names.iter().cloned().chain([sourced]).collect()
    }

    /// Returns true if there is a tool of exactly this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Finds a tool by its name, or checks the pattern for tools of servers.
    pub(super) fn find(&self, name: &str) -> ToolName {
        if self.names.contains(name) {
            return ToolName::Tool(name.to_owned());
        }
        if is_sourced_pattern(name) {
            // The tools of servers are known only while a session is open.
            return ToolName::Tool(name.to_owned());
        }
        if name.starts_with(SOURCED_NAME) {
            return ToolName::Unknown(format!(
                "\"{name}\" is not a server's tool; write mcp__SERVER__TOOL, mcp__SERVER__* or mcp__*"
            ));
        }
        let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
        ToolName::Unknown(match call::resolve_alias(name) {
            Some(meant) => format!("unknown tool \"{name}\", did you mean \"{meant}\"?"),
            None => unknown_word_message("tool", name, &known),
        })
    }

    /// Finds a tool by its own name or one that other programs have for it.
    pub(super) fn find_alias(&self, name: &str) -> ToolName {
        // `Bash(git log:*)` is a tool with a permission rule.
        let bare = name.split('(').next().unwrap_or_default().trim();
        let wanted = normalized(bare);
        let mut known = self.names.iter().map(String::as_str);
        let same = known.find(|name| normalized(name) == wanted);
        self.find(same.or_else(|| call::resolve_alias(bare)).unwrap_or(bare))
    }
}

fn normalized(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
