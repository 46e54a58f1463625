//! The list of skills, and single skills.

use std::fmt::Write as _;

use crow_app::{
    ProcessEnvironment,
    config::Configuration,
    skills::{MOST_LISTED, Skill, SkillListing, SkillSet},
    trust::project_of,
};
use crow_core::config::unknown_word_message;
use crow_text::{neutralise, one_line};
use serde_json::json;

use super::CommandListing;
use crate::{args::OutputForm, error::CliError, output::visible_json};

/// Hint about where skills are.
const NO_SKILLS: &str = "There are no skills. A skill is a folder with a SKILL.md in ~/.config/crow-agent/skills, ~/.agents/skills or ~/.claude/skills, or in .crow-agent/skills, .agents/skills or .claude/skills of a trusted project.\n";

/// Lists the skills of the current directory, and what is wrong with any.
pub(crate) fn listing(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<CommandListing, CliError> {
    let ConfiguredSkills { set, mut messages, .. } = skills(environment)?;
    let mut text = String::new();
    let all = set.skills.iter().map(|skill| (skill, true));
    for (skill, is_enabled) in all.chain(set.disabled.iter().map(|skill| (skill, false))) {
        match output {
            OutputForm::Text => describe(skill, is_enabled, &mut text),
            OutputForm::Json => {
                let line = to_json(skill, is_enabled);
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}", visible_json(&line));
            }
        }
    }
    if output == OutputForm::Text {
        if text.is_empty() {
            // The faults say why.
            let has_unusable = !set.faults.is_empty();
            text.push_str(if has_unusable { "No skill can be used.\n" } else { NO_SKILLS });
        }
        text.push_str(&budget_note(&set));
    }
    messages.extend(set.faults.iter().map(|fault| one_line(fault)));
    Ok(CommandListing { text, messages })
}

/// Returns a skill and its instructions.
pub(crate) fn shown(
    name: &str,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<CommandListing, CliError> {
    let ConfiguredSkills { set, messages, .. } = skills(environment)?;
    let is_enabled = set.find(name).is_some();
    let skill = find(name, &set)?;
    let instructions = skill.instructions()?;
    let text = match output {
        OutputForm::Json => {
            let mut value = to_json(skill, is_enabled);
            value["instructions"] = instructions.into();
            format!("{}\n", visible_json(&value))
        }
        OutputForm::Text => {
            let mut text = String::new();
            describe(skill, is_enabled, &mut text);
            let _ = writeln!(text, "\n{}", neutralise(&instructions));
            text
        }
    };
    Ok(CommandListing { text, messages })
}

/// Says what the model does not see of the skills, if anything.
fn budget_note(set: &SkillSet) -> String {
    let listing = SkillListing::new(set, None);
    match (listing.cut_to, listing.has_search) {
        (Some(limit), _) => format!(
            "\nThe model sees {limit} bytes of each description, so that the list takes 2 % of a context window of 128,000 tokens.\n"
        ),
        (None, true) if listing.unnamed > 0 => format!(
            "\nThe model sees only names, and not those of {}; it finds all by a search, since there are more than {MOST_LISTED} or their descriptions are long.\n",
            listing.unnamed
        ),
        (None, true) => format!(
            "\nThe model sees only the names; it finds descriptions by a search, since there are more than {MOST_LISTED} or they are long.\n"
        ),
        (None, false) => String::new(),
    }
}

fn describe(skill: &Skill, is_enabled: bool, text: &mut String) {
    let mut marks = vec![skill.origin.as_str()];
    if !is_enabled {
        marks.push("switched off");
    }
    if !skill.for_model {
        marks.push("only as a command");
    }
    let _ = writeln!(text, "{}  [{}]", one_line(&skill.name), marks.join(", "));
    let _ = writeln!(text, "  {}", one_line(&skill.description));
    let _ = writeln!(text, "  {}", one_line(&skill.folder.display().to_string()));
    for fault in &skill.faults {
        let _ = writeln!(text, "  ! {}", one_line(fault));
    }
}

fn to_json(skill: &Skill, is_enabled: bool) -> serde_json::Value {
    json!({
        "name": skill.name,
        "description": skill.description,
        "from": skill.origin.as_str(),
        "folder": skill.folder.to_string_lossy(),
        "enabled": is_enabled,
        "for_model": skill.for_model,
        "for_user": skill.for_user,
        "faults": skill.faults,
    })
}

/// Returns the skill of this name, switched off or not.
pub(crate) fn find<'a>(name: &str, set: &'a SkillSet) -> Result<&'a Skill, CliError> {
    let all = || set.skills.iter().chain(&set.disabled);
    let names: Vec<&str> = all().map(|skill| skill.name.as_str()).collect();
    all().find(|skill| skill.name == name).ok_or_else(|| {
        CliError::usage(unknown_word_message("skill", name, &names))
            .hint("crow-agent skills list shows them")
    })
}

/// The skills of a directory.
pub(crate) struct ConfiguredSkills {
    pub(crate) set: SkillSet,
    /// Names of those that are switched off.
    pub(crate) disabled: Vec<String>,
    /// Messages about the project.
    pub(crate) messages: Vec<String>,
}

/// Returns the skills of the current directory.
pub(crate) fn skills(environment: &ProcessEnvironment) -> Result<ConfiguredSkills, CliError> {
    let project = project_of(environment.current_dir()?, environment)?;
    let configuration = Configuration::load(environment, &project.additions)?;
    let (set, disabled) = SkillSet::of_configuration(&configuration, environment);
    Ok(ConfiguredSkills { set, disabled, messages: project.notice.into_iter().collect() })
}
