//! What the commands of a shell line touch: the files that their words name, resolved on the file system as it is, and
//! whether they do anything beside that.
//!
//! All of it is tables of what is known. A program, an option or a word that is not in them makes the command one that
//! may do anything; it never makes it a read.

mod arguments;
mod changers;
mod filters;
mod find;
mod folders;
mod git;
mod git_options;
mod globs;
mod grants;
mod installed;
mod line;
mod option_table;
mod options;
mod reader_table;
mod readers;
mod scene;
mod scripts;
mod secret_search;
mod service_options;
mod switches;
mod unlisted;
mod versions;
mod widened;
mod writers;

pub use line::plan_command_line;
pub use widened::is_widened;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
