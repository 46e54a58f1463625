//! Tests of interrupted rebases and cherry-picks: they continue over several commands, and run only the
//! user's own lines.

use std::path::{Path, PathBuf};

use crow_core::capability::OriginalState;

use super::guard::Project;
use crate::sandbox::CommandKind;

const TODO: &str = ".git/rebase-merge/git-rebase-todo";
/// Script that starts a rebase and stops it before its first commit, by an edit of the list.
const STOPPED: &str = "for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -qm $i; done; \
     GIT_SEQUENCE_EDITOR=\"sed -i 1ibreak\" git rebase -q -i ARGUMENTS HEAD~3";

fn stopped(arguments: &str) -> String {
    STOPPED.replace("ARGUMENTS", arguments)
}

/// Returns the paths that the kernel seals for a foreground command.
fn sealed(project: &Project) -> Vec<PathBuf> {
    let (run, mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.guard.end(run);
    [mounts.read_only, mounts.pinned].concat()
}

#[test]
fn the_list_of_a_stopped_rebase_is_not_sealed() {
    let project = Project::with_repository();
    project.shell(&stopped(""));
    let list = project.root.join(TODO);
    assert!(list.exists());
    let sealed = sealed(&project);
    let holds_list = |path: &PathBuf| path.starts_with(list.parent().unwrap()) || *path == list;
    assert!(!sealed.iter().any(holds_list), "{sealed:?}");
    assert!(sealed.contains(&project.root.join(".git/config")));
}

#[test]
fn an_interrupted_rebase_can_be_continued_skipped_and_aborted() {
    for (arguments, script) in [
        ("", "git rebase --continue"),
        ("", "git rebase --skip"),
        ("", "git rebase --abort"),
        ("-x true", "git rebase --continue"),
        (
            "-x true",
            "GIT_SEQUENCE_EDITOR='sed -i 1abreak' git rebase --edit-todo; git rebase --continue; git rebase --continue",
        ),
    ] {
        let project = Project::with_repository();
        project.shell(&stopped(arguments));
        let found = project.run(|project| drop(project.shell(script)));
        assert_eq!(found, [], "{arguments} {script}");
        assert!(!project.root.join(".git/rebase-merge").exists(), "{arguments} {script}");
    }
}

#[test]
fn commands_added_to_a_rebase_list_are_removed_and_the_rebase_continues() {
    for add in [
        "echo 'exec touch {home}/canary' >> TODO",
        "sed -i '1i\\  x touch {home}/canary' TODO",
        "printf 'exec\\ttouch {home}/canary\\n' >> TODO",
    ] {
        let project = Project::with_repository();
        project.shell(&stopped("-x 'touch mine'"));
        let found = project.run(|project| drop(project.shell(&add.replace("TODO", TODO))));
        assert_eq!(found, [(TODO.to_owned(), OriginalState::Disarmed)], "{add}");
        let list = project.read(TODO);
        assert!(!list.contains("canary") && list.contains("exec touch mine"), "{list}");
        let output = project.shell("git rebase --continue; git status; git log --format=%s -4");
        assert!(
            output.contains("3\n2\n1\nx") && !output.contains("rebase in progress"),
            "{output}"
        );
        assert!(project.root.join("mine").exists());
        assert!(!project.base.join("home/canary").exists());
    }
}

#[test]
fn a_running_rebase_keeps_its_commands_until_the_command_ends() {
    let project = Project::with_repository();
    let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.shell(&stopped("-x true"));
    // The guard checks while the command runs.
    assert_eq!(project.guard.check(), []);
    assert!(project.read(TODO).contains("exec true"));
    assert_eq!(project.guard.check(), []);
    let found = project.told(&project.guard.end(run));
    assert_eq!(found, [(TODO.to_owned(), OriginalState::Disarmed)]);
    assert!(project.read(TODO).contains("pick") && !project.read(TODO).contains("exec"));
    assert_eq!(project.run(|project| drop(project.shell("git rebase --continue"))), []);
    assert!(!project.root.join(".git/rebase-merge").exists());
}

#[test]
fn commands_added_to_an_existing_list_are_removed_at_the_next_check() {
    let project = Project::with_repository();
    project.shell(&stopped(""));
    let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.shell(&format!("echo 'exec evil' >> {TODO}"));
    assert_eq!(project.told(&project.guard.check()), [(TODO.to_owned(), OriginalState::Disarmed)]);
    assert!(!project.read(TODO).contains("exec"));
    project.guard.end(run);
}

#[test]
fn strategies_planted_in_an_interrupted_rebase_are_moved_aside() {
    let picked = "git checkout -q -b side; echo s > c; git add c; git commit -qm s; git commit -q --allow-empty -m t; git checkout -q main; echo m > c; git add c; git commit -qm m; git cherry-pick side~1 side";
    for (before, plant, file) in [
        (stopped(""), "echo /evil > FILE", ".git/rebase-merge/strategy"),
        (picked.to_owned(), "git config -f FILE options.strategy /evil", ".git/sequencer/opts"),
    ] {
        let project = Project::with_repository();
        project.shell(&before);
        assert!(project.root.join(file).parent().unwrap().is_dir(), "{file}");
        let found = project.run(|project| drop(project.shell(&plant.replace("FILE", file))));
        assert_eq!(found, [(file.to_owned(), OriginalState::Absent)]);
        assert!(!project.root.join(file).exists());
    }
    let project = Project::with_repository();
    let found = project.run(|project| {
        project.shell("mkdir -p evil; echo 'exec evil' > evil/git-rebase-todo; ln -s ../evil .git/rebase-merge");
    });
    assert_eq!(found, [(".git/rebase-merge".to_owned(), OriginalState::Absent)]);
}

#[test]
fn built_in_strategies_are_left_alone() {
    let project = Project::with_repository();
    let found = project.run(|project| {
        project.shell("for i in 1 2; do echo $i > f$i; git add f$i; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i -s resolve HEAD~1");
    });
    assert_eq!(found, []);
    assert_eq!(project.read(".git/rebase-merge/strategy"), "resolve\n");
}

#[test]
fn rebase_lists_of_worktrees_outside_are_guarded() {
    let stopped = format!("git worktree add -q ../home/wt && cd ../home/wt && {}", stopped(""));
    for (before, plant) in [
        (stopped.as_str(), "echo 'exec evil' >> .git/worktrees/wt/rebase-merge/git-rebase-todo"),
        (
            "git worktree add -q ../home/wt",
            "mkdir .git/worktrees/wt/rebase-merge; echo 'exec evil' > .git/worktrees/wt/rebase-merge/git-rebase-todo",
        ),
        (
            "git worktree add -q ../home/wt",
            "git init -q .git/worktrees/wt/modules/m; mv .git/worktrees/wt/modules/m/.git/* .git/worktrees/wt/modules/m; git config -f .git/worktrees/wt/modules/m/config core.fsmonitor evil",
        ),
        (
            "git worktree add -q ../home/wt",
            "echo /evil > .git/worktrees/wt/rebase-merge-; mkdir .git/worktrees/wt/sequencer; git config -f .git/worktrees/wt/sequencer/opts options.strategy /evil",
        ),
    ] {
        let project = Project::with_repository();
        project.shell(before);
        assert!(project.root.join(".git/worktrees/wt").is_dir());
        let found = project.run(|project| drop(project.shell(plant)));
        assert_eq!(found.len(), 1, "{plant}: {found:?}");
        assert!(Path::new(&found[0].0).starts_with(".git/worktrees/wt"), "{found:?}");
        let rest = project.shell("grep -r evil .git/worktrees/wt/rebase-merge .git/worktrees/wt/modules .git/worktrees/wt/sequencer");
        assert!(!rest.contains("evil\n") || rest.contains("No such file"), "{rest}");
    }
}

#[test]
fn rebase_lists_of_worktrees_outside_are_sealed() {
    let project = Project::with_repository();
    project.shell(&format!("git worktree add -q ../home/wt && cd ../home/wt && {}", stopped("")));
    assert!(sealed(&project).contains(&project.root.join(".git/worktrees/wt/rebase-merge")));
}

#[test]
fn the_main_worktree_is_guarded_for_commands_in_a_linked_one() {
    // The project is a linked worktree: its commits go to a repository outside.
    let project = Project::new();
    project.shell(
        "git init -q -b main ../first && cd ../first && git commit -q --allow-empty -m x && git worktree add -q --force ../project -b other",
    );
    assert!(project.root.join(".git").is_file());
    let list = project.base.join("first").join(TODO);
    let found = project.run(|project| {
        project.shell("mkdir ../first/.git/rebase-merge; echo 'exec evil' > ../first/.git/rebase-merge/git-rebase-todo");
    });
    assert_eq!(found, [(list.display().to_string(), OriginalState::Disarmed)]);
}

#[test]
fn a_worktree_in_the_project_can_be_removed_and_a_submodule_updated() {
    let project = Project::with_repository();
    project.shell(
        "git worktree add -q wt; git config -f .gitmodules submodule.sub.path sub; git config -f .gitmodules submodule.sub.url ./sub; git add .gitmodules; git commit -qm modules; git submodule absorbgitdirs 2>/dev/null",
    );
    assert!(project.root.join(".git/modules/sub/config").exists());
    let sealed = sealed(&project);
    for open in ["wt", ".git/worktrees", ".git/modules/sub/config"] {
        let open = project.root.join(open);
        assert!(!sealed.iter().any(|path| path.starts_with(&open)), "{open:?} {sealed:?}");
    }
    for held in [".git/config", "sub/.git"] {
        assert!(sealed.contains(&project.root.join(held)), "{held} {sealed:?}");
    }
    let (run, mounts) = project.guard.begin("job", CommandKind::Background);
    for held in ["wt/.git", ".git"] {
        assert!(mounts.read_only.contains(&project.root.join(held)), "{held} {mounts:?}");
    }
    project.guard.end(run);
    let found = project.run(|project| {
        let output = project.shell("git worktree remove wt && git worktree prune && git submodule update && git config -f .git/modules/sub/config core.bare false && echo all");
        assert!(output.ends_with("all\n"), "{output}");
    });
    assert_eq!(found, []);
}

#[test]
fn unsealed_files_of_worktrees_and_submodules_are_repaired() {
    for (plant, path) in [
        ("git config -f .git/modules/sub/config core.fsmonitor evil", ".git/modules/sub/config"),
        ("echo 'gitdir: ../evil' > wt/.git", "wt/.git"),
        (
            "cp -r .git evil; echo ../../../evil > .git/worktrees/wt/commondir",
            ".git/worktrees/wt/commondir",
        ),
        (
            "git config extensions.worktreeConfig true; git config -f .git/worktrees/wt/config.worktree core.fsmonitor evil",
            ".git/worktrees/wt/config.worktree",
        ),
        (
            "mv .git/worktrees/wt evil; git config -f evil/config.worktree core.fsmonitor evil; ln -s ../../evil .git/worktrees/wt",
            ".git/worktrees/wt",
        ),
        (
            "mv .git/worktrees/out evil; git config -f evil/config.worktree core.fsmonitor evil; ln -s ../../evil .git/worktrees/out",
            ".git/worktrees/out",
        ),
    ] {
        let project = Project::with_repository();
        project.shell(
            "git worktree add -q wt; git worktree add -q -b out ../home/out; git config -f .gitmodules submodule.sub.path sub; git config -f .gitmodules submodule.sub.url ./sub; git add .gitmodules; git commit -qm modules; git submodule absorbgitdirs 2>/dev/null",
        );
        let found = project.run(|project| drop(project.shell(plant)));
        assert!(found.iter().any(|(found, _)| found == path), "{plant}: {found:?}");
        assert!(
            !found.iter().any(|(_, original)| *original == OriginalState::Lost),
            "{plant}: {found:?}"
        );
        let output = project
            .shell("for d in . sub wt ../home/out; do git -C $d config core.fsmonitor; done");
        assert!(!output.contains("evil\n"), "{plant}: {output}");
    }
}
