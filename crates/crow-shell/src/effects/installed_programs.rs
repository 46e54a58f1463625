//! Programs that a package manager installed in the project: the kernel executes them, which is no read of a file.
//!
//! `.venv/bin/python` is a link to the system's interpreter. The link belongs to the project, which could as well
//! hold a copy of the program: that its target is outside says nothing about the files that the command reads.

use std::path::{Component, Path};

use crow_core::permission::is_secret_file;
use crow_fs::EntryMetadata;

use super::command_context::CommandContext;

/// The folders of programs, as pairs of parent folder and name.
const PROGRAM_FOLDERS: [(&str, &str); 3] =
    [(".venv", "bin"), ("venv", "bin"), ("node_modules", ".bin")];

/// Any of the bits that let a file be executed.
const EXECUTABLE: u32 = 0o111;

/// Returns whether a command written as `program` executes `file` outside the project, through a link of an installed
/// program. Not so for a file without execute permission: a shell would read it as a script, and show its lines.
pub(super) fn is_executed(program: &str, file: &Path, context: &CommandContext<'_>) -> bool {
    !context.workspace.contains(file)
        && is_installed(Path::new(program), context)
        && !is_secret_file(file)
        && crow_fs::metadata(file).is_ok_and(is_executable)
}

pub(super) fn is_executable(found: EntryMetadata) -> bool {
    found.is_file() && found.mode & EXECUTABLE != 0
}

/// Returns whether a path names an entry of a program folder in the workspace.
fn is_installed(program: &Path, context: &CommandContext<'_>) -> bool {
    if program.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    let Some(folder) = program.parent() else { return false };
    let is_program_folder =
        PROGRAM_FOLDERS.iter().any(|(above, name)| folder.ends_with(Path::new(above).join(name)));
    let reached = folder.to_str().and_then(|folder| context.resolve_single(folder));
    is_program_folder && reached.is_some_and(|folder| context.workspace.contains(&folder))
}
