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

use super::stage::{Call, Stage, metadata};

const ALL: UndoTarget = UndoTarget::ToStart;
const PLAIN: UndoOptions = UndoOptions { force: false, dry_run: false, chat: false };

/// Returns a shell line that does the work when its gate opens, and then keeps running.
fn server(stage: &Stage, name: &str, work: &str) -> String {
    stage.gated(name, work) + "; exec sleep 1000"
}

/// The pipes of a gate.
fn pipes(stage: &Stage, name: &str) -> (NamedPipe, NamedPipe) {
    let (open, done) = stage.gate(name);
    (NamedPipe::at(&open), NamedPipe::at(&done))
}

fn titles(calls: &[ChangedCall]) -> Vec<&str> {
    calls.iter().map(|call| call.title.split(' ').next().unwrap()).collect()
}

#[tokio::test]
async fn changes_of_a_job_between_two_calls_are_undone_with_its_call() {
    let mut stage = Stage::new();
    stage.write("kept", "old");
    let line = server(&stage, "g", "echo new > kept; echo made > made");
    let gate = stage.gate("g");
    stage.turn(&[Call::Job(&line), Call::Gate(&gate), Call::Sh("echo 1 > other")]).await;
    let calls = stage.journal().calls().to_vec();
    assert_eq!(titles(&calls), ["job:", "echo"]);
    assert_eq!((calls[0].call_id.as_str(), calls[0].turn, calls[0].shared), ("c1", 1, false));
    assert_eq!((calls[0].changes.created, calls[0].changes.modified), (1, 1));
    stage.undo(UndoTarget::Call("c1".to_owned()), PLAIN).await.unwrap();
    assert_eq!((stage.exists("made"), stage.exists("other")), (false, true));
    assert_eq!(stage.read("kept"), "old");
    stage.redo().await.unwrap();
    assert_eq!(stage.read("made"), "made\n");
}

#[tokio::test]
async fn changes_of_a_job_are_undone_with_its_turn() {
    let mut stage = Stage::new();
    let line = server(&stage, "g", "echo made > made");
    stage.turn(&[Call::Job(&line), Call::Gate(&stage.gate("g"))]).await;
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    assert!(!stage.exists("made"));
}

#[tokio::test]
async fn changes_of_a_job_after_its_turn_are_undone_to_the_start() {
    let mut stage = Stage::new();
    let line = stage.gated("g", "echo made > made");
    stage.turn(&[Call::Job(&line)]).await;
    let (open, done) = pipes(&stage, "g");
    open.tell().await;
    done.told().await;
    stage.agent.until(|event| matches!(event, AgentEvent::JobChanges { .. })).await;
    let calls = stage.journal().calls().to_vec();
    assert_eq!((titles(&calls), calls[0].turn), (vec!["job:"], 1));
    stage.undo(ALL, PLAIN).await.unwrap();
    assert!(!stage.exists("made"));
}

#[tokio::test]
async fn changes_of_a_job_between_two_turns_belong_to_the_first_turn() {
    let mut stage = Stage::new();
    let line = server(&stage, "g", "echo made > made");
    stage.turn(&[Call::Job(&line)]).await;
    let (open, done) = pipes(&stage, "g");
    open.tell().await;
    done.told().await;
    stage.turn(&[Call::Sh("echo 2 > second")]).await;
    let calls = stage.journal().calls().to_vec();
    assert_eq!((titles(&calls), calls[0].turn, calls[1].turn), (vec!["job:", "echo"], 1, 2));
    stage.undo(UndoTarget::BackTo(2), PLAIN).await.unwrap();
    assert_eq!((stage.exists("made"), stage.exists("second")), (true, false));
    stage.undo(ALL, PLAIN).await.unwrap();
    assert!(!stage.exists("made"));
}

#[tokio::test]
async fn changes_of_a_job_at_the_end_of_its_agent_are_recorded() {
    let mut stage = Stage::new();
    let (open, done) = stage.gate("ready");
    let line =
        format!("trap 'echo bye > bye; exit' TERM; echo > {}; sleep 1000 & wait", done.display());
    stage.turn(&[Call::Job(&line), Call::Gate(&(open, done))]).await;
    stage.agent.handle.shutdown();
    stage.agent.handle.ended().await;
    assert!(stage.exists("bye"));
    let (config, id) = (stage.config.clone(), stage.agent.handle.session_id().clone());
    let mut journal = UndoJournal::open(&config, &id).unwrap();
    assert_eq!(titles(journal.calls()), ["job:"]);
    journal.undo(&ALL, PLAIN).unwrap();
    assert!(!stage.exists("bye"));
}

