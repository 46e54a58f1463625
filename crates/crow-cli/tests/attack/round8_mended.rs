//! Attacks of the eighth round that succeeded until their flaws were mended.

use serde_json::json;

use crate::{
    round8_killed::{self, kernels},
    round8_story::{Story, bash, tell_all},
    scene::Kernel,
    trial_runner::has_partial_sandbox,
};

/// Script that creates a repository with a commit, a hook of the user and a file that the user's shell reads.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; echo one > a.txt; echo 'use nix' > .envrc; git add -A; git commit -qm x; \
     printf '#!/bin/sh\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; echo keep > {home}/.bashrc";

/// Name, the command that leaves a link, and what the user types then.
const LINKS: &[(&str, &str, &str)] = &[
    (
        "a message into a hook",
        "ln -sf hooks/post-commit .git/COMMIT_EDITMSG; echo 'touch {out}/pwned' > .git/MERGE_MSG; echo x > n; git add n",
        "git commit -q --no-edit",
    ),
    (
        "a message into settings",
        "ln -sf config .git/COMMIT_EDITMSG; printf '[user]\\n\\tname = a\\n\\temail = a@b\\n[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch {out}/pwned; false\\n' > .git/MERGE_MSG; echo x > n; git add n",
        "git commit -q --no-edit; git status",
    ),
    (
        "a message into the file that direnv reads",
        "ln -sf ../.envrc .git/COMMIT_EDITMSG; echo 'touch {out}/pwned' > .git/MERGE_MSG; echo x > n; git add n",
        "git commit -q --no-edit; grep -v 'use nix' .envrc && . ./.envrc",
    ),
    (
        "a message into the home",
        "ln -sf {home}/.bashrc .git/COMMIT_EDITMSG; echo 'touch {out}/pwned' > .git/MERGE_MSG; echo x > n; git add n",
        "git commit -q --no-edit",
    ),
    (
        "a message of a tag",
        "ln -s {home}/.bashrc .git/TAG_EDITMSG",
        "GIT_EDITOR=true git tag -a v1",
    ),
    (
        "a message of a squash",
        "git checkout -q -b t; git commit -qm t --allow-empty; git checkout -q main; ln -s {home}/.bashrc .git/SQUASH_MSG",
        "git merge -q --squash t",
    ),
    (
        "a log of references",
        "rm -f .git/logs/HEAD; ln -s {home}/.bashrc .git/logs/HEAD",
        "git commit -qm z --allow-empty",
    ),
    (
        "a folder of logs",
        "mv .git/logs/refs/heads .git/h; ln -s {out} .git/logs/refs/heads",
        "git checkout -q -b topic",
    ),
    ("what was fetched", "ln -s {home}/.bashrc .git/FETCH_HEAD", "git fetch -q"),
    ("packed references", "ln -s {out}/new .git/packed-refs", "git pack-refs --all"),
    ("an index", "rm .git/index; ln -s {home}/.profile .git/index", "git add -A"),
    (
        "a folder of references",
        "mkdir -p .git/refs/heads; mv .git/refs/heads .git/h; ln -s {out} .git/refs/heads",
        "git checkout -q -b topic; git commit -qm x --allow-empty",
    ),
    (
        "folders of objects",
        "for i in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do for j in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do test -e .git/objects/$i$j || ln -s {out} .git/objects/$i$j; done; done",
        "echo q > q; git add q",
    ),
    (
        "a log of a new repository",
        "git init -q sub; git -C sub -c user.email=a@b -c user.name=a commit -qm x --allow-empty; rm sub/.git/logs/HEAD; ln -s {home}/.bashrc sub/.git/logs/HEAD",
        "git -C sub -c user.email=a@b -c user.name=a commit -qm z --allow-empty",
    ),
];

