//! Turns a parsed line into one with known effects.
//!
//! [`locate`] goes through the commands in order and keeps track of the folders that the next one may run in. The
//! rules for a program are tried from narrow to wide: version query, reader, writer, table of options, unknown
//! program. Anything not understood ends as [`SideEffects::Hidden`] or [`SideEffects::Anything`], never as a read.

use std::path::{Path, PathBuf};

use crow_core::{
    permission::is_secret_file,
    tool::{
        Access, CommandLine, CommandMeaning, CommandWord, PathTouch, SideEffects, SimpleCommand,
        TouchDepth,
    },
    workspace::Workspace,
};
use crow_fs::SearchPath;

use super::{
    arguments::{Argument, arguments},
    command_context::{CommandContext, FollowLinks, LookupBudget},
    filters, find,
    folders::PossibleFolders,
    found_files, git, git_objects, installed_programs,
    permitted_options::{OptionsOf, options_of},
    readers, unknown_programs, version_queries, writers,
};
use crate::parse::{LineFacts, read_with_facts};

/// The effects of one command.
#[derive(Debug)]
pub(super) struct CommandEffects {
    pub touches: Vec<PathTouch>,
    pub extent: SideEffects,
    /// Positions of words that a permission for the words before them does not cover.
    pub unlisted: Vec<usize>,
    /// True if the program makes files where its words say, so that it may change what it reads.
    pub may_change_read: bool,
}

impl CommandEffects {
    pub(super) fn reads(touches: Vec<PathTouch>) -> Self {
        Self { touches, extent: SideEffects::Reads, unlisted: Vec::new(), may_change_read: false }
    }

    pub(super) fn changes(touches: Vec<PathTouch>) -> Self {
        Self {
            touches,
            extent: SideEffects::Anything,
            unlisted: Vec::new(),
            may_change_read: false,
        }
    }

    pub(super) fn hidden() -> Self {
        Self {
            touches: Vec::new(),
            extent: SideEffects::Hidden,
            unlisted: Vec::new(),
            may_change_read: false,
        }
    }
}

/// Parses a shell line that starts in a folder, and determines what it touches. Looks at the file system, and blocks
/// meanwhile.
///
/// The folder must be absolute and resolved; `search_path` is the `PATH` with which the line runs. The result is valid only for the current state of the file system:
/// changes by other processes are left to the sandbox.
pub fn plan_command_line(
    text: &str,
    folder: &Path,
    workspace: &Workspace,
    search_path: Option<&str>,
) -> CommandLine {
    let (mut line, notes) = read_with_facts(text);
    if folder != workspace.cwd() {
        line.folder = Some(folder.to_owned());
    }
    if let CommandMeaning::Commands(commands) = &mut line.meaning {
        let search_path = SearchPath::new(search_path, workspace.roots());
        locate(commands, folder, workspace, &notes, &search_path);
    }
    line
}

