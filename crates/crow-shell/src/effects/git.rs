//! Effects of `git` commands that only read.
//!
//! Settings of a repository can name programs that even `git status` starts. So none of these commands counts as a
//! read by itself, but only where the sandbox keeps what it starts from changing anything
//! ([`SideEffects::SandboxedReads`]).

use std::path::Path;

use crow_core::{
    permission::is_secret_file,
    tool::{Access, CommandWord, PathTouch, SideEffects, TouchDepth},
};

use super::{
    arguments::Argument,
    command_context::{CommandContext, FollowLinks},
    git_options, git_outside, git_worktree,
    line_effects::CommandEffects,
    options::option_name,
    permitted_options::{git_options_of, git_subcommand},
    secret_search,
};

/// Subcommands that only read, with any arguments that [`IS_MORE`] does not list.
const READS: [&str; 29] = [
    "blame",
    "annotate",
    "cat-file",
    "check-ignore",
    "check-attr",
    "count-objects",
    "describe",
    "diff",
    "diff-tree",
    "diff-index",
    "diff-files",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "range-diff",
    "reflog",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "show-branch",
    "status",
    "var",
    "whatchanged",
];

/// Options that write files, start programs or read elsewhere.
const IS_MORE: [&str; 16] = [
    "--output",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager",
    "--no-index",
    "--contents",
    "--exec",
    "--upload-pack",
    "--file",
    "--global",
    "--system",
    "--blob",
    "--git-dir",
    "--work-tree",
    "--exec-path",
    "--resolve-git-dir",
];

/// Returns the files that git reads, or `None` if it may do more.
pub(super) fn git(
    arguments: &[Argument],
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    let (at, subcommand) = git_subcommand(words.get(1..)?)?;
    // Subcommands without a table of options are checked by whole words in `only_reads`.
    let is_listed = git_options::table(subcommand).is_some();
    if is_listed {
        let options = git_options_of(subcommand, words.get(at + 2..)?, context)?;
        if !options.unlisted.is_empty() {
            return None;
        }
    }
    let words: Vec<&str> = arguments.iter().map(Argument::as_known).collect::<Option<_>>()?;
    // 1) Global options.
    let mut folder = ".";
    let mut rest = words.as_slice();
    loop {
        rest = match rest {
            // Settings come this far only if they are harmless: `parse::builtins` refuses the others.
            ["-c", _, rest @ ..] | ["--no-pager" | "-P" | "--no-optional-locks", rest @ ..] => rest,
            ["-C", named, rest @ ..] if folder == "." => {
                folder = named;
                rest
            }
            // A second `-C` is relative to the first.
            ["-C", ..] => return None,
            _ => break,
        };
    }
    // 2) The files that the subcommand reads.
    let (command, rest) = rest.split_first()?;
    let depth = if shows_contents(command, rest) { TouchDepth::Below } else { TouchDepth::Itself };
    let mut touches = context.touch(folder, Access::Read, depth, FollowLinks::Yes)?;
    let stays =
        |touch: &PathTouch| git_worktree::stays_in_workspace(&touch.path, context.workspace);
    if !touches.iter().all(stays) {
        return None;
    }
    let outside: Vec<Vec<PathTouch>> = touches
        .iter()
        .map(|touch| git_outside::outside_places(&touch.path, command, rest, context))
        .collect::<Option<_>>()?;
    if *command == "diff" {
        touches.extend(compared_files(folder, rest, context)?);
    }
    match *command {
        "grep" => secret_search::add_secret_of_git(rest, &mut touches)?,
        // It lists all settings.
        "var" if rest.contains(&"-l") => {
            secret_search::add_settings_of_git(command, rest, &mut touches, context.workspace);
        }
        "config" | "remote" => {
            secret_search::add_settings_of_git(command, rest, &mut touches, context.workspace);
        }
        _ => {}
    }
    // After the searches, which go through the folders among the touches.
    touches.extend(outside.into_iter().flatten());
    // 3) Arguments that may do more than read.
    let is_more = |word: &&str| {
        let name = option_name(word);
        // Long options may be abbreviated.
        let is_option = name.len() > 3 && IS_MORE.iter().any(|it| it.starts_with(name));
        let leads_out = word.split(['=', ':']).any(|part| part.starts_with(['/', '~']));
        let climbs = word.split(['/', ':', '=']).any(|part| part == "..");
        let is_script = *command == "grep" && (word.starts_with("-O") || word.starts_with("-f"));
        let is_secret = word.split(['=', ':']).any(|part| is_secret_file(Path::new(part)));
        // These read the names of what they show from standard input.
        let reads_names = word.starts_with("--stdin")
            || word.starts_with("--batch") && !word.starts_with("--batch-ch");
        is_option
            || reads_names
            || word.starts_with("-O")
            || leads_out
            || climbs
            || is_script
            || is_secret
            || checks_signature(word)
    };
    (!rest.iter().any(is_more) && only_reads(command, rest)).then_some(CommandEffects {
        touches,
        extent: SideEffects::SandboxedReads,
        unlisted: Vec::new(),
        may_change_read: false,
    })
}

