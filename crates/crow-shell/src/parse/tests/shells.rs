//! Runs many lines in one real shell, to learn what each of them starts.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use crow_core::tool::{CommandMeaning, CommandWord, SimpleCommand};

use super::super::{needs_bash, read_command_line};

/// The number of lines that one shell runs.
const BATCH: usize = 500;

/// Programs that only log that they were started.
const STUBS: [&str; 4] = ["p1", "p2", "p3", "p4"];
/// The file that lines may redirect to.
const CANARY: &str = "f";

/// A program with its arguments.
type Argv = Vec<String>;

/// A directory in which real shells run lines.
pub(super) struct Shells {
    directory: tempfile::TempDir,
    names: Vec<&'static str>,
}

impl Shells {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shells = Self { names: Self::installed(), directory };
        fs::create_dir(shells.path("bin")).unwrap();
        for name in STUBS {
            let path = shells.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{}", noting(name))).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        shells
    }

    fn installed() -> Vec<&'static str> {
        let has_dash = ["/bin/dash", "/usr/bin/dash"].iter().any(|path| Path::new(path).exists());
        if has_dash { vec!["bash", "dash"] } else { vec!["bash"] }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Reads lines and runs the understood ones. Fails if one of them started a program or wrote a file that was not
    /// read. Returns how many were understood.
    pub(super) fn check(&self, lines: &[String]) -> Result<usize, String> {
        let read: Vec<(&str, Vec<SimpleCommand>)> = lines
            .iter()
            .filter_map(|line| match read_command_line(line).meaning {
                CommandMeaning::Commands(commands) => Some((line.as_str(), commands)),
                CommandMeaning::Unclear(_) => None,
            })
            .collect();
        for shell in &self.names {
            // Lines that dash reads differently are run by bash only.
            let given: Vec<_> =
                read.iter().filter(|(line, _)| *shell == "bash" || !needs_bash(line)).collect();
            let texts: Vec<&str> = given.iter().map(|(line, _)| *line).collect();
            for (number, argv) in self.run(shell, &texts) {
                let (line, commands) = given[number];
                let is_known = |argv: &Argv| commands.iter().any(|command| explains(command, argv));
                // The entry may come late from an earlier line: running the line alone decides.
                let is_sure = || self.run(shell, &[line]).iter().any(|(_, argv)| !is_known(argv));
                if !is_known(&argv) && is_sure() {
                    return Err(format!("{shell}: {line:?} did {argv:?}, read {commands:?}"));
                }
            }
        }
        Ok(read.len())
    }

    /// Runs each line in a subshell of one shell.
    #[expect(clippy::disallowed_methods, reason = "the judge is the shell itself")]
    fn run(&self, shell: &str, lines: &[&str]) -> Vec<(usize, Argv)> {
        let cwd = tempfile::tempdir_in(self.directory.path()).unwrap();
        let (script, log) = (cwd.path().join("script"), cwd.path().join("log"));
        let mut text = format!("PATH={}\n", self.path("bin").display());
        // Functions are faster than programs. They are used except where another program starts a stub.
        for name in STUBS {
            writeln!(text, "{name}() {{\n{}}}", noting(name)).unwrap();
        }
        text.push_str("cat() { :; }\nx=ab\nexport LINE\n");
        for (number, line) in lines.iter().enumerate() {
            let quoted = line.replace('\'', "'\\''");
            writeln!(
                text,
                "LINE={number}\n( eval '{quoted}' ) </dev/null >/dev/null 2>&1\n\
                 if [ -e {CANARY} ]; then printf '%s\\037FILE\\036' $LINE >&9; /bin/rm -rf {CANARY}; fi"
            )
            .unwrap();
        }
        fs::write(&script, text).unwrap();
        let status = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" ./script 9>log", shell])
            .current_dir(cwd.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.code().is_some()));
        let log = fs::read(log).unwrap();
        let log = String::from_utf8_lossy(&log);
        let entry = |entry: &str| {
            let mut words = entry.split('\u{1f}').map(str::to_owned);
            let number = words.next().and_then(|number| number.parse().ok());
            (number.unwrap(), words.collect())
        };
        log.split_terminator('\u{1e}').map(entry).collect()
    }
}

/// A deterministic random number generator.
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }

    pub(super) fn pick(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.below(choices.len())]
    }
}

/// Checks `lines` generated lines, or the number in `CROW_EXPANSION_LINES`.
pub(super) fn check_generated(lines: usize, line: fn(&mut Numbers) -> String) {
    #[expect(clippy::disallowed_methods, reason = "a longer run is asked for by a variable")]
    let wanted = std::env::var("CROW_EXPANSION_LINES");
    let wanted = wanted.ok().and_then(|wanted| wanted.parse().ok()).unwrap_or(lines);
    let shells = Shells::new();
    let (understood, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let batches = wanted.div_ceil(BATCH);
    // Half of the time is spent in the shells, so two threads keep two cores busy.
    let work = || -> Result<(), String> {
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed);
            if batch >= batches {
                return Ok(());
            }
            let mut numbers = Numbers(u64::try_from(batch).unwrap() << 32);
            let lines: Vec<String> = (0..BATCH).map(|_| line(&mut numbers)).collect();
            understood.fetch_add(shells.check(&lines)?, Ordering::Relaxed);
        }
    };
    let results = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(results, [Ok(()), Ok(())]);
    let understood = understood.into_inner();
    assert!(understood * 20 > wanted, "only {understood} of {wanted} lines were understood");
}

/// Returns the body of a stub. It writes once, so that the entries of a pipeline do not mix.
fn noting(name: &str) -> String {
    format!(
        "entry=\"$LINE\u{1f}{name}\"\nfor word; do entry=\"$entry\u{1f}$word\"; done\n\
         printf '%s\\036' \"$entry\" >&9\n"
    )
}

/// Returns whether a command that was read accounts for a started program.
fn explains(command: &SimpleCommand, argv: &[String]) -> bool {
    if argv == ["FILE"] {
        return command
            .redirects
            .iter()
            .any(|redirect| redirect.target.as_literal().is_none_or(|target| target == CANARY));
    }
    let known: Vec<&str> = command.literal_words().collect();
    let is_whole = command.words.iter().all(|word| matches!(word, CommandWord::Literal(_)));
    if is_whole {
        known == argv
    } else {
        argv.iter().map(String::as_str).take(known.len()).eq(known)
    }
}
