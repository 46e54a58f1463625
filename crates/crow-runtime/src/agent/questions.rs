//! What agents ask the user from within their calls.

use std::{
    future::{Future as _, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    task::Poll,
};

use async_trait::async_trait;
use crow_core::{
    capability::{Answerer, QuestionAnswer, QuestionRequest, UserQuestion, UserQuestions},
    event::AgentEvent,
    ids::{CallId, RequestId},
};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{AgentError, AgentInternals, agent_shared::AgentShared, panic::panic_message};
use crate::config::RuntimeConfig;

/// How many events of questions may wait until the agent records them. Whoever asks waits for that.
const QUEUE: usize = 8;

/// An event that a call wants to be recorded before it goes on.
#[derive(Debug)]
pub(crate) struct ToRecord {
    event: AgentEvent,
    recorded: oneshot::Sender<()>,
}

/// Asks the user for the calls of an agent. Its events are recorded by the agent itself, in the order of its own.
#[derive(Debug)]
pub(super) struct AgentQuestions {
    config: Arc<RuntimeConfig>,
    shared: Arc<AgentShared>,
    record: mpsc::Sender<ToRecord>,
}

impl AgentQuestions {
    /// Makes one, and the place where its events come out.
    pub(super) fn new(
        config: Arc<RuntimeConfig>,
        shared: Arc<AgentShared>,
    ) -> (Self, mpsc::Receiver<ToRecord>) {
        let (record, events) = mpsc::channel(QUEUE);
        (Self { config, shared, record }, events)
    }

    /// Waits until an event is recorded. An agent that is gone records nothing any more.
    async fn record(&self, event: AgentEvent) {
        let (recorded, done) = oneshot::channel();
        if self.record.send(ToRecord { event, recorded }).await.is_ok() {
            // An error means the same: the agent is gone.
            drop(done.await);
        }
    }

    fn request(&self, call_id: &CallId, mut question: UserQuestion) -> QuestionRequest {
        self.config.redactor.redact_question(&mut question);
        QuestionRequest {
            id: RequestId::new(self.config.ids.next_id()),
            session_id: self.shared.id.clone(),
            agent: self.shared.metadata().agent_type.clone(),
            call_id: call_id.clone(),
            question,
        }
    }
}

#[async_trait]
impl UserQuestions for AgentQuestions {
    async fn ask(
        &self,
        call_id: &CallId,
        question: UserQuestion,
        cancellation: &CancellationToken,
    ) -> Option<QuestionAnswer> {
        let request = self.request(call_id, question);
        let (request_id, call_id) = (request.id.clone(), call_id.clone());
        let asked = AgentEvent::QuestionAsked {
            request_id: request_id.clone(),
            call_id: call_id.clone(),
            question: request.question.clone(),
        };
        // It can be answered as soon as it can be seen.
        let mut open = self.shared.tree.questions.open(request.clone());
        self.record(asked).await;
        let answer = tokio::select! {
            biased;
            () = cancellation.cancelled() => None,
            answer = open.answered() => Some(answer),
            answer = answered(self.config.answerer.as_ref(), request) => Some(answer),
        };
        let answer = match answer {
            Some(answer) => Some(open.close_answered(answer)),
            // An answer that was taken before counts: whoever gave it was told so.
            None => open.withdraw(),
        };
        let event = match answer.clone() {
            Some(answer) => AgentEvent::QuestionAnswered { request_id, call_id, answer },
            None => AgentEvent::QuestionWithdrawn { request_id, call_id },
        };
        self.record(event).await;
        answer
    }
}

impl AgentInternals {
    /// Asks the user something between calls. None if nobody can be asked, or if it was cancelled before.
    pub(crate) async fn ask_user(
        &mut self,
        mut question: UserQuestion,
        cancel: &CancellationToken,
    ) -> Result<Option<QuestionAnswer>, AgentError> {
        let (config, shared) = (Arc::clone(&self.config), Arc::clone(&self.shared));
        config.redactor.redact_question(&mut question);
        let request_id = RequestId::new(config.ids.next_id());
        // No call asks.
        let call_id = CallId::new(request_id.as_str());
        let request = QuestionRequest {
            id: request_id.clone(),
            session_id: shared.id.clone(),
            agent: shared.metadata().agent_type.clone(),
            call_id: call_id.clone(),
            question: question.clone(),
        };
        let mut answering = pin!(answered(config.answerer.as_ref(), request.clone()));
        // Where nobody can be asked, that there was a question helps nobody.
        let mut first = poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await;
        if let Poll::Ready(QuestionAnswer::Nobody { .. }) = first {
            return Ok(None);
        }
        let mut open = shared.tree.questions.open(request);
        let (id, call) = (request_id.clone(), call_id.clone());
        self.emit(AgentEvent::QuestionAsked { request_id: id, call_id: call, question }).await?;
        let answer = loop {
            if let Poll::Ready(answer) = first {
                break Some(answer);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break None,
                answer = open.answered() => break Some(answer),
                answer = &mut answering => first = Poll::Ready(answer),
                event = self.next_to_record() => self.record_for(event).await?,
            }
        };
        let answer = match answer {
            Some(answer) => Some(open.close_answered(answer)),
            None => open.withdraw(),
        };
        let event = match answer.clone() {
            Some(answer) => AgentEvent::QuestionAnswered { request_id, call_id, answer },
            None => AgentEvent::QuestionWithdrawn { request_id, call_id },
        };
        self.emit(event).await?;
        Ok(answer)
    }

    /// Returns the next event that a call wants to be recorded.
    pub(crate) async fn next_to_record(&mut self) -> ToRecord {
        match self.asked.recv().await {
            Some(event) => event,
            // The other end lives as long as the context of this agent.
            None => std::future::pending().await,
        }
    }

    /// Records an event for a call that waits for that.
    pub(crate) async fn record_for(&mut self, event: ToRecord) -> Result<(), AgentError> {
        let ToRecord { event, recorded } = event;
        self.emit(event).await?;
        // Nobody waits where the call was dropped meanwhile.
        let _is_waiting = recorded.send(()).is_ok();
        Ok(())
    }
}

/// Asks the answerer. A panic in it is no answer, and neither is what does not fit.
async fn answered(answerer: &dyn Answerer, request: QuestionRequest) -> QuestionAnswer {
    let question = request.question.clone();
    let caught = AssertUnwindSafe(async { answerer.ask_user(request).await }).catch_unwind().await;
    match caught {
        Ok(answer) if question.takes(&answer) => answer,
        Ok(_) => QuestionAnswer::Nobody { hint: "the answer does not fit the question".to_owned() },
        Err(panic) => QuestionAnswer::Nobody {
            hint: format!("the answerer broke down: {}", panic_message(panic.as_ref())),
        },
    }
}
