//! The turn machine.
//!
//! A turn alternates between a model call ([`TurnPhase::Model`]) and the calls of its reply ([`TurnPhase::Tools`])
//! until it is [`TurnPhase::Done`]; at the step limit the model gets one more call without tools to report. Reasons
//! to end a turn that come with calls are kept in `end_after_calls`, because every call must be answered first.
//! Counters of bad replies (invalid calls, unread calls, cut replies, an empty reply) and the [`LoopGuard`] bound the turn in
//! addition to the step limit. The whole state is serializable, so that a turn can be resumed between any two steps.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallSignature, GuardVerdict, LimitKind, LoopGuard, TurnLimits, budget::WARNING_PARTS};
use crate::{
    message::ToolCall,
    model::{StopReason, TextCallNotes, ToolChoice},
    tool_types::ToolStatus,
};

/// Number of replies in a row with only invalid calls that ends the turn.
const INVALID_REPLIES: u32 = 3;
/// Number of replies in a row without a call but with text that begins like one that ends the turn: each earlier one is
/// answered with a reminder of how to call.
const UNREAD_REPLIES: u32 = 3;
/// Number of replies in a row cut at the output limit that ends the turn.
const CUT_REPLIES: u32 = 3;

/// Number of steps from which a limit is warned of.
const FEWEST_STEPS: u32 = 10;
/// Reminder after a text that was cut.
const CUT_TEXT: &str =
    "Your reply was cut at the output limit. Go on from where it ends, in smaller parts.";
/// Reminder after a call in a text that was cut.
const CUT_CALL: &str = "Your reply was cut at the output limit in the middle of a tool call, so nothing was run. Make the call again, shorter or in parts.";

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model answered without calling a tool.
    Text,
    /// The agent says that the task is done.
    TaskComplete {
        /// What it says about it.
        summary: String,
    },
    /// The agent hands its work to the reviewer.
    SubmitForReview {
        /// What it says about it.
        summary: String,
    },
    /// The step limit was reached; the last reply is a report.
    MaxSteps {
        /// The limit.
        steps: u32,
    },
    /// The loop guard ended it.
    DoomLoop {
        /// What it saw.
        reason: String,
    },
    /// A condition or hook of the program that runs the loop ended it.
    Condition {
        /// Why.
        reason: String,
    },
    /// The model made invalid calls only.
    InvalidCalls,
    /// The model's replies were cut again and again.
    OutputLimit,
    /// The model refused.
    Refusal,
    /// A bound of the run was reached.
    Budget {
        /// Which.
        limit: LimitKind,
    },
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Error {
        /// Why.
        error: String,
    },
}

impl TurnEnd {
    /// Returns the name of the variant, as in the log of a session, without its texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::TaskComplete { .. } => "task_complete",
            Self::SubmitForReview { .. } => "submit_for_review",
            Self::MaxSteps { .. } => "max_steps",
            Self::DoomLoop { .. } => "doom_loop",
            Self::Condition { .. } => "condition",
            Self::InvalidCalls => "invalid_calls",
            Self::OutputLimit => "output_limit",
            Self::Refusal => "refusal",
            Self::Budget { .. } => "budget",
            Self::Cancelled => "cancelled",
            Self::Error { .. } => "error",
        }
    }
}

impl fmt::Display for TurnEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("the model answered"),
            Self::TaskComplete { .. } => f.write_str("the task is complete"),
            Self::SubmitForReview { .. } => f.write_str("the work was submitted for review"),
            Self::MaxSteps { steps } => write!(f, "the limit of {steps} steps was reached"),
            Self::DoomLoop { reason } => write!(f, "the loop guard stopped it: {reason}"),
            Self::Condition { reason } => f.write_str(reason),
            Self::InvalidCalls => f.write_str("the model made only invalid tool calls"),
            Self::OutputLimit => {
                f.write_str("the model's replies were cut at its output limit again and again")
            }
            Self::Refusal => f.write_str("the model refused"),
            Self::Budget { limit } => write!(f, "the limit of {limit} was reached"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Error { error } => f.write_str(error),
        }
    }
}

/// The next action of the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Call the model.
    CallModel {
        /// The constraint on tool calls.
        tool_choice: ToolChoice<'static>,
        /// A message to send before, which stays in the history.
        reminder: Option<String>,
    },
    /// Answer these calls, in this order.
    CallTools(Vec<RequestedCall>),
    /// The turn is over.
    Done(TurnEnd),
}

