//! Open questions and their answers.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use crow_core::{
    capability::{Answerer, PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionRequest},
    ids::RequestId,
    permission::GrantOffer,
};
use tokio::sync::oneshot;

/// Number of closed questions that are remembered, so that a late answer gets a precise error.
const REMEMBERED: usize = 256;

/// Reason why an answer was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// There is no such question, or it was closed long ago.
    #[error("no question {id} is open")]
    Unknown {
        /// The question as given.
        id: RequestId,
    },
    /// The question is answered already.
    #[error("question {id} is already answered")]
    Answered {
        /// The question.
        id: RequestId,
    },
    /// The answer allows or chooses something that was not offered. The question stays open.
    #[error("question {id} does not offer the given answer")]
    NotOffered {
        /// The question.
        id: RequestId,
    },
    /// The question was withdrawn, for example because its call was cancelled.
    #[error("question {id} was withdrawn")]
    Withdrawn {
        /// The question.
        id: RequestId,
    },
}

/// Leaves every question to the holders of handles, see [`AgentHandle::answer`](crate::AgentHandle::answer) and
/// [`AgentHandle::answer_question`](crate::AgentHandle::answer_question).
#[derive(Debug, Clone, Copy, Default)]
pub struct HandleAnswerer;

#[async_trait]
impl Answerer for HandleAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        std::future::pending().await
    }

    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        std::future::pending().await
    }
}

/// A request that can be answered: a permission question or a question to the user.
pub(crate) trait AnswerableRequest: Clone {
    /// The type of its answers.
    type Answer: fmt::Debug;

    /// Returns the id of the request.
    fn id(&self) -> &RequestId;

    /// Returns true if the request offers the answer.
    fn accepts(&self, answer: &Self::Answer) -> bool;
}

impl AnswerableRequest for PermissionRequest {
    type Answer = PermissionAnswer;

    fn id(&self) -> &RequestId {
        &self.id
    }

    fn accepts(&self, answer: &PermissionAnswer) -> bool {
        is_offered(&self.offers, answer)
    }
}

impl AnswerableRequest for QuestionRequest {
    type Answer = QuestionAnswer;

    fn id(&self) -> &RequestId {
        &self.id
    }

    fn accepts(&self, answer: &QuestionAnswer) -> bool {
        self.question.accepts(answer)
    }
}

/// The open questions of a tree of agents, and the most recently closed ones.
#[derive(Debug)]
pub(crate) struct QuestionRegistry<Q: AnswerableRequest>(Mutex<PendingQuestions<Q>>);

#[derive(Debug)]
struct PendingQuestions<Q: AnswerableRequest> {
    /// Oldest first.
    open: Vec<PendingQuestion<Q>>,
    closed: VecDeque<(RequestId, QuestionEnd)>,
}

#[derive(Debug)]
struct PendingQuestion<Q: AnswerableRequest> {
    request: Q,
    answer: oneshot::Sender<Q::Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionEnd {
    Answered,
    Withdrawn,
}

/// An open question. Dropping it withdraws the question.
#[derive(Debug)]
pub(crate) struct OpenQuestion<'a, Q: AnswerableRequest> {
    answers: &'a QuestionRegistry<Q>,
    id: RequestId,
    answer: oneshot::Receiver<Q::Answer>,
}

impl<Q: AnswerableRequest> Default for QuestionRegistry<Q> {
    fn default() -> Self {
        Self(Mutex::new(PendingQuestions { open: Vec::new(), closed: VecDeque::new() }))
    }
}

impl<Q: AnswerableRequest> QuestionRegistry<Q> {
    /// Opens a question.
    pub(crate) fn open(&self, request: Q) -> OpenQuestion<'_, Q> {
        let (answer, receiver) = oneshot::channel();
        let id = request.id().clone();
        self.lock().open.push(PendingQuestion { request, answer });
        OpenQuestion { answers: self, id, answer: receiver }
    }

    /// Answers a question. The first answer counts.
    pub(crate) fn answer(&self, id: &RequestId, answer: Q::Answer) -> Result<(), AnswerError> {
        let mut questions = self.lock();
        let pending = questions.open.iter().find(|question| question.request.id() == id);
        if pending.is_some_and(|question| !question.request.accepts(&answer)) {
            return Err(AnswerError::NotOffered { id: id.clone() });
        }
        if let Some(question) = questions.take(id) {
            // Sent under the lock, so that a withdrawal happens either before or after this.
            let sent = question.answer.send(answer).is_ok();
            questions.close(id, if sent { QuestionEnd::Answered } else { QuestionEnd::Withdrawn });
            return if sent { Ok(()) } else { Err(AnswerError::Withdrawn { id: id.clone() }) };
        }
        Err(match questions.closed.iter().find(|(closed, _)| closed == id) {
            Some((_, QuestionEnd::Answered)) => AnswerError::Answered { id: id.clone() },
            Some((_, QuestionEnd::Withdrawn)) => AnswerError::Withdrawn { id: id.clone() },
            None => AnswerError::Unknown { id: id.clone() },
        })
    }

    /// Returns the open questions, oldest first.
    pub(crate) fn list(&self) -> Vec<Q> {
        self.lock().open.iter().map(|question| question.request.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, PendingQuestions<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: AnswerableRequest> PendingQuestions<Q> {
    fn take(&mut self, id: &RequestId) -> Option<PendingQuestion<Q>> {
        let index = self.open.iter().position(|question| question.request.id() == id)?;
        Some(self.open.remove(index))
    }

    fn close(&mut self, id: &RequestId, end: QuestionEnd) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back((id.clone(), end));
    }
}

impl<Q: AnswerableRequest> OpenQuestion<'_, Q> {
    /// Waits for an answer through a handle.
    pub(crate) async fn answered(&mut self) -> Q::Answer {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            // Unreachable while the question is open: the sender is stored with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Withdraws the question, or returns the answer that was accepted before.
    pub(crate) fn withdraw(mut self) -> Option<Q::Answer> {
        let mut questions = self.answers.lock();
        if questions.take(&self.id).is_some() {
            questions.close(&self.id, QuestionEnd::Withdrawn);
        }
        drop(questions);
        self.answer.try_recv().ok()
    }

    /// Closes the question with an answer, and returns the one that counts: an answer accepted through a handle
    /// meanwhile has priority.
    pub(crate) fn close_answered(mut self, answer: Q::Answer) -> Q::Answer {
        let mut questions = self.answers.lock();
        if questions.take(&self.id).is_some() {
            questions.close(&self.id, QuestionEnd::Answered);
        }
        drop(questions);
        self.answer.try_recv().unwrap_or(answer)
    }
}

/// Returns true if everything that an answer allows beyond the one call is contained in the offers.
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

impl<Q: AnswerableRequest> Drop for OpenQuestion<'_, Q> {
    fn drop(&mut self) {
        let mut questions = self.answers.lock();
        if questions.take(&self.id).is_some() {
            questions.close(&self.id, QuestionEnd::Withdrawn);
        }
    }
}
