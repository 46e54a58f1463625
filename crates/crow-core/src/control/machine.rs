//! The control-flow machine.
//!
//! A round is a turn of the primary, then what the flow asks for: nothing, a generated message, or a review. The
//! state is a [`ControlPhase`] plus what the limits need: the number of rounds, and a fingerprint of the last one to
//! detect rounds that repeat without changing files. Facts that arrive in another phase are ignored.

use serde::{Deserialize, Serialize};

use super::{CONTINUE_MESSAGE, CompletionOwner, ControlFlow};
use crate::{
    hash::fnv1a,
    run::{Failure, FailureKind, InputSource, Verdict},
    turn::{LimitKind, RunLimits, RunUsage, TurnEnd},
};

/// Number of rounds in a row with the same outcome and no change that ends the run.
const SAME_ROUNDS: u32 = 3;
/// Message for a primary whose reviewer returned no text.
const SILENT_REVIEWER: &str = "The reviewer looked at the work, did not approve it, and said nothing. Look at the files again, check them against the task, and go on.";

/// The next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextAction {
    /// A turn of the primary. The first one answers the user.
    PrimaryTurn {
        /// The message before the turn, and its source.
        message: Option<(InputSource, String)>,
    },
    /// A model call that writes a message: it gets the task, the outcome of the turn, and this prompt.
    Generate {
        /// The prompt.
        prompt: String,
    },
    /// The coagents review the primary's turn.
    Review,
    /// The run is over.
    Finish(RunFinish),
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunFinish {
    /// The side that may do so declared the task done.
    Completed {
        /// Its summary.
        summary: String,
        /// The side that declared it.
        by: CompletionOwner,
    },
    /// The run returns to the user.
    NeedsInput,
    /// A limit or the loop guard ended it.
    Stopped(TurnEnd),
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed(Failure),
}

/// The facts of a turn that the machine needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFacts {
    /// The end of the turn.
    pub end: TurnEnd,
    /// The last text.
    pub text: String,
    /// Its calls with their outcome, a line each, without ids.
    pub calls: Vec<String>,
    /// True if the turn changed anything.
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ControlPhase {
    Primary(Option<(InputSource, String)>),
    Generating,
    Reviewing,
    Finished(RunFinish),
}

/// Returns a hash of a round's outcome: the last text, and the calls with their results. Two rounds with the same hash
/// count as the same. Text alone would mistake a model that explores without text for one that is stuck.
fn fingerprint(turn: &TurnFacts) -> u64 {
    let mut outcome = turn.text.trim().to_owned();
    for call in &turn.calls {
        outcome.push('\n');
        outcome.push_str(call);
    }
    fnv1a(outcome.as_bytes())
}

/// Decides the next action of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlMachine {
    flow: ControlFlow,
    limits: RunLimits,
    has_coagents: bool,
    consensus: Consensus,
    phase: ControlPhase,
    /// Number of complete rounds.
    rounds: u32,
    /// Fingerprint of the last complete round.
    last_round: u64,
    /// Number of rounds in a row with that fingerprint and no change.
    same_rounds: u32,
    /// Fingerprint of the current round so far.
    round: u64,
    /// True if the current round changed anything.
    changed: bool,
}

impl ControlMachine {
    /// Starts a run: the user has written, and the primary is about to answer.
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

    /// Returns the number of complete rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the next action. Repeated calls return the same action.
    pub fn next_action(&self) -> NextAction {
        match &self.phase {
            ControlPhase::Primary(message) => NextAction::PrimaryTurn { message: message.clone() },
            ControlPhase::Generating => NextAction::Generate { prompt: self.generator_prompt() },
            ControlPhase::Reviewing => NextAction::Review,
            ControlPhase::Finished(finish) => NextAction::Finish(finish.clone()),
        }
    }

    /// Records the end of the primary's turn. `spent` is the usage of the run so far, without its rounds.
    pub fn on_primary_turn(&mut self, turn: &TurnFacts, spent: RunUsage) {
        if !matches!(self.phase, ControlPhase::Primary(_)) {
            return;
        }
        self.round = fingerprint(turn);
        self.changed = turn.changed;
        // 1) Ends that end the run in every flow.
        if let Some(finish) = finish_of(&turn.end) {
            return self.finish(finish);
        }
        // In every other flow a turn that reaches its step limit is over, and the run continues.
        if let (TurnEnd::MaxSteps { .. }, ControlFlow::Hitl) = (&turn.end, &self.flow) {
            return self.finish(RunFinish::Stopped(turn.end.clone()));
        }
        // 2) Deadline, before any completion.
        if self.limits.max_time.is_some_and(|limit| spent.time >= limit) {
            // A result after the deadline is too late, whatever it is.
            return self.finish(RunFinish::Stopped(TurnEnd::Budget { limit: LimitKind::Time }));
        }
        // 3) The primary declares the task done.
        if let (TurnEnd::TaskComplete { summary }, CompletionOwner::Primary) =
            (&turn.end, self.flow.completion_owner())
        {
            let by = CompletionOwner::Primary;
            return self.finish(RunFinish::Completed { summary: summary.clone(), by });
        }
        // 4) What the flow does after a turn.
        let is_empty = turn.text.trim().is_empty() && turn.end == TurnEnd::Text;
        match &self.flow {
            ControlFlow::Hitl if is_empty => {
                self.finish(RunFinish::Failed(Failure::other("the model gave no answer")));
            }
            ControlFlow::Hitl => self.finish(RunFinish::NeedsInput),
            ControlFlow::Coagent { .. } | ControlFlow::Loop { .. } if self.has_coagents => {
                // A review costs; none is started past a limit.
                match self.reached(spent) {
                    Some(limit) => self.finish(RunFinish::Stopped(TurnEnd::Budget { limit })),
                    None => self.phase = ControlPhase::Reviewing,
                }
            }
            ControlFlow::Loop { .. } | ControlFlow::Coagent { .. } => {
                self.next_round(InputSource::ControlFlow, CONTINUE_MESSAGE.to_owned(), spent);
            }
            ControlFlow::Static { message, .. } => {
                let message = message.clone();
                self.next_round(InputSource::ControlFlow, message, spent);
            }
            // A generated message costs; none is requested past a limit.
            ControlFlow::Generated { .. } => match self.reached(spent) {
                Some(limit) => self.finish(RunFinish::Stopped(TurnEnd::Budget { limit })),
                None => self.phase = ControlPhase::Generating,
            },
        }
    }