/// A call that the model requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The call.
    pub call: ToolCall,
    /// Reason why it is answered without being run; none if it is to be run.
    pub refusal: Option<String>,
    /// A line for the model in front of the result, if the call was unusual.
    pub note: Option<String>,
}

impl RequestedCall {
    /// Makes a request to run a call.
    pub fn run(call: ToolCall) -> Self {
        Self { call, refusal: None, note: None }
    }
}

/// The facts of a reply that the machine needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyFacts {
    /// The calls in order.
    pub calls: Vec<ToolCall>,
    /// The text.
    pub text: String,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// Findings about calls that the model wrote as text.
    pub text_calls: TextCallNotes,
}

/// The validity of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// It was run, or refused by policy.
    Valid,
    /// It names an unknown tool, or has arguments that do not fit.
    Invalid,
}

/// The facts of an answered call that the machine needs.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The text for the model.
    pub output: String,
    /// The status of the result.
    pub status: ToolStatus,
    /// The validity of the call.
    pub validity: Validity,
    /// The effect on the turn.
    pub effect: CallEffect,
}

/// The effect of a call on the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEffect {
    /// None.
    None,
    /// It changed files, or may have changed some.
    FilesChanged,
    /// It ends the turn in this way.
    EndsTurn(TurnEnd),
    /// It was meant to end the turn, but failed.
    EndRefused,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum TurnPhase {
    /// The step limit is reached: the model reports without tools.
    Model,
    /// The calls of the last reply wait for their results.
    Report,
    Tools(Vec<RequestedCall>),
    Done(TurnEnd),
}

/// Decides the next step of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnMachine {
    limits: TurnLimits,
    phase: TurnPhase,
    /// Number of model calls.
    steps: u32,
    /// True once the step limit was reached and a report was requested.
    reporting: bool,
    guard: LoopGuard,
    /// Texts for the model, sent with the next model call.
    reminders: Vec<String>,
    /// The end of the turn once the open calls are answered.
    end_after_calls: Option<TurnEnd>,
    /// Number of replies in a row with only invalid calls.
    invalid_replies: u32,
    /// Number of replies in a row with no call that could be read, but with text that begins like one.
    unread_replies: u32,
    /// Number of replies in a row that were cut.
    cut_replies: u32,
    /// True if a reply was empty since the last call.
    was_empty: bool,
}

impl TurnMachine {
    /// Starts a turn. The history must end with a message that the model can answer.
    pub fn new(limits: TurnLimits) -> Self {
        let mut machine = Self {
            limits,
            phase: TurnPhase::Model,
            steps: 0,
            reporting: false,
            guard: LoopGuard::new(limits.doom_loop_threshold),
            reminders: Vec::new(),
            end_after_calls: None,
            invalid_replies: 0,
            unread_replies: 0,
            cut_replies: 0,
            was_empty: false,
        };
        machine.call_model_next();
        machine
    }

    /// Returns the number of model calls so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns the next step. Repeated calls return the same step, except for reminders, which are returned once.
    pub fn next_step(&mut self) -> NextStep {
        match &self.phase {
            TurnPhase::Model => NextStep::CallModel {
                tool_choice: ToolChoice::Auto,
                reminder: self.take_reminder(),
            },
            TurnPhase::Report => NextStep::CallModel {
                tool_choice: ToolChoice::None,
                reminder: self.take_reminder(),
            },
            TurnPhase::Tools(calls) => NextStep::CallTools(calls.clone()),
            TurnPhase::Done(end) => NextStep::Done(end.clone()),
        }
    }

    /// Records a reply of the model. A reply after the end of the turn changes nothing.
    pub fn on_reply(&mut self, reply: ReplyFacts) {
        if self.is_done() {
            return;
        }
        self.steps = self.steps.saturating_add(1);
        if reply.stop == StopReason::Refusal && reply.calls.is_empty() {
            self.phase = TurnPhase::Done(TurnEnd::Refusal);
        } else if !reply.calls.is_empty() {
            self.on_calls(reply);
        } else if self.reporting {
            self.phase = TurnPhase::Done(TurnEnd::MaxSteps { steps: self.limits.max_steps });
        } else {
            self.on_text_only(&reply);
        }
    }

