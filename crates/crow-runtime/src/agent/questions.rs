//! Questions of agents to the user, from within calls and between them.

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
    event::{AgentEvent, NoticeAudience},
    hooks::{HookMoment, NotificationKind},
    ids::{CallId, RequestId},
    tool::SourceNotice,
};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    AgentError, agent_shared::AgentShared, hook_port::HookPort, panic::panic_message,
    session_writer::SessionWriter,
};
use crate::config::RuntimeConfig;

/// Maximum number of question events waiting to be recorded. A question waits until its event is recorded.
const QUEUE: usize = 8;

/// An event that a call wants recorded before it continues.
#[derive(Debug)]
pub(crate) struct RecordRequest {
    event: AgentEvent,
    recorded: oneshot::Sender<()>,
}

/// Has the agent record events of its calls, in order with its own.
#[derive(Debug, Clone)]
pub(super) struct EventSender(mpsc::Sender<RecordRequest>);

impl EventSender {
    /// Sends an event to the agent and waits until it is recorded. Does nothing once the agent is gone.
    pub(super) async fn record(&self, event: AgentEvent) {
        let (recorded, done) = oneshot::channel();
        if self.0.send(RecordRequest { event, recorded }).await.is_ok() {
            // An error means that the agent is gone as well.
            drop(done.await);
        }
    }
}

/// Asks the user on behalf of an agent's calls. Its events are recorded by the agent itself, in order with its own.
#[derive(Debug)]
pub(super) struct AgentQuestions {
    config: Arc<RuntimeConfig>,
    shared: Arc<AgentShared>,
    events: EventSender,
    hooks: HookPort,
}

impl AgentQuestions {
    /// Creates the asker, and the queue of its events.
    pub(super) fn new(
        config: Arc<RuntimeConfig>,
        shared: Arc<AgentShared>,
        hooks: HookPort,
    ) -> (Self, RecordQueue) {
        let (record, requests) = mpsc::channel(QUEUE);
        let queue =
            RecordQueue { config: Arc::clone(&config), shared: Arc::clone(&shared), requests };
        (Self { config, shared, events: EventSender(record), hooks }, queue)
    }

    /// Returns the sender of events of calls.
    pub(super) fn events(&self) -> EventSender {
        self.events.clone()
    }

    /// Shows messages of hooks to the user.
    async fn show(&self, notices: Vec<SourceNotice>) {
        for SourceNotice { level, text } in notices {
            let audience = NoticeAudience::User;
            self.events.record(AgentEvent::Notice { level, audience, text }).await;
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
    #[tracing::instrument(
        level = "debug",
        name = "user_question",
        skip_all,
        fields(request = tracing::field::Empty)
    )]
    async fn ask(
        &self,
        call_id: &CallId,
        question: UserQuestion,
        cancellation: &CancellationToken,
    ) -> Option<QuestionAnswer> {
        let request = self.request(call_id, question);
        let (request_id, call_id) = (request.id.clone(), call_id.clone());
        tracing::Span::current().record("request", tracing::field::display(&request_id));
        let asked_at = self.config.clock.monotonic();
        tracing::debug!("user asked");
        let asked = AgentEvent::QuestionAsked {
            request_id: request_id.clone(),
            call_id: call_id.clone(),
            question: request.question.clone(),
        };
        // Opened first, so that it can be answered as soon as its event is visible.
        let mut open = self.shared.tree.questions.open(request.clone());
        self.events.record(asked).await;
        // The hooks run beside the question, and are dropped with it: an answer waits for none.
        let text = format!("the agent asks: {}", request.question.text);
        let moment = HookMoment::Notification { kind: NotificationKind::Question, text: &text };
        let mut notify = pin!(async {
            if self.config.answerer.is_attended() {
                self.show(self.hooks.run(moment, cancellation).await.notices).await;
            }
        });
        let mut is_notified = false;
        let mut answerer = pin!(ask_answerer(self.config.answerer.as_ref(), request));
        let answer = loop {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => break None,
                answer = open.answered() => break Some(answer),
                answer = &mut answerer => break Some(answer),
                () = &mut notify, if !is_notified => is_notified = true,
            }
        };
        let answer = match answer {
            Some(answer) => Some(open.close_answered(answer)),
            // An answer that was accepted before counts, since its sender was told so.
            None => open.withdraw(),
        };
        let duration_ms = self.config.since(asked_at).as_millis();
        tracing::debug!(is_answered = answer.is_some(), duration_ms, "question closed");
        let event = match answer.clone() {
            Some(answer) => AgentEvent::QuestionAnswered { request_id, call_id, answer },
            None => AgentEvent::QuestionWithdrawn { request_id, call_id },
        };
        self.events.record(event).await;
        answer
    }
}

