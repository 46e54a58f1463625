//! Undo, redo, restore, diff.

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use crow_core::{event::AgentEvent, tool::FileChange};
use crow_runtime::{
    PathOutcome, RestorePoint, RuntimeConfig, SnapshotLimits, SnapshotStores, UndoError,
    UndoJournal, UndoOptions, UndoTarget,
};
use crow_testkit::scripted::{reply, text};

use super::fixture::{Call, UndoFixture, tree_state};

const FORCE: UndoOptions = UndoOptions { force: true, dry_run: false, chat: false };
const DRY: UndoOptions = UndoOptions { force: false, dry_run: true, chat: false };
const CHAT: UndoOptions = UndoOptions { force: false, dry_run: false, chat: true };

fn plain() -> UndoOptions {
    UndoOptions::default()
}

/// Returns the outcome of a path as one word.
fn outcome_word(outcome: &PathOutcome) -> &'static str {
    match outcome {
        PathOutcome::Restored { how: FileChange::Created, .. } => "back",
        PathOutcome::Restored { how: FileChange::Deleted, .. } => "removed",
        PathOutcome::Restored { how: FileChange::Modified, .. } => "changed",
        PathOutcome::Unchanged => "unchanged",
        PathOutcome::Conflict { .. } => "conflict",
        PathOutcome::NotRestorable { .. } => "lost",
        PathOutcome::Failed { .. } => "failed",
    }
}

fn outcomes(report: &crow_runtime::UndoReport, fixture: &UndoFixture) -> Vec<String> {
    let root = fixture.root();
    let name = |path: &std::path::Path| path.strip_prefix(&root).unwrap().display().to_string();
    report
        .paths
        .iter()
        .map(|path| format!("{} {}", outcome_word(&path.outcome), name(&path.path)))
        .collect()
}

#[tokio::test]
async fn undo_reverts_the_last_turn_and_redo_applies_it_again() {
    let mut fixture = UndoFixture::new();
    fixture.write("src/a.txt", "one\n");
    fixture.write("src/deep/b.txt", "two\n");
    fs::set_permissions(fixture.root().join("src/a.txt"), fs::Permissions::from_mode(0o755))
        .unwrap();
    fs::create_dir(fixture.root().join("src/empty")).unwrap();
    std::os::unix::fs::symlink("a.txt", fixture.root().join("src/link")).unwrap();
    let before = tree_state(&fixture.root());
    fixture.turn(&[Call::Put("new.txt", "n\n"), Call::Sh("rm -rf src")]).await;
    let after = tree_state(&fixture.root());

    let report = fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert!(report.is_complete());
    assert_eq!(
        outcomes(&report, &fixture),
        [
            "removed new.txt",
            "back src/a.txt",
            "back src/deep/b.txt",
            "back src/empty",
            "back src/link"
        ]
    );
    assert_eq!(tree_state(&fixture.root()), before);
    fixture.redo().await.unwrap();
    assert_eq!(tree_state(&fixture.root()), after);
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), before);
    assert!(matches!(
        fixture.undo(UndoTarget::LastTurn, plain()).await,
        Err(UndoError::Nothing { what: "undo" })
    ));
}

#[tokio::test]
async fn undo_restores_a_self_referencing_symlink_that_became_a_directory() {
    let mut fixture = UndoFixture::new();
    std::os::unix::fs::symlink("loop", fixture.root().join("loop")).unwrap();
    let before = tree_state(&fixture.root());
    fixture.turn(&[Call::Sh("rm loop && mkdir -p loop/in")]).await;
    let after = tree_state(&fixture.root());
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), before);
    fixture.redo().await.unwrap();
    assert_eq!(tree_state(&fixture.root()), after);
}

#[tokio::test]
async fn undo_restores_the_mode_of_a_hard_link_without_changing_the_other_names() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "");
    fixture.write("b", "");
    fs::set_permissions(fixture.root().join("b"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = tree_state(&fixture.root());
    fixture.turn(&[Call::Sh("ln -f a b")]).await;
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), before);
}

