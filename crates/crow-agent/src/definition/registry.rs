//! The registry of all agents, the errors of loading one, and the agents that come with the program.

use std::{collections::BTreeSet, path::PathBuf};

use crow_core::config::{ConfigError, nearest};

use super::{
    BaseDefinition, CompositionDefinition, DefinedRole, ToolNames, base, composition, markdown,
    text::{DefinitionText, DefinitionTexts},
};
use crate::{
    layers::{ConfigLayer, LayerKind, Layers, Node, SourceFile, ValueOrigin, parse},
    prompt::{PROMPT_ENDINGS, PROMPT_FOLDERS, PromptRegistry},
};

const BASE: &str = "agents/base";
const MARKDOWN: &str = "agents";
const COMPOSITIONS: &str = "agents/acp";
/// Most compositions that may review each other's work in a chain.
const DEEPEST: usize = 4;

/// All agents, by name. A file is read when its agent is requested, and an error in one agent does not affect the
/// others.
#[derive(Debug, Clone)]
pub struct AgentRegistry {
    layers: Layers,
    prompts: PromptRegistry,
    tools: ToolNames,
}

/// The kind of agent to which a name refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
    /// A base agent.
    Base,
    /// A composition.
    Composition,
}

/// An entry in a list of agents.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedAgent {
    /// Name of the agent.
    pub name: String,
    /// Base agent or composition.
    pub kind: AgentKind,
    /// The highest layer that has a file of it.
    pub layer: LayerKind,
    /// True if a lower layer has a file of it, too.
    pub is_overlaid: bool,
    /// Role and description, or the error that makes it unusable.
    pub definition: Result<(DefinedRole, String), DefinitionError>,
}

impl AgentRegistry {
    /// Makes a registry of layers. `tools` are the tools that agents can name.
    pub fn new(layers: Layers, tools: ToolNames) -> Self {
        Self { prompts: PromptRegistry::new(layers.clone()), layers, tools }
    }

    /// Makes a registry of the shipped agents only.
    pub fn built_in(tools: ToolNames) -> Self {
        Self::new(Layers::new(vec![ConfigLayer::shipped(SHIPPED)]), tools)
    }

    /// Returns the layers of the configuration.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Returns the registry of prompt templates.
    pub fn prompts(&self) -> &PromptRegistry {
        &self.prompts
    }

    /// Returns the names of the tools that agents can name.
    pub fn tool_names(&self) -> &ToolNames {
        &self.tools
    }

    /// Returns the base agent of this name.
    pub fn base(&self, name: &str) -> Result<BaseDefinition, DefinitionError> {
        let (node, mut warnings) =
            self.base_node(name)?.ok_or_else(|| self.unknown(name, &[AgentKind::Base]))?;
        let texts = DefinitionTexts { layers: &self.layers, prompts: &self.prompts };
        let mut base = base::read(name, &node, &texts, &self.tools)?;
        base.warnings.append(&mut warnings);
        Ok(base)
    }

    /// Returns the composition of this name. For a base agent, this is a composition in which it works alone and
    /// returns to the user after every turn.
    pub fn composition(&self, name: &str) -> Result<CompositionDefinition, DefinitionError> {
        if let Some(node) = self.composition_node(name)? {
            return Ok(self.read_composition(name, &node, &mut CompositionWalk::default())?);
        }
        if self.has(AgentKind::Base, name) {
            return Ok(CompositionDefinition::solo(&self.base(name)?));
        }
        Err(self.unknown(name, &[AgentKind::Composition, AgentKind::Base]))
    }

    /// Returns the agents that people start, compositions first.
    pub fn list_primary(&self) -> Vec<ListedAgent> {
        self.list_of(DefinedRole::Primary)
    }

    /// Returns the agents that other agents start.
    pub fn list_subagents(&self) -> Vec<ListedAgent> {
        self.list_of(DefinedRole::Subagent)
    }

    /// Returns the names of the agents that other agents start, compositions first. Only the role in their files is
    /// considered, nothing else.
    pub fn subagent_names(&self) -> Vec<(AgentKind, String)> {
        let kinds = [AgentKind::Composition, AgentKind::Base];
        let named = kinds
            .into_iter()
            .flat_map(|kind| self.names(kind).into_iter().map(move |name| (kind, name)));
        let is_subagent = |(kind, name): &(AgentKind, String)| {
            let node = self.node(*kind, name).ok().flatten();
            let role = node.as_ref().and_then(|node| node.find(&["agent", "role"]));
            role.and_then(Node::as_text) == Some(DefinedRole::Subagent.as_str())
        };
        named.filter(is_subagent).collect()
    }