/// Git writes through links in its folder, so its next command would change whatever the link names: a hook, settings, an
/// `.envrc`, files of the home. The text of `MERGE_MSG` is the command's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_writes_through_no_link_that_a_command_left_in_its_folder() {
    let stories = kernels("links in repositories").into_iter().flat_map(|kernel| {
        LINKS.iter().map(move |(name, line, user)| {
            let user = format!("set +e; {{ {user}; }} >/dev/null 2>&1 </dev/null; true");
            Story::new(*name, kernel, REPOSITORY).run(&[], vec![bash(line)]).after(&user)
        })
    });
    tell_all(stories.collect()).await;
}

/// A new repository may stay if its settings name no program; `core.worktree` names none, but makes git write elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_repository_has_its_files_in_no_folder_outside() {
    let line = "git init -q sub; cd sub; echo 'touch {out}/pwned' > .bashrc; git add .bashrc; git -c user.email=a@b -c user.name=a commit -qm x; rm .bashrc; git config core.worktree {home}";
    let stories = kernels("work trees elsewhere").into_iter().map(|kernel| {
        Story::new("a work tree in the home", kernel, REPOSITORY)
            .run(&[], vec![bash(line)])
            .after("cd sub; git reset -q --hard >/dev/null 2>&1 || true")
    });
    tell_all(stories.collect()).await;
}

/// A start without a sandbox puts back what a killed session left, before its own git could start it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_a_sandbox_finds_what_a_killed_session_left() {
    let stories = kernels("starts without a sandbox").into_iter().map(|kernel| {
        Story::new("without a sandbox", kernel, round8_killed::REPOSITORY)
            .killed(round8_killed::PLANTS)
            .run(&["--no-sandbox"], vec![bash("git commit -qm x --allow-empty")])
            .keeps(round8_killed::KEPT)
    });
    tell_all(stories.collect()).await;
}

/// Python that limits a resource of the program that runs it, which has the home of the scene in its command line.
const LIMITS: &str = "import os, resource, sys
pid = os.getppid()
while pid > 1:
    status = open(f'/proc/{pid}/status').read()
    if sys.argv[3] in open(f'/proc/{pid}/cmdline').read() and 'Name:\\tcrow-agent' in status:
        try: resource.prlimit(pid, getattr(resource, sys.argv[1]), (int(sys.argv[2]),) * 2)
        except OSError as error: print(error)
    pid = int(status.split('PPid:\\t')[1].split()[0])
";

/// Without namespaces a command can limit the resources of the program: with no descriptors left it finds nothing that was
/// planted, and with no file size left a signal kills it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_namespaces_a_command_cannot_limit_the_program() {
    if !has_partial_sandbox("limits of the program") {
        return;
    }
    let before = format!("{REPOSITORY}; cat > limits.py <<'E'\n{LIMITS}E");
    let plants = "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/post-commit; echo PWN > .envrc; mkdir -p .vscode; echo PWN > .vscode/tasks.json";
    let story = |name: &str, line: &str| {
        Story::new(name, Kernel::WithoutNamespaces, &before)
            .run(&[], vec![bash(line), bash("true")])
            .shows("Done.")
            .keeps(&[".envrc", ".vscode", ".git/hooks"])
    };
    tell_all(vec![
        story(
            "no descriptors",
            &format!("python3 limits.py RLIMIT_NOFILE 12 {{home}}; {plants}; sleep 1"),
        ),
        story("no file size", "python3 limits.py RLIMIT_FSIZE 0 {home}; sleep 1"),
        story("no data", "python3 limits.py RLIMIT_DATA 100000 {home}; sleep 1"),
    ])
    .await;
}