#[tokio::test]
async fn a_repeated_undo_goes_one_turn_further_back() {
    let mut fixture = UndoFixture::new();
    for number in 1..=3 {
        fixture.turn(&[Call::Put("a", &number.to_string())]).await;
    }
    for expected in ["2", "1"] {
        fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
        assert_eq!(fixture.read("a"), expected);
    }
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert!(!fixture.exists("a"));
}

#[tokio::test]
async fn undo_of_one_call_conflicts_with_a_later_change_of_the_same_file() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1"), Call::Put("b", "1"), Call::Put("b", "2")]).await;
    let report = fixture.undo(UndoTarget::Call("c1".into()), plain()).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["removed a"]);
    let report = fixture.undo(UndoTarget::Call("c2".into()), plain()).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["conflict b"]);
    assert_eq!(fixture.read("b"), "2");
    let report = fixture.undo(UndoTarget::ToStart, plain()).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["removed b"]);
}

#[tokio::test]
async fn undo_back_to_a_turn_reverts_it_and_all_later_ones() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    let before = tree_state(&fixture.root());
    fixture.turn(&[Call::Sh("echo 2 > a; mkdir d")]).await;
    fixture.turn(&[Call::Sh("rm a; echo 3 > d/c")]).await;
    fixture.undo(UndoTarget::BackTo(2), plain()).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), before);
    assert!(matches!(
        fixture.undo(UndoTarget::BackTo(2), plain()).await,
        Err(UndoError::UndoneAlready)
    ));
    assert!(matches!(
        fixture.undo(UndoTarget::Turn(9), plain()).await,
        Err(UndoError::UnknownTurn { turn: 9, turns: 3 })
    ));
}

#[tokio::test]
async fn undo_keeps_later_edits_unless_forced_and_force_keeps_a_copy() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "old\n");
    fixture.turn(&[Call::Sh("echo new > a; echo made > b")]).await;
    fixture.write("a", "mine\n");
    let report = fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["conflict a", "removed b"]);
    assert_eq!(fixture.read("a"), "mine\n");
    // The undo of the turn is incomplete: force continues with the rest of it.
    let report = fixture.undo(UndoTarget::LastTurn, FORCE).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["changed a"]);
    assert_eq!(fixture.read("a"), "old\n");
    assert_eq!(fixture.read("a.crow-kept"), "mine\n");
}

#[tokio::test]
async fn undo_never_removes_a_file_that_no_call_created() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Sh("mkdir made; echo x > made/x")]).await;
    fixture.write("made/mine", "mine");
    let report = fixture.undo(UndoTarget::ToStart, FORCE).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["conflict made", "removed made/x"]);
    assert_eq!(fixture.read("made/mine"), "mine");
}

#[tokio::test]
async fn undo_stops_at_a_user_edit_between_two_calls() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "1");
    fixture.turn(&[Call::Sh("printf 2 > a")]).await;
    fixture.write("a", "mine");
    fixture.turn(&[Call::Sh("printf 3 > a")]).await;
    let report = fixture.undo(UndoTarget::ToStart, plain()).await.unwrap();
    assert_eq!(outcomes(&report, &fixture), ["conflict a"]);
    assert_eq!(fixture.read("a"), "mine");
}

#[tokio::test]
async fn a_dry_run_reports_the_outcome_and_changes_nothing() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "old\n");
    fixture.write("mine", "1\n");
    fixture.turn(&[Call::Sh("echo new > a; mkdir -p d/e; echo x > d/e/f; echo 2 > mine")]).await;
    fixture.write("mine", "changed\n");
    let before = tree_state(&fixture.root());
    let predicted = fixture.undo(UndoTarget::LastTurn, DRY).await.unwrap();
    assert_eq!(tree_state(&fixture.root()), before);
    assert!(fixture.journal().records().is_empty());
    let done = fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(predicted.paths, done.paths);
}

