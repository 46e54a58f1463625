//! Other ways to start a program than to name it first, which a denial must consider too.
//!
//! [`may_start`] examines a command's arguments and variables, [`input_may_start`] its input, and [`may_be_copy`] copies
//! of a program under another name. They err on the side of a match: the answer is mostly [`RuleMatch::Maybe`], which
//! makes the policy ask the user.

use super::{
    call_part::RuleMatch,
    command::{UnclearLine, base_name, continues_with},
};
use crate::tool_types::{CommandWord, SideEffects, SimpleCommand};

/// Programs whose arguments may be a command, or code that starts one. These arguments are not parsed, so a denied
/// command in them counts as one that may be started. Sorted.
const RUNNERS: [&str; 112] = [
    "asdf",
    "awk",
    "bun",
    "bundle",
    "bunx",
    "bwrap",
    "cargo",
    "catchsegv",
    "chronic",
    "concurrently",
    "cpulimit",
    "dbus-launch",
    "dbus-run-session",
    "deno",
    "direnv",
    "distrobox",
    "docker",
    "dotenv",
    "ed",
    "elixir",
    "emacs",
    "ex",
    "expect",
    "fakeroot",
    "fd",
    "fdfind",
    "firejail",
    "foreman",
    "ftp",
    "gawk",
    "gdb",
    "gnuplot",
    "gp",
    "hyperfine",
    "just",
    "kubectl",
    "less",
    "lftp",
    "lldb",
    "lua",
    "m4",
    "make",
    "man",
    "mariadb",
    "mawk",
    "maxima",
    "mise",
    "mongosh",
    "more",
    "mysql",
    "nix",
    "nix-shell",
    "node",
    "nodemon",
    "npm",
    "npx",
    "numactl",
    "nvim",
    "ocaml",
    "octave",
    "osascript",
    "pdm",
    "perf",
    "perl",
    "php",
    "pipenv",
    "pipx",
    "pnpm",
    "podman",
    "poetry",
    "powershell",
    "prlimit",
    "proot",
    "proxychains",
    "psql",
    "pwsh",
    "python",
    "python2",
    "python3",
    "redis-cli",
    "rg",
    "rlwrap",
    "rsync",
    "ruby",
    "run-parts",
    "rye",
    "scp",
    "screen",
    "sed",
    "sem",
    "setpriv",
    "sftp",
    "sg",
    "socat",
    "sort",
    "split",
    "sqlite3",
    "sshpass",
    "start-stop-daemon",
    "systemd-inhibit",
    "tar",
    "tclsh",
    "telnet",
    "tmux",
    "torsocks",
    "ts",
    "uv",
    "uvx",
    "valgrind",
    "vi",
    "vim",
    "xvfb-run",
];

/// Programs that take commands from their input, whatever their arguments.
const FED: [&str; 31] = [
    "bc",
    "dc",
    "ed",
    "ex",
    "expect",
    "ftp",
    "gdb",
    "gnuplot",
    "gp",
    "irb",
    "iex",
    "ghci",
    "lftp",
    "lldb",
    "m4",
    "mariadb",
    "maxima",
    "mongosh",
    "mysql",
    "nc",
    "octave",
    "psql",
    "redis-cli",
    "sftp",
    "socat",
    "sqlite3",
    "telnet",
    "vi",
    "vim",
    "nvim",
    "xargs",
];

/// Programs that take their program from their input, if no file or code is given as an argument.
const FED_WITHOUT_SCRIPT: [&str; 28] = [
    "bash", "bun", "csh", "dash", "deno", "elixir", "fish", "guile", "julia", "ksh", "lua", "node",
    "nodejs", "ocaml", "perl", "php", "pwsh", "python", "python2", "python3", "R", "ruby", "sh",
    "tclsh", "tcsh", "ts-node", "wish", "zsh",
];

/// Programs whose words are only file names or text. Any other may start what its words name: `caffeinate git push`.
/// Sorted.
const FILERS: [&str; 21] = [
    "cat", "chgrp", "chmod", "chown", "cp", "dd", "echo", "grep", "install", "ln", "ls", "mkdir",
    "mv", "printf", "rm", "rmdir", "tee", "test", "touch", "truncate", "unlink",
];

