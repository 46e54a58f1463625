//! The profiles of all layers, and the choice of one for a model.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crow_core::{
    config::{ConfigError, unknown_word_message},
    model::{ModelRef, Thinking},
};

use super::{
    ModelProfile, StepThinking, ToolDescription, parameters::billions_in, raw::RawProfile,
};
use crate::{
    definition::ToolNames,
    layers::{ConfigLayer, LayerKind, Layers, ValueOrigin},
};

/// Folder of the profiles, relative to that of the configuration.
const PROFILE_FOLDER: &str = "profiles";
/// Name of the profile of models that no other one is for.
const DEFAULT: &str = "default";
/// Number of the first steps of a turn, if a file does not give it.
const OPENING_STEPS: u32 = 2;

/// The profiles of a configuration. Files are read when a profile is chosen for a model the first time.
#[derive(Debug, Clone)]
pub struct ProfileRegistry {
    layers: Layers,
    tools: ToolNames,
    /// The profiles that were chosen: the agents of a session mostly have one model.
    chosen: Arc<Mutex<Vec<(ModelRef, ModelProfile)>>>,
}

/// An entry in the list of profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedProfile {
    /// Name of the profile.
    pub name: String,
    /// The highest layer that has a file of it.
    pub layer: LayerKind,
    /// The profile, or the error that makes it unusable.
    pub profile: Result<ModelProfile, ConfigError>,
}

/// A profile with its condition.
struct CandidateProfile {
    order: i64,
    condition: ModelCondition,
    profile: ModelProfile,
}

/// The models that a profile is for.
struct ModelCondition {
    /// `None` if it names none; with an empty list no model matches by its name.
    patterns: Option<Vec<ModelNamePattern>>,
    /// The most parameters, in billions.
    max_parameters: Option<f64>,
}

impl ProfileRegistry {
    /// Makes the registry of these layers. `tools` are the tools that profiles can name.
    pub fn new(layers: Layers, tools: ToolNames) -> Self {
        Self { layers, tools, chosen: Arc::default() }
    }

    /// Returns the names of all profiles, sorted.
    pub fn names(&self) -> Vec<String> {
        self.layers.names(PROFILE_FOLDER, ".toml")
    }

    /// Returns all profiles in the order in which they are tried, and then those that cannot be read.
    pub fn list(&self) -> Vec<ListedProfile> {
        let mut read: Vec<(i64, ListedProfile)> = self
            .names()
            .into_iter()
            .map(|name| {
                let candidate = self.candidate(&name);
                let order = candidate.as_ref().map_or(i64::MAX, |candidate| candidate.order);
                let profile = candidate.map(|candidate| candidate.profile);
                (order, ListedProfile { layer: self.layer_of(&name), name, profile })
            })
            .collect();
        // Stable: profiles with the same order are in the order of their names.
        read.sort_by_key(|(order, _)| *order);
        read.into_iter().map(|(_, profile)| profile).collect()
    }