    /// Returns all agents, compositions first, including those that cannot be used.
    pub fn list(&self) -> Vec<ListedAgent> {
        let kinds = [AgentKind::Composition, AgentKind::Base];
        let named = kinds
            .into_iter()
            .flat_map(|kind| self.names(kind).into_iter().map(move |name| (kind, name)));
        named.map(|(kind, name)| self.listed(kind, name)).collect()
    }

    /// Returns a warning for each file that looks like an agent and is not read, because it is in neither folder of
    /// agents.
    pub fn misplaced(&self) -> Vec<String> {
        let own = self.layers.iter().filter(|layer| layer.kind() != LayerKind::BuiltIn);
        own.flat_map(|layer| {
            let names = layer.names("agents", ".toml").into_iter();
            names.map(|name| {
                let path = layer.path(&format!("agents/{name}.toml"));
                format!(
                    "{} is not read: base agents belong in agents/base, compositions in agents/acp",
                    path.display()
                )
            })
        })
        .collect()
    }

    /// Checks the prompt files that no agent reads: reads all agents, and returns an error for each broken template
    /// and a warning for each valid one. If an agent cannot be read there are no warnings, because it may be the one
    /// that uses the file.
    pub fn check_unread_prompts(&self) -> (Vec<ConfigError>, Vec<String>) {
        let all_valid = self.list().iter().all(|agent| agent.definition.is_ok());
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let locations = PROMPT_FOLDERS
            .into_iter()
            .flat_map(|folder| PROMPT_ENDINGS.into_iter().map(move |ending| (folder, ending)));
        for layer in self.layers.iter().filter(|layer| layer.kind() != LayerKind::BuiltIn) {
            for (folder, ending) in locations.clone() {
                for name in layer.names(folder, ending) {
                    let file = format!("{folder}/{name}{ending}");
                    if self.prompts.is_read(&file) {
                        continue;
                    }
                    let text = match layer.read(&file) {
                        Ok(Some(text)) => DefinitionText::of_file(layer.path(&file), text),
                        // Removed since the folder was listed.
                        Ok(None) => continue,
                        Err(error) => {
                            errors.push(error);
                            continue;
                        }
                    };
                    if let Err(error) = self.prompts.check_file(&file, &text.content) {
                        errors.push(text.template_error(&error));
                    } else if all_valid {
                        let path = layer.path(&file);
                        warnings.push(format!(
                            "{} is not read: no agent names it, and no prompt includes it",
                            path.display()
                        ));
                    }
                }
            }
        }
        (errors, warnings)
    }

