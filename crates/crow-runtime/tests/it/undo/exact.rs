//! Undo is tracked per path: nothing is undone twice, and a redo is the inverse of its undo.

use crow_core::tool::FileChange;
use crow_runtime::{PathOutcome, RestorePoint, UndoError, UndoOptions, UndoReport, UndoTarget};

use super::stage::{Call, Stage, picture};

const PLAIN: UndoOptions = UndoOptions { force: false, dry_run: false, chat: false };
const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };

async fn restore(stage: &Stage, path: &'static str, at: RestorePoint) -> UndoReport {
    let handle = stage.agent.handle.clone();
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
    let mut stage = Stage::new();
    stage.write("src.txt", "0\n");
    stage.turn(&[Call::Sh("echo 1 > src.txt")]).await;
    stage.turn(&[Call::Sh("echo 2 >> src.txt; echo n > notes.txt")]).await;
    stage.write("notes.txt", "mine\n");
    let report = stage.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(!report.is_complete());
    assert_eq!(stage.read("src.txt"), "0\n");
    let report = stage.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(stage.read("src.txt"), "0\n", "what was undone is not done again");
    assert!(!stage.exists("notes.txt"));
    assert_eq!(stage.read("notes.txt.crow-kept"), "mine\n");
    assert!(matches!(
        stage.undo(UndoTarget::LastTurn, PLAIN).await,
        Err(UndoError::Nothing { .. })
    ));
}

#[tokio::test]
async fn force_counts_as_complete_if_a_new_folder_stays_only_for_kept_copies() {
    let mut stage = Stage::new();
    stage.turn(&[Call::Sh("mkdir -p new/deep; echo n > new/deep/n")]).await;
    stage.write("new/deep/n", "mine\n");
    let report = stage.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert!(!stage.exists("new/deep/n"));
    assert_eq!(stage.read("new/deep/n.crow-kept"), "mine\n");
}

#[tokio::test]
async fn force_completes_all_turns_that_an_undo_left() {
    let mut stage = Stage::new();
    stage.turn(&[Call::Put("a", "1")]).await;
    stage.turn(&[Call::Put("b", "1"), Call::Put("c", "1")]).await;
    stage.write("a", "mine");
    stage.write("b", "mine");
    stage.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(!stage.exists("c"));
    stage.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(!stage.exists("a") && !stage.exists("b"));
}

#[tokio::test]
async fn a_later_call_reverted_by_force_is_not_undone_a_second_time() {
    let mut stage = Stage::new();
    stage.write("a", "0");
    stage.turn(&[Call::Put("a", "1")]).await;
    stage.turn(&[Call::Put("a", "2")]).await;
    stage.undo(UndoTarget::Call("c1".into()), FORCE).await.unwrap();
    assert_eq!(stage.read("a"), "0");
    assert!(matches!(
        stage.undo(UndoTarget::LastTurn, FORCE).await,
        Err(UndoError::Nothing { .. })
    ));
    stage.redo().await.unwrap();
    assert_eq!(stage.read("a"), "2");
    stage.undo(UndoTarget::Turn(2), PLAIN).await.unwrap();
    assert_eq!(stage.read("a"), "1");
}

#[tokio::test]
async fn a_redo_touches_only_what_its_undo_changed() {
    let mut stage = Stage::new();
    stage.write("kept/a", "0");
    stage.turn(&[Call::Sh("rm -r kept; mkdir made; echo 1 > made/b; echo 1 > c")]).await;
    // The user has already changed two of these paths.
    std::fs::remove_dir_all(stage.root().join("made")).unwrap();
    stage.write("c", "mine");
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(stage.read("kept/a"), "0");
    stage.redo().await.unwrap();
    assert!(!stage.exists("kept"));
    assert!(!stage.exists("made"), "a folder that the undo did not find is not made");
    assert_eq!(stage.read("c"), "mine");
}

#[tokio::test]
async fn a_redo_leaves_changes_of_later_calls_alone() {
    let mut stage = Stage::new();
    stage.turn(&[Call::Put("a", "1"), Call::Put("b", "1")]).await;
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    stage.turn(&[Call::Put("a", "later")]).await;
    let report = stage.redo().await.unwrap();
    assert_eq!(reasons(&report), ["put `put a` changed it since: undo that first"]);
    assert_eq!((stage.read("a"), stage.read("b")), ("later".to_owned(), "1".to_owned()));
    // After that call is undone, the next redo applies to its undo.
    stage.undo(UndoTarget::Turn(2), PLAIN).await.unwrap();
    assert!(!stage.exists("a"));
    stage.redo().await.unwrap();
    assert_eq!(stage.read("a"), "later", "the last undo is redone first");
}

#[tokio::test]
async fn undoing_a_restore_removes_the_folders_it_created() {
    let mut stage = Stage::new();
    stage.write("d/e/f", "0");
    stage.turn(&[Call::Sh("rm -r d")]).await;
    let before = picture(&stage.root());
    restore(&stage, "d/e/f", RestorePoint::Start).await;
    assert_eq!(stage.read("d/e/f"), "0");
    let report = stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(report.is_complete());
    assert_eq!(picture(&stage.root()), before);
}