/// Programs that give a file another name, or copy its content to another file.
const COPIERS: [&str; 9] = ["cat", "cp", "dd", "install", "link", "ln", "mv", "rsync", "tee"];

/// Commands of git that have options with a program as their value. Sorted.
const GIT_STARTERS: [&str; 10] = [
    "archive",
    "clone",
    "difftool",
    "fetch",
    "grep",
    "ls-remote",
    "mergetool",
    "pull",
    "rebase",
    "send-email",
];

/// Options of many programs whose value is text for people, or a pattern.
const TEXT_OPTIONS: [&str; 16] = [
    "--author",
    "--body",
    "--comment",
    "--data",
    "--description",
    "--grep",
    "--message",
    "--notes",
    "--regexp",
    "--search",
    "--title",
    "-b",
    "-d",
    "-e",
    "-m",
    "-t",
];

/// Maximum number of option letters before a value in the same word.
const MOST_LETTERS: usize = 6;

/// Prefixes of names of variables in which programs look for other programs or for settings that name some. Sorted.
const COMMAND_VARIABLES: [&str; 30] = [
    "BASH_",
    "BROWSER",
    "EDITOR",
    "ENV",
    "GIT_ALLOW_PROTOCOL",
    "GIT_ASKPASS",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROTOCOL_FROM_USER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "LD_",
    "LESSOPEN",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANPAGER",
    "PAGER",
    "PATH",
    "PS4",
    "RIPGREP_CONFIG_PATH",
    "RSYNC_RSH",
    "SSH_ASKPASS",
    "SUDO_EDITOR",
    "TAR_OPTIONS",
    "VISUAL",
];

/// The commands of git itself. Any other name may be an alias, or a separate program. Sorted.
const GIT_COMMANDS: [&str; 105] = [
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fetch",
    "fetch-pack",
    "fmt-merge-msg",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "gui",
    "hash-object",
    "help",
    "index-pack",
    "init",
    "init-db",
    "interpret-trailers",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "mailsplit",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-email",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "version",
    "whatchanged",
    "worktree",
];

/// Returns whether a command may start another one with this prefix, although it does not begin with it itself.
pub(super) fn may_start(command: &SimpleCommand, prefix: &[String]) -> RuleMatch {
    let Some((CommandWord::Literal(program), arguments)) = command.words.split_first() else {
        return RuleMatch::No;
    };
    let name = base_name(program);
    if arguments.is_empty() && command.assignments.is_empty() && !name.contains('-') {
        return RuleMatch::No;
    }
    // `git-push` is the program behind `git push`.
    let is_joined = name.contains('-')
        && (2..=prefix.len())
            .filter_map(|count| prefix.get(..count))
            .any(|words| words.join("-") == name);
    if is_joined {
        return RuleMatch::Yes;
    }
    // The command to start later comes from a file or from the input.
    let is_schedule = || !arguments.iter().any(|word| word.as_literal() == Some("-l"));
    if command.assignments.iter().any(|name| is_command_variable(name))
        || name == "crontab" && is_schedule()
    {
        return RuleMatch::Maybe;
    }
    let is_alias =
        name == "gh" && arguments.first().and_then(CommandWord::as_literal) == Some("alias");
    // What the command `e` of sed runs may be between any delimiters.
    let is_executing = name == "sed" && command.side_effects == SideEffects::Hidden;
    if (is_alias || is_executing) && arguments.iter().any(|word| names_within(word, prefix)) {
        return RuleMatch::Maybe;
    }
    let is_denied_git = name == "git" && prefix.first().is_some_and(|first| first == "git");
    if is_denied_git && prefix.len() > 1 && may_be_alias(arguments) {
        return RuleMatch::Maybe;
    }
    let is_runner = RUNNERS.binary_search(&name).is_ok()
        || name.starts_with("python")
        || name.starts_with("ld-");
    // Search the arguments for the denied command, as closely as the program allows.
    let is_started = |word: &CommandWord| {
        if is_runner {
            mentions(word, arguments, prefix)
        } else if name == "git" {
            starts_by_option(word, arguments, prefix)
        } else {
            !FILERS.contains(&name)
                && (begins_at(word, arguments, prefix)
                    || takes_program(word, arguments) && mentions(word, arguments, prefix))
        }
    };
    if arguments.iter().any(is_started) { RuleMatch::Maybe } else { RuleMatch::No }
}

