//! Operands that are commands: `doppler run touch x`, `retry 'touch x'`, `convert '|touch x' y.png`.
//!
//! A permission for the first words of a command is not one for whatever that command starts. Which programs start
//! their operands cannot be listed, so the operands decide: of a program without a table, one that names an installed
//! program may be started. Denials look at operands in the same way.

use crow_core::tool::CommandWord;

use super::{
    arguments::{Argument, arguments},
    command_context::CommandContext,
    installed_programs,
    permitted_options::{has_table, inner_program},
    unlisted_words::{INTERPRETERS, is_own_program, takes_code},
};

/// Programs whose operands are text or patterns, in which punctuation has no meaning of its own. Sorted.
const TEXTS: [&str; 14] = [
    "ack",
    "ag",
    "echo",
    "egrep",
    "fgrep",
    "grep",
    "jq",
    "notify-send",
    "printf",
    "rg",
    "say",
    "sd",
    "ugrep",
    "yq",
];

/// Programs whose operands name packages, pages, services or files, and never a command to start. Sorted.
const NAMING: [&str; 36] = [
    "apk",
    "apropos",
    "apt",
    "apt-cache",
    "apt-get",
    "aptitude",
    "asciinema",
    "brew",
    "chgrp",
    "chmod",
    "chown",
    "dnf",
    "dpkg",
    "info",
    "journalctl",
    "killall",
    "ldd",
    "man",
    "nm",
    "objdump",
    "pacman",
    "pgrep",
    "pidof",
    "pkill",
    "port",
    "readelf",
    "rpm",
    "size",
    "snap",
    "strings",
    "strip",
    "systemctl",
    "tldr",
    "whatis",
    "whereis",
    "which",
];

/// Programs of which the parser finds the commands that they start. Each is judged by itself. Sorted.
const PARSED: [&str; 7] = ["doas", "fd", "fdfind", "find", "ssh", "sudo", "xargs"];

