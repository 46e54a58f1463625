//! Process that kills the commands of this program when the program itself is killed.

use std::{
    io::{self, PipeWriter},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use super::adoption::MARK;

/// Shell script that waits for the end of its input, which comes with the end of the program, and kills all
/// processes with the program's mark. It stops after two rounds without a match: a process in the middle of
/// `exec` shows no mark for a moment. The exit code of `grep` is not used: processes come and go while it
/// reads.
const SCRIPT: &str = r#"read -r _; none=0; for round in 1 2 3 4 5 6 7 8; do
found=$(grep -lsz "^$1\." /proc/[0-9]*/environ); [ -n "$found" ] || { [ $none = 1 ] && exit; none=1; sleep 0.1; continue; }
for file in $found; do file=${file#/proc/}; kill -9 "${file%/environ}"; done; none=0; done"#;
/// Search path for `grep`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Guard process, which outlives this program for a moment.
#[derive(Debug)]
pub(super) struct KillGuard {
    pub(super) child: Child,
    /// Write end of the guard's input; closed by the kernel, however this program ends.
    _end: PipeWriter,
}

impl KillGuard {
    /// Starts the guard for the commands whose marks begin with `name`.
    #[expect(clippy::disallowed_methods, reason = "it guards those that start processes")]
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let (input, end) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "sh", &format!("{MARK}={name}")])
            .env_clear()
            .env("PATH", PATH)
            .current_dir("/")
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals from the terminal are for the program, not for its guard.
            .process_group(0);
        Ok(Self { child: command.spawn()?, _end: end })
    }
}