#[tokio::test]
async fn a_path_can_be_restored_to_any_point_and_the_restore_undone() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "0");
    for number in ["1", "2", "3"] {
        fixture.turn(&[Call::Put("a", number)]).await;
    }
    let restore = |at: RestorePoint| {
        let handle = fixture.agent.handle.clone();
        let work = move || handle.undo_journal().unwrap().restore("a".as_ref(), &at, plain());
        tokio::task::spawn_blocking(work)
    };
    let table = [
        (RestorePoint::Start, "0"),
        (RestorePoint::AfterCall("c1".into()), "1"),
        (RestorePoint::BeforeCall("c3".into()), "2"),
        (RestorePoint::AfterTurn(3), "3"),
        (RestorePoint::BeforeTurn(2), "1"),
    ];
    for (point, expected) in table {
        restore(point.clone()).await.unwrap().unwrap();
        assert_eq!(fixture.read("a"), expected, "{point:?}");
    }
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(fixture.read("a"), "3");
    fixture.redo().await.unwrap();
    assert_eq!(fixture.read("a"), "1");
}

#[tokio::test]
async fn a_diff_shows_changes_that_are_not_undone() {
    let mut fixture = UndoFixture::new();
    fixture.write("a", "0\n");
    fixture.turn(&[Call::Put("a", "1\n")]).await;
    fixture.turn(&[Call::Put("a", "2\n"), Call::Put("b", "x\n")]).await;
    let hunks = |journal: &UndoJournal, from, to| -> Vec<String> {
        let patch = journal.diff(&from, &to).unwrap();
        patch.files.into_iter().map(|file| file.hunks).collect()
    };
    let journal = fixture.journal();
    let a = |old: u8, new: u8| format!("@@ -1 +1 @@\n-{old}\n+{new}\n");
    let b = "@@ -0,0 +1 @@\n+x\n".to_owned();
    assert_eq!(hunks(&journal, RestorePoint::Start, RestorePoint::End), [a(0, 2), b.clone()]);
    assert_eq!(hunks(&journal, RestorePoint::BeforeTurn(1), RestorePoint::AfterTurn(1)), [a(0, 1)]);
    assert_eq!(
        hunks(&journal, RestorePoint::BeforeTurn(2), RestorePoint::AfterTurn(2)),
        [a(1, 2), b]
    );
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    assert_eq!(hunks(&fixture.journal(), RestorePoint::Start, RestorePoint::End), [a(0, 1)]);
}

#[tokio::test]
async fn the_next_request_tells_the_model_of_an_undo_once() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    fixture.undo(UndoTarget::LastTurn, plain()).await.unwrap();
    let events =
        fixture.agent.until(|event| matches!(event, AgentEvent::FilesRestored { .. })).await;
    let AgentEvent::FilesRestored { text, .. } = &events.last().unwrap().event else { panic!() };
    assert!(text.contains("undid") && text.contains("a (removed)"), "{text}");
    fixture.turn(&[]).await;
    let requests = fixture.agent.model.requests();
    let outline = requests.last().unwrap().outline().join("\n");
    assert_eq!(outline.matches("The user undid some of your changes").count(), 1, "{outline}");
}

#[tokio::test]
async fn undo_with_chat_rewinds_the_conversation() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    let before = fixture.agent.model.requests().last().unwrap().messages.len() + 1;
    fixture.turn(&[Call::Put("a", "2")]).await;
    fixture.turn(&[]).await;
    let report = fixture.undo(UndoTarget::BackTo(2), CHAT).await.unwrap();
    assert_eq!((report.rewound_to, fixture.read("a").as_str()), (Some(2), "1"));
    fixture.agent.model.allow_rewind();
    fixture.agent.model.push(reply([text("again")]));
    fixture.agent.run("other words").await;
    let requests = fixture.agent.model.requests();
    assert_eq!(requests.last().unwrap().messages.len(), before + 1);
    let stored = fixture.config.store.read(fixture.agent.handle.session_id()).unwrap();
    let history = crow_core::history::History::from_log(&stored.events).unwrap();
    assert_eq!(history.messages().unwrap().len(), before + 2);
}

