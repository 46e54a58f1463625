//! The questions that wait for an answer.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use crow_core::{
    capability::{Answerer, PermissionAnswer, PermissionRequest},
    ids::RequestId,
    permission::GrantOffer,
};
use tokio::sync::oneshot;

/// How many closed questions are remembered, so that a late answer is told what became of its question.
const REMEMBERED: usize = 256;

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No such question was asked, or it was closed long ago.
    #[error("no question {id} is open")]
    Unknown {
        /// The question as given.
        id: RequestId,
    },
    /// Somebody answered before.
    #[error("question {id} is answered already")]
    Answered {
        /// The question.
        id: RequestId,
    },
    /// The answer allows what none of the question's offers holds. The question stays open.
    #[error("question {id} does not offer what the answer allows")]
    NotOffered {
        /// The question.
        id: RequestId,
    },
    /// The call was cancelled before it was answered.
    #[error("question {id} was withdrawn")]
    Withdrawn {
        /// The question.
        id: RequestId,
    },
}

/// Leaves every question to whoever holds a handle, see [`AgentHandle::answer`](crate::AgentHandle::answer).
#[derive(Debug, Clone, Copy, Default)]
pub struct HandleAnswerer;

#[async_trait]
impl Answerer for HandleAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        std::future::pending().await
    }
}

/// The questions of a tree of agents that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Questions>);

#[derive(Debug, Default)]
struct Questions {
    /// The oldest first.
    open: Vec<Question>,
    closed: VecDeque<(RequestId, Closed)>,
}

#[derive(Debug)]
struct Question {
    request: PermissionRequest,
    answer: oneshot::Sender<PermissionAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    Answered,
    Withdrawn,
}

/// A question that waits. Dropping it withdraws the question.
#[derive(Debug)]
pub(crate) struct OpenQuestion<'a> {
    answers: &'a Answers,
    id: RequestId,
    answer: oneshot::Receiver<PermissionAnswer>,
}

impl Answers {
    /// Puts a question where it can be answered.
    pub(crate) fn open(&self, request: PermissionRequest) -> OpenQuestion<'_> {
        let (answer, waiting) = oneshot::channel();
        let id = request.id.clone();
        self.lock().open.push(Question { request, answer });
        OpenQuestion { answers: self, id, answer: waiting }
    }

    /// Answers a question. The first answer counts.
    pub(crate) fn answer(
        &self,
        id: &RequestId,
        answer: PermissionAnswer,
    ) -> Result<(), AnswerError> {
        let mut questions = self.lock();
        let asked = questions.open.iter().find(|question| question.request.id == *id);
        if asked.is_some_and(|question| !is_offered(&question.request.offers, &answer)) {
            return Err(AnswerError::NotOffered { id: id.clone() });
        }
        if let Some(question) = questions.take(id) {
            // Under the lock: whoever waits can withdraw the question before this or after this.
            let sent = question.answer.send(answer).is_ok();
            questions.close(id, if sent { Closed::Answered } else { Closed::Withdrawn });
            return if sent { Ok(()) } else { Err(AnswerError::Withdrawn { id: id.clone() }) };
        }
        Err(match questions.closed.iter().find(|(closed, _)| closed == id) {
            Some((_, Closed::Answered)) => AnswerError::Answered { id: id.clone() },
            Some((_, Closed::Withdrawn)) => AnswerError::Withdrawn { id: id.clone() },
            None => AnswerError::Unknown { id: id.clone() },
        })
    }

    /// Returns the questions that wait, the oldest first.
    pub(crate) fn list(&self) -> Vec<PermissionRequest> {
        self.lock().open.iter().map(|question| question.request.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Questions {
    fn take(&mut self, id: &RequestId) -> Option<Question> {
        let place = self.open.iter().position(|question| question.request.id == *id)?;
        Some(self.open.remove(place))
    }

    fn close(&mut self, id: &RequestId, how: Closed) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back((id.clone(), how));
    }
}

impl OpenQuestion<'_> {
    /// Waits for an answer that comes through a handle.
    pub(crate) async fn answered(&mut self) -> PermissionAnswer {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            // The sender lives as long as the question is open.
            Err(_) => std::future::pending().await,
        }
    }

    /// Withdraws the question, or returns the answer that was taken before.
    pub(crate) fn withdraw(mut self) -> Option<PermissionAnswer> {
        let mut questions = self.answers.lock();
        if questions.take(&self.id).is_some() {
            questions.close(&self.id, Closed::Withdrawn);
        }
        drop(questions);
        self.answer.try_recv().ok()
    }

    /// Closes the question because of an answer, and returns the one that counts: one that came through a handle meanwhile
    /// was taken already.
    pub(crate) fn close_answered(mut self, answer: PermissionAnswer) -> PermissionAnswer {
        let mut questions = self.answers.lock();
        if questions.take(&self.id).is_some() {
            questions.close(&self.id, Closed::Answered);
        }
        drop(questions);
        self.answer.try_recv().unwrap_or(answer)
    }
}

/// Returns whether all that an answer allows beyond the one call stands in offers.
pub(crate) fn is_offered(offers: &[GrantOffer], answer: &PermissionAnswer) -> bool {
    match answer {
        PermissionAnswer::AllowSession { grants } => {
            grants.iter().all(|grant| offers.iter().any(|offer| offer.grants.contains(grant)))
        }
        PermissionAnswer::AllowOnce
        | PermissionAnswer::Deny { .. }
        | PermissionAnswer::Nobody { .. } => true,
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let mut questions = self.answers.lock();
        if questions.take(&self.id).is_some() {
            questions.close(&self.id, Closed::Withdrawn);
        }
    }
}
