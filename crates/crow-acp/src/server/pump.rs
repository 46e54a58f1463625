//! The task of a session that a connection shows: requests and events, in their order.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use agent_client_protocol::{
    Error,
    v1::schema::{self as acp, SessionConfigOption},
};
use crow_core::{
    event::{AgentEvent, AgentState, Envelope, Failure, InputSource, RunOutcome},
    ids::{RequestId, RunId},
};
use crow_runtime::{AgentHandle, AgentHost, Observer, ObserverItem};
use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    fault::{host_error, invalid},
    merge::merged,
    peer::{Peer, SessionProgress},
    prompting::OpenPrompt,
    published::PublishedState,
    requests::{AttachedRequest, OptionName, OptionValue},
};
use crate::view::{
    self, ClientAbilities, EventSource, SessionUpdateOut, SessionView, StoredContents,
};

/// How many events are looked at before what came of them is sent.
const BATCH: usize = 256;

/// How often what commands print is shown, where it is shown as a whole each time.
const CATCH_UP: Duration = Duration::from_millis(100);

/// What a session's task is made of.
pub(super) struct PumpParts {
    pub peer: Arc<dyn Peer>,
    pub host: Arc<dyn AgentHost>,
    pub handle: AgentHandle,
    pub observer: Observer,
    pub abilities: ClientAbilities,
    pub published: PublishedState,
    pub requests: mpsc::Receiver<AttachedRequest>,
    pub leave: CancellationToken,
    pub begin: Begin,
}

/// How a session's task begins.
pub(super) enum Begin {
    /// When the client knows the session.
    When(oneshot::Receiver<()>),
    /// With what happened before.
    Replay(Replay),
}

/// A replay of what happened before.
pub(super) struct Replay {
    /// The last event of it.
    pub until: u64,
    /// Told when all of it was sent.
    pub done: oneshot::Sender<()>,
}

impl Begin {
    /// Begins to watch an agent so that nothing is missing.
    pub(super) fn observer(&self, handle: &AgentHandle) -> Observer {
        match self {
            Self::When(_) => handle.subscribe(),
            Self::Replay(_) => handle.subscribe_after(0),
        }
    }
}

/// What a session's task does after a step.
enum Next {
    Step,
    Pause,
    End,
}

/// The task of a session.
pub(super) struct Pump {
    pub(super) peer: Arc<dyn Peer>,
    pub(super) host: Arc<dyn AgentHost>,
    pub(super) handle: AgentHandle,
    /// The session as the client knows it.
    pub(super) root: acp::SessionId,
    pub(super) observer: Observer,
    pub(super) requests: mpsc::Receiver<AttachedRequest>,
    pub(super) leave: CancellationToken,
    pub(super) abilities: ClientAbilities,
    pub(super) view: SessionView,
    pub(super) out: Vec<SessionUpdateOut>,
    pub(super) published: PublishedState,
    pub(super) replay_until: u64,
    pub(super) replayed: Option<oneshot::Sender<()>>,
    /// What is shown again when all of it is there.
    pub(super) past: Vec<Envelope>,
    /// Runs of prompts that ended in what is shown again.
    pub(super) past_ends: Vec<(RunId, RunOutcome)>,
    /// When what is shown as a whole each time is shown again.
    pub(super) catch_up: Instant,
    pub(super) when: Option<oneshot::Receiver<()>>,
    /// Prompts whose runs have not ended, the oldest first.
    pub(super) prompts: VecDeque<OpenPrompt>,
    /// The run under way.
    pub(super) run_id: Option<RunId>,
    /// Errors of the run under way. The answer to its prompt says the last one: it is not shown beside that.
    pub(super) errors: Vec<Envelope>,
    /// How many commands were done.
    pub(super) commands: u64,
    /// Questions that the client was asked.
    pub(super) asked: HashMap<RequestId, AbortHandle>,
    pub(super) tasks: JoinSet<()>,
}

