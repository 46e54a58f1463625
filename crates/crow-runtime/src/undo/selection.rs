//! Which calls are meant.

use super::{
    ChangedCall, RestorePoint, UndoError, UndoTarget,
    change_history::{ChangeHistory, TurnBoundary},
    reversal::StepAuthor,
};

/// The calls to undo, and where the conversation would go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndoSelection {
    /// Their places, in the order in which they were made.
    pub(super) calls: Vec<usize>,
    /// A restore of the user, by its place among the records: then there are no calls.
    pub(super) restore: Option<usize>,
    /// The first turn that they belong to.
    pub(super) turn: Option<TurnBoundary>,
}

impl UndoSelection {
    /// Returns whose changes are to be undone.
    pub(super) fn authors(&self) -> Vec<StepAuthor> {
        let calls = self.calls.iter().map(|at| StepAuthor::Call(*at));
        calls.chain(self.restore.map(StepAuthor::Restore)).collect()
    }
}

impl ChangeHistory {
    /// Finds the calls that a target means. With `chat`, turns count that changed no files, too.
    pub(super) fn choose(
        &self,
        target: &UndoTarget,
        chat: bool,
    ) -> Result<UndoSelection, UndoError> {
        let open = |keep: &dyn Fn(&ChangedCall) -> bool| -> Vec<usize> {
            let fits = |(_, call): &(usize, &ChangedCall)| !call.undone && keep(call);
            self.calls.iter().enumerate().filter(fits).map(|(at, _)| at).collect()
        };
        let (calls, first) = match target {
            UndoTarget::LastTurn if chat => {
                let turn = self.turns.last().ok_or(UndoError::Nothing { what: "undo" })?.number;
                (open(&|call| call.turn >= turn), turn)
            }
            UndoTarget::LastTurn => {
                let last = self.calls.iter().rev().find(|call| !call.undone);
                let turn = last.ok_or(UndoError::Nothing { what: "undo" })?.turn;
                (open(&|call| call.turn == turn), turn)
            }
            UndoTarget::Call(id) => {
                let call = self.call(id)?;
                let found = self.calls.get(call).ok_or(UndoError::Nothing { what: "undo" })?;
                let is_its = |other: &ChangedCall| {
                    (&other.session_id, other.started) == (&found.session_id, found.started)
                };
                let calls = open(&is_its);
                if calls.is_empty() {
                    return Err(UndoError::UndoneAlready);
                }
                (calls, found.turn)
            }
            UndoTarget::Turn(turn) => {
                (self.of_turns(*turn, chat, &|call| call.turn == *turn)?, *turn)
            }
            UndoTarget::BackTo(turn) => {
                (self.of_turns(*turn, chat, &|call| call.turn >= *turn)?, *turn)
            }
            UndoTarget::ToStart => {
                let calls = open(&|_| true);
                if calls.is_empty() && !chat {
                    return Err(UndoError::Nothing { what: "undo" });
                }
                (calls, self.turns.first().map_or(0, |turn| turn.number))
            }
        };
        let turn = self.turns.iter().find(|turn| turn.number == first).copied();
        if chat {
            let turn =
                turn.ok_or(UndoError::UnknownTurn { turn: first, turns: self.last_turn() })?;
            // What comes after is no longer part of the conversation: its files must not stay behind.
            if open(&|call| call.seq > turn.last_before) != calls {
                return Err(UndoError::ChatNeedsAll { turn: turn.number });
            }
        }
        Ok(UndoSelection { calls, restore: None, turn })
    }

    /// Chooses calls by their places.
    pub(super) fn chosen(&self, calls: Vec<usize>) -> UndoSelection {
        let first = calls.first().and_then(|at| self.calls.get(*at)).map(|call| call.turn);
        let turn = self.turns.iter().find(|turn| Some(turn.number) == first).copied();
        UndoSelection { calls, restore: None, turn }
    }

    fn of_turns(
        &self,
        turn: u32,
        chat: bool,
        fits: &dyn Fn(&ChangedCall) -> bool,
    ) -> Result<Vec<usize>, UndoError> {
        let fitting = || self.calls.iter().enumerate().filter(|(_, call)| fits(call));
        let open: Vec<usize> =
            fitting().filter(|(_, call)| !call.undone).map(|(at, _)| at).collect();
        if open.is_empty() && fitting().next().is_some() && !chat {
            return Err(UndoError::UndoneAlready);
        }
        if open.is_empty() && !chat {
            return Err(UndoError::UnknownTurn { turn, turns: self.last_turn() });
        }
        Ok(open)
    }

    /// Finds a call by its id or the beginning of it; of several with the same id the last one is meant.
    pub(super) fn call(&self, id: &str) -> Result<usize, UndoError> {
        let places = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let fitting =
                self.calls.iter().enumerate().filter(|(_, call)| fits(call.call_id.as_str()));
            fitting.map(|(at, _)| at).collect()
        };
        if let Some(exact) = places(&|other| other == id).last() {
            return Ok(*exact);
        }
        let mut begin = places(&|other| !id.is_empty() && other.starts_with(id));
        // A call and what its jobs changed later have one id.
        begin.reverse();
        begin.dedup_by_key(|at| self.calls.get(*at).map(|call| (&call.session_id, call.started)));
        match begin.as_slice() {
            [] => Err(UndoError::UnknownCall { id: id.to_owned() }),
            [one] => Ok(*one),
            several => Err(UndoError::AmbiguousCall { id: id.to_owned(), count: several.len() }),
        }
    }

    /// Returns how many of the calls come before a point.
    pub(super) fn place(&self, point: &RestorePoint) -> Result<usize, UndoError> {
        Ok(match point {
            RestorePoint::Start => 0,
            RestorePoint::End => self.calls.len(),
            RestorePoint::BeforeCall(id) => {
                let last = self.call(id)?;
                let call =
                    |at: usize| self.calls.get(at).map(|call| (&call.session_id, call.started));
                (0..=last).find(|at| call(*at) == call(last)).unwrap_or(last)
            }
            RestorePoint::AfterCall(id) => self.call(id)? + 1,
            RestorePoint::BeforeTurn(turn) => {
                self.known_turn(*turn)?;
                self.calls.partition_point(|call| call.turn < *turn)
            }
            RestorePoint::AfterTurn(turn) => {
                self.known_turn(*turn)?;
                self.calls.partition_point(|call| call.turn <= *turn)
            }
        })
    }

    fn known_turn(&self, turn: u32) -> Result<(), UndoError> {
        let known = self.turns.iter().any(|known| known.number == turn)
            || self.calls.iter().any(|call| call.turn == turn);
        if known { Ok(()) } else { Err(UndoError::UnknownTurn { turn, turns: self.last_turn() }) }
    }

    pub(super) fn last_turn(&self) -> u32 {
        let called = self.calls.iter().map(|call| call.turn);
        self.turns.iter().map(|turn| turn.number).chain(called).max().unwrap_or(0)
    }
}
