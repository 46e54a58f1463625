//! Commands that read the files that `find` found: `find src -name '*.rs' | xargs wc -l`, `find . -exec grep -n x {} +`.
//!
//! What such a command reads is known only when the line runs. But all of it lies below the folders in which `find` looks,
//! so those folders are walked as for a recursive search: where no file among those that `find` may pass on leads out of
//! the workspace, holds secrets, or has a name that `xargs` would take apart, the command reads below these folders and
//! nothing else. In every other case it stays unknown.

use std::path::Path;

use crow_core::tool::{Access, CommandWord, PathTouch, SideEffects, SimpleCommand, TouchDepth};

use super::{
    arguments::{Argument, arguments},
    command_context::CommandContext,
    globs,
    line_effects::{CommandEffects, program_effects},
    secret_search::{holds_secret, whole_walk},
};
use crate::parse::{FilePassing, FoundFiles};

/// The word that stands for the files that were found.
const FILES: &str = "{}";
/// Programs that print their arguments, or parts of them, and open none of them.
const PRINTING: [&str; 3] = ["basename", "dirname", "echo"];
/// The most entries of folders that are looked at for one command.
const MOST_ENTRIES: usize = 200_000;

/// Returns what `xargs` itself does with options that change only how it splits its input and how often it starts its
/// command: nothing.
pub(super) fn xargs(arguments: &[Argument]) -> Option<CommandEffects> {
    const PLAIN: [&str; 8] =
        ["-0", "--null", "-r", "--no-run-if-empty", "-t", "--verbose", "-x", "--"];
    const VALUED: [&str; 4] = ["-n", "-L", "-P", "-I"];
    let mut arguments = arguments.iter().map(Argument::as_known);
    loop {
        // Without a command there is none that is judged by itself.
        match arguments.next()?? {
            option if PLAIN.contains(&option) => {}
            option if VALUED.contains(&option) => drop(arguments.next()?),
            option if VALUED.iter().any(|known| option.starts_with(known)) => {}
            option if option.starts_with('-') => return None,
            _ => return Some(CommandEffects::reads(Vec::new())),
        }
    }
}

/// Returns what a command reads whose files come from `find`, if it only reads and all of these files may be read.
pub(super) fn read_found(
    command: &SimpleCommand,
    found: &FoundFiles,
    before: &[SimpleCommand],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    let finder = before.get(found.finder)?;
    let search = FileSearch::parse(finder, found.passing, context)?;
    // 1) What the command would do with the folders of the search in place of the files.
    let replaced = with_folders(command, &search.folders)?;
    let [CommandWord::Literal(program), words @ ..] = replaced.words.as_slice() else {
        return None;
    };
    let mut effects = program_effects(program, &arguments(words, context), &replaced, context);
    if effects.extent != SideEffects::Reads || !search.is_read_by(program, &effects, context) {
        return None;
    }
    // 2) Whether it may do so with everything that `find` may pass on. A command that searches folders also reads what
    // `find` leaves out.
    let is_recursive = effects.touches.iter().any(|touch| touch.depth == TouchDepth::Below);
    let secret = search.check_files(is_recursive, context)?;
    for touch in &mut effects.touches {
        touch.depth = TouchDepth::Below;
    }
    effects.touches.extend(secret);
    Some(effects)
}

/// Returns the command with the folders of the search as its files.
fn with_folders(command: &SimpleCommand, folders: &[String]) -> Option<SimpleCommand> {
    let is_files =
        |word: &CommandWord| matches!(word, CommandWord::Computed(text) if text == FILES);
    let at = command.words.iter().position(is_files)?;
    let folders = folders.iter().cloned().map(CommandWord::Literal);
    let mut replaced = command.clone();
    replaced.words.splice(at..=at, folders);
    Some(replaced)
}

/// A search of `find`, as far as it decides on the files that are passed on.
#[derive(Debug)]
struct FileSearch {
    /// The folders that are searched, as they are written.
    folders: Vec<String>,
    /// The pattern that names match, if only such files are passed on.
    name: Option<NamePattern>,
    has_only_files: bool,
    passing: FilePassing,
}

#[derive(Debug)]
struct NamePattern {
    letters: Vec<char>,
    ignores_case: bool,
}

