//! Selection of calls and of points in the history.

use std::collections::BTreeSet;

use super::{
    CallKey, ChangedCall, RestorePoint, UndoError, UndoTarget,
    change_history::{ChangeHistory, TurnBoundary},
    reversal::StepAuthor,
};

/// The calls to undo, and the turn before which the conversation would continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndoSelection {
    /// Indexes of the calls, in order.
    pub(super) calls: Vec<usize>,
    /// Index of a restore record to undo instead of calls.
    pub(super) restore: Option<usize>,
    /// The turn of the first call.
    pub(super) turn: Option<TurnBoundary>,
}

impl UndoSelection {
    /// Returns the authors of the changes to undo.
    pub(super) fn authors(&self) -> Vec<StepAuthor> {
        let calls = self.calls.iter().map(|at| StepAuthor::Call(*at));
        calls.chain(self.restore.map(StepAuthor::Restore)).collect()
    }

    /// Removes other authors. Returns `None` if none is left.
    pub(super) fn retain_authors(mut self, authors: &BTreeSet<StepAuthor>) -> Option<Self> {
        self.calls.retain(|at| authors.contains(&StepAuthor::Call(*at)));
        self.restore = self.restore.filter(|at| authors.contains(&StepAuthor::Restore(*at)));
        (!self.calls.is_empty() || self.restore.is_some()).then_some(self)
    }
}

impl ChangeHistory {
    /// Selects the calls of a target that are not undone. With `chat`, turns without changes count as well.
    pub(super) fn select(
        &self,
        target: &UndoTarget,
        chat: bool,
    ) -> Result<UndoSelection, UndoError> {
        let open_calls = |keep: &dyn Fn(&ChangedCall) -> bool| -> Vec<usize> {
            let fits = |(_, call): &(usize, &ChangedCall)| !call.undone && keep(call);
            self.calls.iter().enumerate().filter(fits).map(|(at, _)| at).collect()
        };
        let (calls, first) = match target {
            UndoTarget::LastTurn if chat => {
                let turn = self.turns.last().ok_or(UndoError::Nothing { what: "undo" })?.number;
                (open_calls(&|call| call.turn >= turn), turn)
            }
            UndoTarget::LastTurn => {
                let last = self.calls.iter().rev().find(|call| !call.undone);
                let turn = last.ok_or(UndoError::Nothing { what: "undo" })?.turn;
                (open_calls(&|call| call.turn == turn), turn)
            }
            UndoTarget::Call(id) => {
                let call = self.call(id)?;
                let found = self.calls.get(call).ok_or(UndoError::Nothing { what: "undo" })?;
                let is_same_call = |other: &ChangedCall| {
                    (&other.session_id, other.started) == (&found.session_id, found.started)
                };
                let calls = open_calls(&is_same_call);
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
                let calls = open_calls(&|_| true);
                if calls.is_empty() && !chat {
                    return Err(UndoError::Nothing { what: "undo" });
                }
                (calls, self.turns.first().map_or(0, |turn| turn.number))
            }
        };
        let turn = self.turns.iter().find(|turn| turn.number == first).copied();
        if chat {
            let turn = turn
                .ok_or(UndoError::TurnNotInConversation { turn: first, turns: self.last_turn() })?;
            // Later turns leave the conversation, so their file changes must not stay.
            if self.open_calls_after(turn.last_before) != calls {
                return Err(UndoError::ChatNeedsAll { turn: turn.number });
            }
        }
        Ok(UndoSelection { calls, restore: None, turn })
    }

    /// Returns the first turn of a target, which must be part of the conversation, and the number of the last event
    /// before it.
    pub(super) fn boundary_of(&self, target: &UndoTarget) -> Result<(u32, u64), UndoError> {
        let nothing = UndoError::Nothing { what: "rewind" };
        let turn = match target {
            UndoTarget::LastTurn => self.turns.last().ok_or(nothing)?.number,
            UndoTarget::ToStart => self.turns.first().ok_or(nothing)?.number,
            UndoTarget::Turn(turn) | UndoTarget::BackTo(turn) => *turn,
            UndoTarget::Call(id) => self.calls[self.call(id)?].turn,
        };
        let boundary = self.turns.iter().find(|known| known.number == turn);
        let boundary =
            boundary.ok_or(UndoError::TurnNotInConversation { turn, turns: self.last_turn() })?;
        Ok((turn, boundary.last_before))
    }

    /// Returns the indexes of the calls after an event that are not undone.
    pub(super) fn open_calls_after(&self, seq: u64) -> Vec<usize> {
        let is_open = |(_, call): &(usize, &ChangedCall)| call.seq > seq && !call.undone;
        self.calls.iter().enumerate().filter(is_open).map(|(at, _)| at).collect()
    }

    /// Creates a selection from the indexes of calls.
    pub(super) fn selection_of(&self, calls: Vec<usize>) -> UndoSelection {
        let first = calls.first().and_then(|at| self.calls.get(*at)).map(|call| call.turn);
        let turn = self.turns.iter().find(|turn| Some(turn.number) == first).copied();
        UndoSelection { calls, restore: None, turn }
    }

    /// Returns the indexes of the calls with these keys.
    pub(super) fn call_indexes(&self, keys: &[CallKey]) -> Vec<usize> {
        let keys: BTreeSet<&CallKey> = keys.iter().collect();
        let calls = self.calls.iter().enumerate();
        calls.filter(|(_, call)| keys.contains(&call.key())).map(|(at, _)| at).collect()
    }

    /// Returns the indexes of those calls that are not fully undone.
    pub(super) fn open_calls_of(&self, keys: &[CallKey]) -> Vec<usize> {
        let is_open = |at: &usize| self.calls.get(*at).is_some_and(|call| !call.undone);
        self.call_indexes(keys).into_iter().filter(is_open).collect()
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

    /// Returns the index of the call with this id or unique id prefix; of several calls with the same id, the last.
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
        // A call and the later changes of its jobs have the same id and count as one.
        begin.reverse();
        begin.dedup_by_key(|at| self.calls.get(*at).map(|call| (&call.session_id, call.started)));
        match begin.as_slice() {
            [] => Err(UndoError::UnknownCall { id: id.to_owned() }),
            [one] => Ok(*one),
            several => Err(UndoError::AmbiguousCall { id: id.to_owned(), count: several.len() }),
        }
    }

    /// Returns the number of calls before a point, which is the index of the first call after it.
    pub(super) fn calls_before(&self, point: &RestorePoint) -> Result<usize, UndoError> {
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
                self.check_turn(*turn)?;
                self.calls.partition_point(|call| call.turn < *turn)
            }
            RestorePoint::AfterTurn(turn) => {
                self.check_turn(*turn)?;
                self.calls.partition_point(|call| call.turn <= *turn)
            }
        })
    }

    fn check_turn(&self, turn: u32) -> Result<(), UndoError> {
        let known = self.turns.iter().any(|known| known.number == turn)
            || self.calls.iter().any(|call| call.turn == turn);
        if known { Ok(()) } else { Err(UndoError::UnknownTurn { turn, turns: self.last_turn() }) }
    }

    pub(super) fn last_turn(&self) -> u32 {
        let called = self.calls.iter().map(|call| call.turn);
        self.turns.iter().map(|turn| turn.number).chain(called).max().unwrap_or(0)
    }
}
