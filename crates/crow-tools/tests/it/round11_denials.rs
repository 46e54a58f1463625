//! Review 11, denials by path: words that are paths only once the shell has expanded them, and more commands of git that make
//! files.

use crow_core::{permission::PermissionRule, tool::Access};

use crate::project::{Project, full_auto_with};

/// Lines with which a program may read `a.txt`.
const READS: &[&str] = &[
    "python3 x.py $PWD/a.txt",
    "python3 x.py \"$PWD/a.txt\"",
    "python3 x.py ${PWD}/a.txt",
    "python3 x.py $(pwd)/a.txt",
    "python3 x.py ~+/a.txt",
    "python3 x.py file://$PWD/a.txt",
    "python3 x.py --in=$PWD/a.txt",
    "python3 x.py -o=k=a.txt",
    "python3 x.py k=a=a.txt",
    "kubectl get pods -o=jsonpath-file=a.txt",
];

/// Lines that may make files in `certs`.
const WRITES: &[&str] = &[
    "git -C certs init",
    "git init --separate-git-dir=certs/g x",
    "git bugreport -o certs -s y",
    "git -C certs bugreport -s z",
    "git index-pack -o certs/i x",
    "git commit-graph write --object-dir certs",
    "git format-patch -o certs -1",
    "git archive -o certs/x.tar HEAD",
    "git bundle create certs/b HEAD",
    "git -C certs format-patch -1",
];

/// Lines that do neither.
const FREE: &[&str] = &[
    "python3 x.py $PWD/b.txt",
    "python3 x.py \"$FILE\"",
    "python3 x.py -o=k=b.txt",
    "git init x",
    "git worktree list",
    "git -C src status",
    "python3 x.py --config=$HOME/.config/x",
    "node server.js http://localhost//a.txt",
];

#[test]
fn a_denied_file_is_not_read_by_a_word_that_the_shell_expands() {
    let project = Project::new();
    let policy = full_auto_with([PermissionRule::deny_path(Access::Read, "a.txt")]);
    let root = project.root.display();
    let absolute = [format!("python3 x.py //{root}/a.txt"), format!("python3 x.py {root}//a.txt")];
    let lines: Vec<&str> =
        READS.iter().copied().chain(absolute.iter().map(String::as_str)).collect();
    let passed = project.allowed_lines(&policy, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn git_makes_no_files_in_a_folder_whose_change_is_denied() {
    let policy = full_auto_with([PermissionRule::deny_path(Access::Write, "certs")]);
    let passed = Project::new().allowed_lines(&policy, WRITES);
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn lines_that_reach_no_denied_file_are_allowed() {
    let rules = [(Access::Read, "a.txt"), (Access::Write, "certs")]
        .map(|(access, path)| PermissionRule::deny_path(access, path));
    let passed = Project::new().allowed_lines(&full_auto_with(rules), FREE);
    let refused: Vec<_> = FREE.iter().filter(|text| !passed.contains(text)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