#[tokio::test]
async fn files_written_by_a_tool_are_not_recorded_as_changes_of_a_running_job() {
    let mut stage = Stage::new();
    let line = server(&stage, "g", "echo more >> both");
    let gate = stage.gate("g");
    let calls = [
        Call::Job(&line),
        Call::Put("own", "1"),
        Call::Put("both", "1"),
        Call::Gate(&gate),
        Call::Sh("true"),
    ];
    stage.turn(&calls).await;
    let job = stage.journal().calls().last().unwrap().clone();
    assert_eq!(
        (job.title.starts_with("job: "), job.files),
        (true, vec![stage.root().join("both")])
    );
    stage.undo(UndoTarget::Call("c1".to_owned()), PLAIN).await.unwrap();
    assert_eq!((stage.read("own"), stage.read("both")), ("1".to_owned(), "1".to_owned()));
}

#[tokio::test]
async fn files_restored_by_an_undo_are_not_recorded_as_changes_of_a_job() {
    let mut stage = Stage::new();
    stage.turn(&[Call::Job("exec sleep 1000")]).await;
    stage.turn(&[Call::Sh("echo 1 > a")]).await;
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    stage.turn(&[Call::Sh("echo 2 > b")]).await;
    assert_eq!(titles(stage.journal().calls()), ["echo", "echo"]);
}

#[tokio::test]
async fn undone_changes_of_autorun_files_stay_while_a_job_runs() {
    let mut stage = Stage::in_sandbox();
    stage.write(".envrc", "use nix\n");
    stage.turn(&[Call::Job("exec sleep 1000")]).await;
    stage.turn(&[Call::Put(".vscode/tasks.json", "{}"), Call::Put(".envrc", "use flake\n")]).await;
    // The files are scanned for changes of the job before and after another command.
    let look = [Call::Sh("true")];
    stage.undo(UndoTarget::LastTurn, PLAIN).await.unwrap();
    stage.turn(&look).await;
    assert_eq!((stage.exists(".vscode"), stage.read(".envrc")), (false, "use nix\n".to_owned()));
    stage.redo().await.unwrap();
    stage.turn(&look).await;
    assert_eq!(stage.read(".vscode/tasks.json"), "{}");
    assert_eq!(stage.read(".envrc"), "use flake\n");
    let handle = stage.agent.handle.clone();
    let restore =
        move || handle.undo_journal()?.restore(".envrc".as_ref(), &RestorePoint::Start, PLAIN);
    tokio::task::spawn_blocking(restore).await.unwrap().unwrap();
    let events = stage.turn(&look).await;
    assert_eq!(stage.read(".envrc"), "use nix\n");
    let is_warning = |event: &AgentEvent| {
        matches!(event, AgentEvent::Notice { level: NoticeLevel::Warning, .. })
    };
    assert!(!events.iter().any(|event| is_warning(&event.event)), "{events:?}");
}

#[tokio::test]
async fn changes_of_a_job_while_another_process_works_are_shared() {
    let mut stage = Stage::new();
    let line = server(&stage, "g", "echo made > made");
    stage.turn(&[Call::Job(&line)]).await;
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let elsewhere = SnapshotStores::new(stage.snapshots(), limits, None);
    let other = elsewhere.of(&stage.root()).unwrap().begin().unwrap();
    stage.turn(&[Call::Gate(&stage.gate("g"))]).await;
    drop(other);
    assert!(stage.journal().calls()[0].shared);
    let report = stage.undo(ALL, PLAIN).await.unwrap();
    assert!(matches!(report.paths[0].outcome, PathOutcome::Conflict { .. }));
    assert!(stage.exists("made"));
}

#[tokio::test]
async fn a_call_during_a_job_of_another_session_is_shared() {
    let mut stage = Stage::new();
    let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
    let elsewhere = SnapshotStores::new(stage.snapshots(), limits, None);
    let store = elsewhere.of(&stage.root()).unwrap();
    let own = store.begin_job(stage.agent.handle.session_id()).unwrap();
    assert!(!metadata(&stage.turn(&[Call::Sh("echo 1 > a")]).await).shared);
    let other = store.begin_job(&SessionId::new("another")).unwrap();
    assert!(metadata(&stage.turn(&[Call::Sh("echo 1 > b")]).await).shared);
    drop((own, other));
    assert!(!metadata(&stage.turn(&[Call::Sh("echo 1 > c")]).await).shared);
}
