//! What is answered from outside: questions to the user, by an agent or about a call, and calls that are run in an
//! editor, by a person or on another machine.

use std::fmt;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    ids::{CallId, RequestId, SessionId},
    permission::{GrantOffer, PermissionAnswer, PermissionMode},
    tool_types::{Preview, Subject, ToolResult},
};

/// A question of an agent to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserQuestion {
    /// The question.
    pub text: String,
    /// What it is about, in a word or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// What may be chosen. Their labels differ. None of them: the user writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<QuestionChoice>,
    /// Several may be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multiple: bool,
    /// The user may write an answer. Always true if there are no choices.
    pub free_text: bool,
}

/// What may be chosen as the answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionChoice {
    /// Names it, in a few words.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The user's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// The user wrote something.
    Text {
        /// The words.
        text: String,
    },
    /// The user chose.
    Chosen {
        /// The labels of what was chosen: at least one, and one alone unless several may be.
        labels: Vec<String>,
    },
    /// The user was asked and does not want to answer.
    Declined,
    /// Nobody is there to answer.
    Nobody {
        /// Why.
        hint: String,
    },
}

/// A question that awaits its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionRequest {
    /// The id of the question.
    pub id: RequestId,
    /// The session of the agent that asks.
    pub session_id: SessionId,
    /// The agent.
    pub agent: String,
    /// The call that asks.
    pub call_id: CallId,
    /// The question.
    pub question: UserQuestion,
}

/// Asks the user.
#[async_trait]
pub trait UserQuestions: Send + Sync + fmt::Debug {
    /// Asks and waits for the answer, without a time limit. None if it was cancelled first: the question is withdrawn.
    ///
    /// Returns [`QuestionAnswer::Nobody`] at once if there is nobody to ask.
    async fn ask(
        &self,
        call_id: &CallId,
        question: UserQuestion,
        cancellation: &CancellationToken,
    ) -> Option<QuestionAnswer>;
}

impl UserQuestion {
    /// Returns true if an answer is valid: its labels are choices, and a text is allowed and not empty.
    pub fn accepts(&self, answer: &QuestionAnswer) -> bool {
        match answer {
            QuestionAnswer::Text { text } => {
                (self.free_text || self.choices.is_empty()) && !text.trim().is_empty()
            }
            QuestionAnswer::Chosen { labels } => {
                let is_choice =
                    |label: &String| self.choices.iter().any(|choice| choice.label == *label);
                let fits = labels.len() == 1 || (self.multiple && !labels.is_empty());
                fits && labels.iter().all(is_choice)
            }
            QuestionAnswer::Declined | QuestionAnswer::Nobody { .. } => true,
        }
    }
}

/// A question to the user whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// The id of the question.
    pub id: RequestId,
    /// The session of the agent that makes the call.
    pub session_id: SessionId,
    /// The agent.
    pub agent: String,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The effect of the call, in one line.
    pub title: String,
    /// The subject: a path, a command line.
    pub subject: Subject,
    /// The reason to ask.
    pub reason: String,
    /// The offers for an "always", the narrowest first.
    pub offers: Vec<GrantOffer>,
    /// The least permissive mode in which the call would pass. None if it is asked about in every mode.
    pub least_mode: Option<PermissionMode>,
    /// The change that the call would make, if known.
    pub preview: Option<Preview>,
}

/// Answers questions. Dropping the future withdraws the question.
#[async_trait]
pub trait Answerer: Send + Sync + fmt::Debug {
    /// Asks whether a call may run.
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer;

    /// Asks an agent's question. By default there is nobody to answer.
    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        QuestionAnswer::Nobody { hint: "no answerer is configured".to_owned() }
    }

    /// Returns true if a person is connected who may answer. Agents without one choose by themselves instead of asking.
    fn is_attended(&self) -> bool {
        true
    }
}

/// The answerer of a runtime without a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAnswerer;

#[async_trait]
impl Answerer for NoAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::Nobody { hint: "no answerer is configured".to_owned() }
    }

    fn is_attended(&self) -> bool {
        false
    }
}

/// Waits for the results of calls that are run outside.
#[async_trait]
pub trait DelegatedCalls: Send + Sync + fmt::Debug {
    /// Registers a call whose result will come from outside: a result that arrives before the wait is stored.
    fn expect(&self, call_id: &CallId);

    /// Waits for the result of a call. Returns a cancelled result if `cancellation` is cancelled first.
    async fn result(&self, call_id: &CallId, cancellation: &CancellationToken) -> ToolResult;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(choices: &[&str], multiple: bool, free_text: bool) -> UserQuestion {
        let choice = |label: &&str| QuestionChoice { label: (*label).into(), description: None };
        UserQuestion {
            text: "which?".into(),
            header: None,
            choices: choices.iter().map(choice).collect(),
            multiple,
            free_text,
        }
    }

    fn chosen(labels: &[&str]) -> QuestionAnswer {
        QuestionAnswer::Chosen { labels: labels.iter().map(|label| (*label).into()).collect() }
    }

    #[test]
    fn an_answer_fits_if_it_is_among_the_choices_or_may_be_written() {
        let text = |text: &str| QuestionAnswer::Text { text: text.into() };
        let one = question(&["a", "b"], false, false);
        let several = question(&["a", "b"], true, true);
        let free = question(&[], false, false);
        let table = [
            (&one, chosen(&["a"]), true),
            (&one, chosen(&["a", "b"]), false),
            (&one, chosen(&["c"]), false),
            (&one, chosen(&[]), false),
            (&one, text("c"), false),
            (&several, chosen(&["a", "b"]), true),
            (&several, chosen(&["a", "c"]), false),
            (&several, chosen(&[]), false),
            (&several, text("c"), true),
            (&several, text("  "), false),
            (&free, text("c"), true),
            (&free, chosen(&["c"]), false),
            (&free, QuestionAnswer::Declined, true),
            (&one, QuestionAnswer::Nobody { hint: "no".into() }, true),
        ];
        for (question, answer, fits) in table {
            assert_eq!(question.accepts(&answer), fits, "{question:?} {answer:?}");
        }
    }
}
