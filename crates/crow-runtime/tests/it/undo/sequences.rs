//! Random sequences of actions of agents and users, compared with a model of what each path should be.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use crow_core::event::AgentEvent;
use crow_runtime::{RestorePoint, UndoError, UndoOptions, UndoReport, UndoTarget};
use crow_testkit::NamedPipe;
use proptest::prelude::*;

use super::{
    fixture::{Call, UndoFixture},
    path_model::{Aim, Author, Model, NAMES},
};
use crate::support::cases;

/// Maximum duration of one action.
const DEADLINE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
enum Action {
    /// A turn of calls.
    Turn(Vec<CallAction>),
    /// A turn that starts a job, which writes when the turn is over.
    Job(usize),
    /// The user writes or removes a file.
    Edit(usize, bool),
    /// The user restores a file to its state before a turn, counted back from the last one.
    Restore(usize, u32),
    Undo(Aim, bool),
    /// An undo of one path.
    UndoAt(Aim, bool, usize),
    /// An undo that is killed after it restored its files. Then the user writes the second file, and the agent may take
    /// a turn, before the next undo finds the unfinished one.
    KilledUndo(Aim, bool, Vec<CallAction>),
    Redo(bool),
}

#[derive(Debug, Clone)]
enum CallAction {
    Put(usize),
    /// A command that writes some files and removes others.
    Command(Vec<(usize, bool)>),
}

/// The model and the real agent, driven by the same actions.
struct Simulation {
    fixture: UndoFixture,
    model: Model,
    number: usize,
}

impl Simulation {
    fn new() -> Self {
        let fixture = UndoFixture::new();
        fixture.write("a", "0\n");
        // Keeps the folder in place: the model knows files only.
        fixture.write("d/kept", "");
        let mut model = Model::default();
        model.files[0] = Some("0\n".to_owned());
        Self { fixture, model, number: 0 }
    }

    async fn perform(&mut self, action: &Action) {
        match action {
            Action::Turn(calls) => self.turn(calls).await,
            Action::Job(path) => self.job(*path).await,
            Action::Edit(path, is_removal) => self.edit(*path, *is_removal),
            Action::Restore(path, back) => self.restore(*path, *back).await,
            Action::Undo(aim, force) => {
                let expected = self.model.undo(*aim, *force, &BTreeSet::new());
                self.run_undo(*aim, *force, None, expected).await;
            }
            Action::UndoAt(aim, force, path) => {
                let expected = self.model.undo_at(*aim, *force, *path);
                self.run_undo(*aim, *force, Some(NAMES[*path]), expected).await;
            }
            Action::KilledUndo(aim, force, turn) => self.killed_undo(*aim, *force, turn).await,
            Action::Redo(force) => {
                let expected = self.model.redo(*force);
                let options = UndoOptions { force: *force, ..UndoOptions::default() };
                let handle = self.fixture.agent.handle.clone();
                let work = move || handle.undo_journal()?.redo(options);
                let result = tokio::task::spawn_blocking(work).await.unwrap();
                assert_eq!(expected, did_something(&result), "{result:?}");
            }
        }
    }

    async fn turn(&mut self, calls: &[CallAction]) {
        self.model.turns += 1;
        let mut lines = Vec::new();
        for call in calls {
            self.number += 1;
            let index = self.model.calls.len();
            let edits = match call {
                CallAction::Put(path) => vec![(*path, false)],
                CallAction::Command(edits) => edits.clone(),
            };
            // Apply the edits to a copy of the model's files and build the command.
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
            // Record the net change of each path in the model.
            let after = std::mem::replace(&mut self.model.files, before);
            if after != self.model.files {
                self.model.calls.push((self.model.turns, format!("c{}", self.number)));
            }
            for (path, content) in after.into_iter().enumerate() {
                self.model.change(path, Author::Call(index), content);
            }
            lines.push((call, line, text));
        }
        let calls: Vec<Call<'_>> = lines
            .iter()
            .map(|(call, line, text)| match call {
                CallAction::Put(path) => Call::Put(NAMES[*path], text),
                CallAction::Command(_) => Call::Sh(line),
            })
            .collect();
        self.fixture.turn(&calls).await;
    }

    async fn job(&mut self, path: usize) {
        self.model.turns += 1;
        self.number += 1;
        let index = self.model.calls.len();
        let text = self.model.new_content();
        self.model.calls.push((self.model.turns, format!("c{}", self.number)));
        self.model.change(path, Author::Call(index), Some(text.clone()));
        let name = format!("gate{}", self.number);
        let work = format!("echo {} > {}", text.trim(), NAMES[path]);
        let line = self.fixture.gated(&name, &work);
        self.fixture.turn(&[Call::Job(&line)]).await;
        let (open, done) = self.fixture.gate(&name);
        let (open, done) = (NamedPipe::at(&open), NamedPipe::at(&done));
        open.signal().await;
        done.wait_for_signal().await;
        self.fixture.agent.until(|event| matches!(event, AgentEvent::JobChanges { .. })).await;
    }