impl Pump {
    pub(super) fn new(parts: PumpParts) -> Self {
        let PumpParts {
            peer,
            host,
            handle,
            observer,
            abilities,
            published,
            requests,
            leave,
            begin,
        } = parts;
        let cwd = handle.metadata().crow().cwd;
        let contents = Arc::new(StoredContents::of(&handle));
        let view = SessionView::new(abilities.clone(), handle.session_id().clone(), cwd, contents);
        let (replay_until, replayed, when) = match begin {
            Begin::When(known) => (0, None, Some(known)),
            Begin::Replay(replay) => (replay.until, Some(replay.done), None),
        };
        Self {
            peer,
            host,
            root: acp::SessionId::new(handle.session_id().as_str()),
            handle,
            observer,
            requests,
            leave,
            abilities,
            view,
            out: Vec::new(),
            published,
            replay_until,
            replayed,
            past: Vec::new(),
            past_ends: Vec::new(),
            catch_up: Instant::now(),
            when,
            prompts: VecDeque::new(),
            run_id: None,
            errors: Vec::new(),
            commands: 0,
            asked: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Works until the connection leaves the session, or its agent ends. Returns itself when it is paused.
    pub(super) async fn run(mut self: Box<Self>, pause: CancellationToken) -> Option<Box<Self>> {
        let leave = self.leave.clone();
        if let Some(known) = self.when.take() {
            // Whoever answers the client is gone where this fails, and the connection with it.
            let _ = leave.run_until_cancelled(known).await;
            let _ = leave.run_until_cancelled(self.greet()).await;
        }
        loop {
            // What is under way is dropped on leaving: nothing in it must be done to its end.
            match leave.run_until_cancelled(self.step(&pause)).await {
                Some(Next::Step) => {}
                // Nothing that was begun is left half done.
                Some(Next::Pause) => return Some(self),
                Some(Next::End) | None => break,
            }
        }
        self.end();
        None
    }

    /// Does what comes next.
    async fn step(&mut self, pause: &CancellationToken) -> Next {
        let is_behind = self.view.is_behind();
        tokio::select! {
            biased;
            () = pause.cancelled() => Next::Pause,
            Some(_) = self.tasks.join_next() => Next::Step,
            () = sleep_until(self.catch_up), if is_behind => {
                self.view.flush(&mut self.out);
                self.flush().await;
                self.catch_up = Instant::now() + CATCH_UP;
                Next::Step
            }
            observed = self.observer.next() => match observed {
                Some(observed) => {
                    self.observed(observed).await;
                    Next::Step
                }
                None => Next::End,
            },
            Some(request) = self.requests.recv() => {
                self.request(request).await;
                Next::Step
            }
        }
    }

    /// Tells what a client cannot know before it knows the session.
    async fn greet(&mut self) {
        self.published.tell_commands(&mut self.out).await;
        self.published.tell_usage(&mut self.out).await;
        self.flush().await;
        let is_idle = self.handle.state() == AgentState::Idle;
        self.peer.progress(
            &self.root,
            if is_idle { SessionProgress::Ready } else { SessionProgress::GoesOn },
        );
        // Questions that were open before.
        for question in self.handle.open_questions() {
            self.ask(question);
        }
        for question in self.handle.open_user_questions() {
            self.ask_user(question);
        }
    }

    /// Shows what was observed, and what else is there already.
    async fn observed(&mut self, first: ObserverItem) {
        let mut next = Some(first);
        for _ in 0..BATCH {
            match next.take() {
                Some(ObserverItem::Event(envelope)) => self.event(&envelope).await,
                Some(observed) => {
                    if let ObserverItem::Lost(_) = &observed {
                        self.replay_ends().await;
                    }
                    self.view.observed(&observed, &mut self.out);
                }
                None => break,
            }
            next = self.observer.next().now_or_never().flatten();
        }
        if let Some(observed) = next {
            Box::pin(self.observed(observed)).await;
        }
        self.flush().await;
    }

    async fn event(&mut self, envelope: &Envelope) {
        let is_replayed = envelope.seq.is_some_and(|seq| seq <= self.replay_until);
        if is_replayed && self.replayed.is_some() {
            self.recall(envelope);
            self.past.push(envelope.clone());
            if envelope.seq == Some(self.replay_until) {
                self.replay_ends().await;
            }
            return;
        }
        if self.holds_back(envelope) {
            return;
        }
        self.view.event(envelope, EventSource::Live, &mut self.out);
        self.question(&envelope.event).await;
        if let AgentEvent::Usage { usage, .. } = &envelope.event
            && let Some(prompt) = self.prompts.front_mut()
        {
            prompt.usage += *usage;
        }
        if let AgentEvent::Switch { .. } = &envelope.event {
            self.published.tell_options(&mut self.out).await;
        }
        if envelope.session_id != envelope.root_id {
            return;
        }
        if let AgentEvent::Usage { .. } = &envelope.event {
            self.published.tell_usage(&mut self.out).await;
        }
        if let AgentEvent::RunStart { run_id, .. } = &envelope.event {
            self.run_id = Some(run_id.clone());
        }
        if let AgentEvent::UserInput { message_id, source: InputSource::Prompt, .. } =
            &envelope.event
        {
            self.published.tell_title(&self.handle, &mut self.out);
            self.inserted(message_id.as_str());
        }
        if let AgentEvent::RunEnd { run_id, result } = &envelope.event {
            self.run_ended(run_id, result).await;
        }
    }

    /// Answers the prompt that started a run.
    async fn run_ended(&mut self, run_id: &RunId, result: &RunOutcome) {
        self.published.tell_title(&self.handle, &mut self.out);
        self.published.tell_usage(&mut self.out).await;
        self.published.tell_commands(&mut self.out).await;
        self.flush().await;
        let place = self.prompts.iter().position(|prompt| prompt.run_id == *run_id);
        if let Some(prompt) = place.and_then(|place| self.prompts.remove(place)) {
            self.answer(prompt, result);
        }
    }

    async fn replay_ends(&mut self) {
        if let Some(done) = self.replayed.take() {
            for envelope in view::replayable(std::mem::take(&mut self.past)) {
                self.view.event(&envelope, EventSource::Replayed, &mut self.out);
                if self.out.len() >= BATCH {
                    self.flush().await;
                }
            }
            if self.handle.state() == AgentState::Idle {
                self.view.settle(&mut self.out, "it was interrupted");
            }
            self.flush().await;
            // Nobody waits any more: the connection has ended.
            let _ = done.send(());
            self.greet().await;
            for (run_id, result) in std::mem::take(&mut self.past_ends) {
                self.run_ended(&run_id, &result).await;
            }
        }
    }

    async fn request(&mut self, request: AttachedRequest) {
        match request {
            AttachedRequest::Prompt { content, withdrawn, received, reply } => {
                self.prompt(content, withdrawn, received, reply).await;
            }
            AttachedRequest::Set { option, value, reply } => {
                let set = self.set(option, value).await;
                reply.give(set);
                self.flush().await;
                self.published.tell_options(&mut self.out).await;
                self.published.tell_commands(&mut self.out).await;
                self.flush().await;
            }
            AttachedRequest::Refresh => {
                self.published.tell_title(&self.handle, &mut self.out);
                self.published.tell_options(&mut self.out).await;
                self.flush().await;
            }
        }
    }

    async fn set(
        &mut self,
        option: OptionName,
        value: OptionValue,
    ) -> Result<Vec<SessionConfigOption>, Error> {
        let id = self.handle.session_id().clone();
        let options = self.host.options(&id).await.map_err(|error| host_error(&error))?;
        let known = options.iter().find(|known| match &option {
            OptionName::Named(name) => known.name == name,
            OptionName::OfKind(kind) => known.kind == *kind,
        });
        let known = known.ok_or_else(|| invalid("there is no such option"))?;
        let value = match value {
            OptionValue::Named(value) => value,
            OptionValue::Switched(is_on) => view::switched(known, is_on)
                .ok_or_else(|| invalid("the option is neither on nor off"))?
                .to_owned(),
        };
        let set = self.host.set_option(&id, known.name, &value).await;
        set.map_err(|error| host_error(&error))?;
        match option {
            // The answer carries the options.
            OptionName::Named(_) => self.published.answered(&mut self.out).await,
            // The answer says nothing: what changed is told after it.
            OptionName::OfKind(_) => Ok(Vec::new()),
        }
        .map_err(|error| host_error(&error))
    }

    /// Sends what is to be sent, as the client takes it.
    pub(super) async fn flush(&mut self) {
        for update in merged(std::mem::take(&mut self.out)) {
            self.peer.room(&self.root).await;
            self.peer.update(update);
        }
    }

    /// Sends what is to be sent, whether the client takes it or not.
    pub(super) fn send(&mut self) {
        for update in merged(std::mem::take(&mut self.out)) {
            self.peer.update(update);
        }
    }

    /// Answers what waits: the session is left, or its agent has ended.
    pub(super) fn end(mut self) {
        for error in std::mem::take(&mut self.errors) {
            self.view.event(&error, EventSource::Live, &mut self.out);
        }
        self.view.settle(&mut self.out, "the session was closed");
        self.send();
        let ended = if self.leave.is_cancelled() {
            RunOutcome::Cancelled
        } else {
            Failure::other("the agent of the session has ended").into()
        };
        for prompt in std::mem::take(&mut self.prompts) {
            self.answer(prompt, &ended);
        }
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            request.refuse(invalid("the session is closed"));
        }
    }
}
