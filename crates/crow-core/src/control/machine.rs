//! The machine.

use serde::{Deserialize, Serialize};

use super::{CONTINUE, Consensus, ControlFlow, OwnerOfTheEnd, Review};
use crate::{
    hash::fnv1a,
    run::{Failure, FailureKind, InputSource, Verdict},
    turn::{LimitKind, RunLimits, RunUsage, TurnEnd},
};

/// Rounds in a row that come to the same after which the run is ended.
const SAME_ROUNDS: u32 = 3;
/// What a primary is told when its reviewer had nothing to say.
const SILENT_REVIEWER: &str = "The reviewer looked at the work, did not approve it, and said nothing. Look at the files again, check them against the task, and go on.";

/// What the driver does next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextAction {
    /// A turn of the primary. The first one answers the user.
    PrimaryTurn {
        /// What it is told before, and whose words these are.
        message: Option<(InputSource, String)>,
    },
    /// A model is asked for a message: it sees the task, what the turn came to, and this prompt.
    Generate {
        /// The prompt.
        prompt: String,
    },
    /// The coagents look at the primary's turn.
    Review,
    /// The run is over.
    Finish(RunFinish),
}

/// How a run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunFinish {
    /// Who may say so says that the task is done.
    Completed {
        /// What it says about it.
        summary: String,
        /// Who said it.
        by: OwnerOfTheEnd,
    },
    /// The next word is the user's.
    NeedsInput,
    /// A bound or the loop guard ended it.
    Stopped(TurnEnd),
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed(Failure),
}

/// What the machine needs to know of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFacts {
    /// How it ended.
    pub end: TurnEnd,
    /// The last words.
    pub text: String,
    /// Its calls with what each came to, a line each, without ids.
    pub calls: Vec<String>,
    /// Whether anything was changed by it.
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ControlPhase {
    Primary(Option<(InputSource, String)>),
    Generating,
    Reviewing,
    Finished(RunFinish),
}

/// Two rounds with one fingerprint came to the same: the last words, and the calls with their results. Text alone would take
/// a model that explores without a word for one that is stuck.
fn fingerprint(turn: &TurnFacts) -> u64 {
    let mut told = turn.text.trim().to_owned();
    for call in &turn.calls {
        told.push('\n');
        told.push_str(call);
    }
    fnv1a(told.as_bytes())
}

/// Decides what comes next in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlMachine {
    flow: ControlFlow,
    limits: RunLimits,
    has_coagents: bool,
    consensus: Consensus,
    phase: ControlPhase,
    rounds: u32,
    last_round: u64,
    same_rounds: u32,
    /// What the round under way came to so far.
    round: u64,
    changed: bool,
}

impl ControlMachine {
    /// Starts a run: the user has spoken, and the primary is about to answer.
    pub fn new(
        flow: ControlFlow,
        limits: RunLimits,
        has_coagents: bool,
        consensus: Consensus,
    ) -> Self {
        Self {
            flow,
            limits,
            has_coagents,
            consensus,
            phase: ControlPhase::Primary(None),
            rounds: 0,
            last_round: 0,
            same_rounds: 0,
            round: 0,
            changed: false,
        }
    }

    /// Returns how many rounds are complete.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns what comes next. Asking twice gives the same answer.
    pub fn next_action(&self) -> NextAction {
        match &self.phase {
            ControlPhase::Primary(message) => NextAction::PrimaryTurn { message: message.clone() },
            ControlPhase::Generating => NextAction::Generate { prompt: self.generator_prompt() },
            ControlPhase::Reviewing => NextAction::Review,
            ControlPhase::Finished(finish) => NextAction::Finish(finish.clone()),
        }
    }

    /// The primary's turn is over. `spent` is what the run used so far, its rounds not counted.
    pub fn on_primary_turn(&mut self, turn: &TurnFacts, spent: RunUsage) {
        if !matches!(self.phase, ControlPhase::Primary(_)) {
            return;
        }
        self.round = fingerprint(turn);
        self.changed = turn.changed;
        if let Some(finish) = leaves(&turn.end) {
            return self.finish(finish);
        }
        // At every other level a turn that reaches its bound is over, and the run goes on.
        if let (TurnEnd::MaxSteps { .. }, ControlFlow::Hitl) = (&turn.end, &self.flow) {
            return self.finish(RunFinish::Stopped(turn.end.clone()));
        }
        if self.limits.max_time.is_some_and(|most| spent.time >= most) {
            // What came after the deadline came too late, whatever it says.
            return self.finish(RunFinish::Stopped(TurnEnd::Budget { limit: LimitKind::Time }));
        }
        if let (TurnEnd::TaskComplete { summary }, OwnerOfTheEnd::Primary) =
            (&turn.end, self.flow.owner_of_the_end())
        {
            let by = OwnerOfTheEnd::Primary;
            return self.finish(RunFinish::Completed { summary: summary.clone(), by });
        }
        let is_empty = turn.text.trim().is_empty() && turn.end == TurnEnd::Text;
        match &self.flow {
            ControlFlow::Hitl if is_empty => {
                self.finish(RunFinish::Failed(Failure::other("the model gave no answer")));
            }
            ControlFlow::Hitl => self.finish(RunFinish::NeedsInput),
            ControlFlow::Coagent { .. } | ControlFlow::Loop { .. } if self.has_coagents => {
                // A review costs; none is begun past a bound.
                match self.reached(spent) {
                    Some(limit) => self.finish(RunFinish::Stopped(TurnEnd::Budget { limit })),
                    None => self.phase = ControlPhase::Reviewing,
                }
            }
            ControlFlow::Loop { .. } | ControlFlow::Coagent { .. } => {
                self.next_round(InputSource::ControlFlow, CONTINUE.to_owned(), spent);
            }
            ControlFlow::Static { message, .. } => {
                let message = message.clone();
                self.next_round(InputSource::ControlFlow, message, spent);
            }
            // A message costs; none is written past a bound.
            ControlFlow::Generated { .. } => match self.reached(spent) {
                Some(limit) => self.finish(RunFinish::Stopped(TurnEnd::Budget { limit })),
                None => self.phase = ControlPhase::Generating,
            },
        }
    }