/// Returns true if a word is an option or the value of one, unless that option takes text.
fn takes_program(word: &CommandWord, arguments: &[CommandWord]) -> bool {
    let is_dashed = |text: &str| {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        text.starts_with('-') && !TEXT_OPTIONS.contains(&name)
    };
    let before = arguments.iter().zip(arguments.iter().skip(1));
    let before = before.filter(|(_, next)| std::ptr::eq(*next, word)).map(|(option, _)| option);
    word.as_literal().is_some_and(|text| {
        is_dashed(text) || before.filter_map(CommandWord::as_literal).any(is_dashed)
    })
}

/// Returns true if a command of git takes a program from an option, and the denied one is it. Excludes the pattern of
/// `git grep`, which may have the same words.
fn starts_by_option(word: &CommandWord, arguments: &[CommandWord], prefix: &[String]) -> bool {
    let is_named = |name: &str| arguments.iter().any(|word| word.as_literal() == Some(name));
    let is_option = word.as_literal().is_some_and(|text| text.starts_with('-'));
    GIT_STARTERS.iter().any(|name| is_named(name))
        && (is_option || !is_named("grep"))
        && word.as_literal().is_some()
        && (mentions(word, arguments, prefix)
            || word.as_literal().is_some_and(|text| text.contains("::"))
                && names_within(word, prefix))
}

