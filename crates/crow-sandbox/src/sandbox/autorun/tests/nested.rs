//! Tests of repositories below the root that its index does not name yet.

use crow_core::capability::OriginalState;

use super::guard::Project;
use crate::sandbox::CommandKind;

const NESTED: &str = "mkdir -p DIR && git init -q DIR && git -C DIR commit -q --allow-empty -m x";
const EVIL: &str = "git -C DIR config core.fsmonitor 'touch {home}/canary; false'";

fn make(line: &str, folder: &str) -> String {
    line.replace("DIR", folder)
}

#[test]
fn a_planted_nested_repository_starts_nothing_when_added() {
    for (folder, before, plant, moved) in [
        ("vend", "", "NESTED; EVIL", "vend/.git"),
        ("a/b/c/vend", "mkdir -p a/b", "NESTED; EVIL", "a/b/c/vend/.git"),
        ("vend", "", "NESTED; EVIL; mv vend/.git g; echo 'gitdir: ../g' > vend/.git", "vend/.git"),
        ("vend", "", "NESTED; EVIL; echo vend > .gitignore", "vend/.git"),
        ("vend", "echo vend > .gitignore; NESTED; EVIL", "rm .gitignore", "vend/.git"),
        ("a/vend", "", "mkdir a; git init -q a; NESTED; EVIL; rm -rf a/.git/HEAD", "a/vend/.git"),
        ("vend", "NESTED", "EVIL", "vend/.git/config"),
        (
            "vend",
            "NESTED",
            "printf '#!/bin/sh\\n' > vend/.git/hooks/post-commit",
            "vend/.git/hooks/post-commit",
        ),
    ] {
        let project = Project::with_repository();
        let fill = |line: &str| make(&line.replace("NESTED", NESTED).replace("EVIL", EVIL), folder);
        project.shell(&fill(before));
        let found = project.run(|project| drop(project.shell(&fill(plant))));
        assert_eq!(
            found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
            [moved],
            "{plant}"
        );
        project.shell("git add -A; git status; git commit -qm y; git status; git stash");
        assert!(!project.base.join("home/canary").exists(), "{plant}");
    }
}

/// Runs something like an ordinary user, who needs permissions to read what is theirs. Programs that it starts get the
/// capabilities of root again.
#[cfg(target_os = "linux")]
fn without_capabilities_for_files(act: impl FnOnce() + Send) {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            set_capabilities(None, sets).unwrap();
            act();
        });
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_directory_hides_no_nested_repository() {
    for (before, plant, moved) in [
        ("NESTED", "EVIL; chmod 111 vend", ["vend/.git/config"].as_slice()),
        ("", "NESTED; EVIL; chmod 111 vend", ["vend/.git"].as_slice()),
        ("mkdir lib", "NESTED; EVIL; mv vend lib; chmod 111 lib", ["lib/vend/.git"].as_slice()),
        (
            "mkdir lib",
            "NESTED; EVIL; mv vend lib; chmod 311 lib; chmod 111 lib/vend",
            ["lib/vend/.git"].as_slice(),
        ),
        ("mkdir lib; chmod 111 lib", "NESTED; EVIL; mv vend lib", ["lib/vend/.git"].as_slice()),
        ("NESTED", "EVIL; chmod 111 vend/.git vend", ["vend/.git", "vend/.git/config"].as_slice()),
    ] {
        without_capabilities_for_files(|| {
            let project = Project::with_repository();
            let fill =
                |line: &str| make(&line.replace("NESTED", NESTED).replace("EVIL", EVIL), "vend");
            project.shell(&fill(before));
            let found = project.run(|project| drop(project.shell(&fill(plant))));
            let found: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
            assert_eq!(found, moved, "{before} → {plant}");
            project.shell("cd lib/vend || cd vend && git status");
            assert!(!project.base.join("home/canary").exists(), "{before} → {plant}");
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_the_user_has_closed_stays_closed() {
    use std::os::unix::fs::PermissionsExt as _;

    without_capabilities_for_files(|| {
        let project = Project::with_repository();
        project.shell("mkdir lib; chmod 111 lib");
        assert_eq!(project.run(|project| drop(project.shell("touch file"))), []);
        let mode = std::fs::metadata(project.root.join("lib")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o111);
    });
}

#[test]
fn a_nested_repository_starts_programs_without_the_guard() {
    let project = Project::with_repository();
    project.shell(&make(
        &format!("{NESTED}; {EVIL}; rm -f {{home}}/canary; git add -A; git status"),
        "vend",
    ));
    assert!(project.base.join("home/canary").exists());
}

#[test]
fn unmodified_and_ignored_nested_repositories_are_left_alone() {
    for (before, script) in [
        (
            "",
            "git init -q vend && git -C vend commit -q --allow-empty -m x && git -C vend remote add o https://a.invalid && git -C vend config user.name x",
        ),
        ("", "git clone -q . copy && git -C copy checkout -q -b t"),
        ("git clone -q . copy", "git -C copy config branch.main.rebase true; rm -rf copy"),
        (
            "git clone -q . copy; git -C copy config core.pager less",
            "git -C copy commit -q --allow-empty -m y; git -C copy branch -m other; rm -rf copy/.git",
        ),
        (
            "echo target > .gitignore",
            "mkdir -p target/t && git init -q target/t && git -C target/t config core.hooksPath x",
        ),
    ] {
        let project = Project::with_repository();
        project.shell(before);
        assert_eq!(project.run(|project| drop(project.shell(script))), [], "{script}");
    }
}

#[test]
fn repositories_that_no_index_names_are_not_sealed() {
    let project = Project::with_repository();
    project.shell(&make(NESTED, "vend"));
    let (run, mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    let vend = project.root.join("vend");
    let sealed = [&mounts.read_only, &mounts.pinned];
    assert!(!sealed.into_iter().flatten().any(|path| path.starts_with(&vend)), "{mounts:?}");
    project.guard.end(run);
}

#[test]
fn a_new_repository_is_found_while_the_command_runs() {
    let project = Project::with_repository();
    let (run, _mounts) = project.guard.begin("job", CommandKind::Background);
    project.shell(&make(&format!("{NESTED}; {EVIL}"), "vend"));
    let found = std::iter::repeat_with(|| project.told(&project.guard.check()));
    let found = found.take(100_000).find(|found| !found.is_empty());
    assert_eq!(found, Some(vec![("vend/.git".to_owned(), OriginalState::Absent)]));
    project.guard.end(run);
}