impl FileSearch {
    fn parse(
        finder: &SimpleCommand,
        passing: FilePassing,
        context: &CommandContext<'_>,
    ) -> Option<Self> {
        let known = arguments(finder.words.get(1..)?, context);
        let words: Option<Vec<&str>> = known.iter().map(Argument::as_known).collect();
        let mut words = words?.into_iter().peekable();
        let mut folders = Vec::new();
        while let Some(word) = words.next_if(|word| !word.starts_with(['-', '(', ')', '!', ','])) {
            folders.push(word.to_owned());
        }
        if folders.is_empty() {
            folders.push(".".to_owned());
        }
        let mut search = Self { folders, name: None, has_only_files: false, passing };
        let mut is_conjunction = true;
        let mut is_terminated = false;
        while let Some(word) = words.next() {
            match word {
                "-name" | "-iname" => {
                    let pattern = words.next()?;
                    let letters = pattern.chars().collect();
                    // Brackets and backslashes are left to `find`: such a pattern leaves nothing out here.
                    if !pattern.contains(['[', '\\']) {
                        search.name = Some(NamePattern { letters, ignores_case: word == "-iname" });
                    }
                }
                "-type" => search.has_only_files |= words.next()? == "f",
                "-path" | "-ipath" | "-maxdepth" | "-mindepth" | "-size" | "-mtime" | "-mmin" => {
                    words.next()?;
                }
                // It leaves out more, which is not needed here.
                "-not" | "!" => match words.next()? {
                    "-name" | "-iname" | "-path" | "-ipath" => drop(words.next()?),
                    _ => return None,
                },
                "-o" | "-or" | "(" | ")" | "," => is_conjunction = false,
                "-print" | "-a" | "-and" | "-prune" | "-xdev" | "-mount" | "-empty"
                | "-readable" => {}
                "-print0" => is_terminated = true,
                "-exec" if passing == FilePassing::Arguments => {
                    words.find(|word| matches!(*word, ";" | "+"))?;
                }
                // It may follow links, print in another form, or start something whose output is passed on.
                _ => return None,
            }
        }
        if !is_conjunction {
            search.name = None;
            search.has_only_files = false;
        }
        let is_fitting = match passing {
            FilePassing::Arguments => true,
            FilePassing::Words => !is_terminated,
            FilePassing::NulTerminated => is_terminated,
        };
        is_fitting.then_some(search)
    }

    /// Returns true if a command takes what is in place of the files for files: as a script or a pattern, the name of a file
    /// would decide what the command does.
    fn is_read_by(
        &self,
        program: &str,
        effects: &CommandEffects,
        context: &CommandContext<'_>,
    ) -> bool {
        let reads = |folder: &String| {
            let path = context.resolve_single(folder);
            effects.touches.iter().any(|touch| Some(&touch.path) == path.as_ref())
        };
        PRINTING.contains(&program) || self.folders.iter().all(reads)
    }

    /// Checks all files that may be passed on. Returns the first that may hold secrets, if there is one; None if one of them keeps the
    /// command from being known.
    fn check_files(
        &self,
        is_recursive: bool,
        context: &CommandContext<'_>,
    ) -> Option<Vec<PathTouch>> {
        let [here] = context.folders? else { return None };
        let mut entries = 0;
        for folder in &self.folders {
            for entry in whole_walk(&here.join(folder)).build() {
                entries += 1;
                if entries > MOST_ENTRIES {
                    return None;
                }
                // What cannot be read is not passed on either.
                let Ok(entry) = entry else { continue };
                let kind = entry.file_type()?;
                if !is_recursive && !self.may_pass(entry.path(), kind.is_file()) {
                    continue;
                }
                let printed = entry.path().strip_prefix(here).unwrap_or(entry.path());
                if self.passing == FilePassing::Words && !is_one_word(printed) {
                    return None;
                }
                let mut path = entry.path().to_owned();
                if kind.is_symlink() {
                    // It is judged by the file that it leads to. A folder behind it is not searched here.
                    path = crow_fs::canonicalize(&path).ok()?;
                    let is_folder = crow_fs::metadata(&path).ok()?.is_directory();
                    if is_folder || !context.leads_inside(entry.path()) {
                        return None;
                    }
                }
                if !kind.is_dir() && (holds_secret(&path) || holds_secret(entry.path())) {
                    let touch = PathTouch { access: Access::Read, path, depth: TouchDepth::Itself };
                    return Some(vec![touch]);
                }
            }
        }
        Some(Vec::new())
    }

    fn may_pass(&self, path: &Path, is_file: bool) -> bool {
        if self.has_only_files && !is_file {
            return false;
        }
        let Some(pattern) = &self.name else { return true };
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return true };
        if pattern.ignores_case {
            let lower = |letters: &[char]| -> Vec<char> {
                letters.iter().flat_map(|letter| letter.to_lowercase()).collect()
            };
            let name: Vec<char> = name.chars().collect();
            return globs::is_match(&lower(&pattern.letters), &lower(&name));
        }
        globs::is_match(&pattern.letters, &name.chars().collect::<Vec<_>>())
    }
}

/// Returns true if `xargs` takes a path as one word.
fn is_one_word(path: &Path) -> bool {
    let is_split = |letter: char| letter.is_whitespace() || matches!(letter, '\'' | '"' | '\\');
    path.to_str().is_some_and(|path| !path.contains(is_split))
}
