//! Changes that background jobs make between calls.

use crow_core::{
    event::{AgentEvent, NoticeLevel},
    ids::SessionId,
};
use crow_runtime::{
    ChangedCall, PathOutcome, RestorePoint, SnapshotLimits, SnapshotStores, UndoJournal,
    UndoOptions, UndoTarget,
};

use crow_testkit::NamedPipe;

use super::fixture::{Call, UndoFixture, metadata};

const ALL: UndoTarget = UndoTarget::ToStart;
const PLAIN: UndoOptions = UndoOptions { force: false, dry_run: false, chat: false };

/// Returns a shell line that does the work when its gate opens, and then keeps running.
fn server(fixture: &UndoFixture, name: &str, work: &str) -> String {
    fixture.gated(name, work) + "; exec sleep 1000"
}

/// The pipes of a gate.
fn pipes(fixture: &UndoFixture, name: &str) -> (NamedPipe, NamedPipe) {
    let (open, done) = fixture.gate(name);
    (NamedPipe::at(&open), NamedPipe::at(&done))
}

fn titles(calls: &[ChangedCall]) -> Vec<&str> {
    calls.iter().map(|call| call.title.split(' ').next().unwrap()).collect()
}

#[tokio::test]
async fn changes_of_a_job_between_two_calls_are_undone_with_its_call() {
    let mut fixture = UndoFixture::new();
    fixture.write("kept", "old");
    let line = server(&fixture, "g", "echo new > kept; echo made > made");
    let gate = fixture.gate("g");
    fixture.turn(&[Call::Job(&line), Call::Gate(&gate), Call::Sh("echo 1 > other")]).await;
    let calls = fixture.journal().calls().to_vec();
    assert_eq!(titles(&calls), ["job:", "echo"]);
    assert_eq!((calls[0].call_id.as_str(), calls[0].turn, calls[0].shared), ("c1", 1, false));
    assert_eq!((calls[0].changes.created, calls[0].changes.modified), (1, 1));
    fixture.undo(UndoTarget::Call("c1".to_owned()), PLAIN).await.unwrap();
    assert_eq!((fixture.exists("made"), fixture.exists("other")), (false, true));
    assert_eq!(fixture.read("kept"), "old");
    fixture.redo().await.unwrap();
    assert_eq!(fixture.read("made"), "made\n");
}

#[tokio::test]
async fn changes_of_a_job_are_undone_with_its_turn() {
    let mut fixture = UndoFixture::new();
    let line = server(&fixture, "g", "echo made > made");
    fixture.turn(&[Call::Job(&line), Call::Gate(&fixture.gate("g"))]).await;
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(!fixture.exists("made"));
}

#[tokio::test]
async fn changes_of_a_job_after_its_turn_are_undone_to_the_start() {
    let mut fixture = UndoFixture::new();
    let line = fixture.gated("g", "echo made > made");
    fixture.turn(&[Call::Job(&line)]).await;
    let (open, done) = pipes(&fixture, "g");
    open.signal().await;
    done.wait_for_signal().await;
    fixture.agent.until(|event| matches!(event, AgentEvent::JobChanges { .. })).await;
    let calls = fixture.journal().calls().to_vec();
    assert_eq!((titles(&calls), calls[0].turn), (vec!["job:"], 1));
    fixture.undo(ALL, PLAIN).await.unwrap();
    assert!(!fixture.exists("made"));
}

#[tokio::test]
async fn changes_of_a_job_between_two_turns_belong_to_the_first_turn() {
    let mut fixture = UndoFixture::new();
    let line = server(&fixture, "g", "echo made > made");
    fixture.turn(&[Call::Job(&line)]).await;
    let (open, done) = pipes(&fixture, "g");
    open.signal().await;
    done.wait_for_signal().await;
    fixture.turn(&[Call::Sh("echo 2 > second")]).await;
    let calls = fixture.journal().calls().to_vec();
    assert_eq!((titles(&calls), calls[0].turn, calls[1].turn), (vec!["job:", "echo"], 1, 2));
    fixture.undo(UndoTarget::BackTo(2), PLAIN).await.unwrap();
    assert_eq!((fixture.exists("made"), fixture.exists("second")), (true, false));
    fixture.undo(ALL, PLAIN).await.unwrap();
    assert!(!fixture.exists("made"));
}

#[tokio::test]
async fn changes_of_a_job_at_the_end_of_its_agent_are_recorded() {
    let mut fixture = UndoFixture::new();
    let (open, done) = fixture.gate("ready");
    let line =
        format!("trap 'echo bye > bye; exit' TERM; echo > {}; sleep 1000 & wait", done.display());
    fixture.turn(&[Call::Job(&line), Call::Gate(&(open, done))]).await;
    fixture.agent.handle.shutdown();
    fixture.agent.handle.wait_for_end().await;
    assert!(fixture.exists("bye"));
    let (config, id) = (fixture.config.clone(), fixture.agent.handle.session_id().clone());
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    assert_eq!(titles(journal.calls()), ["job:"]);
    journal.undo(&ALL, PLAIN).unwrap();
    assert!(!fixture.exists("bye"));
}

