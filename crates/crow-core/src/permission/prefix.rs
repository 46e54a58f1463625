//! Prefixes for offers: the narrowest prefix under which a command can be allowed for longer.

use super::command::base_name;
use crate::tool_types::{CommandWord, SimpleCommand};

/// The words of a command that identify what it does.
enum PrefixShape {
    /// The program alone.
    Program,
    /// The program and one of these subcommands. Others do too much to be allowed for longer.
    Only(&'static [&'static str]),
    /// The program and any subcommand except these, which run anything or cannot be undone.
    Except(&'static [&'static str]),
    /// The program and all its targets: each of its first words is one.
    Targets,
    /// The program and its script.
    Script,
    /// None: it runs another program, reaches anything, or destroys, and is asked about every time.
    Never,
}

/// Subcommands that only select a group, so that the next word counts too: `npm run build`.
const GROUPS: [(&str, &[&str]); 12] = [
    ("bun", &["run", "x"]),
    ("bundle", &["exec"]),
    ("docker", &["compose"]),
    ("gh", &["issue", "pr", "release", "repo", "run", "workflow"]),
    ("npm", &["run", "run-script"]),
    ("pipenv", &["run"]),
    ("pnpm", &["run", "dlx"]),
    ("poetry", &["run"]),
    ("rye", &["run"]),
    ("uv", &["run"]),
    ("yarn", &["run", "dlx"]),
    ("pdm", &["run"]),
];

/// The most words of a started command that an offer looks at: each operand of a long line may be one.
const LONGEST_PREFIX: usize = 16;

/// Subcommands after which a command usually begins. An offer reaches that command. Sorted.
const RUNNING_SUBCOMMANDS: [&str; 13] = [
    "cmd", "develop", "dlx", "eval", "exec", "execute", "launch", "record", "rsh", "run", "shell",
    "spawn", "x",
];

/// Returns the narrowest prefix of a command that still fits likely later calls, if it is safe to allow it.
pub(super) fn narrow_prefix(command: &SimpleCommand) -> Option<Vec<String>> {
    let program = command.words.first()?.as_literal()?;
    let word = |index: usize| command.words.get(index).and_then(CommandWord::as_literal);
    let take = |count: usize| -> Option<Vec<String>> {
        // A prefix without the unlisted words would not cover the command.
        let count = command.unlisted.iter().try_fold(count, |count, position| {
            Some(count.max(end_of_unlisted(command, *position)?))
        })?;
        let words = command.words.get(..count)?;
        words.iter().map(|word| word.as_literal().map(str::to_owned)).collect()
    };
    if program.is_empty() || program.contains(char::is_whitespace) {
        return None;
    }
    match shape(base_name(program)) {
        PrefixShape::Never => None,
        PrefixShape::Program => take(1),
        PrefixShape::Targets => {
            // All leading targets belong to the prefix; options and computed words end them.
            let is_target = |word: &&CommandWord| word.as_literal().is_some_and(is_name);
            let targets = command.words.iter().skip(1).take_while(is_target).count();
            if targets > 0 || asks_only(command) { take(1 + targets.max(1)) } else { None }
        }
        PrefixShape::Script => match word(1)? {
            "-m" => word(2).filter(|module| is_name(module)).and_then(|_| take(3)),
            script => is_name(script).then(|| take(2)).flatten(),
        },
        PrefixShape::Only(subcommands) => {
            let fits = subcommands.contains(&word(1)?) || asks_only(command);
            fits.then(|| take(2)).flatten()
        }
        PrefixShape::Except(subcommands) => {
            let subcommand = word(1)?;
            let is_group = GROUPS
                .iter()
                .any(|(name, groups)| *name == base_name(program) && groups.contains(&subcommand));
            // A subcommand that is itself a dangerous program or a script runner is not offered: `uv run python`.
            let fits = |word: &str| {
                is_name(word)
                    && !subcommands.contains(&word)
                    && !matches!(shape(base_name(word)), PrefixShape::Never | PrefixShape::Script)
            };
            // The word after a group is the subcommand: `npm run build`.
            if is_group {
                word(2).filter(|inner| fits(inner)).and_then(|_| take(3))
            } else {
                (fits(subcommand) || asks_only(command)).then(|| take(2)).flatten()
            }
        }
    }
}

/// Returns the number of words of the narrowest prefix that covers an unlisted word. One that may be a program ends
/// where an offer for that program alone would; `None` if there is none.
fn end_of_unlisted(command: &SimpleCommand, position: usize) -> Option<usize> {
    // An interpreter without a script has no word to cover at all.
    let end = position + 1;
    let Some(word) = command.words.get(position).and_then(CommandWord::as_literal) else {
        return Some(end);
    };
    if RUNNING_SUBCOMMANDS.binary_search(&word).is_ok() {
        let is_operand =
            |word: &CommandWord| word.as_literal().is_none_or(|word| !word.starts_with('-'));
        let next = command.words.iter().skip(end).position(is_operand);
        return Some(next.map_or(end, |next| end + next + 1));
    }
    match shape(base_name(word)) {
        _ if !is_name(word) || position == 0 => Some(end),
        PrefixShape::Program => Some(end),
        PrefixShape::Never => None,
        PrefixShape::Only(_)
        | PrefixShape::Except(_)
        | PrefixShape::Targets
        | PrefixShape::Script => {
            let words = command.words.iter().skip(position).take(LONGEST_PREFIX).cloned().collect();
            let started = SimpleCommand { words, ..SimpleCommand::default() };
            Some(position + narrow_prefix(&started)?.len())
        }
    }
}

