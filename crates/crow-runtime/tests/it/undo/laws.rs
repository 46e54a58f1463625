//! Properties: undoing random calls returns to an earlier state.

use std::{collections::BTreeMap, path::PathBuf};

use crow_runtime::{SnapshotLimits, UndoError, UndoOptions, UndoTarget};
use proptest::prelude::*;

use super::fixture::{Call, UndoFixture, tree_state};
use crate::support::cases;

/// A random call of a model on a few names.
#[derive(Debug, Clone)]
enum Action {
    Put(String, String),
    Sh(String),
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "d/a", "d/b", "d/e/a", "x y", "-n", "ä"])
        .prop_map(str::to_owned)
}

fn action() -> impl Strategy<Value = Action> {
    let path = || name().prop_map(|name| format!("'./{name}'"));
    let folder = || prop::sample::select(vec!["d", "d/e", "f", "g"]).prop_map(str::to_owned);
    let line = prop_oneof![
        (path(), 0..9u8).prop_map(|(path, text)| format!("echo {text} >> {path}")),
        path().prop_map(|path| format!("rm -f {path}")),
        (path(), path()).prop_map(|(from, to)| format!("mv {from} {to}")),
        (path(), path()).prop_map(|(from, to)| format!("ln -sfn {from} {to}")),
        (path(), path()).prop_map(|(from, to)| format!("ln -f {from} {to}")),
        (path(), prop::sample::select(vec!["600", "755", "444", "4755"]))
            .prop_map(|(path, mode)| format!("chmod {mode} {path}")),
        folder().prop_map(|folder| format!("mkdir -p {folder}")),
        folder().prop_map(|folder| format!("rm -rf {folder}")),
        (folder(), folder()).prop_map(|(from, to)| format!("mv {from} {to}")),
        (folder(), folder()).prop_map(|(from, to)| format!("cp -R {from} {to}")),
        (folder(), prop::sample::select(vec!["700", "755", "500"]))
            .prop_map(|(folder, mode)| format!("chmod {mode} {folder}")),
        Just("find . -name a -exec sed -i s/1/2/ {} +".to_owned()),
        Just("rm -rf ./* ".to_owned()),
        Just("touch a b && mkdir -p d/e f".to_owned()),
        Just("git init -q . && git add -A . && git commit -qm x".to_owned()),
        Just("git stash -qu; git checkout -q .; git clean -qfdx".to_owned()),
        folder().prop_map(|folder| format!("rm -rf {folder}; echo 1 > {folder}")),
        path().prop_map(|path| format!("rm -rf {path}; mkdir -p {path}/in")),
    ];
    prop_oneof![
        1 => (name(), "[0-9]{0,3}").prop_map(|(path, text)| Action::Put(path, text)),
        4 => line.prop_map(Action::Sh),
    ]
}

/// A random command on two folders; `@` stands for the other one.
fn action_in_two() -> impl Strategy<Value = Action> {
    let names = || (name(), name());
    let line = prop_oneof![
        names().prop_map(|(from, to)| format!("mv './{from}' '@/{to}'")),
        names().prop_map(|(from, to)| format!("mv '@/{from}' './{to}'")),
        names().prop_map(|(from, to)| format!("cp -R './{from}' '@/{to}'; rm -rf '@/{from}'")),
        (name(), 0..9u8).prop_map(|(path, text)| format!("echo {text} | tee -a @/{path} {path}")),
        Just("rm -rf ./* @/*".to_owned()),
        Just("rm -rf @".to_owned()),
        Just("mkdir -p @/d/e && touch @/a @/d/e/a && chmod 600 @/a".to_owned()),
        Just("ln -sfn \"$PWD\" @/link; ln -sfn @ link".to_owned()),
        Just("cp -R d @/copy".to_owned()),
    ];
    prop_oneof![2 => action(), 3 => line.prop_map(Action::Sh)]
}

/// Content of each folder; a missing folder is empty.
type TreeStates = Vec<BTreeMap<PathBuf, String>>;

fn tree_states(folders: &[PathBuf]) -> TreeStates {
    folders
        .iter()
        .map(|folder| if folder.exists() { tree_state(folder) } else { BTreeMap::new() })
        .collect()
}

