//! The templates of prompts in all layers, and their variables.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;

use super::{Template, TemplateError};
use crate::layers::Layers;

/// Renders the templates of prompts. A partial comes from the highest layer that has it: `{{> rules}}` in a system
/// prompt is `prompts/system/rules.md`, in a handoff `prompts/handoff/rules.md`.
#[derive(Debug, Clone, Default)]
pub struct PromptRegistry {
    layers: Layers,
    /// Checked templates by folder and text: a check is expensive, and each prompt is checked when its file is read
    /// and again when it is rendered.
    checked: Arc<Mutex<HashMap<(&'static str, String), Template>>>,
    /// The files read so far that agents name and templates include.
    read: Arc<Mutex<BTreeSet<String>>>,
}

/// The folders of partials.
const SYSTEM: &str = "prompts/system";
const HANDOFF: &str = "prompts/handoff";
/// The folders of prompts that agents can name.
pub(crate) const PROMPT_FOLDERS: [&str; 3] = ["prompts", SYSTEM, HANDOFF];
/// The endings of their files.
pub(crate) const PROMPT_ENDINGS: [&str; 2] = [".md", ".hbs"];

impl PromptRegistry {
    /// Makes a registry that takes partials from these layers.
    pub fn new(layers: Layers) -> Self {
        Self { layers, checked: Arc::default(), read: Arc::default() }
    }

    /// Notes that a file was read, by its path relative to the folder of the configuration.
    pub(crate) fn mark_used(&self, file: &str) {
        self.read_files().insert(file.to_owned());
    }

    /// Returns true if an agent or a template that was read so far uses a file.
    pub(crate) fn is_read(&self, file: &str) -> bool {
        self.read_files().contains(file)
    }

    /// Checks a file by the rules of its folder. Files of other folders are not checked, because no template includes
    /// them.
    pub(crate) fn check_file(&self, file: &str, text: &str) -> Result<(), TemplateError> {
        match file.rsplit_once('/') {
            Some((SYSTEM, _)) => self.parse_system(text).map(drop),
            Some((HANDOFF, _)) => self.parse_handoff(text).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// Renders the system prompt of an agent; `context` has all of [`SYSTEM_VARIABLES`].
    pub fn system(&self, text: &str, context: &impl Serialize) -> Result<String, TemplateError> {
        Ok(self.parse_system(text)?.render(context)?.trim().to_owned())
    }

    /// Renders the message for a coagent; `values` has all of [`HANDOFF_VARIABLES`].
    pub fn handoff(&self, text: &str, values: &impl Serialize) -> Result<String, TemplateError> {
        Ok(self.parse_handoff(text)?.render(values)?.trim().to_owned())
    }

    /// Parses and checks the template of a system prompt.
    pub fn parse_system(&self, text: &str) -> Result<Template, TemplateError> {
        self.parse(text, &SYSTEM_VARIABLES, SYSTEM)
    }

    /// Parses and checks the template of a handoff.
    pub fn parse_handoff(&self, text: &str) -> Result<Template, TemplateError> {
        self.parse(text, &HANDOFF_VARIABLES, HANDOFF)
    }

    fn parse(
        &self,
        text: &str,
        variables: &[&str],
        folder: &'static str,
    ) -> Result<Template, TemplateError> {
        let key = (folder, text.to_owned());
        if let Some(template) = self.checked().get(&key) {
            return Ok(template.clone());
        }
        let template = self.check(text, variables, folder)?;
        self.checked().insert(key, template.clone());
        Ok(template)
    }

    fn read_files(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<(&'static str, String), Template>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(
        &self,
        text: &str,
        variables: &[&str],
        folder: &str,
    ) -> Result<Template, TemplateError> {
        Template::parse(text, variables, &|name| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if !name.chars().all(is_plain) {
                return Err(format!("\"{name}\" cannot name a template"));
            }
            for ending in PROMPT_ENDINGS {
                let file = format!("{folder}/{name}{ending}");
                let found = self.layers.topmost(&file).map_err(|error| error.to_string())?;
                if let Some((_, text)) = found {
                    self.mark_used(&file);
                    return Ok(Some(text));
                }
            }
            Ok(None)
        })
    }
}

/// The variables of a handoff template.
pub const HANDOFF_VARIABLES: [&str; 10] = [
    "task",
    "task_description",
    "todo_state",
    "turn_digest",
    "changes",
    "commands",
    "open_questions",
    "round",
    "primary",
    "reviewer",
];

/// The variables of a system prompt. None of them changes while a session lasts.
pub const SYSTEM_VARIABLES: [&str; 8] =
    ["agent_name", "role", "description", "tools", "can_edit", "end_tool", "attended", "brief"];