/// Subcommands of known programs that start the command after them. A permission covers them if it names them, and
/// then whatever command follows. Sorted.
const RUNNING_SUBCOMMANDS: [(&str, &[&str]); 39] = [
    ("asdf", &["exec"]),
    ("bun", &["exec", "x"]),
    ("bundle", &["exec"]),
    ("composer", &["exec"]),
    ("conda", &["run"]),
    ("deno", &["eval", "run", "x"]),
    ("devbox", &["run", "shell"]),
    ("direnv", &["exec"]),
    ("docker", &["exec", "run"]),
    ("dotenv", &["run"]),
    ("dotnet", &["exec", "x"]),
    ("foreman", &["run"]),
    ("gem", &["exec"]),
    ("gh", &["exec"]),
    ("go", &["tool"]),
    ("hatch", &["run"]),
    ("kubectl", &["debug", "exec", "run"]),
    ("lein", &["run", "shell"]),
    ("mamba", &["run"]),
    ("micromamba", &["run"]),
    ("mise", &["exec", "x"]),
    ("mix", &["cmd", "eval", "run"]),
    ("nerdctl", &["exec", "run"]),
    ("nix", &["develop", "run", "shell"]),
    ("npm", &["exec", "explore", "x"]),
    ("nx", &["exec"]),
    ("oc", &["debug", "exec", "rsh", "run"]),
    ("pdm", &["run"]),
    ("pipenv", &["run"]),
    ("pipx", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("podman", &["exec", "run"]),
    ("poetry", &["run"]),
    ("rbenv", &["exec"]),
    ("rustup", &["run"]),
    ("rye", &["run"]),
    ("tox", &["exec"]),
    ("uv", &["run"]),
    ("yarn", &["dlx", "exec"]),
];

/// Subcommands with which programs usually start the command after them. Sorted.
const USUAL_RUNNING_SUBCOMMANDS: [&str; 10] =
    ["cmd", "dlx", "eval", "exec", "execute", "launch", "record", "run", "shell", "spawn"];

/// Subcommands after which a word names a script, a target or a package, and no subcommand.
const NAMING_SUBCOMMANDS: [&str; 7] = ["add", "i", "install", "run", "run-script", "task", "test"];

/// Subcommands of runners of scripts that are also names of programs. Sorted.
const SCRIPT_SUBCOMMANDS: [&str; 23] = [
    "add", "audit", "build", "create", "env", "exec", "info", "init", "install", "link", "list",
    "login", "ls", "pack", "patch", "prune", "remove", "rm", "run", "start", "test", "unlink",
    "why",
];

/// Names of programs that are ordinary subcommands, and do nothing when started.
const WITHOUT_EFFECT: [&str; 3] = ["false", "test", "true"];

/// Names of programs that only read, whatever their operands. They are commands only where one usually begins:
/// `alembic upgrade head` starts none. Sorted.
const READERS: [&str; 24] = [
    "basename", "cat", "cksum", "cmp", "comm", "cut", "diff", "dirname", "expand", "file", "fold",
    "groups", "head", "id", "join", "ls", "nl", "od", "paste", "stat", "tail", "users", "wc",
    "who",
];

/// Words with which a line of a shell may begin that is no name of a program.
const SHELL_WORDS: [&str; 15] = [
    "!", ".", "builtin", "case", "command", "do", "eval", "exec", "for", "if", "source", "then",
    "until", "while", "{",
];

/// Subcommands of cargo itself, and others whose words are names of tests or crates.
const CARGO_SUBCOMMANDS: [&str; 42] = [
    "add",
    "b",
    "bench",
    "build",
    "c",
    "check",
    "clean",
    "clippy",
    "d",
    "doc",
    "expand",
    "fetch",
    "fix",
    "fmt",
    "generate-lockfile",
    "help",
    "info",
    "init",
    "insta",
    "install",
    "llvm-cov",
    "locate-project",
    "metadata",
    "miri",
    "new",
    "nextest",
    "package",
    "pkgid",
    "publish",
    "r",
    "remove",
    "rm",
    "run",
    "rustc",
    "rustdoc",
    "search",
    "t",
    "test",
    "tree",
    "uninstall",
    "update",
    "vendor",
];

/// Modules of Python whose operands are scripts or code. Sorted.
const SCRIPT_MODULES: [&str; 7] =
    ["cProfile", "code", "pdb", "profile", "runpy", "timeit", "trace"];

/// Schemes of addresses that some programs take as a command to start: `lynxexec:touch`, `EXEC:touch`. Sorted.
const COMMAND_SCHEMES: [&str; 11] = [
    "ephemeral",
    "exec",
    "ext",
    "lynxcgi",
    "lynxexec",
    "lynxprog",
    "macro",
    "msl",
    "popen",
    "shell",
    "system",
];

/// Folders of a project in which runners look for programs.
const PROJECT_PROGRAMS: [&str; 3] = ["node_modules/.bin", ".venv/bin", "venv/bin"];

/// The most operands among which a subcommand that starts a command is searched: `yarn workspace web exec`.
const MOST_BEFORE_COMMAND: usize = 3;

/// The longest name of a program in bytes, as of any file.
const LONGEST_NAME: usize = 255;

/// Settings of make and its like that are no programs, flags or files to load in any usual project. Sorted.
const HARMLESS_SETTINGS: [&str; 20] = [
    "ARCH",
    "BUILD_TYPE",
    "CGO_ENABLED",
    "CI",
    "COLOR",
    "DEBUG",
    "GOARCH",
    "GOOS",
    "JOBS",
    "LANG",
    "LC_ALL",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PORT",
    "RELEASE",
    "RUST_BACKTRACE",
    "V",
    "VERBOSE",
    "VERSION",
];

/// Settings of make whose value is a folder to install to.
const FOLDER_SETTINGS: [&str; 3] = ["DESTDIR", "PREFIX", "prefix"];

/// Returns the positions in a command of operands that may be commands, and of subcommands that make the words after
/// them a command. `words` are those after the program's name; `is_known` is true if the operands of the program, or
/// of the one that it runs, are known.
pub(super) fn command_positions(
    program: &str,
    words: &[CommandWord],
    is_known: bool,
    context: &CommandContext<'_>,
) -> Vec<usize> {
    let mut positions = Vec::new();
    let (mut program, mut words, mut offset) = (program, words, 1);
    // 1) Runners of other programs: each is judged by its own words.
    loop {
        if is_own_program(program, context) {
            return positions;
        }
        let name = base_name(program);
        positions.extend(running_subcommand(name, words, is_known).map(|at| at + offset));
        let Some(at) = inner_program(name, words) else { break };
        let Some((CommandWord::Literal(inner), rest)) =
            words.get(at..).and_then(<[CommandWord]>::split_first)
        else {
            return positions;
        };
        (program, words, offset) = (inner, rest, offset + at + 1);
    }
    let name = base_name(program);
    // 2) Operands of the innermost program.
    let found = if INTERPRETERS.contains(&name) && !is_known {
        opened_by_interpreter(name, words)
    } else if name == "cargo" {
        started_by_cargo(words, context)
    } else if is_known || is_known_runner(name) {
        script_command(name, words, context).into_iter().collect()
    } else if TEXTS.contains(&name) || PARSED.contains(&name) || name == "git" {
        Vec::new()
    } else {
        started_operands(name, words, context)
    };
    positions.extend(found.into_iter().map(|at| at + offset));
    positions
}

/// Returns whether an operand of a program with a table may be a command to it, by its punctuation. Programs that
/// open files as perl does start what is before or after a `|`.
pub(super) fn opens_command(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['|', '<', '>'])
        || text.ends_with('|')
        || text.contains("$(")
        || text.contains('`')
        || text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("%pipe"))
}