/// The events that the calls of an agent ask it to record, and the questions of the agent itself, during which it still
/// records them.
pub(crate) struct RecordQueue {
    config: Arc<RuntimeConfig>,
    shared: Arc<AgentShared>,
    requests: mpsc::Receiver<RecordRequest>,
}

impl RecordRequest {
    /// Records the event and notifies the call that waits for it.
    pub(crate) async fn record(self, session: &mut SessionWriter) -> Result<(), AgentError> {
        session.emit(self.event).await?;
        // The receiver is gone if the call was dropped meanwhile.
        let _is_waiting = self.recorded.send(()).is_ok();
        Ok(())
    }
}

impl RecordQueue {
    /// Asks the user between calls. Returns `None` if nobody can be asked, or if the question was cancelled first.
    #[tracing::instrument(level = "debug", name = "user_question", skip_all)]
    pub(crate) async fn ask_user(
        &mut self,
        session: &mut SessionWriter,
        mut question: UserQuestion,
        cancel: &CancellationToken,
    ) -> Result<Option<QuestionAnswer>, AgentError> {
        let (config, shared) = (Arc::clone(&self.config), Arc::clone(&self.shared));
        config.redactor.redact_question(&mut question);
        let request_id = RequestId::new(config.ids.next_id());
        // There is no call, so the request id serves as its id.
        let call_id = CallId::new(request_id.as_str());
        let request = QuestionRequest {
            id: request_id.clone(),
            session_id: shared.id.clone(),
            agent: shared.metadata().agent_type.clone(),
            call_id: call_id.clone(),
            question: question.clone(),
        };
        let mut answering = pin!(ask_answerer(config.answerer.as_ref(), request.clone()));
        // If nobody can be asked, no event of the question is emitted.
        let mut first = poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await;
        if let Poll::Ready(QuestionAnswer::Nobody { .. }) = first {
            return Ok(None);
        }
        let mut open = shared.tree.questions.open(request);
        let (id, call) = (request_id.clone(), call_id.clone());
        session.emit(AgentEvent::QuestionAsked { request_id: id, call_id: call, question }).await?;
        // While waiting, events of running calls must still be recorded, since this task records them.
        let answer = loop {
            if let Poll::Ready(answer) = first {
                break Some(answer);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break None,
                answer = open.answered() => break Some(answer),
                answer = &mut answering => first = Poll::Ready(answer),
                request = self.next() => request.record(session).await?,
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
        session.emit(event).await?;
        Ok(answer)
    }

    /// Waits for the next event that a call wants recorded. Cancel-safe.
    pub(crate) async fn next(&mut self) -> RecordRequest {
        match self.requests.recv().await {
            Some(request) => request,
            // Unreachable: the sender lives as long as the context of this agent.
            None => std::future::pending().await,
        }
    }
}

/// Asks the answerer. A panic, or an answer that does not fit the question, becomes `Nobody`.
async fn ask_answerer(answerer: &dyn Answerer, request: QuestionRequest) -> QuestionAnswer {
    let question = request.question.clone();
    let caught = AssertUnwindSafe(async { answerer.ask_user(request).await }).catch_unwind().await;
    match caught {
        Ok(answer) if question.accepts(&answer) => answer,
        Ok(_) => QuestionAnswer::Nobody { hint: "the answer does not fit the question".to_owned() },
        Err(panic) => QuestionAnswer::Nobody {
            hint: format!("the answerer panicked: {}", panic_message(panic.as_ref())),
        },
    }
}
