//! Undo is tracked per path: nothing is undone twice, and a redo is the inverse of its undo.

use crow_core::tool::FileChange;
use crow_runtime::{PathOutcome, RestorePoint, UndoError, UndoOptions, UndoReport, UndoTarget};

use super::fixture::{Call, UndoFixture, tree_state};

const PLAIN: UndoOptions = UndoOptions { force: false, dry_run: false, chat: false };
const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };

async fn restore(fixture: &UndoFixture, path: &'static str, at: RestorePoint) -> UndoReport {
    let handle = fixture.agent.handle.clone();
    let work = move || handle.undo_journal().unwrap().restore(path.as_ref(), &at, PLAIN);
    tokio::task::spawn_blocking(work).await.unwrap().unwrap()
}

fn reasons(report: &UndoReport) -> Vec<&str> {
    let mut reasons = Vec::new();
    for path in &report.paths {
        if let PathOutcome::Conflict { reason, .. } = &path.outcome {
            reasons.push(reason.as_str());
        }
    }
    reasons
}

#[tokio::test]
async fn force_completes_an_undo_to_the_start_that_left_a_file() {
    let mut fixture = UndoFixture::new();
    fixture.write("src.txt", "0\n");
    fixture.turn(&[Call::Sh("echo 1 > src.txt")]).await;
    fixture.turn(&[Call::Sh("echo 2 >> src.txt; echo n > notes.txt")]).await;
    fixture.write("notes.txt", "mine\n");
    let report = fixture.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(!report.is_complete());
    assert_eq!(fixture.read("src.txt"), "0\n");
    let report = fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(fixture.read("src.txt"), "0\n", "what was undone is not done again");
    assert!(!fixture.exists("notes.txt"));
    assert_eq!(fixture.read("notes.txt.crow-kept"), "mine\n");
    assert!(matches!(
        fixture.undo(UndoTarget::LastTurn, PLAIN).await,
        Err(UndoError::Nothing { .. })
    ));
}

#[tokio::test]
async fn force_counts_as_complete_if_a_new_folder_stays_only_for_kept_copies() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Sh("mkdir -p new/deep; echo n > new/deep/n")]).await;
    fixture.write("new/deep/n", "mine\n");
    let report = fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert!(!fixture.exists("new/deep/n"));
    assert_eq!(fixture.read("new/deep/n.crow-kept"), "mine\n");
}

#[tokio::test]
async fn force_completes_all_turns_that_an_undo_left() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    fixture.turn(&[Call::Put("b", "1"), Call::Put("c", "1")]).await;
    fixture.write("a", "mine");
    fixture.write("b", "mine");
    fixture.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(!fixture.exists("c"));
    fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(!fixture.exists("a") && !fixture.exists("b"));
}

#[tokio::test]
async fn a_later_call_reverted_by_force_is_not_undone_a_second_time() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "0");
    fixture.turn(&[Call::Put("a", "1")]).await;
    fixture.turn(&[Call::Put("a", "2")]).await;
    fixture.undo(UndoTarget::Call("c1".into()), FORCE).await.unwrap();
    assert_eq!(fixture.read("a"), "0");
    assert!(matches!(
        fixture.undo(UndoTarget::LastTurn, FORCE).await,
        Err(UndoError::Nothing { .. })
    ));
    fixture.redo().await.unwrap();
    assert_eq!(fixture.read("a"), "2");
    fixture.undo(UndoTarget::Turn(2), PLAIN).await.unwrap();
    assert_eq!(fixture.read("a"), "1");
}

#[tokio::test]
async fn a_redo_touches_only_what_its_undo_changed() {
    let mut fixture = UndoFixture::new();
    fixture.write("kept/a", "0");
    fixture.turn(&[Call::Sh("rm -r kept; mkdir made; echo 1 > made/b; echo 1 > c")]).await;
    // The user has already changed two of these paths.
    std::fs::remove_dir_all(fixture.root().join("made")).unwrap();
    fixture.write("c", "mine");
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(fixture.read("kept/a"), "0");
    fixture.redo().await.unwrap();
    assert!(!fixture.exists("kept"));
    assert!(!fixture.exists("made"), "a folder that the undo did not find is not made");
    assert_eq!(fixture.read("c"), "mine");
}

#[tokio::test]
async fn a_redo_leaves_changes_of_later_calls_alone() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1"), Call::Put("b", "1")]).await;
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    fixture.turn(&[Call::Put("a", "later")]).await;
    let report = fixture.redo().await.unwrap();
    assert_eq!(reasons(&report), ["put `put a` changed it since: undo that first"]);
    assert_eq!((fixture.read("a"), fixture.read("b")), ("later".to_owned(), "1".to_owned()));
    // After that call is undone, the next redo applies to its undo.
    fixture.undo(UndoTarget::Turn(2), PLAIN).await.unwrap();
    assert!(!fixture.exists("a"));
    fixture.redo().await.unwrap();
    assert_eq!(fixture.read("a"), "later", "the last undo is redone first");
}

#[tokio::test]
async fn undoing_a_restore_removes_the_folders_it_created() {
    let mut fixture = UndoFixture::new();
    fixture.write("d/e/f", "0");
    fixture.turn(&[Call::Sh("rm -r d")]).await;
    let before = tree_state(&fixture.root());
    restore(&fixture, "d/e/f", RestorePoint::Start).await;
    assert_eq!(fixture.read("d/e/f"), "0");
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(report.is_complete());
    assert_eq!(tree_state(&fixture.root()), before);
}