/// Returns whether punctuation in the operands of a program has no meaning of its own.
pub(super) fn takes_text(names: &[&str]) -> bool {
    names.iter().any(|name| TEXTS.contains(name))
}

/// Returns whether an operand of make or its like is a plain target, or a setting that no rule of a project takes as a
/// program, as flags or as a file to load. Values are expanded by make, and shown to its shell.
pub(super) fn is_plain_target(text: &str) -> bool {
    let is_special = |char: char| "$`!|;&<>\\\n\r".contains(char);
    !text.contains(is_special) && (!text.contains('=') || is_harmless_setting(text))
}

/// Returns whether `NAME=value` sets nothing that a program could start or load.
fn is_harmless_setting(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return false };
    let name = name.trim_end_matches(['?', ':', '+']);
    let is_plain =
        |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-' | '+');
    if FOLDER_SETTINGS.contains(&name) {
        return !value.starts_with('-') && value.chars().all(|char| is_plain(char) || char == '/');
    }
    HARMLESS_SETTINGS.contains(&name)
        && !value.starts_with(['-', '.'])
        && value.chars().all(is_plain)
}

/// Returns the index of a subcommand that starts the command after it.
fn running_subcommand(name: &str, words: &[CommandWord], is_known: bool) -> Option<usize> {
    let known = RUNNING_SUBCOMMANDS.iter().find(|(program, _)| *program == name);
    let subcommands: &[&str] = match known {
        Some((_, subcommands)) => subcommands,
        None if is_known || starts_nothing_by_name(name) => return None,
        None => &USUAL_RUNNING_SUBCOMMANDS,
    };
    for (at, word) in operands(words).take(MOST_BEFORE_COMMAND) {
        if subcommands.contains(&word) {
            return Some(at);
        }
        if NAMING_SUBCOMMANDS.contains(&word) {
            return None;
        }
    }
    None
}

/// Returns the literal words that are no options, with their indices.
fn operands(words: &[CommandWord]) -> impl Iterator<Item = (usize, &str)> {
    let literal = words.iter().enumerate().filter_map(|(at, word)| Some((at, word.as_literal()?)));
    literal.filter(|(_, word)| !word.starts_with('-'))
}

/// Returns the indices of words that a subcommand of cargo may start: any program with a name `cargo-…` is one.
fn started_by_cargo(words: &[CommandWord], context: &CommandContext<'_>) -> Vec<usize> {
    let mut operands = operands(words).filter(|(_, word)| !word.starts_with('+'));
    let Some((at, subcommand)) = operands.next() else { return Vec::new() };
    if CARGO_SUBCOMMANDS.contains(&subcommand) {
        return Vec::new();
    }
    let rest = words.get(at + 1..).unwrap_or_default();
    started_operands(subcommand, rest, context).into_iter().map(|index| at + 1 + index).collect()
}

