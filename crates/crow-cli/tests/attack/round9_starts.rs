//! A kill and the next start, with a project that was moved, copied or replaced in between, or with commands that change
//! files back first; and two programs at work in one project.

use serde_json::json;

use crate::{
    round8_killed::{KEPT, PLANTS, REPOSITORY, kernels},
    round8_story::{Story, bash, tell_all},
    scene::Kernel,
};

/// Moves the project to its second place; an empty folder takes its place.
const AWAY: &str = "mv {project} {project}-2; mkdir {project}";
/// Moves the project back.
const BACK: &str = "cd {project}/..; rm -rf {project}; mv {project}-2 {project}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_that_is_moved_after_a_kill_is_repaired_in_its_new_place() {
    let stories = kernels("moved projects").into_iter().flat_map(|kernel| {
        let killed =
            |name: &str| Story::new(name, kernel, REPOSITORY).killed(PLANTS).keeps(KEPT);
        [
            killed("moved twice, with starts elsewhere")
                .user(AWAY)
                .run(&[], vec![bash("echo x > y")])
                .user("mv {project}-2 {project}-3")
                .run(&["--cwd", "{project}-3"], vec![])
                .user("mv {project}-3 {project}-2")
                .user(BACK),
            killed("moved, behind a link at its old place")
                .user("mv {project} {project}-2; ln -s {project}-2 {project}")
                .run(&[], vec![])
                .user("cd {project}-2/..; rm {project}; mv {project}-2 {project}"),
            // A copy has no file from before the kill, so nothing in it is put back.
            Story::new("replaced by a copy of itself", kernel, REPOSITORY)
                .killed(PLANTS)
                .user("cp -a {project} {project}-2; cd ..; rm -rf {project}; mv {project}-2 {project}")
                .run(&[], vec![])
                .shows("was moved, removed or replaced since")
                .after("true"),
            // What the user has in the new project is not touched.
            Story::new("another project at the old place", kernel, REPOSITORY)
                .killed(PLANTS)
                .user("mv {project} {project}-2; mkdir {project}; cd {project}; git init -q .; mkdir .vscode cfg; echo mine > .envrc; echo mine > .vscode/tasks.json; echo mine > .mcp.json")
                .run(&[], vec![])
                .after("test \"$(cat .envrc .vscode/tasks.json .mcp.json | sort -u)\" = mine"),
        ]
    });
    tell_all(stories.collect()).await;
}

/// Commands that change files back, before the first start after a kill, and then what was left is still put back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_and_redo_before_the_next_start_bring_nothing_planted_back() {
    let changes = "for f in cfg/hooks/pre-commit tools/clean .envrc .vscode/settings.json; do echo 'touch {out}/pwned' >> $f; done";
    let stories = kernels("undo after a kill").into_iter().flat_map(|kernel| {
        let killed =
            |name: &str, line: &str| Story::new(name, kernel, REPOSITORY).killed(line).keeps(KEPT);
        let commands = |story: Story, commands: &[&str]| {
            commands.iter().fold(story, |story, line| story.command(line))
        };
        let forced = ["undo --session killed --force", "redo --session killed --force"];
        let restored = [
            "undo --session killed --to-start --force",
            "redo --session killed --force",
            "restore .vscode@1 --session killed --force",
            "restore cfg@1 --session killed --force",
            "restore .envrc@1 --session killed --force",
        ];
        let planted = commands(killed("a redo by force", PLANTS), &forced).run(&[], vec![]);
        // With namespaces no command can change files that exist.
        let of_changes = (kernel == Kernel::WithoutNamespaces).then(|| {
            let restored = commands(killed("a restore by force of changes", changes), &restored)
                .run(&["--resume", "killed"], vec![bash("git status")]);
            [
                commands(killed("a redo by force of changes", changes), &forced).run(&[], vec![]),
                restored,
            ]
        });
        of_changes.into_iter().flatten().chain([planted])
    });
    tell_all(stories.collect()).await;
}

/// Two programs in one project: the second starts while the command of the first has just planted something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_program_takes_nothing_planted_for_the_users() {
    let changes = "echo 'touch {out}/pwned' >> cfg/hooks/pre-commit; echo 'touch {out}/pwned' >> .envrc; git config core.fsmonitor 'touch {out}/pwned; false'";
    let work = || {
        vec![
            bash("sleep 1; echo x >> a.txt"),
            ("write_file", json!({"path": "src/n", "content": "x"})),
            bash("sleep 1.5; git status >/dev/null; echo y >> a.txt"),
        ]
    };
    let stories = kernels("two programs").into_iter().flat_map(|kernel| {
        let story = |name: &str| Story::new(name, kernel, REPOSITORY).keeps(KEPT);
        let of_changes = (kernel == Kernel::WithoutNamespaces).then(|| {
            let undone = story("the second undoes its work")
                .beside(&format!("{PLANTS}; touch go; sleep 1"), work())
                .command("undo --session beside --to-start --force")
                .command("redo --session beside --force")
                .run(&[], vec![]);
            [
                story("changed files").beside(&format!("{changes}; touch go; sleep 1"), work()),
                undone,
            ]
        });
        let both = story("both plant").beside(
            &format!("{PLANTS}; touch go; sleep 1; {changes}"),
            vec![bash(&format!("{changes}; sleep 1; {PLANTS}")), bash("sleep 1")],
        );
        let killed = story("the first is killed beside the second")
            .killed_beside(PLANTS, work())
            .run(&[], vec![]);
        of_changes.into_iter().flatten().chain([both, killed])
    });
    tell_all(stories.collect()).await;
}