#[tokio::test]
async fn files_written_by_a_tool_are_not_recorded_as_changes_of_a_running_job() {
    let mut fixture = UndoFixture::new();
    let line = server(&fixture, "g", "echo more >> both");
    let gate = fixture.gate("g");
    let calls = [
        Call::Job(&line),
        Call::Put("own", "1"),
        Call::Put("both", "1"),
        Call::Gate(&gate),
        Call::Sh("true"),
    ];
    fixture.turn(&calls).await;
    let job = fixture.journal().calls().last().unwrap().clone();
    assert_eq!(
        (job.title.starts_with("job: "), job.files),
        (true, vec![fixture.root().join("both")])
    );
    fixture.undo(UndoTarget::Call("c1".to_owned()), PLAIN).await.unwrap();
    assert_eq!((fixture.read("own"), fixture.read("both")), ("1".to_owned(), "1".to_owned()));
}

#[tokio::test]
async fn files_restored_by_an_undo_are_not_recorded_as_changes_of_a_job() {
    let mut fixture = UndoFixture::new();
    fixture.turn(&[Call::Job("exec sleep 1000")]).await;
    fixture.turn(&[Call::Sh("echo 1 > a")]).await;
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    fixture.turn(&[Call::Sh("echo 2 > b")]).await;
    assert_eq!(titles(fixture.journal().calls()), ["echo", "echo"]);
}

#[tokio::test]
async fn undone_changes_of_autorun_files_stay_while_a_job_runs() {
    let mut fixture = UndoFixture::in_sandbox();
    fixture.write(".envrc", "use nix\n");
    fixture.turn(&[Call::Job("exec sleep 1000")]).await;
    fixture
        .turn(&[Call::Put(".vscode/tasks.json", "{}"), Call::Put(".envrc", "use flake\n")])
        .await;
    // The files are scanned for changes of the job before and after another command.
    let look = [Call::Sh("true")];
    fixture.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    fixture.turn(&look).await;
    assert_eq!(
        (fixture.exists(".vscode"), fixture.read(".envrc")),
        (false, "use nix\n".to_owned())
    );
    fixture.redo().await.unwrap();
    fixture.turn(&look).await;
    assert_eq!(fixture.read(".vscode/tasks.json"), "{}");
    assert_eq!(fixture.read(".envrc"), "use flake\n");
    let handle = fixture.agent.handle.clone();
    let restore =
        move || handle.undo_journal()?.restore(".envrc".as_ref(), &RestorePoint::Start, PLAIN);
    tokio::task::spawn_blocking(restore).await.unwrap().unwrap();
    let events = fixture.turn(&look).await;
    assert_eq!(fixture.read(".envrc"), "use nix\n");
    let is_warning = |event: &AgentEvent| {
        matches!(event, AgentEvent::Notice { level: NoticeLevel::Warning, .. })
    };
    assert!(!events.iter().any(|event| is_warning(&event.event)), "{events:?}");
}

#[tokio::test]
async fn changes_of_a_job_while_another_process_works_are_shared() {
    let mut fixture = UndoFixture::new();
    let line = server(&fixture, "g", "echo made > made");
    fixture.turn(&[Call::Job(&line)]).await;
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let other_stores = SnapshotStores::new(fixture.snapshots(), limits, None);
    let other = other_stores.open(&fixture.root()).unwrap().activities().begin().unwrap();
    fixture.turn(&[Call::Gate(&fixture.gate("g"))]).await;
    drop(other);
    assert!(fixture.journal().calls()[0].shared);
    let report = fixture.undo(ALL, PLAIN).await.unwrap();
    assert!(matches!(report.paths[0].outcome, PathOutcome::Conflict { .. }));
    assert!(fixture.exists("made"));
}

#[tokio::test]
async fn a_call_during_a_job_of_another_session_is_shared() {
    let mut fixture = UndoFixture::new();
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let other_stores = SnapshotStores::new(fixture.snapshots(), limits, None);
    let store = other_stores.open(&fixture.root()).unwrap();
    let own = store.activities().begin_job(fixture.agent.handle.session_id()).unwrap();
    assert!(!metadata(&fixture.turn(&[Call::Sh("echo 1 > a")]).await).shared);
    let other = store.activities().begin_job(&SessionId::new("another")).unwrap();
    assert!(metadata(&fixture.turn(&[Call::Sh("echo 1 > b")]).await).shared);
    drop((own, other));
    assert!(!metadata(&fixture.turn(&[Call::Sh("echo 1 > c")]).await).shared);
}