/// Returns whether the subcommands of a program are known, so that no other word starts a command.
fn is_known_runner(name: &str) -> bool {
    RUNNING_SUBCOMMANDS.iter().any(|(program, _)| *program == name)
}

/// Returns whether no subcommand of a program starts a command, or only one that is found otherwise.
fn starts_nothing_by_name(name: &str) -> bool {
    INTERPRETERS.contains(&name) || PARSED.contains(&name) || name == "git" || is_naming(name)
}

/// Returns whether the operands of a program only name something.
fn is_naming(name: &str) -> bool {
    NAMING.binary_search(&name).is_ok() || TEXTS.contains(&name)
}

/// Returns the index of a script of a runner of scripts, if a program has this name: where the project has no such
/// script, the runner starts the program.
fn script_command(
    name: &str,
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<usize> {
    if !matches!(name, "bun" | "pnpm") {
        return None;
    }
    for (at, word) in operands(words).take(MOST_BEFORE_COMMAND).filter(|(_, word)| *word != "run") {
        if SCRIPT_SUBCOMMANDS.contains(&word) {
            return None;
        }
        if is_installed(word, context) {
            return Some(at);
        }
    }
    None
}

/// Returns the indices of words that an interpreter of a script may open as commands: perl and ruby open the files of
/// their arguments as a shell would redirect them.
fn opened_by_interpreter(name: &str, words: &[CommandWord]) -> Vec<usize> {
    if !matches!(name, "perl" | "ruby") {
        return Vec::new();
    }
    let mut is_code_next = false;
    let mut opened = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if std::mem::replace(&mut is_code_next, takes_code(word)) {
            continue;
        }
        let may_open = |text: &str| {
            let text = text.trim();
            text.starts_with(['|', '<', '>', '+']) || text.ends_with('|')
        };
        if word.as_literal().is_some_and(may_open) {
            opened.push(at);
        }
    }
    opened
}

/// Returns the indices of operands that a program without a table may start.
fn started_operands(name: &str, words: &[CommandWord], context: &CommandContext<'_>) -> Vec<usize> {
    let is_code = SCRIPT_MODULES.contains(&name);
    let mut started = Vec::new();
    // A command usually begins at the first operand, and after an option or a subcommand that starts one.
    let mut may_begin = true;
    for (at, word) in words.iter().enumerate() {
        // A pattern stands for the names of files, which may be programs too.
        let given = arguments(std::slice::from_ref(word), context);
        let is_started = given.iter().any(|argument| match argument {
            Argument::Known(text) => {
                let is_setting = is_setting(text) && !is_harmless_setting(text);
                let is_option = text.starts_with('-');
                let is_named = || !is_naming(name) && is_command(text, may_begin, context);
                !is_option && (is_code || is_command_text(text) || is_setting || is_named())
            }
            Argument::Unknown => is_code || may_begin && !is_naming(name),
            Argument::Pipe => false,
        });
        if is_started {
            started.push(at);
        }
        may_begin = word.as_literal().is_some_and(|text| {
            text.starts_with('-') || is_setting(text) || USUAL_RUNNING_SUBCOMMANDS.contains(&text)
        });
    }
    started
}

/// Returns whether an operand is a command by its punctuation or scheme, to some program.
fn is_command_text(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.trim().to_ascii_lowercase());
    let is_scheme = |scheme: &str| COMMAND_SCHEMES.binary_search(&scheme).is_ok();
    opens_command(text) || text.trim().starts_with('!') || scheme.as_deref().is_some_and(is_scheme)
}

/// Returns whether a word sets a variable with a name as in the environment.
fn is_setting(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|char: char| char.is_ascii_uppercase() || char == '_')
            && name
                .chars()
                .all(|char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_')
    })
}

/// Returns whether a word sets a variable of a shell.
fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    })
}