    fn on_calls(&mut self, reply: ReplyFacts) {
        let last = reply.calls.len() - 1;
        let cut = reply.stop == StopReason::MaxTokens;
        let refused = reply.stop == StopReason::Refusal;
        let reporting = self.reporting;
        // Calls after the limit, of a refused reply, or cut in the middle are answered but not run.
        let refusal = |index: usize| {
            if reporting {
                Some("The step limit is reached: no further calls are run.".to_owned())
            } else if refused {
                Some("The reply was broken off by a refusal, so this call was not run.".to_owned())
            } else if cut && index == last {
                Some("Your reply was cut at the output limit in the middle of this call, so it was not run. Make it again, shorter or in parts.".to_owned())
            } else {
                None
            }
        };
        // A cut reply with a complete call before the cut one counts as progress.
        self.cut_replies = if cut && last == 0 { self.cut_replies + 1 } else { 0 };
        self.unread_replies = 0;
        let TextCallNotes { repair: mut note, unread } = reply.text_calls;
        let calls = reply.calls.into_iter().enumerate();
        let calls = calls.map(|(index, call)| RequestedCall {
            call,
            refusal: refusal(index),
            // Once for the reply.
            note: note.take(),
        });
        self.phase = TurnPhase::Tools(calls.collect());
        self.reminders.extend(unread);
        // An end is decided now but happens after the calls are answered.
        let verdict = self.guard.on_text(&reply.text);
        if refused {
            self.end_after_calls = Some(TurnEnd::Refusal);
            return;
        }
        match verdict {
            GuardVerdict::Fine => {}
            GuardVerdict::Warn(text) => self.reminders.push(text),
            GuardVerdict::Stop(reason) => {
                self.end_after_calls = Some(TurnEnd::DoomLoop { reason });
            }
        }
    }

    fn on_text_only(&mut self, reply: &ReplyFacts) {
        let is_empty = reply.text.trim().is_empty();
        // 1) The provider paused: continue without a reminder.
        if reply.stop == StopReason::Pause {
            self.call_model_next();
        // 2) The text was cut at the output limit.
        } else if reply.stop == StopReason::MaxTokens {
            self.cut_replies += 1;
            if self.cut_replies >= CUT_REPLIES {
                self.phase = TurnPhase::Done(TurnEnd::OutputLimit);
            } else {
                let is_cut_call = reply.text_calls.unread.is_some();
                self.reminders.push(if is_cut_call { CUT_CALL } else { CUT_TEXT }.to_owned());
                self.call_model_next();
            }
        // 3) Something that begins like a call was not run: the model must learn that before it is believed.
        } else if let Some(reason) = &reply.text_calls.unread {
            self.unread_replies += 1;
            if self.unread_replies >= UNREAD_REPLIES {
                self.phase = TurnPhase::Done(TurnEnd::InvalidCalls);
            } else {
                self.reminders.push(reason.clone());
                self.call_model_next();
            }
        // 4) The first empty reply is questioned, the second one ends the turn.
        } else if is_empty && !self.was_empty {
            self.was_empty = true;
            self.reminders.push(
                "Your reply was empty. Go on with the task, or say how it stands.".to_owned(),
            );
            self.call_model_next();
        } else {
            self.phase = TurnPhase::Done(TurnEnd::Text);
        }
    }

    /// Records that all calls of the reply are answered. A turn that was cancelled meanwhile stays cancelled.
    pub fn on_tools_done(&mut self, outcomes: &[CallOutcome]) {
        if self.is_done() {
            return;
        }
        self.was_empty = false;
        let none_valid = outcomes.iter().all(|outcome| outcome.validity == Validity::Invalid);
        self.invalid_replies = if none_valid { self.invalid_replies + 1 } else { 0 };
        // An end by a tool wins over the step limit, that over an end decided with the reply, and that over the loop
        // guard.
        let by_tool = outcomes.iter().find_map(|outcome| match &outcome.effect {
            CallEffect::EndsTurn(end) => Some(end.clone()),
            CallEffect::None | CallEffect::FilesChanged | CallEffect::EndRefused => None,
        });
        // Every outcome must be judged, so that the guard counts all of them.
        let by_guard = outcomes.iter().filter_map(|outcome| self.judge(outcome)).last();
        let by_guard = by_guard.map(|reason| TurnEnd::DoomLoop { reason });
        let by_limit = self.reporting.then_some(TurnEnd::MaxSteps { steps: self.limits.max_steps });
        let end = by_tool.or(by_limit).or(self.end_after_calls.take()).or(by_guard);
        if let Some(end) = end {
            self.phase = TurnPhase::Done(end);
        } else if self.cut_replies >= CUT_REPLIES {
            self.phase = TurnPhase::Done(TurnEnd::OutputLimit);
        } else if self.invalid_replies >= INVALID_REPLIES {
            self.phase = TurnPhase::Done(TurnEnd::InvalidCalls);
        } else {
            self.call_model_next();
        }
    }