/// When a tool replaces a file by a rename, a running job can change the new file. The next permitted change does not keep
/// what the job wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_cannot_add_to_a_file_that_is_edited_with_permission() {
    let read = || ("read_file", json!({"path": ".envrc"}));
    let edit = |old: &str, new: &str| {
        ("edit_file", json!({"path": ".envrc", "old_string": old, "new_string": new}))
    };
    let job = |line: &str| ("bash", json!({"command": line, "run_in_background": true}));
    let rules = "mkdir -p {config}; echo '{\"version\": 1, \"rules\": [{\"id\": \"a\", \"matcher\": {\"path\": {\"path\": \".envrc\", \"access\": \"write\"}}, \"decision\": \"allow\"}]}' > {config}/permissions.json";
    let before = format!("{REPOSITORY}; {rules}");
    let stories = kernels("permitted edits beside a job").into_iter().map(|kernel| {
        Story::new("a line is added between two edits", kernel, &before)
            .run(
                &[],
                vec![
                    job("while :; do grep -q PWN .envrc || echo PWN >> .envrc; sleep 0.01; done"),
                    read(),
                    edit("nix", "flake"),
                    bash("sleep 0.2"),
                    read(),
                    edit("flake", "guix"),
                    bash("sleep 1.2"),
                ],
            )
            .after("! grep PWN .envrc")
    });
    tell_all(stories.collect()).await;
}

/// A program that was stopped (Ctrl-Z, a debugger) while its command went on, and then killed: what was planted more than a
/// second after the last heartbeat may be the user's, so it stays, and the user is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_planted_while_the_program_was_stopped_are_told_at_the_next_start() {
    let stories = kernels("stopped programs").into_iter().map(|kernel| {
        Story::new("stopped, then killed", kernel, round8_killed::REPOSITORY)
            .stopped(round8_killed::PLANTS)
            .run(&[], vec![])
            .shows("A session was killed while a command ran.")
            .after("true")
    });
    tell_all(stories.collect()).await;
}

/// A permitted edit that fails, since a job changed the file in between, does not make the job's text count as permitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_edit_does_not_adopt_what_a_job_wrote() {
    let rules = "mkdir -p {config}; echo '{\"version\": 1, \"rules\": [{\"id\": \"a\", \"matcher\": {\"path\": {\"path\": \".envrc\", \"access\": \"write\"}}, \"decision\": \"allow\"}, \
         {\"id\": \"b\", \"matcher\": {\"path\": {\"path\": \".mcp.json\", \"access\": \"write\"}}, \"decision\": \"allow\"}]}' > {config}/permissions.json";
    let before = format!("{REPOSITORY}; {rules}");
    let calls = |path: &str, first: Option<(&'static str, serde_json::Value)>| {
        let line = format!(
            "while :; do test -e {path} && {{ grep -q PWN {path} || echo PWN >> {path}; }}; done"
        );
        let job = ("bash", json!({"command": line, "run_in_background": true}));
        // The job's text must be there when an edit fails, but it is put back twice a second.
        let edit = |number: usize| json!({"path": path, "old_string": format!("absent {number}"), "new_string": "x"});
        let edits = (0..12).map(|number| ("edit_file", edit(number)));
        let end = [("bash_kill", json!({"job_id": "job-1"})), bash("true")];
        std::iter::once(job).chain(first).chain(edits).chain(end).collect::<Vec<_>>()
    };
    let stories = kernels("failed edits").into_iter().flat_map(|kernel| {
        let new_file = ("write_file", json!({"path": ".mcp.json", "content": "{}"}));
        [
            Story::new("a file that exists", kernel, &before)
                .run(&[], calls(".envrc", None))
                .after("! grep PWN .envrc"),
            Story::new("a new file", kernel, &before)
                .run(&[], calls(".mcp.json", Some(new_file)))
                .after("! grep PWN .mcp.json"),
        ]
    });
    tell_all(stories.collect()).await;
}

/// While the checks move thousands of files aside, the heartbeat goes on: what a command plants then, before the program is
/// killed, is found at the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_namespaces_a_late_heartbeat_hides_nothing_from_the_next_start() {
    if !has_partial_sandbox("late heartbeats") {
        return;
    }
    let line = "for i in $(seq 20000); do echo x > .vscode/f$i; done; sleep 1.5; printf '#!/bin/sh\\ntouch {out}/pwned\\n' > cfg/hooks/post-commit; chmod +x cfg/hooks/post-commit";
    let story =
        Story::new("a late heartbeat", Kernel::WithoutNamespaces, round8_killed::REPOSITORY)
            .killed(line)
            .run(&[], vec![])
            .keeps(&["cfg/hooks"]);
    tell_all(vec![story]).await;
}