    /// Returns the sorted names of the agents of a kind.
    pub fn names(&self, kind: AgentKind) -> Vec<String> {
        let mut names: Vec<String> = locations(kind)
            .iter()
            .flat_map(|(folder, ending)| self.layers.names(folder, ending))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the tree of an agent, merged over all layers, with the origin of each value.
    pub fn node(&self, kind: AgentKind, name: &str) -> Result<Option<Node>, ConfigError> {
        match kind {
            AgentKind::Base => Ok(self.base_node(name)?.map(|(node, _)| node)),
            AgentKind::Composition => self.composition_node(name),
        }
    }

    /// Returns the tree of an agent in one layer.
    pub fn node_of(
        &self,
        kind: AgentKind,
        name: &str,
        layer: &ConfigLayer,
    ) -> Result<Option<Node>, ConfigError> {
        Ok(match kind {
            AgentKind::Base => self.base_of(name, layer)?.map(|(node, _)| node),
            AgentKind::Composition => read_toml(layer, &format!("{COMPOSITIONS}/{name}.toml"))?,
        })
    }

    fn list_of(&self, role: DefinedRole) -> Vec<ListedAgent> {
        let all = self.list().into_iter();
        all.filter(|agent| agent.definition.as_ref().is_ok_and(|(its_role, _)| *its_role == role))
            .collect()
    }

    fn listed(&self, kind: AgentKind, name: String) -> ListedAgent {
        let found = match kind {
            _ if !is_name(&name) => Err(self.name_error(kind, &name).into()),
            AgentKind::Base => self.base(&name).map(|base| (base.role, base.description)),
            AgentKind::Composition => {
                self.composition(&name).map(|agent| (agent.role, agent.description))
            }
        };
        let has_file = |layer: &&ConfigLayer| has_file(layer, kind, &name);
        let mut layers = self.layers.iter().rev().filter(has_file).map(ConfigLayer::kind);
        let layer = layers.next().unwrap_or(LayerKind::BuiltIn);
        let is_overlaid = layers.next().is_some();
        ListedAgent { name, kind, layer, is_overlaid, definition: found }
    }

    fn has(&self, kind: AgentKind, name: &str) -> bool {
        is_name(name) && self.layers.iter().any(|layer| has_file(layer, kind, name))
    }

    /// Merges the trees of a base agent over all layers, and collects the warnings.
    fn base_node(&self, name: &str) -> Result<Option<(Node, Vec<String>)>, ConfigError> {
        let mut merged: Option<(Node, Vec<String>)> = None;
        for layer in self.layers.iter() {
            let Some((node, mut warnings)) = self.base_of(name, layer)? else { continue };
            merged = Some(match merged {
                Some((lower, mut lower_warnings)) => {
                    lower_warnings.append(&mut warnings);
                    (lower.overlaid_by(node), lower_warnings)
                }
                None => (node, warnings),
            });
        }
        Ok(merged)
    }

    /// Reads the file of a base agent in one layer: TOML or Markdown. Both together are an error.
    fn base_of(
        &self,
        name: &str,
        layer: &ConfigLayer,
    ) -> Result<Option<(Node, Vec<String>)>, ConfigError> {
        if !is_name(name) {
            return Ok(None);
        }
        let (toml, md) = (format!("{BASE}/{name}.toml"), format!("{MARKDOWN}/{name}.md"));
        match (read_toml(layer, &toml)?, layer.read(&md)?) {
            (Some(_), Some(_)) => {
                let message = format!("{toml} describes the same agent; keep one of them");
                Err(ConfigError::of_file(layer.path(&md), message))
            }
            (Some(node), None) => Ok(Some((node, Vec::new()))),
            (None, Some(text)) => {
                let file = SourceFile { layer: layer.kind(), path: layer.path(&md), text };
                let definition = markdown::read(file, &self.tools)?;
                Ok(Some((definition.node, definition.warnings)))
            }
            (None, None) => Ok(None),
        }
    }

    fn composition_node(&self, name: &str) -> Result<Option<Node>, ConfigError> {
        if !is_name(name) {
            return Ok(None);
        }
        self.layers.merged(&format!("{COMPOSITIONS}/{name}.toml"))
    }

    /// Reads a composition, and checks that its members exist and that reviews do not nest in a circle or too deeply.
    fn read_composition(
        &self,
        name: &str,
        node: &Node,
        walk: &mut CompositionWalk,
    ) -> Result<CompositionDefinition, ConfigError> {
        let texts = DefinitionTexts { layers: &self.layers, prompts: &self.prompts };
        let composition = composition::read(name, node, &texts)?;
        // 1) The primary must be a base agent.
        if !self.has(AgentKind::Base, &composition.primary) {
            let origin = node.origin_of(&["composition", "primary"]);
            return Err(self.missing(origin, &composition.primary, &[AgentKind::Base]));
        }
        // 2) Each coagent must exist, without circles and within the limit of depth.
        walk.path.push(name.to_owned());
        for (number, coagent) in composition.coagents.iter().enumerate() {
            let number = number.to_string();
            let several = node.find(&["composition", "coagents", &number]);
            let origin = several
                .map_or_else(|| node.origin_of(&["composition", "coagent"]), |node| &node.origin);
            if walk.path.contains(coagent) {
                walk.path.push(coagent.clone());
                let circle = walk.path.join(" → ");
                return Err(origin.error(format!("agents review each other in a cycle: {circle}")));
            }
            if walk.path.len() > DEEPEST {
                return Err(
                    origin.error(format!("more than {DEEPEST} compositions review each other"))
                );
            }
            match self.composition_node(coagent)? {
                // It was checked before.
                Some(_) if !walk.seen.insert(coagent.clone()) => {}
                Some(inner) => {
                    self.read_composition(coagent, &inner, walk)?;
                }
                None if self.has(AgentKind::Base, coagent) => {}
                None => {
                    let kinds = [AgentKind::Base, AgentKind::Composition];
                    return Err(self.missing(origin, coagent, &kinds));
                }
            }
        }
        walk.path.pop();
        Ok(composition)
    }

    fn name_error(&self, kind: AgentKind, name: &str) -> ConfigError {
        let mut files =
            locations(kind).iter().map(|(folder, ending)| format!("{folder}/{name}{ending}"));
        let path = files
            .find_map(|file| self.layers.topmost(&file).ok()?.map(|(layer, _)| layer.path(&file)));
        ConfigError::of_file(
            path.unwrap_or_else(|| PathBuf::from(name)),
            "the name of an agent has letters, digits, \"-\", \"_\" and \".\"",
        )
    }

    fn missing(&self, origin: &ValueOrigin, name: &str, kinds: &[AgentKind]) -> ConfigError {
        origin.error(self.unknown(name, kinds).to_string())
    }

    fn unknown(&self, name: &str, kinds: &[AgentKind]) -> DefinitionError {
        let known: Vec<String> = kinds.iter().flat_map(|kind| self.names(*kind)).collect();
        // A name that differs only in its case is the one that was meant.
        let same_name = known.iter().find(|known| known.eq_ignore_ascii_case(name));
        let similar = nearest(name, known.iter().map(String::as_str));
        let nearest = same_name.map(String::as_str).or(similar).map(str::to_owned);
        DefinitionError::Unknown { name: name.to_owned(), nearest, known }
    }
}

/// State of the walk through compositions that name each other.
#[derive(Debug, Default)]
struct CompositionWalk {
    /// Names on the way to the current composition, the outermost first.
    path: Vec<String>,
    /// Names of the compositions that were checked.
    seen: BTreeSet<String>,
}

impl AgentKind {
    /// Returns the folder of its TOML files, relative to that of the configuration.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Base => BASE,
            Self::Composition => COMPOSITIONS,
        }
    }
}

