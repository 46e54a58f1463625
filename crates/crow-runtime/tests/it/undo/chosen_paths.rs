//! Undo of chosen paths.

use std::{collections::BTreeMap, path::PathBuf};

use crow_runtime::{PathOutcome, RestorePoint, UndoError, UndoOptions, UndoReport, UndoTarget};

use super::fixture::{UndoFixture, tree_state};

const PLAIN: UndoOptions = UndoOptions { force: false, dry_run: false, chat: false };
const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };
const DRY: UndoOptions = UndoOptions { force: false, dry_run: true, chat: false };
const CHAT: UndoOptions = UndoOptions { force: false, dry_run: false, chat: true };

async fn undo(
    fixture: &UndoFixture,
    target: UndoTarget,
    paths: &[&str],
    options: UndoOptions,
) -> Result<UndoReport, UndoError> {
    let handle = fixture.agent.handle.clone();
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let work = move || handle.undo_journal()?.undo_paths(&target, &paths, options);
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Returns the text of each file of the project.
fn files(fixture: &UndoFixture) -> BTreeMap<String, String> {
    let state = tree_state(&fixture.root()).into_iter().filter_map(|(path, state)| {
        let text = state.strip_prefix("file ")?.split_once(' ')?.1.to_owned();
        Some((path.display().to_string(), text))
    });
    state.collect()
}

fn expected(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Creates a project with the files `a`, `b` and `d/c`, each of which a call changes in one turn.
async fn changed_project() -> UndoFixture {
    let mut fixture = UndoFixture::new();
    for name in ["a", "b", "d/c"] {
        fixture.write(name, "0\n");
    }
    fixture.sh("echo 1 > a; echo 1 > b; echo 1 > d/c").await;
    fixture
}

#[tokio::test]
async fn only_the_chosen_paths_are_undone_and_a_redo_reverts_that() {
    let fixture = changed_project().await;
    let report = undo(&fixture, UndoTarget::LastTurn, &["a", "d"], PLAIN).await.unwrap();
    assert_eq!((report.is_complete(), report.paths.len(), report.not_chosen), (true, 2, 1));
    assert!(!report.calls[0].undone);
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "1\n"), ("d/c", "0\n")]));
    fixture.redo().await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "1\n"), ("b", "1\n"), ("d/c", "1\n")]));
}

#[tokio::test]
async fn the_next_undo_takes_back_the_other_paths_of_the_turn() {
    let fixture = changed_project().await;
    undo(&fixture, UndoTarget::LastTurn, &["a"], PLAIN).await.unwrap();
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!((report.paths.len(), report.not_chosen), (2, 0));
    assert!(report.calls[0].undone);
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "0\n"), ("d/c", "0\n")]));
    // Each redo reverts one of the two undos.
    fixture.redo().await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "1\n"), ("d/c", "1\n")]));
    fixture.redo().await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "1\n"), ("b", "1\n"), ("d/c", "1\n")]));
}

#[tokio::test]
async fn without_a_target_the_last_turn_that_changed_the_path_is_undone() {
    let mut fixture = changed_project().await;
    fixture.sh("echo 2 > b").await;
    fixture.sh("echo 3 > b").await;
    undo(&fixture, UndoTarget::LastTurn, &["a"], PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "3\n"), ("d/c", "1\n")]));
    undo(&fixture, UndoTarget::LastTurn, &["b"], PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "2\n"), ("d/c", "1\n")]));
    undo(&fixture, UndoTarget::ToStart, &["b"], PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "0\n"), ("d/c", "1\n")]));
}