#[tokio::test]
async fn undo_to_the_start_includes_changes_before_a_restore() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "0");
    fixture.turn(&[Call::Put("a", "1")]).await;
    restore(&fixture, "a", RestorePoint::Start).await;
    fixture.turn(&[Call::Put("a", "2")]).await;
    let after = tree_state(&fixture.root());
    let report = fixture.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(fixture.read("a"), "0");
    assert!(matches!(
        fixture.undo(UndoTarget::LastTurn, PLAIN).await,
        Err(UndoError::Nothing { .. })
    ));
    fixture.redo().await.unwrap();
    assert_eq!(tree_state(&fixture.root()), after);
}

#[tokio::test]
async fn undo_reverts_a_file_written_by_a_job_and_then_by_a_tool() {
    let mut fixture = UndoFixture::new();
    fixture.write("both", "0");
    let line = fixture.gated("g", "echo job > both") + "; exec sleep 1000";
    let gate = fixture.gate("g");
    let calls = [Call::Job(&line), Call::Gate(&gate), Call::Put("both", "tool"), Call::Sh("true")];
    fixture.turn(&calls).await;
    let report = fixture.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(report.paths.len(), 1);
    assert!(matches!(
        report.paths[0].outcome,
        PathOutcome::Restored { how: FileChange::Modified, .. }
    ));
    assert_eq!(fixture.read("both"), "0");
}

#[tokio::test]
async fn a_folder_that_replaced_a_self_referencing_symlink_is_undone_and_redone() {
    let mut fixture = UndoFixture::new();
    fixture.write("d/a", "1\n");
    let first = tree_state(&fixture.root());
    fixture.turn(&[Call::Sh("rm d/a; ln -sfn ./d/a ./d/a")]).await;
    let link = tree_state(&fixture.root());
    fixture.turn(&[Call::Sh("rm -rf d/a; mkdir -p d/a/in")]).await;
    let folder = tree_state(&fixture.root());
    fixture.undo(UndoTarget::BackTo(2), PLAIN).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), link);
    fixture.redo().await.unwrap();
    assert_eq!(tree_state(&fixture.root()), folder);
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), first);
}

/// Returns the first conflict of a report: its reason, and true if force can resolve it.
fn first_conflict(report: &UndoReport) -> Option<(&str, bool)> {
    report.paths.iter().find_map(|path| match &path.outcome {
        PathOutcome::Conflict { reason, forcible } => Some((reason.as_str(), *forcible)),
        _ => None,
    })
}

async fn folder_in_the_place_of_a_file(inside: &str) -> UndoFixture {
    let mut fixture = UndoFixture::new();
    fixture.write("a.txt", "old\n");
    fixture.turn(&[Call::Sh(&format!("rm a.txt; mkdir a.txt{inside}"))]).await;
    fixture.write("a.txt/u", "mine\n");
    fixture
}

#[tokio::test]
async fn force_moves_aside_a_folder_that_a_call_put_in_place_of_a_file() {
    for inside in ["", "; echo 1 > a.txt/b"] {
        let fixture = folder_in_the_place_of_a_file(inside).await;
        let report = fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
        assert!(report.is_complete(), "{:#?}", report.paths);
        assert_eq!(fixture.read("a.txt"), "old\n");
        assert_eq!(fixture.read("a.txt.crow-kept/u"), "mine\n");
        let copies = report.paths.iter().filter_map(|path| match &path.outcome {
            PathOutcome::Restored { copy, .. } => copy.clone(),
            _ => None,
        });
        assert_eq!(copies.collect::<Vec<_>>(), [fixture.root().join("a.txt.crow-kept")]);
    }
}

#[tokio::test]
async fn force_completes_an_undo_that_left_a_folder_in_place_of_a_file() {
    for inside in ["", "; echo 1 > a.txt/b"] {
        let fixture = folder_in_the_place_of_a_file(inside).await;
        let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
        assert_eq!(first_conflict(&report), Some(("something else is in the folder", true)));
        assert_eq!(fixture.read("a.txt/u"), "mine\n");
        let dry = UndoOptions { dry_run: true, ..FORCE };
        assert!(fixture.undo(UndoTarget::LastTurn, dry).await.unwrap().is_complete());
        let report = fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
        assert!(report.is_complete(), "{:#?}", report.paths);
        assert_eq!(fixture.read("a.txt"), "old\n");
        assert_eq!(fixture.read("a.txt.crow-kept/u"), "mine\n");
    }
}

#[tokio::test]
async fn force_moves_aside_a_folder_that_the_user_put_in_place_of_a_file() {
    let mut fixture = UndoFixture::new();
    fixture.write("a.txt", "old\n");
    fixture.turn(&[Call::Sh("echo new > a.txt")]).await;
    std::fs::remove_file(fixture.root().join("a.txt")).unwrap();
    fixture.write("a.txt/u", "mine\n");
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(first_conflict(&report).is_some_and(|(_, forcible)| forcible), "{report:#?}");
    let report = fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(fixture.read("a.txt"), "old\n");
    assert_eq!(fixture.read("a.txt.crow-kept/u"), "mine\n");
}

#[tokio::test]
async fn a_new_folder_with_user_files_is_a_conflict_that_force_cannot_solve() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Sh("mkdir made; echo 1 > made/by")]).await;
    fixture.write("made/u", "mine\n");
    let report = fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(first_conflict(&report), Some(("something else is in the folder", false)));
    assert!(!fixture.exists("made/by"));
    assert_eq!(fixture.read("made/u"), "mine\n");
}
