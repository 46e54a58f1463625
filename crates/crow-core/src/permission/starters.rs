//! Other ways to start a program than to name it first: a denial looks into these, too.

use super::{
    command::{base_name, continues_with},
    part::Match,
    unclear::UnclearLine,
};
use crate::tool::{SimpleCommand, Word};

/// Programs whose arguments may be a command, or hold code that starts one. What they start is not read, so that a
/// denied command in their arguments counts as one that may be started.
const RUNNERS: [&str; 92] = [
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
    "elixir",
    "emacs",
    "expect",
    "fakeroot",
    "firejail",
    "foreman",
    "gawk",
    "gdb",
    "hyperfine",
    "just",
    "kubectl",
    "less",
    "lldb",
    "lua",
    "make",
    "man",
    "mawk",
    "mise",
    "more",
    "nix",
    "nix-shell",
    "node",
    "nodemon",
    "npm",
    "npx",
    "numactl",
    "nvim",
    "ocaml",
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
    "pwsh",
    "python",
    "python2",
    "python3",
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
    "sqlite3",
    "sshpass",
    "start-stop-daemon",
    "systemd-inhibit",
    "tar",
    "tclsh",
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

/// Beginnings of the names of variables in which programs look for other programs or for settings that name some.
const COMMAND_VARIABLES: [&str; 20] = [
    "BASH_",
    "BROWSER",
    "EDITOR",
    "ENV",
    "GIT_ASKPASS",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "LD_",
    "LESSOPEN",
    "PAGER",
    "PATH",
    "SSH_ASKPASS",
    "VISUAL",
];

/// The commands of git itself. Any other name may be an alias of one of them, or a program of its own.
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

/// Returns whether a command may start another one that begins with these words, although it does not itself.
pub(super) fn may_start(command: &SimpleCommand, prefix: &[String]) -> Match {
    let Some((Word::Literal(program), arguments)) = command.words.split_first() else {
        return Match::No;
    };
    let name = base_name(program);
    if arguments.is_empty() && command.assignments.is_empty() && !name.contains('-') {
        return Match::No;
    }
    // `git-push` is the program behind `git push`.
    let is_joined = name.contains('-')
        && (2..=prefix.len())
            .filter_map(|count| prefix.get(..count))
            .any(|words| words.join("-") == name);
    if is_joined {
        return Match::Yes;
    }
    if command.assignments.iter().any(|name| is_command_variable(name)) {
        return Match::Maybe;
    }
    let is_denied_git = name == "git" && prefix.first().is_some_and(|first| first == "git");
    if is_denied_git && prefix.len() > 1 && may_be_alias(arguments) {
        return Match::Maybe;
    }
    let is_runner = RUNNERS.binary_search(&name).is_ok()
        || name.starts_with("python")
        || name.starts_with("ld-");
    let is_mentioned = || arguments.iter().any(|word| mentions(word, arguments, prefix));
    if is_runner && is_mentioned() { Match::Maybe } else { Match::No }
}

/// Whether programs look for other programs in a variable of that name.
fn is_command_variable(name: &str) -> bool {
    COMMAND_VARIABLES.iter().any(|beginning| name.starts_with(beginning))
}

/// Whether the command of git is none of its own. Options before it were judged when the line was read.
fn may_be_alias(arguments: &[Word]) -> bool {
    let mut words = arguments.iter().filter_map(Word::as_literal);
    while let Some(word) = words.next() {
        match word {
            "-C" | "-c" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return GIT_COMMANDS.binary_search(&word).is_err(),
        }
    }
    false
}

/// Whether a denied command begins with an argument, or lies in its text. What is known only when the line runs may be
/// one.
fn mentions(word: &Word, arguments: &[Word], prefix: &[String]) -> bool {
    let Some(text) = word.as_literal() else { return true };
    let Some((program, rest)) = prefix.split_first() else { return false };
    if text.contains(|char: char| !char.is_alphanumeric() && !"-_./+".contains(char)) {
        return UnclearLine::new(text).mentions(prefix) == Match::Yes;
    }
    let after = arguments.iter().skip_while(|other| !std::ptr::eq(*other, word)).skip(1);
    base_name(text) == program && continues_with(after.map(Word::as_literal), rest) != Match::No
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_hold_nothing_twice() {
        for list in [&RUNNERS[..], &COMMAND_VARIABLES[..], &GIT_COMMANDS[..]] {
            assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        }
    }
}