/// Returns true if this can be the name of an agent: it is the name of a file, and a word of a command line.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_start = |c: char| !matches!(c, '.' | '-');
    name.len() <= 64 && name.starts_with(is_start) && name.chars().all(is_plain)
}

/// Returns the folders and file endings of a kind of agent.
fn locations(kind: AgentKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        AgentKind::Base => &[(BASE, ".toml"), (MARKDOWN, ".md")],
        AgentKind::Composition => &[(COMPOSITIONS, ".toml")],
    }
}

/// Returns true if a layer has a file of the agent, even if the file cannot be read.
fn has_file(layer: &ConfigLayer, kind: AgentKind, name: &str) -> bool {
    locations(kind).iter().any(|(folder, ending)| {
        !matches!(layer.read(&format!("{folder}/{name}{ending}")), Ok(None))
    })
}

fn read_toml(layer: &ConfigLayer, name: &str) -> Result<Option<Node>, ConfigError> {
    let Some(text) = layer.read(name)? else { return Ok(None) };
    parse(SourceFile { layer: layer.kind(), path: layer.path(name), text }).map(Some)
}

/// A reason for which an agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// One of its files is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No file describes an agent of that name.
    #[error("there is no agent \"{name}\"{} there are {}", .nearest.as_ref().map_or(";".to_owned(), |near| format!(", did you mean \"{near}\"?")), .known.join(", "))]
    Unknown {
        /// The name as given.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
}

/// Makes pairs of path and content from paths of files, relative to the folder of the configuration.
macro_rules! shipped {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../", $path)))),*]
    };
}

/// The files of the shipped agents: paths relative to the folder of the configuration, and contents.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "agents/acp/BUILD-CHAT.toml",
    "agents/acp/BUILD-HITL.toml",
    "agents/acp/BUILD-JUDGE.toml",
    "agents/acp/BUILD-LOOP.toml",
    "agents/acp/BUILD-SMART.toml",
    "agents/acp/PLAN.toml",
    "agents/acp/TASK-SMART.toml",
    "agents/base/builder.toml",
    "agents/base/explorer.toml",
    "agents/base/planner.toml",
    "agents/base/reviewer.toml",
    "agents/base/task_executor.toml",
    "agents/base/task_reviewer.toml",
    "profiles/claude.toml",
    "profiles/default.toml",
    "profiles/gemini.toml",
    "profiles/gpt.toml",
    "profiles/medium.toml",
    "profiles/small.toml",
    "prompts/system/builder.md",
    "prompts/system/explorer.md",
    "prompts/system/planner.md",
    "prompts/system/reviewer.md",
    "prompts/system/task_executor.md",
    "prompts/system/task_reviewer.md",
    "prompts/system/trust.md",
];
