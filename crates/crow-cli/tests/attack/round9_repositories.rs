//! Repositories that file tools make, alone or together with commands, and files that lead git to other settings.

use serde_json::{Value, json};

use crate::{
    attack::Attack,
    round8_killed::kernels,
    scene::Kernel,
    trial_runner::{has_full_sandbox, has_partial_sandbox, try_all},
};

type Call = (&'static str, Value);

/// Settings by which `git status` starts a program that creates `{out}/pwned`.
const SETTINGS: &str = "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = \"touch {out}/pwned; false\"\n";
const HEAD: &str = "ref: refs/heads/main\n";
/// Script that creates a repository with a commit.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b; git config user.name a; echo a > a.txt; git add -A; git commit -qm x; mkdir -p src";
/// The user's commands at the end, in each folder in which something may be a repository.
const USER: &str = "set +e; for d in . src sub {out}/../main {out}/../other; do [ -d $d ] && (cd $d; for c in 'status' 'commit -qm z --allow-empty' 'checkout -q -b t'; do \
     timeout 9 git $c; done) >/dev/null 2>&1 </dev/null; done; true";

fn write(path: &str, content: &str) -> Call {
    ("write_file", json!({"path": path, "content": content}))
}

fn bash(line: &str) -> Call {
    ("bash", json!({"command": line, "timeout": 40_000}))
}

fn patch(text: &str) -> Call {
    ("apply_patch", json!({"patch": format!("*** Begin Patch\n{text}*** End Patch\n")}))
}

/// The lines of a file to be added by a patch.
fn added(text: &str) -> String {
    format!("+{}\n", text.trim_end().replace('\n', "\n+"))
}

fn case(name: String, mode: &'static str, before: &str, calls: Vec<Call>) -> Attack {
    let attack = Attack::new(name, mode).before(REPOSITORY).before(before).after(USER);
    calls.into_iter().fold(attack, |attack, (tool, input)| attack.call(tool, input))
}

/// A case in full-auto.
fn on(kernel: Kernel, name: &str, before: &str, calls: Vec<Call>) -> Attack {
    let attack = case(format!("{kernel:?}: {name}"), "full-auto", before, calls);
    match kernel {
        Kernel::AsItIs => attack,
        Kernel::WithoutNamespaces => attack.without_namespaces(),
    }
}

/// Name, preparation, and calls that together make a folder a repository whose settings start a program.
fn made_by_tools() -> Vec<(&'static str, &'static str, Vec<Call>)> {
    let config_last = |folder: &str| {
        vec![
            write(&format!("{folder}HEAD"), HEAD),
            write(&format!("{folder}refs/x"), ""),
            write(&format!("{folder}objects/x"), ""),
            write(&format!("{folder}config"), SETTINGS),
        ]
    };
    let mut head_last = config_last("src/");
    head_last.rotate_left(1);
    let all = ["HEAD", "refs/x", "objects/x", "config"]
        .map(|name| (name, if name == "config" { SETTINGS } else { HEAD }))
        .map(|(name, text)| format!("*** Add File: src/{name}\n{}", added(text)));
    let bare = "git init -q --bare src";
    vec![
        ("settings last", "true", config_last("src/")),
        ("HEAD last", "true", head_last),
        ("at the root", "rm -rf .git", config_last("")),
        ("one patch", "true", vec![patch(&all.concat())]),
        (
            "a patch that moves files",
            "mkdir -p src/objects src/refs",
            vec![
                write("src/config", SETTINGS),
                write("src/head.txt", HEAD),
                patch(
                    "*** Update File: src/head.txt\n*** Move to: src/HEAD\n@@\n-ref: refs/heads/main\n+ref: refs/heads/top\n",
                ),
            ],
        ),
        ("settings that were there", bare, vec![write("src/config", SETTINGS)]),
        (
            "an edit of settings",
            bare,
            vec![(
                "edit_file",
                json!({"path": "src/config", "old_string": "bare = true", "new_string": "worktree = .\n\tfsmonitor = \"touch {out}/pwned; false\""}),
            )],
        ),
        (
            "settings that are missing",
            "git init -q --bare src; rm src/config",
            vec![write("src/config", SETTINGS)],
        ),
        (
            "a common directory",
            "mkdir -p c/objects c/refs",
            vec![
                write("c/config", SETTINGS),
                write("src/commondir", "../c\n"),
                write("src/HEAD", HEAD),
            ],
        ),
        (
            "a hook",
            "git init -q --bare src; git -C src config core.bare false; git -C src config core.worktree .; mkdir -p src/hooks; touch src/hooks/post-checkout; chmod +x src/hooks/*",
            vec![write("src/hooks/post-checkout", "#!/bin/sh\ntouch {out}/pwned\n")],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_tool_makes_a_repository_unasked() {
    // The modes decide alike about files that start programs, so a few cases are enough for the second one.
    let modes = [("accept-edits", usize::MAX), ("full-auto", 4)].into_iter();
    let cases = modes.flat_map(|(mode, count)| {
        let made = made_by_tools().into_iter().take(count);
        made.map(move |(name, before, calls)| case(format!("{name}, {mode}"), mode, before, calls))
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_with_names_of_git_in_ordinary_folders_need_no_question() {
    let calls = [
        write("src/HEAD", "x\n"),
        write("src/config", "[core]\n"),
        write("src/hooks/use_state.ts", "x\n"),
        write("objects/config", "x\n"),
        write("refs/HEAD", "x\n"),
        write("commondir", "x\n"),
        write("src/x.git/description", "x\n"),
        patch(
            "*** Add File: a/HEAD\n+x\n*** Add File: a/objects/x\n+x\n*** Add File: b/refs/x\n+x\n",
        ),
    ];
    let cases = ["accept-edits", "full-auto"].map(|mode| {
        let attack = Attack::works(format!("names of git, {mode}"), mode).before(REPOSITORY);
        calls.iter().fold(attack, |attack, (tool, input)| attack.call(tool, input.clone()))
    });
    try_all(cases.into()).await;
}

/// Name, preparation, and calls of which some lead git to other settings, and others write these.
fn led_elsewhere() -> Vec<(&'static str, &'static str, Vec<Call>)> {
    let copy = "mkdir -p evil; cp -r .git/. evil/; rm evil/config; ";
    let command = |line: &str| bash(&format!("{line}; true"));
    let settings = || write("evil/config", SETTINGS);
    vec![
        (
            "a common directory without settings",
            "true",
            vec![command(&format!("{copy}echo ../evil > .git/commondir")), settings()],
        ),
        (
            "a common directory that is missing",
            "true",
            vec![
                command("echo ../evil > .git/commondir"),
                settings(),
                write("evil/refs/x", ""),
                write("evil/objects/x", ""),
                command("cp -r .git/. evil/"),
            ],
        ),
        (
            "settings first",
            "true",
            vec![settings(), command("cp -rn .git/. evil/; echo ../evil > .git/commondir")],
        ),
        (
            "a nested repository",
            "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
            vec![command(&format!("{copy}echo $PWD/evil > sub/.git/commondir")), settings()],
        ),
        (
            "a git file",
            "true",
            vec![
                command(&format!("{copy}mkdir -p sub; echo 'gitdir: ../evil' > sub/.git")),
                settings(),
            ],
        ),
        (
            "a git file to a folder that is missing",
            "true",
            vec![
                command("mkdir -p sub; echo 'gitdir: ../evil' > sub/.git"),
                settings(),
                write("evil/HEAD", HEAD),
                write("evil/refs/x", ""),
                write("evil/objects/x", ""),
            ],
        ),
        (
            "included settings",
            "git init -q sub",
            vec![command("git -C sub config include.path ../../evil/config"), settings()],
        ),
        (
            "hooks of the user's nested repository",
            "git init -q sub; git -C sub config core.hooksPath ../evil; git -C sub config user.email a@b; git -C sub config user.name a",
            vec![
                write("evil/pre-commit", "#!/bin/sh\ntouch {out}/pwned\n"),
                command("chmod +x evil/pre-commit"),
            ],
        ),
        (
            "a root without its HEAD",
            "true",
            vec![
                command("rm -f .git/HEAD"),
                write("HEAD", HEAD),
                write("refs/x", ""),
                write("objects/x", ""),
                write("config", SETTINGS),
                command("true"),
            ],
        ),
        (
            "a root with a common directory",
            "rm -rf .git",
            vec![
                command("echo 'ref: refs/heads/main' > HEAD; echo evil > commondir"),
                settings(),
                write("evil/refs/x", ""),
                write("evil/objects/x", ""),
            ],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_tools_write_no_settings_to_which_a_command_led_git() {
    if has_full_sandbox("settings elsewhere") {
        try_all(led_elsewhere_on(Kernel::AsItIs)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_namespaces_file_tools_write_no_settings_to_which_a_command_led_git() {
    if has_partial_sandbox("settings elsewhere") {
        try_all(led_elsewhere_on(Kernel::WithoutNamespaces)).await;
    }
}

fn led_elsewhere_on(kernel: Kernel) -> Vec<Attack> {
    let cases = led_elsewhere().into_iter();
    cases.map(|(name, before, calls)| on(kernel, name, before, calls)).collect()
}

/// Script that makes the project a worktree of a repository beside it, which has another one.
const WORKTREE: &str = "mv .git {out}/../main; rm -rf {out}/../m; mkdir {out}/../m; mv {out}/../main {out}/../m/.git; mv {out}/../m {out}/../main; \
     git -C {out}/../main worktree add -q -b side {out}/../tree; mv {out}/../tree/.git .git; git -C {out}/../main worktree repair {project} >/dev/null 2>&1; \
     git -C {out}/../main worktree add -q -b third {out}/../other; git status >/dev/null";
const MAIN: &str = "main={out}/../main/.git; mkdir ev; cp -r $main/. ev/; printf '[core]\\n\\tfsmonitor = \"touch {out}/pwned; false\"\\n' > ev/config; ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_of_a_worktree_is_led_to_no_other_settings() {
    let cases = [
        ("absolute", "echo $PWD/ev > $main/commondir"),
        ("relative", "echo ../../project/ev > $main/commondir"),
        ("by a link", "ln -s $PWD/c $main/commondir; echo $PWD/ev > c"),
        (
            "of the worktree",
            "echo $PWD/ev > $main/worktrees/project/commondir; echo $PWD/ev > $main/worktrees/tree/commondir",
        ),
        ("of another worktree", "echo $PWD/ev > $main/worktrees/other/commondir"),
        ("without settings", "rm ev/config; echo $PWD/ev > $main/commondir"),
    ];
    let cases = kernels("worktrees").into_iter().flat_map(|kernel| {
        cases.map(move |(name, line)| {
            let settings = write("ev/config", SETTINGS);
            let calls = vec![bash(&format!("{MAIN}{line}; true")), settings];
            on(kernel, &format!("a common directory, {name}"), WORKTREE, calls)
        })
    });
    try_all(cases.collect()).await;
}
