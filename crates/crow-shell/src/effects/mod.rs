//! The effects of the commands of a shell line: the files that their words name, resolved on the current file system,
//! and whether they do anything else.
//!
//! Everything is decided by tables of known programs and options. One that is not listed makes a command able to do
//! anything; it never makes it a read.

mod arguments;
mod changers;
mod command_context;
mod effect_recheck;
mod filters;
mod find;
mod folders;
mod found_files;
mod git;
mod git_objects;
mod git_options;
mod git_outside;
mod git_repository;
mod git_worktree;
mod globs;
mod installed_programs;
mod line_effects;
mod listings;
mod option_table;
mod options;
mod permitted_options;
mod reader_table;
mod readers;
mod scripts;
mod secret_search;
mod service_options;
mod started_operands;
mod unknown_programs;
mod unlisted_words;
mod version_queries;
mod writers;

pub use effect_recheck::exceeds_allowed;
pub use line_effects::plan_command_line;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod long_lines;
#[cfg(test)]
mod tests;