/// Returns whether an operand is the name of a program, or a line of a shell that starts one.
fn is_command(text: &str, may_begin: bool, context: &CommandContext<'_>) -> bool {
    let is_line = text.contains(|char: char| char.is_whitespace() || ";|&".contains(char));
    if !is_line {
        let is_quiet = WITHOUT_EFFECT.contains(&text) || !may_begin && READERS.contains(&text);
        return !is_quiet && is_program(text, context);
    }
    text.split([';', '|', '&', '\n']).any(|part| {
        let mut words = part.split_whitespace().skip_while(|word| is_assignment(word));
        words.next().is_some_and(|first| {
            let first = first.replace(['\'', '"', '\\', '(', ')'], "");
            first.starts_with('$')
                || SHELL_WORDS.contains(&first.as_str())
                || is_program(&first, context)
        })
    })
}

/// Returns whether a word names a program with a table, an installed one, or an executable file.
fn is_program(word: &str, context: &CommandContext<'_>) -> bool {
    has_table(word) || is_installed(word, context)
}

/// Returns whether a word names an installed program, or an executable file.
fn is_installed(word: &str, context: &CommandContext<'_>) -> bool {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "._+-[".contains(char);
    let is_executable = |path: &str| {
        let file = context.resolve_single(path);
        file.is_some_and(|file| {
            crow_fs::metadata(&file).is_ok_and(installed_programs::is_executable)
        })
    };
    if word.contains('/') {
        return is_executable(word);
    }
    let is_plausible = !word.is_empty()
        && word.len() <= LONGEST_NAME
        && !matches!(word, "." | "..")
        && word.chars().all(is_name);
    // Beyond the lookups of one line, any name may be one of a program.
    is_plausible
        && (context.budget.take().is_none()
            || context.search_path.finds(word, context.folders.unwrap_or_default())
            || PROJECT_PROGRAMS.iter().any(|folder| is_executable(&format!("{folder}/{word}"))))
}

/// Returns the last component of a program's path.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_hold_nothing_twice() {
        for list in [
            &TEXTS[..],
            &NAMING,
            &PARSED,
            &USUAL_RUNNING_SUBCOMMANDS,
            &NAMING_SUBCOMMANDS,
            &SCRIPT_SUBCOMMANDS,
            &READERS,
            &CARGO_SUBCOMMANDS,
            &SCRIPT_MODULES,
            &COMMAND_SCHEMES,
        ] {
            assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        }
        assert!(RUNNING_SUBCOMMANDS.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn only_targets_and_harmless_settings_are_plain_to_make() {
        for text in [
            "test",
            "all-tests",
            "build/a.o",
            "docs/%.html",
            "db:migrate",
            "task[a,b]",
            "V=1",
            "DEBUG=1",
            "PREFIX=/usr",
            "DESTDIR=out",
            "VERSION=1.0",
            "LOG_LEVEL:=debug",
            "my test",
        ] {
            assert!(is_plain_target(text), "{text}");
        }
        for text in [
            "X=$(shell touch p)",
            "X=1",
            "X!=touch p",
            "V!=touch p",
            "V=$(shell id)",
            "V=`id`",
            "V=${x}",
            "V=-x",
            "V=;id",
            "V=a b",
            "PATH=.",
            "LD_PRELOAD=./e",
            "NODE_OPTIONS=-r./e",
            "MAKEFILES=e.mk",
            "GNUMAKEFLAGS=--eval=x",
            "GIT_SSH_COMMAND=./e",
            "CC=./e",
            "RM=./e",
            "CFLAGS=-Wall",
            "TESTS=./e",
            ".SHELLFLAGS=x",
            "$(shell id)",
            "a;b",
            "a&b",
            "a|b",
            "a b=c",
            "DESTDIR=-x",
            "A${x}=1",
            "V==$x",
        ] {
            assert!(!is_plain_target(text), "{text}");
        }
    }

    #[test]
    fn operands_with_a_pipe_or_a_substitution_open_a_command() {
        for text in [
            "|touch p",
            " | touch p",
            "touch p; id|",
            ">p",
            "<touch p",
            "%pipe%x",
            "%PIPE%x",
            "`id`",
            "a$(id)",
        ] {
            assert!(opens_command(text), "{text}");
        }
        for text in ["a.txt", "a|b", "src/*.c", "100%", "$x", "!x", "é|x"] {
            assert!(!opens_command(text), "{text}");
        }
    }
}
