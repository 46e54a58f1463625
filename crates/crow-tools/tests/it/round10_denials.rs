//! Review 10, denials of writes by path: programs that make files where their words say.

use crow_core::{permission::PermissionRule, tool::Access};

use crate::project::{Project, full_auto_with};

/// Lines that may change `certs/server.key`, or make files beside it.
const WRITES: &[&str] = &[
    "split a.txt certs/zz",
    "csplit -f certs/yy a.txt 1",
    "mktemp certs/XXXX",
    "mktemp -p certs",
    "mknod certs/pp p",
    "cargo new certs/x",
    "javac -d certs A.java",
    "ar r certs/x a.txt",
    "7z a certs/x a.txt",
    "screen -Logfile certs/x -L",
    "pdflatex -output-directory=certs a.tex",
    "node --cpu-prof-dir=certs a.js",
    "python3 -m venv certs",
];

/// Lines that change nothing there.
const FREE: &[&str] = &[
    "cat certs/server.key",
    "ls certs",
    "grep x certs/server.key",
    "cp certs/server.key out.key",
    "sha256sum certs/server.key",
    "unknown-program certs/x",
    "python3 certs/check.py",
    "pytest certs",
    "node certs/check.js",
    "less certs/server.key",
    "git add certs/server.key",
    "python3 -m venv .venv",
    "cargo build",
    "split a.txt src/part",
];

fn allowed<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let policy = full_auto_with([PermissionRule::deny_path(Access::Write, "certs")]);
    Project::new().allowed_lines(&policy, lines)
}

#[test]
fn a_program_that_makes_files_in_a_folder_whose_change_is_denied_is_asked_about() {
    let passed = allowed(WRITES);
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn lines_that_only_read_a_path_whose_change_is_denied_are_allowed() {
    let passed = allowed(FREE);
    let refused: Vec<_> = FREE.iter().filter(|text| !passed.contains(text)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
