//! Subagents, jobs, undo and redo, and sessions that are resumed in another permission mode, one after another.

use serde_json::json;

use crate::{
    round8_killed::{KEPT, PLANTS, REPOSITORY, kernels},
    round8_story::{Story, bash, tell_all},
};

/// Calls that start a subagent, which plants files.
fn subagent(line: &str) -> Vec<(&'static str, serde_json::Value)> {
    vec![("task", json!({"agent": "task_executor", "prompt": "do a part"})), bash(line)]
}

fn job(line: &str) -> (&'static str, serde_json::Value) {
    ("bash", json!({"command": line, "run_in_background": true}))
}

/// Adds all commands that change files back.
fn undo_all(story: Story) -> Story {
    [
        "undo",
        "redo",
        "undo --force",
        "redo --force",
        "restore .vscode@1 --force",
        "restore cfg@1 --force",
        "restore .envrc@1 --force",
        "undo --to-start --force",
        "redo --force",
    ]
    .into_iter()
    .fold(story, Story::command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_planted_stays_after_subagents_jobs_and_undo() {
    let again = format!("while :; do {PLANTS}; sleep 0.02; done 2>/dev/null");
    let stories = kernels("combinations").into_iter().flat_map(|kernel| {
        let story = |name: &str| Story::new(name, kernel, REPOSITORY).keeps(KEPT);
        let beside = |calls: Vec<_>| [vec![job(&again)], calls, vec![bash("sleep 0.7")]].concat();
        [
            story("a subagent").run(&[], subagent(PLANTS)),
            story("a subagent beside a job").run(&[], beside(subagent("echo x >> a.txt"))),
            story("a job of a subagent").run(&[], [subagent("true"), vec![job(&again), bash("sleep 0.7")]].concat()),
            story("a killed subagent").killed(PLANTS).run(&["--resume", "killed"], subagent("git status")),
            undo_all(story("undo of a command").run(&[], vec![bash(&format!("echo x >> a.txt; {PLANTS}")), bash("echo y >> a.txt")])).run(&[], vec![]),
            undo_all(story("undo of a job").run(&[], beside(vec![bash("echo x >> a.txt")]))).run(&[], vec![]),
            undo_all(story("undo of a subagent").run(&[], subagent(&format!("echo x >> src/new; {PLANTS}")))).run(&[], vec![]),
            story("a job, and other tools").run(&[], beside(vec![
                ("write_file", json!({"path": "src/n", "content": "x"})),
                ("read_file", json!({"path": "a.txt"})),
                ("edit_file", json!({"path": "a.txt", "old_string": "one", "new_string": "two"})),
            ])),
            // A removed file starts nothing, and need not come back.
            Story::new("two jobs that exchange folders", kernel, REPOSITORY)
                .after("! grep -rqs PWN .vscode")
                .run(&[], vec![
                job("while :; do mv .vscode v; mv v .vscode; done 2>/dev/null"),
                job("mkdir w; echo PWN > w/tasks.json; while :; do mv -T w .vscode; mv -T .vscode w; done 2>/dev/null"),
                bash("sleep 1"),
            ]),
            story("a job that outlives three sessions' starts").run(&[], beside(vec![])).run(&[], vec![]).run(&[], beside(vec![])).run(&[], vec![]),
        ]
    });
    tell_all(stories.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_session_has_the_permissions_of_its_new_mode() {
    let stories = kernels("other modes").into_iter().flat_map(|kernel| {
        ["ask", "accept-edits", "read-only"].into_iter().flat_map(move |mode| {
            let resumed = |name: &str, calls| {
                Story::new(format!("{name}, resumed in {mode}"), kernel, REPOSITORY)
                    .run(&["--session-id", "first"], vec![bash("echo x > kept"), job("sleep 60")])
                    .run(&["-p", mode, "--resume", "first"], calls)
                    .keeps(&["pwned", "cfg", ".vscode", ".envrc", ".git/hooks"])
            };
            [
                resumed(
                    "a command",
                    vec![bash("echo x > pwned"), bash("echo x > kept; echo x > pwned")],
                ),
                resumed("a job", vec![job("echo x > pwned; sleep 5"), bash("cat a.txt")]),
                resumed(
                    "protected files",
                    vec![
                        ("write_file", json!({"path": ".envrc", "content": "x"})),
                        ("write_file", json!({"path": "cfg/hooks/post-commit", "content": "x"})),
                        ("write_file", json!({"path": ".vscode/tasks.json", "content": "x"})),
                    ],
                ),
                resumed(
                    "files outside",
                    vec![
                        ("write_file", json!({"path": "{out}/victim", "content": "x"})),
                        ("write_file", json!({"path": "{home}/.bashrc", "content": "x"})),
                        ("read_file", json!({"path": "{home}/.netrc"})),
                    ],
                ),
                resumed("a subagent", subagent("echo x > pwned")),
            ]
        })
    });
    tell_all(stories.collect()).await;
}