#[tokio::test]
async fn a_path_without_changes_is_an_error_and_nothing_is_undone() {
    let mut fixture = changed_project().await;
    fixture.sh("echo 2 > b").await;
    for (target, paths, missing) in [
        (UndoTarget::LastTurn, &["a", "mispelt"][..], "mispelt"),
        (UndoTarget::Turn(2), &["a"], "a"),
        (UndoTarget::LastTurn, &["aa"], "aa"),
    ] {
        let error = undo(&fixture, target, paths, PLAIN).await.unwrap_err();
        assert!(matches!(&error, UndoError::NothingAtPath { path } if path == missing), "{error}");
    }
    assert_eq!(files(&fixture), expected(&[("a", "1\n"), ("b", "2\n"), ("d/c", "1\n")]));
    undo(&fixture, UndoTarget::LastTurn, &["a"], PLAIN).await.unwrap();
    let again = undo(&fixture, UndoTarget::LastTurn, &["a"], PLAIN).await;
    assert!(matches!(again, Err(UndoError::NothingAtPath { .. })), "{again:?}");
}

#[tokio::test]
async fn the_conversation_is_not_rewound_by_an_undo_of_some_paths() {
    let fixture = changed_project().await;
    let refused = undo(&fixture, UndoTarget::LastTurn, &["a"], CHAT).await;
    assert!(matches!(refused, Err(UndoError::ChatNeedsAllPaths)), "{refused:?}");
    assert_eq!(files(&fixture)["a"], "1\n");
}

#[tokio::test]
async fn later_edits_at_a_chosen_path_are_kept_unless_forced() {
    let fixture = changed_project().await;
    fixture.write("a", "mine\n");
    let foreseen = undo(&fixture, UndoTarget::LastTurn, &["a", "b"], DRY).await.unwrap();
    let report = undo(&fixture, UndoTarget::LastTurn, &["a", "b"], PLAIN).await.unwrap();
    assert!(matches!(report.paths[0].outcome, PathOutcome::Conflict { forcible: true, .. }));
    assert_eq!((foreseen.paths, foreseen.not_chosen), (report.paths, 1));
    assert_eq!(files(&fixture), expected(&[("a", "mine\n"), ("b", "0\n"), ("d/c", "1\n")]));
    undo(&fixture, UndoTarget::LastTurn, &["a"], FORCE).await.unwrap();
    assert_eq!(files(&fixture)["a"], "0\n");
    assert_eq!(files(&fixture)["d/c"], "1\n");
    assert!(files(&fixture).iter().any(|(name, text)| name != "a" && text == "mine\n"));
}

#[tokio::test]
async fn a_new_folder_is_removed_file_by_file_and_then_as_a_whole() {
    let mut fixture = UndoFixture::new();
    fixture.sh("mkdir new; echo 1 > new/x; echo 1 > new/y").await;
    undo(&fixture, UndoTarget::LastTurn, &["new/x"], PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("new/y", "1\n")]));
    undo(&fixture, UndoTarget::LastTurn, &["new"], PLAIN).await.unwrap();
    assert!(!fixture.root().join("new").exists());
    fixture.redo().await.unwrap();
    assert_eq!(files(&fixture), expected(&[("new/y", "1\n")]));
}

#[tokio::test]
async fn a_removed_folder_comes_back_for_one_of_its_files() {
    let mut fixture = changed_project().await;
    fixture.sh("rm -r d").await;
    undo(&fixture, UndoTarget::LastTurn, &["d/c"], PLAIN).await.unwrap();
    assert_eq!(files(&fixture)["d/c"], "1\n");
    fixture.redo().await.unwrap();
    assert!(!fixture.root().join("d").exists());
    fixture.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "0\n"), ("d/c", "0\n")]));
}

#[tokio::test]
async fn a_restore_is_undone_at_a_chosen_path() {
    let fixture = changed_project().await;
    let handle = fixture.agent.handle.clone();
    let at = RestorePoint::Start;
    let work = move || handle.undo_journal()?.restore("".as_ref(), &at, PLAIN);
    tokio::task::spawn_blocking(work).await.unwrap().unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "0\n"), ("b", "0\n"), ("d/c", "0\n")]));
    undo(&fixture, UndoTarget::LastTurn, &["a"], PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "1\n"), ("b", "0\n"), ("d/c", "0\n")]));
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(files(&fixture), expected(&[("a", "1\n"), ("b", "1\n"), ("d/c", "1\n")]));
}
