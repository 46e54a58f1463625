//! Tests of killed sessions whose roots were moved, and of sessions beside others whose commands run.

use std::{fs, path::PathBuf};

use super::{
    super::{AutorunGuard, InventoryScope, KernelSeal, RecoveryReport, is_recoverable, recover},
    guard::Project,
};
use crate::sandbox::CommandKind;

/// Project in which a command that was killed changed an `.envrc` and created settings of an editor, and the private folder
/// of its session.
fn killed() -> (Project, PathBuf) {
    let mut project = Project::new();
    project.write(".envrc", "use nix\n");
    let private = project.keep_journal();
    let (_run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.write(".vscode/tasks.json", "evil\n");
    project.write(".envrc", "evil\n");
    (project, private)
}

#[test]
fn a_root_that_was_moved_is_repaired_in_its_new_place() {
    let (project, private) = killed();
    let moved = project.base.join("elsewhere/project");
    fs::create_dir(project.base.join("elsewhere")).unwrap();
    fs::rename(&project.root, &moved).unwrap();
    fs::create_dir(moved.join("src")).unwrap();
    // The session starts in a folder of the root.
    let report = recover(&private, &[moved.join("src")]);
    assert_eq!(
        (report.repaired.len(), report.changed_later, report.not_found),
        (2, vec![], vec![])
    );
    assert_eq!(fs::read_to_string(moved.join(".envrc")).unwrap(), "use nix\n");
    assert!(!moved.join(".vscode").exists());
    assert!(!is_recoverable(&private));
}

#[test]
fn what_a_command_left_in_a_moved_root_is_kept_until_the_root_is_found() {
    let (project, private) = killed();
    let moved = project.base.join("moved");
    fs::rename(&project.root, &moved).unwrap();
    // Another project takes its place, with files that are older than the kill: they are not touched.
    let other = project.base.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(".envrc"), "mine\n").unwrap();
    fs::rename(&other, &project.root).unwrap();
    let report = recover(&private, std::slice::from_ref(&project.root));
    let not_found = vec![project.root.clone()];
    assert_eq!(report, RecoveryReport { not_found, ..RecoveryReport::default() });
    assert_eq!(project.read(".envrc"), "mine\n");
    // The session may be resumed, which uses its folder again.
    assert!(!is_recoverable(&private));
    let kept = project.base.join("private.moved-1");
    assert!(is_recoverable(&kept) && kept.join("lock").exists());
    // It is told once.
    assert_eq!(recover(&kept, &[]), RecoveryReport::default());
    assert_eq!(recover(&kept, std::slice::from_ref(&moved)).repaired.len(), 2);
    assert_eq!(fs::read_to_string(moved.join(".envrc")).unwrap(), "use nix\n");
    assert!(!is_recoverable(&kept));
}

#[test]
fn what_is_kept_for_a_moved_root_is_forgotten_after_a_month() {
    let (project, private) = killed();
    fs::rename(&project.root, project.base.join("moved")).unwrap();
    assert_eq!(recover(&private, &[]).not_found, std::slice::from_ref(&project.root));
    let kept = project.base.join("private.moved-1");
    assert!(is_recoverable(&kept));
    let state = kept.join("autorun.json");
    let mut stored: serde_json::Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    stored["alive_until"] = 0.into();
    fs::write(&state, stored.to_string()).unwrap();
    assert_eq!(recover(&kept, &[]), RecoveryReport::default());
    assert!(!is_recoverable(&kept));
}

#[test]
fn a_session_does_not_take_over_what_a_command_of_another_one_planted() {
    let mut project = Project::new();
    project.write(".envrc", "use nix\n");
    project.keep_journal();
    let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.write(".envrc", "evil\n");
    project.write(".mcp.json", "evil\n");
    // The other session starts a command before the first one has checked.
    let second = session_beside(&project);
    let (second_run, _mounts) = second.begin("other", CommandKind::Foreground);
    assert_eq!(project.guard.end(run).len(), 2);
    // It brings nothing back, and what is planted again is no file of the user.
    project.write(".mcp.json", "evil\n");
    second.end(second_run);
    assert_eq!(project.read(".envrc"), "use nix\n");
    assert_eq!(project.read(".mcp.json"), "");
}

#[test]
fn a_session_keeps_a_file_that_another_one_was_putting_back_when_its_command_started() {
    let mut project = Project::new();
    project.write(".envrc", "use nix\n");
    project.keep_journal();
    let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    fs::remove_file(project.root.join(".envrc")).unwrap();
    let second = session_beside(&project);
    let (second_run, _mounts) = second.begin("other", CommandKind::Foreground);
    project.guard.end(run);
    assert_eq!(project.read(".envrc"), "use nix\n");
    assert_eq!(second.end(second_run), vec![]);
    assert_eq!(project.read(".envrc"), "use nix\n");
}

/// Returns the guard of a second session in the project.
fn session_beside(project: &Project) -> AutorunGuard {
    let folder = project.base.join("second");
    fs::create_dir(&folder).unwrap();
    let scope = InventoryScope { roots: vec![project.root.clone()], ..InventoryScope::default() };
    AutorunGuard::new(scope, KernelSeal::Missing, folder.join("held")).with_journal(folder)
}