    /// Passes one outcome to the guard; returns the reason why the turn must end, if it must.
    fn judge(&mut self, outcome: &CallOutcome) -> Option<String> {
        let failed = outcome.status != ToolStatus::Success;
        let signature =
            CallSignature::new(&outcome.tool, &outcome.arguments, &outcome.output, failed);
        let refusals = match outcome.effect {
            CallEffect::FilesChanged => {
                self.guard.on_change();
                GuardVerdict::Fine
            }
            CallEffect::EndRefused => self.guard.on_refused_end(&outcome.tool),
            CallEffect::None | CallEffect::EndsTurn(_) => GuardVerdict::Fine,
        };
        match (self.guard.on_call(signature), refusals) {
            (GuardVerdict::Stop(reason), _) | (_, GuardVerdict::Stop(reason)) => Some(reason),
            (GuardVerdict::Warn(text), _) | (GuardVerdict::Fine, GuardVerdict::Warn(text)) => {
                self.reminders.push(text);
                None
            }
            (GuardVerdict::Fine, GuardVerdict::Fine) => None,
        }
    }

    /// Records input during the turn. Resets the guard; a turn that the model had just ended continues.
    pub fn on_steering(&mut self) {
        self.guard.reset();
        self.invalid_replies = 0;
        self.unread_replies = 0;
        if matches!(self.end_after_calls, Some(TurnEnd::DoomLoop { .. })) {
            self.end_after_calls = None;
        }
        if matches!(
            self.phase,
            TurnPhase::Done(
                TurnEnd::Text | TurnEnd::TaskComplete { .. } | TurnEnd::SubmitForReview { .. }
            )
        ) {
            self.call_model_next();
        }
    }

    /// Records what speaks against the end of the turn: a turn that ended with a text goes on, and the model is told.
    pub fn on_objection(&mut self, objection: String) {
        if matches!(self.phase, TurnPhase::Done(TurnEnd::Text)) {
            self.reminders.push(objection);
            self.call_model_next();
        }
    }

    /// Records that a hook objects to the end of the turn: however the model ended it, it goes on, and the model is told.
    pub fn on_hook_objection(&mut self, objection: String) {
        let is_end_by_model = matches!(
            self.phase,
            TurnPhase::Done(
                TurnEnd::Text | TurnEnd::TaskComplete { .. } | TurnEnd::SubmitForReview { .. }
            )
        );
        if is_end_by_model {
            self.reminders.push(objection);
            self.call_model_next();
        }
    }

    /// Records that the turn was cancelled. The driver answers the open calls.
    pub fn on_cancelled(&mut self) {
        self.end(TurnEnd::Cancelled);
    }

    /// Records that a limit of the run was reached.
    pub fn on_budget(&mut self, limit: LimitKind) {
        self.end(TurnEnd::Budget { limit });
    }

    /// Records that a condition of the program ends the turn.
    pub fn on_condition(&mut self, reason: String) {
        self.end(TurnEnd::Condition { reason });
    }

    /// Records an error that ends the turn.
    pub fn on_error(&mut self, error: impl Into<String>) {
        self.end(TurnEnd::Error { error: error.into() });
    }

    /// Ends the turn, unless it is already over.
    fn end(&mut self, end: TurnEnd) {
        if !self.is_done() {
            self.phase = TurnPhase::Done(end);
        }
    }

    /// Prepares the next model call: a report if the step limit is reached, with a warning when [`WARNING_PARTS`] of
    /// the steps are used.
    fn call_model_next(&mut self) {
        let max_steps = self.limits.max_steps;
        if self.steps >= max_steps {
            self.reporting = true;
            self.reminders.clear();
            self.reminders.push(format!(
                "The limit of {max_steps} steps is reached and you can call no more tools. Report in a few sentences what is done, what is not, and what comes next."
            ));
            self.phase = TurnPhase::Report;
            return;
        }
        let remaining = max_steps - self.steps;
        let is_at = |part: u8| {
            let at = (u64::from(max_steps) * u64::from(part)).div_ceil(100);
            u64::from(self.steps) == at
        };
        if max_steps >= FEWEST_STEPS && WARNING_PARTS.into_iter().any(is_at) {
            self.reminders.push(format!(
                "{} of {max_steps} steps are used. Finish with the {remaining} that are left.",
                self.steps
            ));
        }
        self.phase = TurnPhase::Model;
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, TurnPhase::Done(_))
    }

    fn take_reminder(&mut self) -> Option<String> {
        (!self.reminders.is_empty()).then(|| std::mem::take(&mut self.reminders).join("\n"))
    }
}