/// Returns the settings from which commands that are no known reads show the addresses of remotes, which may contain a
/// token: `git ls-remote --get-url`, `git remote show`.
pub(super) fn shown_addresses(
    arguments: &[Argument],
    context: &CommandContext<'_>,
) -> Vec<PathTouch> {
    let words: Vec<&str> = arguments.iter().filter_map(Argument::as_known).collect();
    let shows = words.contains(&"ls-remote") && words.contains(&"--get-url")
        || words.contains(&"remote") && words.contains(&"show");
    if !shows {
        return Vec::new();
    }
    let here = context.touch(".", Access::Read, TouchDepth::Itself, FollowLinks::Yes);
    let mut touches = here.unwrap_or_default();
    let folders = touches.len();
    secret_search::add_settings_of_git("remote", &words, &mut touches, context.workspace);
    touches.split_off(folders)
}

/// Returns the files among the words of `git diff`: outside of a repository it compares any two, also over links. A
/// word that is no existing file is a revision or an option.
fn compared_files(
    folder: &str,
    rest: &[&str],
    context: &CommandContext<'_>,
) -> Option<Vec<PathTouch>> {
    let mut files = Vec::new();
    for word in rest.iter().filter(|word| !word.starts_with('-')) {
        let named = if folder == "." { (*word).to_owned() } else { format!("{folder}/{word}") };
        let found = context.touch(&named, Access::Read, TouchDepth::Below, FollowLinks::Yes)?;
        files.extend(found.into_iter().filter(|touch| touch.path.exists()));
    }
    Some(files)
}

/// Returns whether a format has a placeholder for which git starts the program that checks signatures, as
/// `--show-signature` does.
pub(super) fn checks_signature(word: &str) -> bool {
    let has_letter = word.match_indices('%').any(|(at, percent)| {
        let part = &word[at + percent.len()..];
        part.trim_start_matches(['+', '-', ' ']).starts_with('G')
    });
    has_letter || word.contains("%(signature") || word.contains("%(*signature")
}

/// Returns whether an option makes a command list names instead of creating the one it is given. The word after an
/// option with a separate value is that value.
fn lists_names(rest: &[&str], listing: &[&str]) -> bool {
    let is_value = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| rest.get(before));
        before.is_some_and(|word| matches!(*word, "--sort" | "--format" | "--color" | "--column"))
    };
    let mut words = rest.iter().enumerate();
    words.any(|(at, word)| {
        let name = option_name(word);
        !is_value(at) && listing.contains(&name)
    })
}

