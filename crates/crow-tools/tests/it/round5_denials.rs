//! Security review 5, denials: programs that take commands from their input, and programs under another name.

use std::fs;

use crow_core::{permission::PermissionRule, tool::Access};

use crate::project::{Project, full_auto_with};

/// Lines that may start `git push`.
const COMMANDS: &[&str] = &[
    "sed 's/.*/git push/e' a.txt",
    "sed 's/b/git push/ge' a.txt",
    "sed -E 's/(.*)/git push/e' a.txt",
    "sed 's|.*|git push|e' a.txt",
    "sed 's/.*/git push/;e' a.txt",
    "sed -e 's/.*/git push/' -e e a.txt",
    "sed -n '1e git push' a.txt",
    "sed -i 's/.*/git push/e' a.txt",
    "make -f - <<< 'x:;git push'",
    "make -f /dev/stdin <<< 'x:;git push'",
    "make --file=- <<< 'x:;git push'",
    "printf 'x:\\n\\tgit push\\n' | make -f -",
    "ed <<< '!git push'",
    "printf '!git push\\n' | ed",
    "tclsh <<< 'exec git push'",
    "m4 <<< 'syscmd(git push)'",
    "printf 'syscmd(git push)' | m4",
    "python3 <<< 'import os;os.system(\"git push\")'",
    "python3 - <<< 'import os;os.system(\"git push\")'",
    "python3 <<E\nimport subprocess\nsubprocess.run([\"git\", \"push\"])\nE",
    "echo 'import os;os.system(\"git push\")' | python3",
    "node <<< 'x(\"git push\")'",
    "node - <<< 'x(\"git push\")'",
    "gnuplot <<< 'system \"git push\"'",
    "gnuplot -e 'system(\"git push\")'",
    "mysql <<< 'system git push'",
    "mysql -e 'system git push'",
    "mysql -e '\\! git push'",
    "ftp <<< '!git push'",
    "psql <<< '\\! git push'",
    "psql -c '\\! git push'",
    "sqlite3 x <<< '.shell git push'",
    "echo '.shell git push' | sqlite3 x",
    "echo git push | xargs",
    "fd -x git {/}",
    "fd push -x git {/}",
    "fd push --exec git",
    "fd . -X git",
    "fd --exec-batch git push",
    "fd -tx push -x git",
    "gh alias set p '!git push'; gh p",
    "gh alias set p '!git push'",
    "GIT_ALLOW_PROTOCOL=ext git fetch 'ext::git push'",
    "git fetch 'ext::git push'",
    "git pull 'ext::git push'",
    "ln -s /usr/bin/git g; ./g push",
    "ln /usr/bin/git g && ./g push",
    "ln -s $(which git) g; ./g push",
    "cp /usr/bin/git g; ./g push",
    "cp \"$(which git)\" g && ./g push",
    "install /usr/bin/git g; ./g push",
    "cat /usr/bin/git > g; chmod +x g; ./g push",
    "dd if=/usr/bin/git of=g; chmod +x g; ./g push",
    "mv lgit g2; ./g2 push",
    "cp -L lgit g3; ./g3 push",
    "ln -sf lgit g4; ./g4 push",
    "cd src < nosuch; ../lgit push",
];

/// Lines that do not start `git push`.
const FREE: &[&str] = &[
    "sed 's/git push/x/' a.txt",
    "sed -i 's/git push/git pull/' a.txt",
    "echo 'git push' > a.txt",
    "python3 py/app.py",
    "python3 <<< 'print(1)'",
    "make -f - <<< 'x:;git pull'",
    "cp a.txt b.txt; ./scripts/build.sh",
    "cp /usr/bin/git g; ./scripts/build.sh",
    "ed -s a.txt <<< 'p'",
    "fd -x wc -l",
    "gh pr list",
    "git fetch origin",
    "git commit -m 'git push'",
];

/// Lines that may read `certs`.
const READS: &[&str] = &[
    "git add .",
    "git add -A",
    "git add -u",
    "git add --all",
    "git add '*'",
    "cd src && git add -A",
    "git commit -am x",
    "git commit -a -m x",
    "git commit --all -m x",
    "sqlite3 :memory: '.read certs/server.key'",
    "sqlite3 x '.import certs/server.key t'",
    "sqlite3 x <<< '.read certs/server.key'",
    "ed -s a.txt <<< 'r certs/server.key'",
    "printf 'r certs/server.key\\n' | ed -s a.txt",
    "vim -c 'r certs/server.key' a.txt",
    "vim -es a.txt <<< 'r certs/server.key'",
    "go run certs/server.key",
    "go run certs/k.go",
    "go build certs/k.go",
    "go vet certs/k.go",
    "aws lambda invoke --payload fileb://certs/server.key x",
    "aws x --payload=fileb://certs/server.key",
    "python3 <<< 'print(open(\"certs/server.key\").read())'",
    "cd src < nosuch; cat certs/server.key",
];

#[test]
fn a_denied_command_does_not_pass_through_the_input_of_another_or_under_another_name() {
    let project = Project::new();
    project.link("lgit", "/usr/bin/git");
    let policy = full_auto_with([PermissionRule::deny_bash_prefix(["git", "push"])]);
    let passed = project.allowed_lines(&policy, COMMANDS);
    assert!(passed.is_empty(), "{passed:#?}");
    let free = project.allowed_lines(&policy, FREE);
    let asked: Vec<_> = FREE.iter().filter(|text| !free.contains(text)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn a_denied_program_of_one_word_does_not_pass_under_another_name() {
    let project = Project::new();
    let policy = full_auto_with([PermissionRule::deny_bash_prefix(["shred"])]);
    let lines = [
        "ln -s /usr/bin/shred z; ./z a.txt",
        "cp /usr/bin/shred z && ./z a.txt",
        "cat /usr/bin/shred > z; chmod +x z; ./z a.txt",
        "sed 's/.*/shred a.txt/e' b.txt",
        "fd -x shred",
    ];
    let passed = project.allowed_lines(&policy, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn a_read_denied_folder_is_not_read_by_commands_that_do_not_name_it() {
    let project = Project::new();
    // Nothing is ignored by git.
    fs::write(project.root.join(".gitignore"), "").unwrap();
    for path in ["certs", "certs/**"] {
        let policy = full_auto_with([PermissionRule::deny_path(Access::Read, path)]);
        let passed = project.allowed_lines(&policy, READS);
        assert!(passed.is_empty(), "{path}: {passed:#?}");
    }
    let free = [
        "git add src",
        "git commit -m x",
        "ls -R",
        "go build ./cmd/server",
        "vim -c 'r a.txt' b.txt",
    ];
    let policy = full_auto_with([PermissionRule::deny_path(Access::Read, "certs")]);
    assert_eq!(project.allowed_lines(&policy, &free), free);
    // Files that git ignores are not added.
    fs::write(project.root.join(".gitignore"), "/certs/\n").unwrap();
    assert_eq!(project.allowed_lines(&policy, &["git add -A"]), ["git add -A"]);
}

#[test]
fn a_file_that_may_not_be_changed_is_not_changed_by_a_patch() {
    let project = Project::new();
    let policy = full_auto_with([PermissionRule::deny_path(Access::Write, "certs")]);
    let lines = ["patch -p0 < p", "patch -p1 -i p", "patch < certs.diff"];
    let passed = project.allowed_lines(&policy, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
}