    /// Records the generated message, or the end of the run instead.
    pub fn on_generated(&mut self, message: Result<String, RunFinish>, spent: RunUsage) {
        if self.phase != ControlPhase::Generating {
            return;
        }
        match message {
            Ok(text) if text.trim().is_empty() => {
                self.finish(RunFinish::Failed(Failure::other("the generator wrote nothing")));
            }
            Ok(text) => {
                let message = format!("{}\n\n{CONTINUE_MESSAGE}", text.trim());
                self.next_round(InputSource::Generator, message, spent);
            }
            Err(finish) => self.finish(finish),
        }
    }

    /// Records the reviews, or the end of the run instead. `changed` says whether the coagents changed anything.
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
        let owner = self.flow.completion_owner();
        let text = Review::join(reviews, owner);
        // Only a flow in which the coagents own the end completes here; otherwise their text goes to the primary.
        if owner == CompletionOwner::Coagent && self.consensus.is_reached(approvals, reviews.len())
        {
            let by = CompletionOwner::Coagent;
            return self.finish(RunFinish::Completed { summary: text, by });
        }
        self.changed |= changed;
        self.round = self.round.rotate_left(1) ^ fnv1a(text.as_bytes());
        let message = if text.is_empty() { SILENT_REVIEWER.to_owned() } else { text };
        self.next_round(InputSource::Reviewer, message, spent);
    }

    /// Records input of the user during the review: an approval does not cover it, so the run continues.
    pub fn on_steering(&mut self) {
        let is_over = matches!(
            self.phase,
            ControlPhase::Finished(RunFinish::Completed { by: CompletionOwner::Coagent, .. })
        );
        if is_over {
            self.rounds = self.rounds.saturating_add(1);
            self.phase = ControlPhase::Primary(None);
        }
    }

    /// Records that the run was cancelled.
    pub fn on_cancelled(&mut self) {
        if !matches!(self.phase, ControlPhase::Finished(_)) {
            self.finish(RunFinish::Cancelled);
        }
    }

    /// Completes the round and starts another one, unless a limit or repeated rounds forbid it.
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
                format!("{SAME_ROUNDS} rounds in a row had the same result and changed nothing");
            return self.finish(RunFinish::Stopped(TurnEnd::DoomLoop { reason }));
        }
        self.phase = ControlPhase::Primary(Some((source, message)));
    }

    /// Returns the first limit of the run or the flow that is reached.
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

/// Returns how a turn's end ends the run in every flow, or none if it does not.
fn finish_of(end: &TurnEnd) -> Option<RunFinish> {
    match end {
        TurnEnd::Cancelled => Some(RunFinish::Cancelled),
        TurnEnd::Error { error } => Some(RunFinish::Failed(Failure::other(error))),
        TurnEnd::Refusal => {
            let (error, kind) = (end.to_string(), FailureKind::Refusal);
            Some(RunFinish::Failed(Failure { error, kind }))
        }
        TurnEnd::DoomLoop { .. }
        | TurnEnd::Condition { .. }
        | TurnEnd::InvalidCalls
        | TurnEnd::OutputLimit
        | TurnEnd::Budget { .. } => Some(RunFinish::Stopped(end.clone())),
        TurnEnd::MaxSteps { .. }
        | TurnEnd::Text
        | TurnEnd::TaskComplete { .. }
        | TurnEnd::SubmitForReview { .. } => None,
    }
}

/// The number of reviewers that must approve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consensus {
    /// All.
    #[default]
    All,
    /// More than half.
    Majority,
    /// One.
    Any,
}

impl Consensus {
    /// Returns true if that many approvals of that many reviewers are enough. Without reviewers it is never reached.
    pub fn is_reached(self, approvals: usize, reviewers: usize) -> bool {
        match self {
            Self::All => approvals == reviewers && reviewers > 0,
            Self::Majority => approvals * 2 > reviewers,
            Self::Any => approvals > 0,
        }
    }
}

/// The outcome of one reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The reviewer.
    pub reviewer: String,
    /// Its vote. It approves by calling `task_complete`, and by nothing else.
    pub verdict: Verdict,
    /// The summary of its approval, or its last text.
    pub text: String,
}

impl Review {
    /// Joins the reviews' texts to one message. Several reviewers are named, with their verdicts if they own the end.
    pub(super) fn join(reviews: &[Self], owner: CompletionOwner) -> String {
        let has_text = |review: &&Self| !review.text.trim().is_empty();
        match reviews {
            [one] => one.text.trim().to_owned(),
            several => {
                let texts = several.iter().filter(has_text).map(|review| {
                    let Self { reviewer, verdict, text } = review;
                    let text = text.trim();
                    match owner {
                        CompletionOwner::Primary => format!("{reviewer}:\n{text}"),
                        CompletionOwner::Coagent => {
                            format!("{reviewer} ({}):\n{text}", verdict_text(*verdict))
                        }
                    }
                });
                texts.collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approves",
        Verdict::Rejected => "does not approve",
        Verdict::Unfinished => "did not finish",
    }
}