/// Returns true if the words of a denied command follow each other in a text, whatever punctuation surrounds them.
fn names_within(word: &CommandWord, prefix: &[String]) -> bool {
    let (CommandWord::Literal(text) | CommandWord::Computed(text)) = word;
    let is_word_char = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_' | '.' | '+');
    let plain: String =
        text.chars().map(|char| if is_word_char(char) { char } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is_run = |run: &[&str]| run.iter().zip(prefix).all(|(word, wanted)| word == wanted);
    !prefix.is_empty() && words.windows(prefix.len()).any(is_run)
}

/// Returns true if the input may make a program start a command whose words are somewhere in the line: in a
/// here-string, or in the output of another command.
pub(super) fn input_may_start(command: &SimpleCommand, line: &str, prefix: &[String]) -> bool {
    if !reads_commands_from_input(command) {
        return false;
    }
    // A backslash is quoting of the shell, or with the next letter a blank that `printf` writes.
    let unquoted = line.replace(['\'', '"'], "");
    let printed = ["\\n", "\\t", "\\r"]
        .iter()
        .fold(unquoted.clone(), |text, escape| text.replace(escape, " "));
    [unquoted.replace('\\', ""), printed]
        .into_iter()
        .any(|text| names_within(&CommandWord::Literal(text), prefix))
}

/// Returns true if a program takes commands from its input.
pub(super) fn reads_commands_from_input(command: &SimpleCommand) -> bool {
    let Some((CommandWord::Literal(program), arguments)) = command.words.split_first() else {
        return false;
    };
    let name = base_name(program);
    let is_input = |word: &str| matches!(word, "-" | "-f-" | "/dev/stdin" | "/dev/fd/0");
    let names_input = || {
        arguments.iter().filter_map(CommandWord::as_literal).any(|word| {
            is_input(word) || word.rsplit_once('=').is_some_and(|(_, value)| is_input(value))
        })
    };
    let has_script = || {
        let is_script =
            |word: &CommandWord| word.as_literal().is_none_or(|word| !word.starts_with('-'));
        arguments.iter().any(is_script)
    };
    let is_interpreter = FED_WITHOUT_SCRIPT.contains(&name) || name.starts_with("python");
    FED.contains(&name)
        || is_interpreter && !has_script()
        || (is_interpreter || matches!(name, "make" | "gmake" | "just" | "awk" | "sed" | "at"))
            && names_input()
}

/// Returns true if a command executes a file from a directory other than those of the system, and another command of
/// the line may have copied a denied program to it: `cp /usr/bin/git g; ./g push`.
pub(super) fn may_be_copy(
    command: &SimpleCommand,
    others: &[SimpleCommand],
    prefix: &[String],
) -> bool {
    let (Some((CommandWord::Literal(program), words)), Some((wanted, rest))) =
        (command.words.split_first(), prefix.split_first())
    else {
        return false;
    };
    let is_own = program.contains('/')
        && !["/bin/", "/usr/bin/"].iter().any(|folder| program.starts_with(folder));
    let copies_it = |other: &SimpleCommand| {
        let name = other.words.first().and_then(CommandWord::as_literal).map(base_name);
        let is_named = other.words.iter().skip(1).any(|word| match word {
            CommandWord::Literal(text) => base_name(text) == wanted,
            CommandWord::Computed(_) => names_within(word, std::slice::from_ref(wanted)),
        });
        let mut touched = other.touches.iter().map(|touch| &touch.path);
        name.is_some_and(|name| COPIERS.contains(&name))
            && (is_named
                || other.side_effects == SideEffects::Hidden
                || touched.any(|path| path.file_name().is_some_and(|it| it == wanted.as_str())))
    };
    is_own
        && continues_with(words.iter().map(CommandWord::as_literal), rest) != RuleMatch::No
        && others.iter().any(copies_it)
}

/// Returns true if programs look for other programs in a variable of that name.
fn is_command_variable(name: &str) -> bool {
    COMMAND_VARIABLES.iter().any(|beginning| name.starts_with(beginning))
}

/// Returns true if the command of git is not one of its own. Options before it were judged when the line was parsed.
fn may_be_alias(arguments: &[CommandWord]) -> bool {
    let mut words = arguments.iter().filter_map(CommandWord::as_literal);
    while let Some(word) = words.next() {
        match word {
            "-C" | "-c" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return GIT_COMMANDS.binary_search(&word).is_err(),
        }
    }
    false
}

/// Returns true if a denied command begins with an argument, or is part of its text. An argument that is only known
/// when the line runs may be one.
fn mentions(word: &CommandWord, arguments: &[CommandWord], prefix: &[String]) -> bool {
    let Some(text) = word.as_literal() else { return true };
    let is_text = |text: &str| {
        text.contains(|char: char| !char.is_alphanumeric() && !"-_./+".contains(char))
            && UnclearLine::new(text).mentions(prefix) == RuleMatch::Yes
    };
    // `-Ishred`, `-cIshred`: the value follows its letter.
    let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let offsets = letters.unwrap_or_default().char_indices().skip(1).take(MOST_LETTERS);
    let mut values = offsets.filter_map(|(offset, _)| letters?.get(offset..));
    let is_program =
        |value: &str| prefix.len() == 1 && prefix.first().is_some_and(|it| base_name(value) == it);
    is_text(text)
        || values.any(|value| is_text(value) || is_program(value))
        || begins_at(word, arguments, prefix)
}

/// Returns true if a denied command begins with an argument.
fn begins_at(word: &CommandWord, arguments: &[CommandWord], prefix: &[String]) -> bool {
    let (Some(text), Some((program, rest))) = (word.as_literal(), prefix.split_first()) else {
        return false;
    };
    let after = arguments.iter().skip_while(|other| !std::ptr::eq(*other, word)).skip(1);
    base_name(text) == program
        && continues_with(after.map(CommandWord::as_literal), rest) != RuleMatch::No
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_hold_nothing_twice() {
        for list in [
            &RUNNERS[..],
            &COMMAND_VARIABLES[..],
            &GIT_COMMANDS[..],
            &FILERS[..],
            &GIT_STARTERS[..],
        ] {
            assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        }
    }
}
