//! Commands that start other commands, and their options.

/// The options of a command that starts another one.
pub(super) struct WrapperOptions {
    /// Options of one letter without a value.
    pub flags: &'static str,
    /// Options of one letter with a value.
    pub valued: &'static str,
    /// Long options without a value or with one after `=`.
    pub long: &'static [&'static str],
}

/// A command that only starts another one, which alone is judged.
pub(super) struct TransparentWrapper {
    pub name: &'static str,
    pub options: WrapperOptions,
    /// Number of words between the options and the command.
    pub operands: usize,
}

const fn transparent(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> TransparentWrapper {
    TransparentWrapper { name, options: WrapperOptions { flags, valued, long }, operands }
}

pub(super) const TRANSPARENT: [TransparentWrapper; 10] = [
    transparent("command", "p", "", &[], 0),
    transparent("builtin", "", "", &[], 0),
    transparent("exec", "cl", "a", &[], 0),
    transparent("time", "p", "", &[], 0),
    transparent("nohup", "", "", &[], 0),
    transparent("setsid", "cfw", "", &["--ctty", "--fork", "--wait"], 0),
    transparent("nice", "0123456789", "n", &["--adjustment"], 0),
    transparent("ionice", "t", "cn", &["--class", "--classdata", "--ignore"], 0),
    transparent(
        "timeout",
        "v",
        "ks",
        &["--preserve-status", "--foreground", "--verbose", "--kill-after", "--signal"],
        1,
    ),
    transparent("stdbuf", "", "ioe", &["--input", "--output", "--error"], 0),
];

pub(super) const ENV: WrapperOptions = WrapperOptions {
    flags: "i0",
    valued: "u",
    long: &["--ignore-environment", "--unset", "--null"],
};
pub(super) const SUDO: WrapperOptions = WrapperOptions {
    flags: "AbEHknPSN",
    valued: "ugpCT",
    long: &["--non-interactive", "--preserve-env", "--set-home", "--user", "--group"],
};
pub(super) const XARGS: WrapperOptions = WrapperOptions {
    flags: "0rtpxo",
    valued: "adELnPsI",
    long: &[
        "--null",
        "--no-run-if-empty",
        "--verbose",
        "--interactive",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--max-chars",
        "--delimiter",
        "--arg-file",
        "--replace",
        "--exit",
    ],
};
pub(super) const SSH: WrapperOptions =
    WrapperOptions { flags: "46ACfGgKkMNnqsTtVvXxYy", valued: "bciJLlmpRW", long: &[] };
/// Commands that change the meaning of later words, or that start others in ways that are not parsed.
pub(super) const OPAQUE: [&str; 80] = [
    "coreutils",
    "pee",
    "alias",
    "unalias",
    "shopt",
    "enable",
    "hash",
    "coproc",
    "let",
    "declare",
    "typeset",
    "export",
    "readonly",
    "local",
    "complete",
    "compgen",
    "bind",
    "fc",
    "parallel",
    "watch",
    "entr",
    "su",
    "script",
    "flock",
    "strace",
    "ltrace",
    "unshare",
    "nsenter",
    "chroot",
    "busybox",
    "toybox",
    "setarch",
    "chrt",
    "taskset",
    "unbuffer",
    "runuser",
    "pkexec",
    "systemd-run",
    "at",
    "batch",
    "unset",
    "zsh",
    "fish",
    "csh",
    "tcsh",
    "mksh",
    "yash",
    "sem",
    "setpriv",
    "prlimit",
    "choom",
    "rlwrap",
    "chronic",
    "sg",
    "newgrp",
    "start-stop-daemon",
    "run-parts",
    "xvfb-run",
    "dbus-run-session",
    "fakeroot",
    "firejail",
    "bwrap",
    "proot",
    "catchsegv",
    "linux32",
    "linux64",
    "capsh",
    "uclampset",
    "numactl",
    "rksh",
    "pdksh",
    "rbash",
    "lksh",
    "elvish",
    "nu",
    "xonsh",
    "ld.so",
    "systemd-inhibit",
    "cgexec",
    "sshpass",
];

/// Words that are grammar at the beginning of a command.
pub(super) const RESERVED: [&str; 19] = [
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "do", "done", "case", "esac",
    "while", "until", "for", "select", "function",
];

/// Commands that start others even if the file is not the system's: a deny rule must see what they start.
pub(super) const STARTERS: [&str; 18] = [
    "env", "nohup", "setsid", "nice", "ionice", "timeout", "stdbuf", "time", "sudo", "doas",
    "xargs", "find", "ssh", "sh", "bash", "dash", "ksh", "ash",
];
