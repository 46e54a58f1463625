//! The tool `skill`: it loads the instructions of a skill.

use std::{fmt::Write as _, path::Path, sync::Arc};

use async_trait::async_trait;
use crow_core::{
    model::ToolDefinition,
    tool::{
        CallPlan, Effects, Subject, Tool as _, ToolCategory, ToolContext, ToolError, ToolResult,
        TypedTool, TypedToolAdapter,
    },
};
use crow_fs::{Directory, EntryKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    discovery::{SKILL_FILE, Skill, SkillSet},
    listing::SkillListing,
};

/// Maximum number of files that are named beside the instructions, and depth at which they are looked for.
const MOST_FILES: usize = 60;
const DEEPEST: usize = 4;
/// Maximum number of entries that are visited for it.
const MOST_VISITED: usize = 1_000;
/// Maximum length of instructions, in bytes.
const LONGEST: usize = 64 * 1024;
/// Maximum number of skills that a search finds.
const MOST_FOUND: usize = 10;

/// Loads skills.
#[derive(Debug, Clone)]
pub(crate) struct SkillTool {
    skills: Arc<SkillSet>,
    listing: SkillListing,
    description: String,
}

impl SkillTool {
    /// Makes the tool; `None` if the model may load no skill.
    pub(crate) fn new(skills: Arc<SkillSet>) -> Option<Self> {
        let has_any = skills.skills.iter().any(|skill| skill.for_model);
        has_any.then(|| Self::for_window(skills, None))
    }

    fn for_window(skills: Arc<SkillSet>, window: Option<u64>) -> Self {
        let listing = SkillListing::new(&skills, window);
        let how = if listing.has_search { " `query` finds skills by words." } else { "" };
        let description = format!(
            "Loads a skill: instructions for a kind of task, with scripts and files. Load it before you begin a task that it is for.{how} Skills:{}",
            listing.text
        );
        Self { skills, listing, description }
    }

