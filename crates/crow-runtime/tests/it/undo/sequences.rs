//! Random sequences of actions of agents and users, compared with a model of what each path should be.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use crow_core::event::AgentEvent;
use crow_runtime::{RestorePoint, UndoError, UndoOptions, UndoReport, UndoTarget};
use crow_testkit::NamedPipe;
use proptest::prelude::*;

use super::{
    path_model::{Aim, Author, Model, NAMES},
    stage::{Call, Stage},
};
use crate::support::cases;

/// Maximum duration of one action.
const DEADLINE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
enum Deed {
    /// A turn of calls.
    Turn(Vec<CallDeed>),
    /// A turn that starts a job, which writes when the turn is over.
    Job(usize),
    /// The user writes or removes a file.
    Edit(usize, bool),
    /// The user restores a file to its state before a turn, counted back from the last one.
    Restore(usize, u32),
    Undo(Aim, bool),
    /// An undo that is killed after it restored its files. Then the user writes the second file, and the agent may take
    /// a turn, before the next undo finds the unfinished one.
    KilledUndo(Aim, bool, Vec<CallDeed>),
    Redo(bool),
}

#[derive(Debug, Clone)]
enum CallDeed {
    Put(usize),
    /// A command that writes some files and removes others.
    Command(Vec<(usize, bool)>),
}

/// The model and the real agent, driven by the same actions.
struct Play {
    stage: Stage,
    model: Model,
    number: usize,
}

impl Play {
    fn new() -> Self {
        let stage = Stage::new();
        stage.write("a", "0\n");
        // Keeps the folder in place: the model knows files only.
        stage.write("d/kept", "");
        let mut model = Model::default();
        model.files[0] = Some("0\n".to_owned());
        Self { stage, model, number: 0 }
    }

    async fn does(&mut self, deed: &Deed) {
        match deed {
            Deed::Turn(calls) => self.turn(calls).await,
            Deed::Job(path) => self.job(*path).await,
            Deed::Edit(path, is_removal) => self.edit(*path, *is_removal),
            Deed::Restore(path, back) => self.restore(*path, *back).await,
            Deed::Undo(aim, force) => {
                let known = self.model.undo(*aim, *force, &BTreeSet::new());
                self.undone(*aim, *force, known).await;
            }
            Deed::KilledUndo(aim, force, turn) => self.killed_undo(*aim, *force, turn).await,
            Deed::Redo(force) => {
                let known = self.model.redo(*force);
                let options = UndoOptions { force: *force, ..UndoOptions::default() };
                let handle = self.stage.agent.handle.clone();
                let work = move || handle.undo_journal()?.redo(options);
                let found = tokio::task::spawn_blocking(work).await.unwrap();
                assert_eq!(known, is_known(&found), "{found:?}");
            }
        }
    }

    async fn turn(&mut self, calls: &[CallDeed]) {
        self.model.turns += 1;
        let mut lines = Vec::new();
        for call in calls {
            self.number += 1;
            let place = self.model.calls.len();
            let edits = match call {
                CallDeed::Put(path) => vec![(*path, false)],
                CallDeed::Command(edits) => edits.clone(),
            };
            let before = self.model.files.clone();
            let mut line = ":".to_owned();
            let mut text = String::new();
            for (path, is_removal) in edits {
                let name = NAMES[path];
                if is_removal {
                    write!(line, "; rm -f {name}").unwrap();
                    self.model.files[path] = None;
                } else {
                    text = self.model.new_content();
                    write!(line, "; echo {} > {name}", text.trim()).unwrap();
                    self.model.files[path] = Some(text.clone());
                }
            }
            let after = std::mem::replace(&mut self.model.files, before);
            if after != self.model.files {
                self.model.calls.push((self.model.turns, format!("c{}", self.number)));
            }
            for (path, content) in after.into_iter().enumerate() {
                self.model.change(path, Author::Call(place), content);
            }
            lines.push((call, line, text));
        }
        let calls: Vec<Call<'_>> = lines
            .iter()
            .map(|(call, line, text)| match call {
                CallDeed::Put(path) => Call::Put(NAMES[*path], text),
                CallDeed::Command(_) => Call::Sh(line),
            })
            .collect();
        self.stage.turn(&calls).await;
    }

    async fn job(&mut self, path: usize) {
        self.model.turns += 1;
        self.number += 1;
        let place = self.model.calls.len();
        let text = self.model.new_content();
        self.model.calls.push((self.model.turns, format!("c{}", self.number)));
        self.model.change(path, Author::Call(place), Some(text.clone()));
        let name = format!("gate{}", self.number);
        let work = format!("echo {} > {}", text.trim(), NAMES[path]);
        let line = self.stage.gated(&name, &work);
        self.stage.turn(&[Call::Job(&line)]).await;
        let (open, done) = self.stage.gate(&name);
        let (open, done) = (NamedPipe::at(&open), NamedPipe::at(&done));
        open.tell().await;
        done.told().await;
        self.stage.agent.until(|event| matches!(event, AgentEvent::JobChanges { .. })).await;
    }

