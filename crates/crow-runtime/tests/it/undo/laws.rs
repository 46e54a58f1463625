//! Whatever calls do, undoing them leads back.

use std::{collections::BTreeMap, path::PathBuf};

use crow_runtime::{UndoError, UndoOptions, UndoTarget};
use proptest::prelude::*;

use super::stage::{Call, Stage, picture};
use crate::support::cases;

/// What a model may do to a few names.
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

type Picture = BTreeMap<PathBuf, String>;

/// Plays turns and returns the state before each and after the last one.
async fn play(stage: &mut Stage, turns: &[Vec<Deed>]) -> Vec<Picture> {
    let mut states = vec![picture(&stage.root())];
    for turn in turns {
        let calls: Vec<Call<'_>> = turn
            .iter()
            .map(|deed| match deed {
                Deed::Put(path, text) => Call::Put(path, text),
                Deed::Sh(line) => Call::Sh(line),
            })
            .collect();
        stage.turn(&calls).await;
        states.push(picture(&stage.root()));
    }
    states
}

async fn leads_back(turns: Vec<Vec<Deed>>, point: usize) {
    let mut stage = Stage::new();
    stage.write("a", "1\n");
    stage.write("d/a", "1\n");
    stage.write("d/e/a", "1\n");
    let states = play(&mut stage, &turns).await;
    let point = point % states.len();
    let target = UndoTarget::BackTo(u32::try_from(point).unwrap() + 1);
    // A turn that changed nothing is not there to go back to.
    let undone = stage.undo(target, UndoOptions::default()).await;
    match &undone {
        Ok(report) => assert!(report.is_complete(), "{:#?}", report.paths),
        Err(UndoError::UnknownTurn { .. }) => assert_eq!(states[point], states[states.len() - 1]),
        Err(error) => panic!("{error}: {turns:#?}"),
    }
    assert_eq!(picture(&stage.root()), states[point], "back to {point} of {turns:#?}");
    match (undone, stage.redo().await) {
        (Ok(_), Ok(report)) => {
            assert!(report.is_complete(), "{:#?}", report.paths);
            assert_eq!(picture(&stage.root()), states[states.len() - 1], "redo from {point}");
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
    assert_eq!(picture(&stage.root()), states[0], "to the start of {turns:#?}");
}

proptest! {
    // A failing case shrinks slowly: each one plays whole sessions.
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..cases(24) })]

    #[test]
    fn whatever_calls_did_undoing_them_leads_to_any_state_before(
        turns in prop::collection::vec(prop::collection::vec(deed(), 1..4), 1..6),
        point in 0..8usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(leads_back(turns, point));
    }
}