    /// The message was written, or why it was not.
    pub fn on_generated(&mut self, message: Result<String, RunFinish>, spent: RunUsage) {
        if self.phase != ControlPhase::Generating {
            return;
        }
        match message {
            Ok(text) if text.trim().is_empty() => {
                self.finish(RunFinish::Failed(Failure::other("the generator wrote nothing")));
            }
            Ok(text) => {
                let message = format!("{}\n\n{CONTINUE}", text.trim());
                self.next_round(InputSource::ControlFlow, message, spent);
            }
            Err(finish) => self.finish(finish),
        }
    }

    /// The coagents are through, or why they are not.
    pub fn on_review(
        &mut self,
        reviews: Result<&[Review], RunFinish>,
        changed: bool,
        spent: RunUsage,
    ) {
        if self.phase != ControlPhase::Reviewing {
            return;
        }
        let reviews = match reviews {
            Ok(reviews) => reviews,
            Err(finish) => return self.finish(finish),
        };
        let approvals = reviews.iter().filter(|review| review.verdict == Verdict::Approved).count();
        let owner = self.flow.owner_of_the_end();
        let text = Review::join(reviews, owner);
        if owner == OwnerOfTheEnd::Coagent && self.consensus.is_reached(approvals, reviews.len()) {
            let by = OwnerOfTheEnd::Coagent;
            return self.finish(RunFinish::Completed { summary: text, by });
        }
        self.changed |= changed;
        self.round = self.round.rotate_left(1) ^ fnv1a(text.as_bytes());
        let message = if text.is_empty() { SILENT_REVIEWER.to_owned() } else { text };
        self.next_round(InputSource::Reviewer, message, spent);
    }

    /// The user spoke while the coagents looked: what they approve of is not yet what the user wants now.
    pub fn on_steering(&mut self) {
        let is_over = matches!(
            self.phase,
            ControlPhase::Finished(RunFinish::Completed { by: OwnerOfTheEnd::Coagent, .. })
        );
        if is_over {
            self.rounds = self.rounds.saturating_add(1);
            self.phase = ControlPhase::Primary(None);
        }
    }

    /// The run was cancelled.
    pub fn on_cancelled(&mut self) {
        if !matches!(self.phase, ControlPhase::Finished(_)) {
            self.finish(RunFinish::Cancelled);
        }
    }

    /// The round is over and another one begins, if nothing forbids it.
    fn next_round(&mut self, source: InputSource, message: String, spent: RunUsage) {
        self.rounds = self.rounds.saturating_add(1);
        self.same_rounds = if self.changed || self.rounds == 1 || self.round != self.last_round {
            1
        } else {
            self.same_rounds + 1
        };
        self.last_round = self.round;
        if let Some(limit) = self.reached(spent) {
            return self.finish(RunFinish::Stopped(TurnEnd::Budget { limit }));
        }
        if self.same_rounds >= SAME_ROUNDS {
            let reason =
                format!("{SAME_ROUNDS} rounds in a row came to the same and changed nothing");
            return self.finish(RunFinish::Stopped(TurnEnd::DoomLoop { reason }));
        }
        self.phase = ControlPhase::Primary(Some((source, message)));
    }

    fn reached(&self, spent: RunUsage) -> Option<LimitKind> {
        let flow = self.flow.max_rounds().unwrap_or(u32::MAX);
        let limits = RunLimits { max_rounds: self.limits.max_rounds.min(flow), ..self.limits };
        limits.reached(&RunUsage { rounds: self.rounds, ..spent })
    }

    fn generator_prompt(&self) -> String {
        match &self.flow {
            ControlFlow::Generated { generator_prompt, .. } => generator_prompt.clone(),
            ControlFlow::Hitl
            | ControlFlow::Loop { .. }
            | ControlFlow::Static { .. }
            | ControlFlow::Coagent { .. } => String::new(),
        }
    }

    fn finish(&mut self, finish: RunFinish) {
        self.phase = ControlPhase::Finished(finish);
    }
}

/// Returns how a turn's end ends the run, whatever the flow.
fn leaves(end: &TurnEnd) -> Option<RunFinish> {
    match end {
        TurnEnd::Cancelled => Some(RunFinish::Cancelled),
        TurnEnd::Error { error } => Some(RunFinish::Failed(Failure::other(error))),
        TurnEnd::Refusal => {
            let (error, kind) = (end.to_string(), FailureKind::Refusal);
            Some(RunFinish::Failed(Failure { error, kind }))
        }
        TurnEnd::DoomLoop { .. }
        | TurnEnd::InvalidCalls
        | TurnEnd::OutputLimit
        | TurnEnd::Budget { .. } => Some(RunFinish::Stopped(end.clone())),
        TurnEnd::MaxSteps { .. }
        | TurnEnd::Text
        | TurnEnd::TaskComplete { .. }
        | TurnEnd::SubmitForReview { .. } => None,
    }
}
