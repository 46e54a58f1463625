//! Properties: undoing random calls returns to an earlier state.

use std::{collections::BTreeMap, path::PathBuf};

use crow_runtime::{SnapshotLimits, UndoError, UndoOptions, UndoTarget};
use proptest::prelude::*;

use super::stage::{Call, Stage, picture};
use crate::support::cases;

/// A random call of a model on a few names.
#[derive(Debug, Clone)]
enum Deed {
    Put(String, String),
    Sh(String),
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "d/a", "d/b", "d/e/a", "x y", "-n", "ä"])
        .prop_map(str::to_owned)
}

fn deed() -> impl Strategy<Value = Deed> {
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
        1 => (name(), "[0-9]{0,3}").prop_map(|(path, text)| Deed::Put(path, text)),
        4 => line.prop_map(Deed::Sh),
    ]
}

/// A random command on two folders; `@` stands for the other one.
fn deed_in_two() -> impl Strategy<Value = Deed> {
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
    prop_oneof![2 => deed(), 3 => line.prop_map(Deed::Sh)]
}

/// Content of each folder; a missing folder is empty.
type Picture = Vec<BTreeMap<PathBuf, String>>;

fn pictures(folders: &[PathBuf]) -> Picture {
    folders
        .iter()
        .map(|folder| if folder.exists() { picture(folder) } else { BTreeMap::new() })
        .collect()
}

/// Runs turns and returns the state before each and after the last one.
async fn play(stage: &mut Stage, turns: &[Vec<Deed>], folders: &[PathBuf]) -> Vec<Picture> {
    let mut states = vec![pictures(folders)];
    for turn in turns {
        let calls: Vec<Call<'_>> = turn
            .iter()
            .map(|deed| match deed {
                Deed::Put(path, text) => Call::Put(path, text),
                Deed::Sh(line) => Call::Sh(line),
            })
            .collect();
        stage.turn(&calls).await;
        states.push(pictures(folders));
    }
    states
}

async fn leads_back(turns: Vec<Vec<Deed>>, point: usize) {
    let stage = Stage::new();
    let folders = [stage.root()];
    lead_back(stage, &folders, turns, point).await;
}

async fn leads_back_in_two(mut turns: Vec<Vec<Deed>>, point: usize) {
    let beside = tempfile::tempdir().unwrap();
    let other = beside.path().canonicalize().unwrap().join("other");
    std::fs::create_dir_all(other.join("d")).unwrap();
    std::fs::write(other.join("d/b"), "2\n").unwrap();
    for deed in turns.iter_mut().flatten() {
        if let Deed::Sh(line) = deed {
            *line = line.replace('@', other.to_str().unwrap());
        }
    }
    let stage = Stage::with(SnapshotLimits::default(), &[&other]);
    let folders = [stage.root(), other];
    lead_back(stage, &folders, turns, point).await;
}

async fn lead_back(mut stage: Stage, folders: &[PathBuf], turns: Vec<Vec<Deed>>, point: usize) {
    stage.write("a", "1\n");
    stage.write("d/a", "1\n");
    stage.write("d/e/a", "1\n");
    let states = play(&mut stage, &turns, folders).await;
    let point = point % states.len();
    let target = UndoTarget::BackTo(u32::try_from(point).unwrap() + 1);
    // A turn that changed nothing is unknown to undo.
    let undone = stage.undo(target, UndoOptions::default()).await;
    match &undone {
        Ok(report) => assert!(report.is_complete(), "{:#?}", report.paths),
        Err(UndoError::UnknownTurn { .. }) => assert_eq!(states[point], states[states.len() - 1]),
        Err(error) => panic!("{error}: {turns:#?}"),
    }
    assert_eq!(pictures(folders), states[point], "back to {point} of {turns:#?}");
    match (undone, stage.redo().await) {
        (Ok(_), Ok(report)) => {
            assert!(report.is_complete(), "{:#?}", report.paths);
            assert_eq!(pictures(folders), states[states.len() - 1], "redo from {point}");
        }
        (Err(_), Err(UndoError::Nothing { .. })) => {}
        (undone, redone) => panic!("{undone:?}, but {redone:?}: {turns:#?}"),
    }
    loop {
        match stage.undo(UndoTarget::LastTurn, UndoOptions::default()).await {
            Ok(report) => assert!(report.is_complete(), "{:#?}", report.paths),
            Err(UndoError::Nothing { .. }) => break,
            Err(error) => panic!("{error}: {turns:#?}"),
        }
    }
    assert_eq!(pictures(folders), states[0], "to the start of {turns:#?}");
}

proptest! {
    // A failing case shrinks slowly: each one plays whole sessions.
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..cases(24) })]

    #[test]
    fn undo_of_random_calls_returns_to_any_earlier_state(
        turns in prop::collection::vec(prop::collection::vec(deed(), 1..4), 1..6),
        point in 0..8usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(leads_back(turns, point));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..cases(12) })]

    #[test]
    fn undo_of_random_calls_in_two_roots_returns_both_to_any_earlier_state(
        turns in prop::collection::vec(prop::collection::vec(deed_in_two(), 1..4), 1..6),
        point in 0..8usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(leads_back_in_two(turns, point));
    }
}
