//! The effective values of keys that no file sets.

use crow_agent::{
    definition::{
        AgentRegistry, BaseDefinition, CompositionDefinition, DefinedRole, HandoffDefinition,
    },
    layers::Node,
};
use crow_runtime::ProcessLimits;
use serde_json::{Value, json};

use crate::config::{ConfigKey, DEFAULT_AGENT, KeyTarget};

/// A key that no file sets.
#[derive(Debug, Clone, PartialEq)]
pub struct UnsetKey {
    /// Dotted key.
    pub key: &'static str,
    /// Effect of leaving it unset.
    pub effect: UnsetEffect,
}

/// Effect of a key that no file sets.
#[derive(Debug, Clone, PartialEq)]
pub enum UnsetEffect {
    /// A built-in value.
    BuiltIn(Value),
    /// No value of its own; the text says what applies instead.
    Nothing(&'static str),
}

/// Source of a built-in value, as shown to users.
pub const BUILT_IN: &str = "built in, no file sets it";

const NO_BOUND: &str = "no bound";
const PROVIDERS_OWN: &str = "the provider's own";

fn built_in(key: &'static str, value: impl Into<Value>) -> UnsetKey {
    UnsetKey { key, effect: UnsetEffect::BuiltIn(value.into()) }
}

fn nothing(key: &'static str, why: &'static str) -> UnsetKey {
    UnsetKey { key, effect: UnsetEffect::Nothing(why) }
}

/// Removes keys that a file sets, directly or by a key below.
fn unset(all: Vec<UnsetKey>, node: Option<&Node>) -> Vec<UnsetKey> {
    let is_set = |unset: &UnsetKey| {
        let path: Vec<&str> = unset.key.split('.').collect();
        node.is_some_and(|node| node.find(&path).is_some())
    };
    all.into_iter().filter(|unset| !is_set(unset)).collect()
}

fn role(role: DefinedRole) -> UnsetKey {
    built_in("agent.role", role.as_str())
}

/// Returns the keys of a base agent that no file sets.
pub fn unset_keys_of_base(agent: &BaseDefinition, node: &Node) -> Vec<UnsetKey> {
    let all = vec![
        role(agent.role),
        nothing("model.model", "that of --model, of the session, or of config.toml"),
        nothing("model.max_tokens", PROVIDERS_OWN),
        nothing("model.temperature", PROVIDERS_OWN),
        nothing("model.thinking", PROVIDERS_OWN),
        built_in("model.fallbacks", json!([])),
        built_in("react.max_iterations", agent.limits.max_steps),
        built_in("react.doom_loop_threshold", agent.limits.doom_loop_threshold),
    ];
    unset(all, Some(node))
}

/// Returns the keys of a composition that no file sets.
pub fn unset_keys_of_composition(agent: &CompositionDefinition, node: &Node) -> Vec<UnsetKey> {
    let mut all = vec![role(agent.role)];
    if agent.coagents.is_empty() {
        all.push(nothing("composition.coagent", "no reviewer"));
    } else {
        let usual = match agent.handoff {
            Some(HandoffDefinition::Verbatim) => "the other agent's last message, verbatim",
            Some(_) | None => "the built-in bundle of the task, what was done and what changed",
        };
        all.push(nothing("handoff", usual));
    }
    if agent.coagents.len() > 1 {
        all.push(built_in("composition.consensus", json!(agent.consensus)));
    }
    let rounds = ["max_rounds", "max_iterations", "max_turns"];
    let has_rounds = rounds.iter().any(|key| node.find(&["control_flow", key]).is_some());
    if !has_rounds {
        all.push(nothing("control_flow.max_rounds", "only limits.max_rounds applies"));
    }
    all.push(built_in("limits.max_rounds", agent.limits.max_rounds));
    for key in ["limits.max_tokens", "limits.max_money", "limits.max_time"] {
        all.push(nothing(key, NO_BOUND));
    }
    unset(all, Some(node))
}

/// Returns the keys of `config.toml` that no file sets.
fn unset_keys_of_settings(node: Option<&Node>) -> Vec<UnsetKey> {
    let limits = ProcessLimits::default();
    let mut all = vec![
        built_in("agent", DEFAULT_AGENT),
        nothing("model", "the default one of the first provider with a key"),
        nothing("review_model", "that of the reviewed agent"),
        built_in("checks.commands", json!([])),
        built_in("sandbox.network", false),
        built_in("sandbox.memory_gib", limits.memory >> 30),
        built_in("sandbox.processes", limits.processes),
    ];
    for key in [
        "sandbox.allow_hosts",
        "sandbox.writable",
        "sandbox.readable",
        "sandbox.hidden",
        "sandbox.unprotected",
    ] {
        all.push(built_in(key, json!([])));
    }
    unset(all, node)
}

/// Returns the effect of a key that no file sets. Returns `None` for keys of tables and for names that the user
/// chose.
pub fn find(agents: &AgentRegistry, key: &ConfigKey, node: Option<&Node>) -> Option<UnsetEffect> {
    let all = match (&key.target, node) {
        (KeyTarget::Settings, node) => unset_keys_of_settings(node),
        (KeyTarget::Agent { name, .. }, Some(node)) => match agents.composition(name) {
            Ok(agent) if key.is_of_composition() => unset_keys_of_composition(&agent, node),
            Ok(_) | Err(_) => unset_keys_of_base(&agents.base(name).ok()?, node),
        },
        (KeyTarget::Agent { .. }, None) => return None,
    };
    let path = key.path().join(".");
    all.into_iter().find(|unset| unset.key == path).map(|unset| unset.effect)
}

impl UnsetKey {
    /// Formats the key with its value, or with what applies instead.
    pub fn shown(&self) -> String {
        match &self.effect {
            UnsetEffect::BuiltIn(value) => format!("{} = {value}", self.key),
            UnsetEffect::Nothing(why) => format!("{}: {why}", self.key),
        }
    }

    /// Returns the source of the value.
    pub fn source(&self) -> &'static str {
        match self.effect {
            UnsetEffect::BuiltIn(_) => BUILT_IN,
            UnsetEffect::Nothing(_) => "no file sets it",
        }
    }
}