/// Returns whether a command shows the contents of files, and not only names and authors.
pub(super) fn shows_contents(command: &str, rest: &[&str]) -> bool {
    // Of an object that is no commit, a format can print the content.
    let is_raw = |word: &&str| word.contains("%(raw") || word.contains("%(*raw");
    match command {
        "branch" | "for-each-ref" | "tag" if rest.iter().any(is_raw) => true,
        "stash" if rest.first() != Some(&"list") => true,
        "log" | "reflog" | "stash" | "whatchanged" | "rev-list" | "shortlog" => {
            rest.iter().any(|word| {
                let is_patch = |letters: &str| letters.contains(['p', 'u', 'U', 'L', 'c', 'm']);
                [
                    "--patch",
                    "--unified",
                    "--cc",
                    "--remerge-diff",
                    "--diff-merges",
                    "--binary",
                    "--word-diff",
                    "--color-words",
                ]
                .iter()
                .any(|option| word.starts_with(option))
                    || word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && is_patch(it))
            })
        }
        "annotate" | "blame" | "cat-file" | "diff" | "diff-files" | "diff-index" | "diff-tree"
        | "grep" | "notes" | "range-diff" | "show" => true,
        _ => false,
    }
}

fn only_reads(command: &str, rest: &[&str]) -> bool {
    let is_option = |word: &&str| word.starts_with('-');
    let only = |known: &[&str]| rest.iter().all(|word| known.contains(&option_name(word)));
    match command {
        "branch" => {
            const LISTS: [&str; 14] = [
                "-a",
                "-r",
                "-v",
                "-vv",
                "-l",
                "--all",
                "--remotes",
                "--list",
                "--verbose",
                "--show-current",
                "--sort",
                "--format",
                "--column",
                "--no-color",
            ];
            const ABOUT: [&str; 6] =
                ["--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"];
            only(&LISTS)
                || lists_names(rest, &ABOUT)
                    && rest
                        .iter()
                        .filter(|word| is_option(word))
                        .map(|word| option_name(word))
                        .all(|name| LISTS.contains(&name) || ABOUT.contains(&name))
        }
        "tag" => {
            let lists = [
                "-l",
                "--list",
                "-n",
                "--sort",
                "--column",
                "--contains",
                "--merged",
                "--points-at",
            ];
            let listing = ["-l", "--list", "-n", "--contains", "--merged", "--points-at"];
            (lists_names(rest, &listing) || rest.iter().all(is_option))
                && rest
                    .iter()
                    .filter(|word| is_option(word))
                    .all(|word| lists.contains(&option_name(word)))
        }
        // With a second operand it sets the first.
        "symbolic-ref" => {
            let known = ["-q", "--quiet", "--short", "--recurse", "--no-recurse"];
            rest.iter().filter(|word| !is_option(word)).count() == 1
                && rest.iter().filter(|word| is_option(word)).all(|word| known.contains(word))
        }
        "submodule" => matches!(rest, [] | ["status"] | ["status", "--cached" | "--recursive"]),
        "remote" => matches!(rest, [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => matches!(rest, ["list" | "show", ..]),
        "worktree" => matches!(rest, ["list", ..]),
        "notes" => matches!(rest, ["show" | "list", ..]),
        "config" => {
            const SHOWN: [&str; 8] = [
                "--local",
                "--name-only",
                "--null",
                "--show-names",
                "--show-origin",
                "--show-scope",
                "--worktree",
                "-z",
            ];
            let rest: Vec<&str> =
                rest.iter().copied().filter(|word| !SHOWN.contains(word)).collect();
            match rest.as_slice() {
                ["--get" | "--get-all" | "--get-regexp" | "get", _, ..]
                | ["--list" | "-l" | "list", ..] => true,
                [key] => !key.starts_with('-') && key.contains('.'),
                _ => false,
            }
        }
        "reflog" => matches!(rest, [] | ["show", ..]) || rest.first().is_some_and(is_option),
        command => READS.contains(&command),
    }
}
