//! Programs that a package manager put into the project: they are executed by the kernel, which is no read of a file.
//!
//! `.venv/bin/python` is a link to the interpreter of the system. The link belongs to the project, which could as well
//! hold a copy of the program: that its target lies outside says nothing about what the command reads.

use std::path::{Component, Path};

use crow_core::permission::is_secret_file;
use crow_fs::EntryMetadata;

use super::command_context::CommandContext;

/// The folders of programs, each with the folder that it lies in.
const PROGRAM_FOLDERS: [(&str, &str); 3] =
    [(".venv", "bin"), ("venv", "bin"), ("node_modules", ".bin")];

/// Any of the bits that let a file be executed.
const EXECUTABLE: u32 = 0o111;

/// Returns whether a command that is written as `program` executes the file outside of the project that the path leads
/// to, by a link of an installed program. A file that cannot be executed is not: a shell would read it as a script, and
/// show its lines.
pub(super) fn is_executed(program: &str, file: &Path, scene: &CommandContext<'_>) -> bool {
    !scene.workspace.contains(file)
        && is_installed(Path::new(program), scene)
        && !is_secret_file(file)
        && crow_fs::metadata(file).is_ok_and(is_executable)
}

fn is_executable(found: EntryMetadata) -> bool {
    found.is_file() && found.mode & EXECUTABLE != 0
}

/// Whether a path names an entry of a folder of programs, and that folder lies in the workspace.
fn is_installed(program: &Path, scene: &CommandContext<'_>) -> bool {
    if program.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    let Some(folder) = program.parent() else { return false };
    let is_program_folder =
        PROGRAM_FOLDERS.iter().any(|(above, name)| folder.ends_with(Path::new(above).join(name)));
    let reached = folder.to_str().and_then(|folder| scene.only(folder));
    is_program_folder && reached.is_some_and(|folder| scene.workspace.contains(&folder))
}