/// Returns true if each non-option word of a program is a further target.
pub(super) fn takes_targets(program: &str) -> bool {
    matches!(shape(program), PrefixShape::Targets)
}

/// Returns true if a program runs the script that its first argument names.
pub(super) fn is_script_runner(program: &str) -> bool {
    matches!(shape(program), PrefixShape::Script)
}

/// Returns true if the only argument is `--version` or the like.
fn asks_only(command: &SimpleCommand) -> bool {
    let [_, word] = command.words.as_slice() else { return false };
    word.as_literal().is_some_and(|word| ["--version", "-V", "--help", "-h"].contains(&word))
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.starts_with(['-', '+'])
}

fn shape(program: &str) -> PrefixShape {
    match program {
        "git" => PrefixShape::Only(&[
            "add",
            "blame",
            "cat-file",
            "commit",
            "describe",
            "diff",
            "fetch",
            "grep",
            "log",
            "ls-files",
            "ls-remote",
            "ls-tree",
            "merge-base",
            "rev-parse",
            "shortlog",
            "show",
            "status",
        ]),
        "kubectl" | "oc" => {
            PrefixShape::Only(&["describe", "explain", "get", "logs", "top", "version"])
        }
        "systemctl" => PrefixShape::Only(&["cat", "is-active", "list-units", "show", "status"]),
        "terraform" | "tofu" => PrefixShape::Only(&["fmt", "init", "plan", "show", "validate"]),
        "docker" | "podman" => PrefixShape::Except(&[
            "exec", "kill", "login", "prune", "push", "rm", "rmi", "run", "system", "volume",
        ]),
        "cargo" => PrefixShape::Except(&["login", "owner", "publish", "yank"]),
        "gh" => PrefixShape::Except(&[
            "alias",
            "api",
            "auth",
            "delete",
            "extension",
            "secret",
            "ssh-key",
        ]),
        "npm" | "pnpm" | "yarn" => PrefixShape::Except(&[
            "adduser",
            "config",
            "exec",
            "login",
            "publish",
            "token",
            "unpublish",
        ]),
        "bun" => PrefixShape::Except(&["-e", "exec", "publish"]),
        "deno" => PrefixShape::Except(&["eval", "publish", "repl", "run"]),
        "go" => PrefixShape::Except(&["env", "generate", "install", "run", "tool"]),
        "rustup" | "bundle" | "pip" | "pip3" | "pipenv" | "poetry" | "rye" | "pdm" | "uv"
        | "npx" | "uvx" | "pipx" | "bunx" | "dotnet" | "composer" | "mix" | "swift" | "flutter"
        | "dart" | "brew" | "apt" | "apt-get" | "zig" | "bazel" | "turbo" | "nx" => {
            PrefixShape::Except(&["config", "exec", "publish"])
        }
        "make" | "gmake" | "bmake" | "pmake" | "just" | "rake" | "mvn" | "mvnw" | "gradle"
        | "gradlew" | "task" | "mage" => PrefixShape::Targets,
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish" | "python" | "python2" | "python3"
        | "node" | "ruby" | "perl" | "php" | "lua" | "Rscript" | "tsx" | "ts-node" | "java"
        | "julia" | "groovy" | "scala" | "elixir" | "iex" | "irb" | "ghci" | "R" | "erl"
        | "tclsh" => PrefixShape::Script,
        "rm" | "rmdir" | "unlink" | "shred" | "dd" | "truncate" | "chmod" | "chown" | "chgrp"
        | "chattr" | "mount" | "umount" | "fdisk" | "parted" | "sudo" | "doas" | "su"
        | "pkexec" | "runuser" | "env" | "nohup" | "timeout" | "nice" | "ionice" | "setsid"
        | "stdbuf" | "time" | "chroot" | "unshare" | "nsenter" | "flock" | "watch" | "entr"
        | "strace" | "ltrace" | "gdb" | "lldb" | "script" | "expect" | "tmux" | "screen"
        | "xargs" | "parallel" | "eval" | "exec" | "source" | "." | "command" | "builtin"
        | "trap" | "alias" | "export" | "cd" | "pushd" | "popd" | "set" | "declare" | "find"
        | "fd" | "awk" | "gawk" | "mawk" | "sed" | "tee" | "ed" | "ex" | "vi" | "vim" | "nvim"
        | "emacs" | "nano" | "ssh" | "scp" | "sftp" | "rsync" | "curl" | "wget" | "nc" | "ncat"
        | "socat" | "telnet" | "ftp" | "kill" | "pkill" | "killall" | "shutdown" | "reboot"
        | "halt" | "poweroff" | "crontab" | "at" | "batch" | "busybox" | "osascript" | "pwsh"
        | "powershell" | "cmd" | "aws" | "gcloud" | "az" | "psql" | "mysql" | "sqlite3"
        | "mongosh" | "redis-cli" | "csh" | "tcsh" | "ipython" | "bpython" | "ptpython"
        | "less" | "more" | "most" | "man" | "xdg-open" | "concurrently" | "nodemon"
        | "cross-env" | "env-cmd" | "dotenv" | "foreman" | "direnv" | "mise" | "asdf" | "nix"
        | "nix-shell" | "hyperfine" | "perf" | "valgrind" | "security" | "gpg" | "ln" | "tar" => {
            PrefixShape::Never
        }
        _ if program.starts_with("mkfs") || program.starts_with("python") => PrefixShape::Never,
        _ => PrefixShape::Program,
    }
}