/// Adds the effects of each command, in the order of the line.
fn locate(
    commands: &mut [SimpleCommand],
    start: &Path,
    workspace: &Workspace,
    notes: &LineFacts,
    search_path: &SearchPath,
) {
    let budget = LookupBudget::new();
    let mut folders = PossibleFolders::new(start, commands, notes);
    for at in 0..commands.len() {
        let found = notes.found_files.get(&at);
        // A substitution comes after the command that it is part of.
        let finder = found.and_then(|found| commands.get(found.finder)).cloned();
        let command = &mut commands[at];
        let here = folders.known();
        let context = CommandContext {
            folders: here.as_deref(),
            workspace,
            facts: notes,
            search_path,
            budget: &budget,
        };
        // 1) Redirections.
        for redirect in &mut command.redirects {
            redirect.path =
                redirect.target.as_literal().and_then(|target| context.resolve_single(target));
        }
        // 2) The program.
        let known = match command.words.first() {
            None => CommandEffects::reads(Vec::new()),
            Some(CommandWord::Computed(_)) => CommandEffects::changes(Vec::new()),
            Some(CommandWord::Literal(program)) if program == "tee" => {
                let words = &command.words[1..];
                match filters::tee(&arguments(words, &context), &context) {
                    Some(files) => {
                        command.redirects.extend(files);
                        CommandEffects::reads(Vec::new())
                    }
                    None => CommandEffects::hidden(),
                }
            }
            Some(CommandWord::Literal(program)) => {
                let program = program.clone();
                let arguments = arguments(&command.words[1..], &context);
                let is_sure = is_started_by_the_shell(command);
                folder_change(&program, &arguments, &mut folders, at, is_sure).unwrap_or_else(
                    || {
                        found
                            .zip(finder.as_ref())
                            .and_then(|(found, finder)| {
                                found_files::read_found(command, found, finder, &context)
                            })
                            .unwrap_or_else(|| {
                                program_effects(&program, &arguments, command, &context)
                            })
                    },
                )
            }
        };
        command.touches = known.touches;
        command.side_effects = known.extent;
        command.unlisted = known.unlisted;
        command.may_change_read = known.may_change_read;
        // 3) A read of a secret, under a wrapper other than `env` or by a program of the project counts as able to do
        //    anything.
        let names_secret = command.touches.iter().any(|touch| is_secret_file(&touch.path))
            || command
                .redirects
                .iter()
                .filter_map(|redirect| redirect.path.as_ref())
                .any(|path| is_secret_file(path));
        let is_wrapped = command
            .wrappers
            .iter()
            .any(|word| !matches!(word, CommandWord::Literal(text) if text != "env"));
        command.linked_program = linked_program(command, &context);
        let is_read =
            matches!(command.side_effects, SideEffects::Reads | SideEffects::SandboxedReads);
        let is_of_project = || finds_program_of_project(command, here.as_deref(), search_path);
        if is_read && (names_secret || is_wrapped || is_of_project()) {
            command.side_effects = SideEffects::Anything;
        }
    }
}

/// Returns true if the program or a wrapper of a command may be one of the project, by `PATH`.
fn finds_program_of_project(
    command: &SimpleCommand,
    folders: Option<&[PathBuf]>,
    search_path: &SearchPath,
) -> bool {
    let words = command.wrappers.iter().chain(command.words.first());
    let mut names = words.filter_map(CommandWord::as_literal).filter(|word| !word.contains('/'));
    names.any(|name| match folders {
        Some(folders) => search_path.finds_in_project(name, folders),
        None => search_path.has_folder_of_project(),
    })
}

/// Returns the name of the program file that the command's path resolves to, if a link gives it another name.
fn linked_program(command: &SimpleCommand, context: &CommandContext<'_>) -> Option<String> {
    let program = command.words.first()?.as_literal().filter(|program| program.contains('/'))?;
    let own = Path::new(program).file_name()?.to_str()?;
    let files = context.touch(program, Access::Read, TouchDepth::Itself, FollowLinks::Yes)?;
    let mut names = files.iter().filter_map(|file| file.path.file_name()?.to_str());
    names.find(|name| *name != own).map(str::to_owned)
}

/// Returns whether the shell itself runs a command. A wrapper program would change its own folder, or not find a
/// builtin.
fn is_started_by_the_shell(command: &SimpleCommand) -> bool {
    const OF_THE_SHELL: [&str; 5] = ["time", "command", "builtin", "-p", "--"];
    let is_of_the_shell =
        |word: &CommandWord| word.as_literal().is_some_and(|word| OF_THE_SHELL.contains(&word));
    command.wrappers.iter().all(is_of_the_shell)
}

