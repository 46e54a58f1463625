//! Skills: folders with instructions for a kind of task (`SKILL.md`), in the open format that other agents use too.
//!
//! The model sees names and descriptions in the definition of the tool `skill`, within a part of its context window, and
//! loads the instructions when a task fits. Skills of a project count once the project is trusted; scripts in a skill run
//! like any other command.

mod discovery;
mod listing;
mod skill_file;
mod skill_tool;
#[cfg(test)]
mod tests;

pub(crate) use discovery::{SKILL_FILE, SKILL_FOLDER, skill_of_file, user_skill_folders};
pub use discovery::{Skill, SkillOrigin, SkillSet, UserSkillReader};
pub use listing::{MOST_LISTED, SkillListing};
pub(crate) use skill_tool::{SkillTool, loaded};