    /// Returns a skill that the model may load. The error goes to the model.
    fn find(&self, name: &str) -> Result<&Skill, String> {
        if let Some(skill) = self.skills.find(name).filter(|skill| skill.for_model) {
            return Ok(skill);
        }
        let names = self.skills.skills.iter().filter(|skill| skill.for_model);
        let names: Vec<&str> = names.map(|skill| skill.name.as_str()).collect();
        Err(crow_core::config::unknown_word_message("skill", name, &names))
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillInput {
    /// Name of the skill.
    #[serde(default, alias = "skill", alias = "skill_name")]
    name: Option<String>,
    /// Words to find skills by.
    #[serde(default)]
    query: Option<String>,
}

#[async_trait]
impl TypedTool for SkillTool {
    type Input = SkillInput;
    const NAME: &'static str = "skill";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &str {
        &self.description
    }

    fn exposes_argument(&self, argument: &str) -> bool {
        argument != "query" || self.listing.has_search
    }

    fn definition_for_window(&self, window: u64) -> Option<ToolDefinition> {
        let listing = SkillListing::new(&self.skills, Some(window));
        let is_other = listing != self.listing;
        is_other.then(|| {
            let tool = Self::for_window(Arc::clone(&self.skills), Some(window));
            TypedToolAdapter::new(tool).definition()
        })
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(&self, input: &SkillInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let title = match (&input.name, &input.query) {
            (Some(name), None) => {
                let skill = self.find(name).map_err(ToolError::Model)?;
                format!("load the skill {}", skill.name)
            }
            (None, Some(query)) => format!("find skills for {}", crow_text::one_line(query)),
            (Some(_), Some(_)) | (None, None) => {
                return Err(ToolError::Model("either `name` or `query`".to_owned()));
            }
        };
        Ok(CallPlan { title, effects: Effects::None, subject: Subject::Nothing })
    }

    async fn execute(&self, input: SkillInput, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        if let Some(query) = &input.query {
            return ToolResult::success(self.search(query));
        }
        let found = self.find(input.name.as_deref().unwrap_or_default());
        let skill = match found {
            Ok(skill) => skill.clone(),
            Err(why) => return ToolResult::failure(why),
        };
        let reading = tokio::task::spawn_blocking(move || loaded(&skill, ""));
        match reading.await {
            Ok(Ok(text)) => ToolResult::success(text),
            Ok(Err(why)) => ToolResult::failure(why),
            Err(error) => ToolResult::failure(error.to_string()),
        }
    }
}

impl SkillTool {
    /// Returns the skills whose names and descriptions have most of the words.
    fn search(&self, query: &str) -> String {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let score = |skill: &Skill| {
            let (name, description) = (skill.name.to_lowercase(), skill.description.to_lowercase());
            let of_word = |word: &String| {
                3 * usize::from(name.contains(word.as_str()))
                    + usize::from(description.contains(word.as_str()))
            };
            words.iter().map(of_word).sum::<usize>()
        };
        let skills = self.skills.skills.iter().filter(|skill| skill.for_model);
        let mut found: Vec<_> = skills.map(|skill| (score(skill), skill)).collect();
        found.retain(|(score, _)| *score > 0);
        // A stable sort: equals stay in the order of their names.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        if found.is_empty() {
            return "No skill has these words.".to_owned();
        }
        let lines = found.iter().take(MOST_FOUND);
        let lines = lines.map(|(_, skill)| format!("{}: {}", skill.name, skill.description));
        let mut text = lines.collect::<Vec<_>>().join("\n");
        if found.len() > MOST_FOUND {
            let _ = write!(text, "\n[{} more; narrow the search]", found.len() - MOST_FOUND);
        }
        text
    }
}

/// Returns the instructions of a skill as the model gets them, with the arguments of a user. The error is a sentence.
/// Blocks.
pub(crate) fn loaded(skill: &Skill, arguments: &str) -> Result<String, String> {
    let instructions = skill.instructions().map_err(|error| error.message)?;
    let has_place = instructions.contains("$ARGUMENTS");
    let instructions = instructions.replace("$ARGUMENTS", arguments);
    let folder = skill.folder.display();
    let instructions = crow_text::shorten(&instructions, LONGEST);
    let mut text =
        format!("<skill name=\"{}\" folder=\"{folder}\">\n{instructions}\n</skill>", skill.name);
    let mut listing = FileListing::default();
    if let Ok(directory) = Directory::open(&skill.folder) {
        listing.add(&directory, "", 0);
    }
    let FileListing { files, is_cut, .. } = listing;
    if !files.is_empty() {
        let more = if is_cut { ", and more" } else { "" };
        let _ = write!(text, "\n\nFiles in the folder: {}{more}.", files.join(", "));
    }
    if !has_place && !arguments.is_empty() {
        let _ = write!(text, "\n\nArguments: {arguments}");
    }
    Ok(text)
}

/// The files in the folder of a skill.
#[derive(Debug, Default)]
struct FileListing {
    /// Their paths in the folder, except for the instructions and hidden files.
    files: Vec<String>,
    visited: usize,
    /// True if there are more.
    is_cut: bool,
}

impl FileListing {
    /// Adds the files below a folder, without following links.
    fn add(&mut self, directory: &Directory, below: &str, depth: usize) {
        let mut entries = directory.entries(MOST_VISITED).unwrap_or_default();
        entries.sort_by(|one, other| one.0.as_os_str().cmp(other.0.as_os_str()));
        for (entry, kind) in entries {
            self.visited += 1;
            if self.visited > MOST_VISITED || self.files.len() == MOST_FILES {
                self.is_cut = true;
                return;
            }
            let Some(name) = entry.as_os_str().to_str().filter(|name| !name.starts_with('.'))
            else {
                continue;
            };
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            match kind {
                EntryKind::File if path != SKILL_FILE => {
                    self.files.push(crow_text::one_line(&path));
                }
                EntryKind::Directory if depth == DEEPEST => self.is_cut = true,
                EntryKind::Directory => {
                    if let Ok(inner) = directory.open_beneath(Path::new(name)) {
                        self.add(&inner, &path, depth + 1);
                    }
                }
                EntryKind::File | EntryKind::Symlink | EntryKind::Special => {}
            }
        }
    }
}