/// Returns the effects of a command that changes the folder. `is_sure` is true if the shell itself runs it.
fn folder_change(
    program: &str,
    arguments: &[Argument],
    folders: &mut PossibleFolders,
    at: usize,
    is_sure: bool,
) -> Option<CommandEffects> {
    if !matches!(program, "cd" | "pushd" | "popd") {
        return None;
    }
    let operands: Vec<&Argument> = arguments
        .iter()
        .filter(|argument| !matches!(argument, Argument::Known(text) if matches!(text.as_str(), "--" | "-L" | "-P")))
        .collect();
    let [Argument::Known(target)] = operands.as_slice() else {
        folders.mark_unknown();
        return Some(CommandEffects::hidden());
    };
    let is_plain = !target.is_empty() && !target.starts_with(['-', '+']) && program != "popd";
    let reached = if is_plain { folders.change_folder(at, target, is_sure) } else { None };
    let Some(reached) = reached else {
        folders.mark_unknown();
        return Some(CommandEffects::hidden());
    };
    let touch = |path| PathTouch { access: Access::Read, path, depth: TouchDepth::Itself };
    let touches = reached.into_iter().map(touch).collect();
    Some(if program == "cd" {
        CommandEffects::reads(touches)
    } else {
        CommandEffects::changes(touches)
    })
}

/// Determines the effects of a program by the narrowest rules that apply.
pub(super) fn program_effects(
    program: &str,
    arguments: &[Argument],
    command: &SimpleCommand,
    context: &CommandContext<'_>,
) -> CommandEffects {
    // The tables apply to bare names and the system's folders only: another path may lead to another program of that
    // name.
    let name = ["/bin/", "/usr/bin/"]
        .iter()
        .find_map(|folder| program.strip_prefix(folder))
        .unwrap_or(program);
    let known = version_queries::version(name, arguments, context)
        .or_else(|| match name {
            "find" => find::find(arguments, &command.words, context),
            // What it starts is a command of its own.
            "xargs" => found_files::xargs(arguments),
            "git" => git::git(arguments, &command.words, context),
            _ => readers::read(name, arguments, &command.words, context),
        })
        .or_else(|| {
            let follows_out =
                name == "cp" && unknown_programs::may_follow_link_outside(name, arguments, context);
            if follows_out {
                Some(CommandEffects::hidden())
            } else {
                writers::change(name, arguments, &command.words, context)
            }
        });
    let mut known = known.unwrap_or_else(|| {
        let words = &command.words[1..];
        let is_reader = readers::is_reader(name);
        // It may read further files than those that its words name.
        let hidden = || CommandEffects {
            extent: SideEffects::Hidden,
            ..unknown_programs::unknown_program_effects(name, arguments, words, context)
        };
        if readers::has_wider_filter(name, arguments) {
            return hidden();
        }
        match options_of(program, words, context) {
            OptionsOf::Unknown => hidden(),
            // The files of a reader are unknown if one of its arguments is.
            OptionsOf::Harmless(_) | OptionsOf::Unlisted(_)
                if is_reader && arguments.contains(&Argument::Unknown) =>
            {
                hidden()
            }
            OptionsOf::Harmless(options) => {
                let mut known =
                    unknown_programs::unknown_program_effects(name, arguments, words, context);
                known.touches.extend(options.touches);
                known.unlisted = options.unlisted;
                known
            }
            // A reader with an unknown option may write or start something.
            OptionsOf::Unlisted(_) if is_reader => hidden(),
            OptionsOf::Unlisted(unlisted) => CommandEffects {
                unlisted,
                ..unknown_programs::unknown_program_effects(name, arguments, words, context)
            },
        }
    });
    if name == "git" && git_objects::is_moved_by(&command.assignments) {
        match context.touch(".", Access::Read, TouchDepth::Below, FollowLinks::Yes) {
            Some(here) => known.touches.extend(here),
            None => return CommandEffects::hidden(),
        }
    }
    if name == "git" {
        known.touches.extend(git::shown_addresses(arguments, context));
    }
    // A program given as a path is read itself, and is never trusted to only read.
    if program.contains('/') {
        let files = context.touch(program, Access::Read, TouchDepth::Itself, FollowLinks::Yes);
        let read = files.unwrap_or_default().into_iter();
        known.touches.extend(
            read.filter(|file| !installed_programs::is_executed(program, &file.path, context)),
        );
        if ["/bin/", "/usr/bin/"].iter().any(|folder| program.starts_with(folder)) {
            known.touches.retain(|touch| touch.path.to_str() != Some(program));
        }
        if matches!(known.extent, SideEffects::Reads | SideEffects::SandboxedReads) {
            known.extent = SideEffects::Anything;
        }
    }
    known
}