    /// Returns the profile for a model: the first one in order that matches it. Fails if any
    /// profile cannot be read: it may be the one that was meant.
    pub fn for_model(&self, model: &ModelRef) -> Result<ModelProfile, ConfigError> {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, profile)) = chosen.iter().find(|(known, _)| known == model) {
            return Ok(profile.clone());
        }
        let profile = self.read_for_model(model)?;
        chosen.push((model.clone(), profile.clone()));
        Ok(profile)
    }

    fn read_for_model(&self, model: &ModelRef) -> Result<ModelProfile, ConfigError> {
        let mut candidates = Vec::new();
        for name in self.names() {
            candidates.push(self.candidate(&name)?);
        }
        candidates.sort_by_key(|candidate| candidate.order);
        let name = model.to_string();
        let found = candidates.into_iter().find(|candidate| candidate.condition.matches(&name));
        Ok(found.map_or_else(|| ModelProfile::unchanged(DEFAULT), |found| found.profile))
    }

    /// Returns the highest layer that has a file of a profile.
    pub fn layer_of(&self, name: &str) -> LayerKind {
        let file = file_of(name);
        let topmost = self.layers.iter().rev().find(|layer| !matches!(layer.read(&file), Ok(None)));
        topmost.map_or(LayerKind::BuiltIn, ConfigLayer::kind)
    }

    fn candidate(&self, name: &str) -> Result<CandidateProfile, ConfigError> {
        let node = self.layers.merged(&file_of(name))?;
        let node = node.expect("invariant: a listed file exists, or reading it is an error");
        let raw: RawProfile = node.read()?;
        let condition = ModelCondition {
            patterns: raw
                .condition
                .models
                .as_ref()
                .map(|models| models.iter().map(|text| ModelNamePattern::new(text)).collect()),
            max_parameters: raw.condition.max_parameters,
        };
        if condition.max_parameters.is_some_and(|most| most.is_nan() || most <= 0.0) {
            let origin = node.origin_of(&["match", "max_parameters"]);
            return Err(origin.error("not a number of parameters in billions, such as 8"));
        }
        let mut left_out = Vec::new();
        for (number, tool) in raw.tools.leave_out.into_iter().enumerate() {
            let number = number.to_string();
            if self.knows_tool(&tool, node.origin_of(&["tools", "leave_out", &number]))? {
                left_out.push(tool);
            }
        }
        let mut descriptions = BTreeMap::new();
        for (tool, raw) in raw.tools.describe {
            if self.knows_tool(&tool, node.origin_of(&["tools", "describe", &tool]))? {
                let description = ToolDescription {
                    description: raw.description,
                    left_out: raw.leave_out,
                    arguments: raw.arguments,
                };
                descriptions.insert(tool, description);
            }
        }
        let thinking = raw.thinking.map(|raw| StepThinking {
            opening: Thinking::from(raw.opening),
            opening_steps: raw.opening_steps.unwrap_or(OPENING_STEPS),
            between: Thinking::from(raw.between),
            closing: Thinking::from(raw.closing.unwrap_or(raw.opening)),
        });
        Ok(CandidateProfile {
            order: raw.profile.order,
            condition,
            profile: ModelProfile {
                name: name.to_owned(),
                description: raw.profile.description.trim().to_owned(),
                prompt_style: raw.prompt.style.into(),
                tool_calls: raw.tools.calls.map(Into::into),
                edit_tool: raw.tools.edit.map(Into::into),
                left_out,
                descriptions,
                thinking,
                shows_named_files: raw.run.show_named_files.unwrap_or(false),
                tells_contradictions: raw.run.tell_contradictions.unwrap_or(true),
            },
        })
    }

    /// Returns true if there is a tool of this name. Fails for a mistake in a file of the user; a shipped profile names
    /// tools that a product may not have.
    fn knows_tool(&self, name: &str, origin: &ValueOrigin) -> Result<bool, ConfigError> {
        if self.tools.has(name) {
            return Ok(true);
        }
        if origin.layer() == LayerKind::BuiltIn {
            return Ok(false);
        }
        let known = self.tools.all();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        Err(origin.error(unknown_word_message("tool", name, &known)))
    }
}

impl ModelCondition {
    /// Returns true if the profile is for the model of this name, `PROVIDER/MODEL`.
    fn matches(&self, model: &str) -> bool {
        let has_no_condition = self.patterns.is_none() && self.max_parameters.is_none();
        let is_small = || {
            let most = self.max_parameters?;
            Some(billions_in(model)? <= most)
        };
        has_no_condition
            || self.patterns.iter().flatten().any(|pattern| pattern.is_match(model))
            || is_small() == Some(true)
    }
}

fn file_of(name: &str) -> String {
    format!("{PROFILE_FOLDER}/{name}.toml")
}

/// A pattern for names of models in which `*` stands for any text. Small and capital letters are alike.
///
/// Not a regular expression: compiling those of all shipped profiles took 1.5 ms for each agent.
#[derive(Debug)]
struct ModelNamePattern {
    /// The texts between the stars, in small letters.
    parts: Vec<String>,
}

impl ModelNamePattern {
    fn new(text: &str) -> Self {
        Self { parts: text.trim().to_lowercase().split('*').map(str::to_owned).collect() }
    }

    fn is_match(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let [first, between @ .., last] = self.parts.as_slice() else {
            return self.parts == [name];
        };
        let Some(rest) = name.strip_prefix(first.as_str()) else { return false };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
        // The leftmost match of each part leaves the longest rest for the others.
        between.iter().all(|part| {
            let found = rest.find(part.as_str());
            if let Some(at) = found {
                rest = &rest[at + part.len()..];
            }
            found.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_pattern_stands_for_any_text() {
        for (pattern, name, is_match) in [
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            (" A/b ", "a/B", true),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*bc*c", "abc", false),
            ("ab*ba", "aba", false),
            ("*aa*aa*", "aaa", false),
            ("a.c", "abc", false),
            ("ollama/*:3b", "ollama/x:3b", true),
        ] {
            assert_eq!(ModelNamePattern::new(pattern).is_match(name), is_match, "{pattern} {name}");
        }
    }
}
