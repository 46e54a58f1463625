//! Reads of files that a line does not name: of another repository that git is led to, of files with keys in
//! `read-only`, and files that direnv loads by itself.

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// Text of a file in a repository outside of the project.
const OTHER: &str = "canary-of-another-repository";
/// Makes that repository, and one in the project with a commit.
const REPOSITORIES: &str = "rm -rf .git; for folder in {out}/repo {project}; do git init -q -b main $folder; git -C $folder config user.email a@b.invalid; git -C $folder config user.name a; done; \
     echo canary-of-another-repository > {out}/repo/secret.txt; git -C {out}/repo add .; git -C {out}/repo commit -qm other; \
     echo canary-of-another-repository > {out}/lines; echo a > a.txt; git add a.txt; git commit -qm first; mkdir w";

/// Name, what leads git to the other repository, and what would be read there.
const LED_OUTSIDE: &[(&str, &str, &[&str])] = &[
    (
        "a file in place of a repository",
        "echo 'gitdir: {out}/repo/.git' > w/.git",
        &[
            "git -C w show HEAD:secret.txt",
            "git -C w grep canary HEAD",
            "cd w && git log -p",
            "git -C w cat-file -p HEAD:secret.txt",
            "git -C w config -l",
        ],
    ),
    (
        "a link in place of a repository",
        "ln -s {out}/repo/.git w/.git",
        &["git -C w show HEAD:secret.txt"],
    ),
    (
        "a common folder",
        "git init -q w; cp {out}/repo/.git/HEAD w/.git/HEAD; echo {out}/repo/.git > w/.git/commondir",
        &["git -C w show HEAD:secret.txt", "git -C w log -p"],
    ),
    (
        "alternates",
        "echo {out}/repo/.git/objects > .git/objects/info/alternates; git -C {out}/repo rev-parse HEAD > .git/refs/heads/x",
        &["git show x:secret.txt", "git log -p x", "git diff main x", "git blame x -- secret.txt"],
    ),
    (
        "alternates of alternates",
        "mkdir -p w/o/info; echo {project}/w/o > .git/objects/info/alternates; echo {out}/repo/.git/objects > w/o/info/alternates; git -C {out}/repo rev-parse HEAD > .git/refs/heads/x",
        &["git show x:secret.txt"],
    ),
    (
        "a link in place of the objects",
        "git init -q w; rm -rf w/.git/objects; ln -s {out}/repo/.git/objects w/.git/objects; cp {out}/repo/.git/refs/heads/main w/.git/refs/heads/main",
        &["git -C w show main:secret.txt"],
    ),
    (
        "a link among the objects",
        "git init -q w; for f in {out}/repo/.git/objects/??; do ln -s $f w/.git/objects/; done; cp {out}/repo/.git/refs/heads/main w/.git/refs/heads/main",
        &["git -C w show main:secret.txt"],
    ),
    (
        "revisions to ignore",
        "git config blame.ignoreRevsFile {out}/lines",
        &["git blame a.txt", "git annotate a.txt"],
    ),
    (
        "revisions to ignore behind a link",
        "ln -s {out}/lines .git-blame-ignore-revs; git config blame.ignoreRevsFile .git-blame-ignore-revs",
        &["git blame a.txt"],
    ),
    ("a link to references", "ln -s {out}/lines .git/packed-refs", &["git log", "git branch -a"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_reads_no_repository_outside_the_project_unasked() {
    let cases = LED_OUTSIDE.iter().flat_map(|(name, script, lines)| {
        lines.iter().map(move |line| {
            Attack::unapproved(format!("{name}: {line}"), line)
                .before(REPOSITORIES)
                .before(script)
                .hides(OTHER)
        })
    });
    // A file with keys in the project is none that git may print either.
    let of_keys = [
        "git config blame.ignoreRevsFile .env",
        "ln -s ../.env .git/packed-refs",
        "ln -s .env .git-blame-ignore-revs; git config blame.ignoreRevsFile .git-blame-ignore-revs",
    ]
    .map(|script| {
        Attack::unapproved(format!("keys: {script}"), "git blame a.txt")
            .file(".env", OTHER)
            .before(REPOSITORIES)
            .before(script)
            .hides(OTHER)
    });
    try_all(cases.chain(of_keys).collect()).await;
}

/// The project is a linked working tree of a repository elsewhere, or uses parts of itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_reads_in_a_linked_working_tree_need_no_question() {
    if !has_full_sandbox("a linked working tree") {
        return;
    }
    let linked = "git -C {out}/repo worktree add -q -b topic {out}/linked; rm -rf .git; mv {out}/linked/.git .git; \
         echo {project}/.git > {out}/repo/.git/worktrees/linked/gitdir; git reset -q --hard";
    let cases = ["git status --short", "git show HEAD:secret.txt", "git log -p", "git -C w log -1"]
        .map(|line| {
            Attack::works(format!("a linked working tree: {line}"), "ask")
                .before(REPOSITORIES)
                .before(linked)
                .line(line)
        });
    let own = [
        "git worktree add -q w/t -b topic",
        "git config blame.ignoreRevsFile .git-blame-ignore-revs; touch .git-blame-ignore-revs",
        "mkdir hooks; rm -rf .git/hooks; ln -s ../hooks .git/hooks",
        "git init -q --bare w/o.git; echo {project}/w/o.git/objects > .git/objects/info/alternates",
    ]
    .map(|script| {
        Attack::works(format!("parts of the project: {script}"), "ask")
            .before(REPOSITORIES)
            .before(script)
            .line("git log -p && git blame a.txt && git status --short && git branch -vv")
    });
    try_all(cases.into_iter().chain(own).collect()).await;
}

/// Spellings of reads whose files are known.
const KNOWN_READS: [&str; 13] = [
    "cat .env",
    "cat $PWD/.env",
    "cat ~+/.env",
    "cat \"$(pwd)/.env\"",
    "cat /proc/self/cwd/.env",
    "jq --rawfile a .env -n '$a'",
    "sed 'r .env' notes.txt",
    "grep -R canary .",
    "grep -r canary .",
    "cat {out}/lines",
    "cd {out} && cat lines",
    "tail -n1 notes.txt {out}/lines",
    "git show x:secret.txt",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_read_only_mode_known_reads_of_keys_and_outside_files_are_asked_about() {
    let case = |attack: Attack| {
        attack
            .file(".env", OTHER)
            .file("notes.txt", "notes\n")
            .file("x.py", "print(open('notes.txt').read())\n")
            .before(REPOSITORIES)
            .before("echo {out}/repo/.git/objects > .git/objects/info/alternates; git -C {out}/repo rev-parse HEAD > .git/refs/heads/x")
    };
    let refused = KNOWN_READS.map(|line| {
        case(Attack::unapproved(format!("read-only: {line}"), line))
            .in_mode("read-only")
            .hides(OTHER)
    });
    try_all(refused.into()).await;
    if !has_full_sandbox("programs in read-only") {
        return;
    }
    let works = [
        "python3 x.py",
        "/usr/bin/python3 x.py",
        "ls -la",
        "/bin/ls",
        "cat notes.txt $PWD/notes.txt",
        "grep -r notes notes.txt",
        "git status --short",
        "sh -c 'cat notes.txt'",
        "python3 -m unittest 2>&1 | tail -3",
        "awk '/notes/' notes.txt 2>/dev/null",
    ]
    .map(|line| case(Attack::works(format!("read-only: {line}"), "read-only")).line(line));
    try_all(works.into()).await;
}

/// The content of `.envrc`, and a file that direnv loads because of it.
const LOADED: [(&str, &str); 6] = [
    ("source_env conf", "conf/.envrc"),
    ("source_env_if_exists conf", "conf/.envrc"),
    ("dotenv_if_exists", ".env"),
    ("dotenv conf/dev.env", "conf/dev.env"),
    ("use flake", ".direnv/flake-profile-a5d5.rc"),
    ("use nix", ".direnv/bin/nix-direnv-reload"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_changes_no_file_that_direnv_loads_by_itself() {
    if !has_full_sandbox("files of direnv") {
        return;
    }
    let cases = LOADED.iter().flat_map(|(script, path)| {
        let line = format!("mkdir -p $(dirname {path}); echo 'touch {{out}}/pwned' >> {path}");
        let attack = |name: &str| {
            Attack::confined(format!("{name}: {script}"), &line)
                .file(".envrc", &format!("{script}\n"))
                .keeps(path)
        };
        [attack("a new file"), attack("an existing file").file(path, "export A=b\n")]
    });
    try_all(cases.collect()).await;
}