    fn edit(&mut self, path: usize, is_removal: bool) {
        if is_removal {
            self.model.files[path] = None;
            drop(std::fs::remove_file(self.fixture.root().join(NAMES[path])));
        } else {
            let text = self.model.new_content();
            self.fixture.write(NAMES[path], &text);
            self.model.files[path] = Some(text);
        }
    }

    async fn restore(&mut self, path: usize, back: u32) {
        let has_changes =
            self.model.changes[path].iter().any(|change| matches!(change.author, Author::Call(_)));
        let Some(turn) = self.model.turn(back).filter(|_| has_changes) else { return };
        self.model.restore(path, turn);
        let handle = self.fixture.agent.handle.clone();
        let work = move || {
            let at = RestorePoint::BeforeTurn(turn);
            handle.undo_journal()?.restore(NAMES[path].as_ref(), &at, UndoOptions::default())
        };
        tokio::task::spawn_blocking(work).await.unwrap().unwrap();
    }

    /// Undoes, only at `path` if it is given.
    async fn run_undo(&self, aim: Aim, force: bool, path: Option<&'static str>, expected: bool) {
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
        let handle = self.fixture.agent.handle.clone();
        let work = move || match path {
            Some(path) => handle.undo_journal()?.undo_paths(&target, &[path.into()], options),
            None => handle.undo_journal()?.undo(&target, options),
        };
        let result = tokio::task::spawn_blocking(work).await.unwrap();
        assert_eq!(expected, did_something(&result), "{aim:?}: {result:?}");
    }

    async fn killed_undo(&mut self, aim: Aim, force: bool, turn: &[CallAction]) {
        let spared: BTreeSet<usize> = [1].into();
        let lines = self.fixture.undo_lines();
        let before = self.model.records.len();
        let expected = self.model.undo(aim, force, &spared);
        self.run_undo(aim, force, None, expected).await;
        // An undo writes two lines; without the second one it looks killed.
        if self.fixture.undo_lines() == lines + 2 {
            self.fixture.remove_last_undo_line();
        } else {
            assert!(self.model.records.len() - before <= 1);
        }
        for path in spared {
            self.edit(path, false);
        }
        if !turn.is_empty() {
            self.turn(turn).await;
        }
        let handle = self.fixture.agent.handle.clone();
        let options = UndoOptions::default();
        // Any use of the journal completes the killed undo; this one changes nothing else.
        let restore_unknown =
            move || handle.undo_journal()?.restore("none".as_ref(), &RestorePoint::End, options);
        let result = tokio::task::spawn_blocking(restore_unknown).await.unwrap();
        assert!(matches!(result, Err(UndoError::UnknownPath { .. })), "{result:?}");
    }

    fn compare(&self, actions: &[Action]) {
        for (path, content) in NAMES.iter().zip(&self.model.files) {
            let actual = std::fs::read_to_string(self.fixture.root().join(path)).ok();
            assert_eq!(&actual, content, "{path} after {actions:#?}\n{:#?}", self.model);
        }
    }
}

fn did_something(result: &Result<UndoReport, UndoError>) -> bool {
    match result {
        Ok(_) => true,
        Err(
            UndoError::Nothing { .. }
            | UndoError::NothingAtPath { .. }
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

fn action() -> impl Strategy<Value = Action> {
    let path = || 0..NAMES.len();
    let call = || {
        prop_oneof![
            path().prop_map(CallAction::Put),
            prop::collection::vec((path(), prop::bool::weighted(0.3)), 1..3)
                .prop_map(CallAction::Command),
        ]
    };
    prop_oneof![
        6 => prop::collection::vec(call(), 1..3).prop_map(Action::Turn),
        1 => path().prop_map(Action::Job),
        3 => (path(), prop::bool::weighted(0.3)).prop_map(|(path, gone)| Action::Edit(path, gone)),
        2 => (path(), 0..3u32).prop_map(|(path, back)| Action::Restore(path, back)),
        6 => (aim(), prop::bool::weighted(0.3)).prop_map(|(aim, force)| Action::Undo(aim, force)),
        3 => (aim(), prop::bool::weighted(0.3), path())
            .prop_map(|(aim, force, path)| Action::UndoAt(aim, force, path)),
        1 => (aim(), prop::bool::weighted(0.3), prop::collection::vec(call(), 0..3))
            .prop_map(|(aim, force, turn)| Action::KilledUndo(aim, force, turn)),
        3 => prop::bool::weighted(0.2).prop_map(Action::Redo),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, ..cases(32) })]

    #[test]
    fn random_sequences_leave_every_path_as_the_model_predicts(
        actions in prop::collection::vec(action(), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut simulation = Simulation::new();
            for (at, action) in actions.iter().enumerate() {
                let done = tokio::time::timeout(DEADLINE, simulation.perform(action)).await;
                assert!(done.is_ok(), "no end of {:#?}", &actions[..=at]);
                simulation.compare(&actions[..=at]);
            }
        });
    }
}
