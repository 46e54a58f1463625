//! The tool `skill`: it loads the instructions of a skill, and the files beside them.

use std::{fmt::Write as _, io, path::Path, sync::Arc};

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
    discovery::{SKILL_FILE, Skill, SkillOrigin, SkillSet},
    listing::SkillListing,
};

/// Maximum number of files that are named beside the instructions, and depth at which they are looked for.
const MOST_FILES: usize = 60;
const DEEPEST: usize = 4;
/// Maximum size of a file of a skill, in bytes.
const LARGEST_FILE: u64 = 256 * 1024;
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
    /// A file of the skill, relative to its folder, instead of the instructions.
    #[serde(default, alias = "path")]
    file: Option<String>,
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
        let title = match (&input.name, &input.file, &input.query) {
            (Some(name), None, None) => {
                let skill = self.find(name).map_err(ToolError::Model)?;
                format!("load the skill {}", skill.name)
            }
            (Some(name), Some(file), None) => {
                let skill = self.find(name).map_err(ToolError::Model)?;
                if skill.origin == SkillOrigin::Project {
                    let path = skill.folder.join(file);
                    return Err(ToolError::Model(format!(
                        "this skill belongs to the project: read {} like any other file",
                        path.display()
                    )));
                }
                format!("read {} of the skill {}", crow_text::one_line(file), skill.name)
            }
            (None, None, Some(query)) => format!("find skills for {}", crow_text::one_line(query)),
            _ => {
                let why = "either `name`, with `file` if wanted, or `query`";
                return Err(ToolError::Model(why.to_owned()));
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
        let reading = tokio::task::spawn_blocking(move || match &input.file {
            Some(file) => file_of(&skill, file),
            None => loaded(&skill, ""),
        });
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
    let mut text = format!("The skill {}, in the folder {folder}:\n\n{instructions}", skill.name);
    let mut files = Vec::new();
    if let Ok(directory) = Directory::open(&skill.folder) {
        add_files(&directory, "", 0, &mut files);
    }
    if !files.is_empty() {
        let more = if files.len() > MOST_FILES { ", and more" } else { "" };
        files.truncate(MOST_FILES);
        let _ = write!(text, "\n\nFiles in the folder: {}{more}.", files.join(", "));
        if skill.origin == SkillOrigin::User {
            text.push_str(" This tool reads them (`file`); scripts run by their full path.");
        }
    }
    if !has_place && !arguments.is_empty() {
        let _ = write!(text, "\n\nArguments: {arguments}");
    }
    Ok(text)
}

/// Adds the names of the files below a folder, without following links.
fn add_files(directory: &Directory, below: &str, depth: usize, files: &mut Vec<String>) {
    let mut entries = directory.entries(MOST_FILES + 1).unwrap_or_default();
    entries.sort_by(|one, other| one.0.as_os_str().cmp(other.0.as_os_str()));
    for (entry, kind) in entries {
        let Some(name) = entry.as_os_str().to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        if files.len() > MOST_FILES {
            return;
        }
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        match kind {
            EntryKind::File if path != SKILL_FILE => files.push(crow_text::one_line(&path)),
            EntryKind::Directory if depth < DEEPEST => {
                if let Ok(inner) = directory.open_beneath(Path::new(name)) {
                    add_files(&inner, &path, depth + 1, files);
                }
            }
            EntryKind::File | EntryKind::Directory | EntryKind::Symlink | EntryKind::Special => {}
        }
    }
}

/// Returns a file of a user's skill. The error is a sentence. Blocks.
fn file_of(skill: &Skill, file: &str) -> Result<String, String> {
    let read = || -> io::Result<Vec<u8>> {
        let directory = Directory::open(&skill.folder)?;
        let (parent, name) = directory.open_parent_beneath(Path::new(file))?;
        crow_fs::read_file(parent.open_file(&name)?, LARGEST_FILE)
    };
    let bytes = read().map_err(|error| {
        let folder = skill.folder.display();
        format!("{file} cannot be read in {folder}: {error}")
    })?;
    String::from_utf8(bytes).map_err(|_| {
        let path = skill.folder.join(file);
        format!("{} is not text; scripts can use it by this path", path.display())
    })
}