    fn edit(&mut self, path: usize, is_removal: bool) {
        if is_removal {
            self.model.files[path] = None;
            drop(std::fs::remove_file(self.stage.root().join(NAMES[path])));
        } else {
            let text = self.model.new_content();
            self.stage.write(NAMES[path], &text);
            self.model.files[path] = Some(text);
        }
    }

    async fn restore(&mut self, path: usize, back: u32) {
        let has_changes =
            self.model.changes[path].iter().any(|change| matches!(change.author, Author::Call(_)));
        let Some(turn) = self.model.turn(back).filter(|_| has_changes) else { return };
        self.model.restore(path, turn);
        let handle = self.stage.agent.handle.clone();
        let work = move || {
            let at = RestorePoint::BeforeTurn(turn);
            handle.undo_journal()?.restore(NAMES[path].as_ref(), &at, UndoOptions::default())
        };
        tokio::task::spawn_blocking(work).await.unwrap().unwrap();
    }

    async fn undone(&self, aim: Aim, force: bool, known: bool) {
        let target = match aim {
            Aim::Last => UndoTarget::LastTurn,
            Aim::Call(back) => match self.model.call(back) {
                Some(call) => UndoTarget::Call(self.model.calls[call].1.clone()),
                None => return,
            },
            Aim::Turn(back) => match self.model.turn(back) {
                Some(turn) => UndoTarget::Turn(turn),
                None => return,
            },
            Aim::BackTo(back) => match self.model.turn(back) {
                Some(turn) => UndoTarget::BackTo(turn),
                None => return,
            },
            Aim::ToStart => UndoTarget::ToStart,
        };
        let options = UndoOptions { force, ..UndoOptions::default() };
        let found = self.stage.undo(target, options).await;
        assert_eq!(known, is_known(&found), "{aim:?}: {found:?}");
    }

    async fn killed_undo(&mut self, aim: Aim, force: bool, turn: &[CallDeed]) {
        let spared: BTreeSet<usize> = [1].into();
        let lines = self.stage.undo_lines();
        let before = self.model.records.len();
        let known = self.model.undo(aim, force, &spared);
        self.undone(aim, force, known).await;
        if self.stage.undo_lines() == lines + 2 {
            self.stage.forget_end_of_undo();
        } else {
            assert!(self.model.records.len() - before <= 1);
        }
        for path in spared {
            self.edit(path, false);
        }
        if !turn.is_empty() {
            self.turn(turn).await;
        }
        let handle = self.stage.agent.handle.clone();
        let options = UndoOptions::default();
        let look =
            move || handle.undo_journal()?.restore("none".as_ref(), &RestorePoint::End, options);
        let found = tokio::task::spawn_blocking(look).await.unwrap();
        assert!(matches!(found, Err(UndoError::UnknownPath { .. })), "{found:?}");
    }

    fn compare(&self, deeds: &[Deed]) {
        for (path, content) in NAMES.iter().zip(&self.model.files) {
            let found = std::fs::read_to_string(self.stage.root().join(path)).ok();
            assert_eq!(&found, content, "{path} after {deeds:#?}\n{:#?}", self.model);
        }
    }
}

fn is_known(found: &Result<UndoReport, UndoError>) -> bool {
    match found {
        Ok(_) => true,
        Err(
            UndoError::Nothing { .. }
            | UndoError::UndoneAlready
            | UndoError::UnknownTurn { .. }
            | UndoError::UnknownCall { .. },
        ) => false,
        Err(error) => panic!("{error}"),
    }
}

fn aim() -> impl Strategy<Value = Aim> {
    prop_oneof![
        4 => Just(Aim::Last),
        1 => (0..4usize).prop_map(Aim::Call),
        1 => (0..3u32).prop_map(Aim::Turn),
        1 => (0..3u32).prop_map(Aim::BackTo),
        2 => Just(Aim::ToStart),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let path = || 0..NAMES.len();
    let call = || {
        prop_oneof![
            path().prop_map(CallDeed::Put),
            prop::collection::vec((path(), prop::bool::weighted(0.3)), 1..3)
                .prop_map(CallDeed::Command),
        ]
    };
    prop_oneof![
        6 => prop::collection::vec(call(), 1..3).prop_map(Deed::Turn),
        1 => path().prop_map(Deed::Job),
        3 => (path(), prop::bool::weighted(0.3)).prop_map(|(path, gone)| Deed::Edit(path, gone)),
        2 => (path(), 0..3u32).prop_map(|(path, back)| Deed::Restore(path, back)),
        6 => (aim(), prop::bool::weighted(0.3)).prop_map(|(aim, force)| Deed::Undo(aim, force)),
        1 => (aim(), prop::bool::weighted(0.3), prop::collection::vec(call(), 0..3))
            .prop_map(|(aim, force, turn)| Deed::KilledUndo(aim, force, turn)),
        3 => prop::bool::weighted(0.2).prop_map(Deed::Redo),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, ..cases(32) })]

    #[test]
    fn random_sequences_leave_every_path_as_the_model_predicts(
        deeds in prop::collection::vec(deed(), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut play = Play::new();
            for (at, deed) in deeds.iter().enumerate() {
                let done = tokio::time::timeout(DEADLINE, play.does(deed)).await;
                assert!(done.is_ok(), "no end of {:#?}", &deeds[..=at]);
                play.compare(&deeds[..=at]);
            }
        });
    }
}
