//! The commands of prompt files and skills, with those that cannot be started because something else has their name.

use std::path::PathBuf;

use crow_agent::layers::LayerKind;

use crate::{
    prompt_files::{PromptFile, PromptFiles, is_command_name},
    skills::{Skill, SkillOrigin, SkillSet},
};

/// A command of a prompt file or a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCommand {
    /// Name, as it is typed after the slash.
    pub name: String,
    /// Description of its arguments; empty if it takes none.
    pub argument: String,
    pub description: String,
    pub kind: FileCommandKind,
    /// The user's layer, or that of a project.
    pub origin: LayerKind,
    /// The prompt file, or the folder of the skill.
    pub path: PathBuf,
    /// Reason why its name does not start it; `None` if it does.
    pub conflict: Option<String>,
}

/// Kind of a [`FileCommand`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCommandKind {
    PromptFile,
    Skill,
}

impl FileCommandKind {
    /// Returns the name for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PromptFile => "prompt file",
            Self::Skill => "skill",
        }
    }
}

/// Returns the commands of prompt files, then those of skills that the user may start by typing their names. `is_taken` returns true for the
/// name of a command of the program.
pub fn file_commands(
    prompts: &PromptFiles,
    skills: &SkillSet,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<FileCommand> {
    let of_prompts = prompts.iter().map(|file| prompt_command(file, &is_taken));
    let can_be_typed = |skill: &&Skill| skill.for_user && is_command_name(&skill.name);
    let of_skills = skills.skills.iter().filter(can_be_typed);
    let of_skills = of_skills.map(|skill| skill_command(skill, prompts, &is_taken));
    of_prompts.chain(of_skills).collect()
}

fn prompt_command(file: &PromptFile, is_taken: &impl Fn(&str) -> bool) -> FileCommand {
    let conflict = is_taken(&file.name).then(|| {
        let (name, path) = (&file.name, file.path.display());
        format!("the command /{name} of {path} is not used: crow-agent has one of that name")
    });
    FileCommand {
        name: file.name.clone(),
        argument: file.argument.clone(),
        description: file.description.clone(),
        kind: FileCommandKind::PromptFile,
        origin: file.origin,
        path: file.path.clone(),
        conflict,
    }
}

fn skill_command(
    skill: &Skill,
    prompts: &PromptFiles,
    is_taken: &impl Fn(&str) -> bool,
) -> FileCommand {
    let name = &skill.name;
    let conflict = if is_taken(name) {
        Some(format!(
            "/{name} is a command of crow-agent: the skill of that name is not started by it"
        ))
    } else {
        prompts.find(name).map(|_| {
            format!(
                "/{name} is a command of a prompt file: the skill of that name is not started by it"
            )
        })
    };
    FileCommand {
        name: name.clone(),
        argument: skill.argument.clone(),
        description: skill.description.clone(),
        kind: FileCommandKind::Skill,
        origin: match skill.origin {
            SkillOrigin::User => LayerKind::User,
            SkillOrigin::Project => LayerKind::Project,
        },
        path: skill.folder.clone(),
        conflict,
    }
}