#[tokio::test]
async fn undo_to_the_start_includes_changes_before_a_restore() {
    let mut stage = Stage::new();
    stage.write("a", "0");
    stage.turn(&[Call::Put("a", "1")]).await;
    restore(&stage, "a", RestorePoint::Start).await;
    stage.turn(&[Call::Put("a", "2")]).await;
    let after = picture(&stage.root());
    let report = stage.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(stage.read("a"), "0");
    assert!(matches!(
        stage.undo(UndoTarget::LastTurn, PLAIN).await,
        Err(UndoError::Nothing { .. })
    ));
    stage.redo().await.unwrap();
    assert_eq!(picture(&stage.root()), after);
}

#[tokio::test]
async fn undo_reverts_a_file_written_by_a_job_and_then_by_a_tool() {
    let mut stage = Stage::new();
    stage.write("both", "0");
    let line = stage.gated("g", "echo job > both") + "; exec sleep 1000";
    let gate = stage.gate("g");
    let calls = [Call::Job(&line), Call::Gate(&gate), Call::Put("both", "tool"), Call::Sh("true")];
    stage.turn(&calls).await;
    let report = stage.undo(UndoTarget::ToStart, PLAIN).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(report.paths.len(), 1);
    assert!(matches!(
        report.paths[0].outcome,
        PathOutcome::Restored { how: FileChange::Modified, .. }
    ));
    assert_eq!(stage.read("both"), "0");
}

#[tokio::test]
async fn a_folder_that_replaced_a_self_referencing_symlink_is_undone_and_redone() {
    let mut stage = Stage::new();
    stage.write("d/a", "1\n");
    let first = picture(&stage.root());
    stage.turn(&[Call::Sh("rm d/a; ln -sfn ./d/a ./d/a")]).await;
    let link = picture(&stage.root());
    stage.turn(&[Call::Sh("rm -rf d/a; mkdir -p d/a/in")]).await;
    let folder = picture(&stage.root());
    stage.undo(UndoTarget::BackTo(2), PLAIN).await.unwrap();
    assert_eq!(picture(&stage.root()), link);
    stage.redo().await.unwrap();
    assert_eq!(picture(&stage.root()), folder);
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(picture(&stage.root()), first);
}

/// Returns the first conflict of a report: its reason, and true if force can resolve it.
fn left(report: &UndoReport) -> Option<(&str, bool)> {
    report.paths.iter().find_map(|path| match &path.outcome {
        PathOutcome::Conflict { reason, forcible } => Some((reason.as_str(), *forcible)),
        _ => None,
    })
}

async fn folder_in_the_place_of_a_file(inside: &str) -> Stage {
    let mut stage = Stage::new();
    stage.write("a.txt", "old\n");
    stage.turn(&[Call::Sh(&format!("rm a.txt; mkdir a.txt{inside}"))]).await;
    stage.write("a.txt/u", "mine\n");
    stage
}

#[tokio::test]
async fn force_moves_aside_a_folder_that_a_call_put_in_place_of_a_file() {
    for inside in ["", "; echo 1 > a.txt/b"] {
        let stage = folder_in_the_place_of_a_file(inside).await;
        let report = stage.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
        assert!(report.is_complete(), "{:#?}", report.paths);
        assert_eq!(stage.read("a.txt"), "old\n");
        assert_eq!(stage.read("a.txt.crow-kept/u"), "mine\n");
        let copies = report.paths.iter().filter_map(|path| match &path.outcome {
            PathOutcome::Restored { copy, .. } => copy.clone(),
            _ => None,
        });
        assert_eq!(copies.collect::<Vec<_>>(), [stage.root().join("a.txt.crow-kept")]);
    }
}

#[tokio::test]
async fn force_completes_an_undo_that_left_a_folder_in_place_of_a_file() {
    for inside in ["", "; echo 1 > a.txt/b"] {
        let stage = folder_in_the_place_of_a_file(inside).await;
        let report = stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
        assert_eq!(left(&report), Some(("something else is in the folder", true)));
        assert_eq!(stage.read("a.txt/u"), "mine\n");
        let dry = UndoOptions { dry_run: true, ..FORCE };
        assert!(stage.undo(UndoTarget::LastTurn, dry).await.unwrap().is_complete());
        let report = stage.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
        assert!(report.is_complete(), "{:#?}", report.paths);
        assert_eq!(stage.read("a.txt"), "old\n");
        assert_eq!(stage.read("a.txt.crow-kept/u"), "mine\n");
    }
}

#[tokio::test]
async fn force_moves_aside_a_folder_that_the_user_put_in_place_of_a_file() {
    let mut stage = Stage::new();
    stage.write("a.txt", "old\n");
    stage.turn(&[Call::Sh("echo new > a.txt")]).await;
    std::fs::remove_file(stage.root().join("a.txt")).unwrap();
    stage.write("a.txt/u", "mine\n");
    let report = stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(left(&report).is_some_and(|(_, forcible)| forcible), "{report:#?}");
    let report = stage.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert!(report.is_complete(), "{:#?}", report.paths);
    assert_eq!(stage.read("a.txt"), "old\n");
    assert_eq!(stage.read("a.txt.crow-kept/u"), "mine\n");
}

#[tokio::test]
async fn a_new_folder_with_user_files_is_a_conflict_that_force_cannot_solve() {
    let mut stage = Stage::new();
    stage.turn(&[Call::Sh("mkdir made; echo 1 > made/by")]).await;
    stage.write("made/u", "mine\n");
    let report = stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert_eq!(left(&report), Some(("something else is in the folder", false)));
    assert!(!stage.exists("made/by"));
    assert_eq!(stage.read("made/u"), "mine\n");
}
