//! Compares the parser with real shells: every program that a shell starts must have been read.

use std::{
    cell::Cell,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use crow_core::tool::{CommandMeaning, CommandWord, SimpleCommand};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::super::{needs_bash, read_command_line};

const PROGRAMS: [&str; 4] = ["p1", "p2", "p3", "p4"];

/// Pieces that are joined at random. None loops, and none is a program other than the stubs.
const PIECES: [&str; 64] = [
    "p1",
    "p2",
    "p3 x",
    "p4 'a b'",
    "p1",
    "p2 -n",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "\n",
    "(",
    ")",
    "{ ",
    " }",
    "; }",
    "$(",
    "`",
    "\"",
    "'",
    "\\",
    "\\\n",
    "#",
    " # ",
    "$((",
    "))",
    "1",
    "+",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n",
    "\tE\n",
    "E",
    "<<<",
    "> f",
    ">f ",
    "2>&1",
    "&> f",
    "< f",
    "<(",
    ">(",
    "[ ",
    " ]",
    "[[ ",
    " ]]",
    "if ",
    " then ",
    " fi",
    "; ",
    "case x in ",
    "x)",
    ";;",
    " esac",
    "! ",
    "X=1 ",
    "x=",
    "${x:-",
    "}",
    "$'",
    "$x",
    "*",
];

fn stubs(folder: &Path) {
    fs::create_dir(folder.join("bin")).unwrap();
    fs::create_dir(folder.join("cwd")).unwrap();
    for name in PROGRAMS {
        let path = folder.join("bin").join(name);
        // One write, so that the entries of a pipeline do not mix.
        let script = "#!/bin/sh\nentry=${0##*/}\nfor word; do entry=\"$entry\u{1f}$word\"; done\nprintf '%s\u{1e}' \"$entry\" >> \"$LOG\"\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "the judge is the shell itself")]
/// Runs a line and returns the programs that were started, with their arguments.
fn started(shell: &str, line: &str, folder: &Path) -> Vec<Vec<String>> {
    // A process left running may write late, but not into the log of another line.
    let log = tempfile::NamedTempFile::new_in(folder).unwrap().into_temp_path();
    let status = Command::new(shell)
        .args(["-c", &format!("PATH={}\n{line}\nwait", folder.join("bin").display())])
        .env("LOG", &log)
        .current_dir(folder.join("cwd"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok());
    let log = String::from_utf8(fs::read(&log).unwrap()).unwrap();
    let fields = |entry: &str| entry.split('\u{1f}').map(str::to_owned).collect();
    log.split_terminator('\u{1e}').map(fields).collect()
}

fn explains(command: &SimpleCommand, program: &[String]) -> bool {
    let known: Vec<&str> = command.literal_words().collect();
    let is_whole = command.words.iter().all(|word| matches!(word, CommandWord::Literal(_)));
    if is_whole {
        known == program
    } else {
        program.iter().map(String::as_str).take(known.len()).eq(known)
    }
}

/// Pieces in random order, mostly nonsense.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&PIECES[..]);
    let glue = prop::sample::select(&["", " ", " "][..]);
    prop::collection::vec((piece, glue), 1..14)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(piece, glue)| [piece, glue]).collect())
}

/// Lines that are mostly valid.
fn sense() -> impl Strategy<Value = String> {
    let simple = prop::sample::select(
        &[
            "p1",
            "p2 x",
            "p3 'a b' \"c;d\"",
            "p4 -n > f",
            "X=1 p1",
            "p2 < f 2>&1",
            "p3 \\; $'a\\'b'",
            "p1 *",
        ][..],
    );
    simple.prop_map(str::to_owned).prop_recursive(4, 12, 2, |inner| {
        let shapes: &[(&str, &str, &str)] = &[
            ("", "; ", ""),
            ("", " && ", ""),
            ("", " || ", ""),
            ("", " | ", ""),
            ("", " & ", ""),
            ("", "\n", ""),
            ("(", "; ", ")"),
            ("{ ", "; ", "; }"),
            ("p1 $(", ") ", ""),
            ("p2 \"$(", ") a\" ", ""),
            ("p3 `", "` ", ""),
            ("if ", "; then ", "; fi"),
            ("for i in 1 2; do ", "; ", "; done"),
            ("case x in x) ", ";; *) ", ";; esac"),
            ("! ", "\n", ""),
            ("cat() { ", "; }; ", ""),
            ("p1 <<E\n$(", ")\nE\n", ""),
            ("p2 <<'E'\n", "\nE\n", ""),
            ("p4 <(", ") | ", ""),
            ("p1 # ", "\n", ""),
            ("x=$(", "); ", ""),
            ("p1 ${x:-$(", ")} && ", ""),
            ("[ -n x ] && ", "; ", ""),
            ("[[ a == b ]] || ", " | ", ""),
            ("time ", "; ", ""),
            ("eval '", "' ; ", ""),
            ("command ", "; ", ""),
            ("{ ", "; } > f; ", ""),
            ("p1 \\\n ", " ; ", ""),
        ];
        (prop::sample::select(shapes), inner.clone(), inner).prop_map(
            |((start, middle, end), left, right)| format!("{start}{left}{middle}{right}{end}"),
        )
    })
}

/// Valid lines with something inserted or removed.
fn broken() -> impl Strategy<Value = String> {
    let change =
        (any::<prop::sample::Index>(), prop::option::of(prop::sample::select(&PIECES[..])));
    (sense(), prop::collection::vec(change, 1..3)).prop_map(|(mut line, changes)| {
        for (at, piece) in changes {
            let at = at.index(line.len() + 1);
            match piece {
                Some(piece) => line.insert_str(at, piece),
                None if at < line.len() => drop(line.remove(at)),
                None => {}
            }
        }
        line
    })
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![1 => soup(), 2 => sense(), 4 => broken()]
}

fn check(line: &str, folder: &Path) -> Result<bool, TestCaseError> {
    let CommandMeaning::Commands(commands) = read_command_line(line).meaning else {
        return Ok(false);
    };
    // Lines that dash reads differently are run by bash only.
    let has_dash = ["/bin/dash", "/usr/bin/dash"].iter().any(|path| Path::new(path).exists());
    let shells = if has_dash && !needs_bash(line) { &["bash", "dash"][..] } else { &["bash"][..] };
    for shell in shells {
        for program in started(shell, line, folder) {
            prop_assert!(
                commands.iter().any(|command| explains(command, &program)),
                "in {shell} {line:?} started {program:?}, read {commands:?}"
            );
        }
    }
    Ok(true)
}

#[test]
fn every_program_that_a_real_shell_starts_was_read() {
    let folder = tempfile::tempdir().unwrap();
    stubs(folder.path());
    let default = Config::default().cases;
    // `PROPTEST_CASES` sets a larger number.
    let cases = if default == 256 { 150 } else { default };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let understood = Cell::new(0);
    let result = runner.run(&line(), |line| {
        understood.set(understood.get() + u32::from(check(&line, folder.path())?));
        Ok(())
    });
    assert_eq!(result.map_err(|error| error.to_string()), Ok(()));
    assert!(understood.get() > cases / 5, "only {} lines were understood", understood.get());
}