#[tokio::test]
async fn the_conversation_alone_goes_back_and_the_model_is_told_which_changes_stay() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    let before = fixture.agent.model.requests().last().unwrap().messages.len();
    fixture.turn(&[Call::Put("a", "2"), Call::Put("b", "1")]).await;
    let report = fixture.rewind_conversation(UndoTarget::BackTo(2)).await.unwrap();
    assert_eq!((report.rewound_to, report.paths.len(), report.not_chosen), (Some(2), 0, 2));
    assert_eq!((fixture.read("a").as_str(), fixture.read("b").as_str()), ("2", "1"));
    fixture.agent.model.allow_rewind();
    fixture.agent.model.push(reply([text("again")]));
    fixture.agent.run("other words").await;
    let outline = fixture.agent.model.requests().last().unwrap().outline();
    assert!(outline.len() <= before + 3, "{outline:?}");
    let told = outline.iter().any(|line| line.contains("Changes made in it stay in: a, b"));
    assert!(told, "{outline:?}");
    let again = fixture.redo().await;
    assert!(matches!(again, Err(UndoError::Nothing { what: "redo" })), "{again:?}");
    // The changes are still in the journal, and nothing else of the removed turn is.
    assert!(matches!(
        fixture.rewind_conversation(UndoTarget::BackTo(2)).await,
        Err(UndoError::TurnNotInConversation { turn: 2, .. })
    ));
    fixture.undo(UndoTarget::Turn(2), plain()).await.unwrap();
    assert_eq!((fixture.read("a").as_str(), fixture.exists("b")), ("1", false));
}

#[tokio::test]
async fn rewinding_the_conversation_is_refused_if_later_changes_stay() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    fixture.turn(&[Call::Put("b", "2")]).await;
    let refused = fixture.undo(UndoTarget::Turn(1), CHAT).await;
    assert!(matches!(refused, Err(UndoError::ChatNeedsAll { turn: 1 })));
    assert!(fixture.exists("a") && fixture.exists("b"));
}

#[tokio::test]
async fn an_undo_through_a_separate_journal_is_told_to_the_model_later() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Put("a", "1")]).await;
    let mut journal =
        UndoJournal::open(&fixture.config, fixture.agent.handle.session_id()).unwrap();
    let report = journal.undo(&UndoTarget::LastTurn, plain()).unwrap();
    assert!(report.notified_later && !fixture.exists("a"));
    assert!(matches!(journal.undo(&UndoTarget::ToStart, CHAT), Err(UndoError::ChatInUse { .. })));
    fixture.turn(&[]).await;
    let requests = fixture.agent.model.requests();
    assert!(requests.last().unwrap().outline().join("\n").contains("The user undid"));
}

#[tokio::test]
async fn an_undo_without_snapshots_says_why_there_is_nothing_to_undo() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[]).await;
    let snapshots = SnapshotStores::new(
        fixture.snapshots(),
        SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() },
        Some(fixture.root()),
    );
    let config = RuntimeConfig { snapshots: Some(Arc::new(snapshots)), ..fixture.config.clone() };
    let mut journal = UndoJournal::open(&config, fixture.agent.handle.session_id()).unwrap();
    let refused = journal.undo(&UndoTarget::LastTurn, UndoOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("is a home directory"), "{refused}");
}

#[tokio::test]
async fn a_report_shows_the_calls_after_the_undo() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Sh("touch a")]).await;
    let undone = fixture.undo(UndoTarget::LastTurn, UndoOptions::default()).await.unwrap();
    assert!(undone.calls[0].undone);
    assert!(!fixture.redo().await.unwrap().calls[0].undone);
}