/// Runs turns and returns the state before each and after the last one.
async fn run_turns(
    fixture: &mut UndoFixture,
    turns: &[Vec<Action>],
    folders: &[PathBuf],
) -> Vec<TreeStates> {
    let mut states = vec![tree_states(folders)];
    for turn in turns {
        let calls: Vec<Call<'_>> = turn
            .iter()
            .map(|action| match action {
                Action::Put(path, text) => Call::Put(path, text),
                Action::Sh(line) => Call::Sh(line),
            })
            .collect();
        fixture.turn(&calls).await;
        states.push(tree_states(folders));
    }
    states
}

async fn check_undo(turns: Vec<Vec<Action>>, point: usize) {
    let fixture = UndoFixture::new();
    let folders = [fixture.root()];
    undo_and_compare(fixture, &folders, turns, point).await;
}

async fn check_undo_in_two_roots(mut turns: Vec<Vec<Action>>, point: usize) {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().canonicalize().unwrap().join("other");
    std::fs::create_dir_all(other.join("d")).unwrap();
    std::fs::write(other.join("d/b"), "2\n").unwrap();
    for action in turns.iter_mut().flatten() {
        if let Action::Sh(line) = action {
            *line = line.replace('@', other.to_str().unwrap());
        }
    }
    let fixture = UndoFixture::with(SnapshotLimits::default(), &[&other]);
    let folders = [fixture.root(), other];
    undo_and_compare(fixture, &folders, turns, point).await;
}

async fn undo_and_compare(
    mut fixture: UndoFixture,
    folders: &[PathBuf],
    turns: Vec<Vec<Action>>,
    point: usize,
) {
    fixture.write("a", "1\n");
    fixture.write("d/a", "1\n");
    fixture.write("d/e/a", "1\n");
    let states = run_turns(&mut fixture, &turns, folders).await;
    // 1) Back to a random earlier state.
    let point = point % states.len();
    let target = UndoTarget::BackTo(u32::try_from(point).unwrap() + 1);
    // A turn that changed nothing is unknown to undo.
    let undone = fixture.undo(target, UndoOptions::default()).await;
    match &undone {
        Ok(report) => assert!(report.is_complete(), "{:#?}", report.paths),
        Err(UndoError::UnknownTurn { .. }) => assert_eq!(states[point], states[states.len() - 1]),
        Err(error) => panic!("{error}: {turns:#?}"),
    }
    assert_eq!(tree_states(folders), states[point], "back to {point} of {turns:#?}");
    // 2) Redo to the last state.
    match (undone, fixture.redo().await) {
        (Ok(_), Ok(report)) => {
            assert!(report.is_complete(), "{:#?}", report.paths);
            assert_eq!(tree_states(folders), states[states.len() - 1], "redo from {point}");
        }
        (Err(_), Err(UndoError::Nothing { .. })) => {}
        (undone, redone) => panic!("{undone:?}, but {redone:?}: {turns:#?}"),
    }
    // 3) Turn by turn back to the start.
    loop {
        match fixture.undo(UndoTarget::LastTurn, UndoOptions::default()).await {
            Ok(report) => assert!(report.is_complete(), "{:#?}", report.paths),
            Err(UndoError::Nothing { .. }) => break,
            Err(error) => panic!("{error}: {turns:#?}"),
        }
    }
    assert_eq!(tree_states(folders), states[0], "to the start of {turns:#?}");
}

proptest! {
    // A failing case shrinks slowly: each one plays whole sessions.
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..cases(24) })]

    #[test]
    fn undo_of_random_calls_returns_to_any_earlier_state(
        turns in prop::collection::vec(prop::collection::vec(action(), 1..4), 1..6),
        point in 0..8usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_undo(turns, point));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..cases(12) })]

    #[test]
    fn undo_of_random_calls_in_two_roots_returns_both_to_any_earlier_state(
        turns in prop::collection::vec(prop::collection::vec(action_in_two(), 1..4), 1..6),
        point in 0..8usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_undo_in_two_roots(turns, point));
    }
}
