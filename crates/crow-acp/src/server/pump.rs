//! The task of an attached session: handles requests of the client and events of the agent in order.
//!
//! A [`Pump`] has three inputs: events of the agent (`observer`), requests of the client (`requests`), and a timer
//! for running output that every update repeats as a whole (`catch_up`). The [`SessionView`] converts events to
//! updates, which are collected in `out`. [`Pump::flush`] sends them, and waits until the client has room for each
//! one: a client that reads slowly slows down its pump instead of filling the library's queue.
//!
//! Start: after the response that names the session to the client ([`Begin::When`]), or with a replay of its history
//! ([`Begin::Replay`]). A replay collects the logged events in `past` and shows them when the last one is there,
//! because a rewind hides events before it. In both cases `greet` then sends what no event carries, and asks open
//! questions.
//!
//! Invariants: updates are sent in the order of their events, and never before the client can know the session; every
//! prompt is answered exactly once, at the end of its run or in [`Pump::end`]; a pause takes effect only between two
//! steps, so that a paused pump can be resumed or restarted (`again.rs`).

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

/// Number of events that are handled in a row, and of updates that a replay collects, before they are sent.
const BATCH: usize = 256;

/// Interval of updates about running output, each of which repeats it as a whole.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Parts of which a [`Pump`] is built.
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

/// Start of a pump.
pub(super) enum Begin {
    /// After the client has the response that names the session.
    When(oneshot::Receiver<()>),
    /// With a replay of the history.
    Replay(Replay),
}

/// A replay of the history of a session.
pub(super) struct Replay {
    /// Sequence number of its last event.
    pub until: u64,
    /// Signalled when all of it was sent.
    pub done: oneshot::Sender<()>,
}

impl Begin {
    /// Subscribes to the events of an agent: from now on, or for a replay from the beginning of the log.
    pub(super) fn observer(&self, handle: &AgentHandle) -> Observer {
        match self {
            Self::When(_) => handle.subscribe(),
            Self::Replay(_) => handle.subscribe_after(0),
        }
    }
}

/// Result of a step.
enum Next {
    Step,
    Pause,
    End,
}

/// State of the task of an attached session.
pub(super) struct Pump {
    pub(super) peer: Arc<dyn Peer>,
    pub(super) host: Arc<dyn AgentHost>,
    pub(super) handle: AgentHandle,
    /// Id of the session in the protocol.
    pub(super) root: acp::SessionId,
    pub(super) observer: Observer,
    pub(super) requests: mpsc::Receiver<AttachedRequest>,
    pub(super) leave: CancellationToken,
    pub(super) abilities: ClientAbilities,
    pub(super) view: SessionView,
    /// Updates that were not sent yet.
    pub(super) out: Vec<SessionUpdateOut>,
    pub(super) published: PublishedState,
    /// Sequence number of the last event to replay; 0 without a replay.
    pub(super) replay_until: u64,
    /// Signals the end of the replay; `None` when it is over or there is none.
    pub(super) replayed: Option<oneshot::Sender<()>>,
    /// Events of the replay, collected until all of them are there.
    pub(super) past: Vec<Envelope>,
    /// Ends of the runs of open prompts within the replayed events.
    pub(super) past_ends: Vec<(RunId, RunOutcome)>,
    /// Time from which running output may be shown again.
    pub(super) catch_up: Instant,
    /// Resolves when the client knows the session; `None` after that and with a replay.
    pub(super) when: Option<oneshot::Receiver<()>>,
    /// Prompts whose runs have not ended, the oldest first.
    pub(super) prompts: VecDeque<OpenPrompt>,
    /// The current run.
    pub(super) run_id: Option<RunId>,
    /// Held back errors of the current run: the one that the response to its prompt reports is not shown as well.
    pub(super) errors: Vec<Envelope>,
    /// Number of commands that were run, for message ids.
    pub(super) commands: u64,
    /// Tasks that wait for the client's answers to open questions.
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

    /// Runs until the connection leaves the session or its agent ends. Returns the pump if it was paused.
    pub(super) async fn run(mut self: Box<Self>, pause: CancellationToken) -> Option<Box<Self>> {
        let leave = self.leave.clone();
        if let Some(known) = self.when.take() {
            // Fails if the response was dropped with the connection: then `leave` ends the loop below.
            let _ = leave.run_until_cancelled(known).await;
            let _ = leave.run_until_cancelled(self.greet()).await;
        }
        loop {
            // Leaving drops the current step: no step must run to its end.
            match leave.run_until_cancelled(self.step(&pause)).await {
                Some(Next::Step) => {}
                // A pause takes effect between steps: nothing is half done.
                Some(Next::Pause) => return Some(self),
                Some(Next::End) | None => break,
            }
        }
        self.end();
        None
    }

    /// Handles one input; a pause has priority over finished tasks, the timer, events and requests, in this order.
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

    /// Sends the state that no event carries and asks the open questions, once the client knows the session.
    async fn greet(&mut self) {
        self.published.tell_commands(&mut self.out).await;
        self.published.tell_usage(&mut self.out).await;
        self.flush().await;
        let is_idle = self.handle.state() == AgentState::Idle;
        self.peer.progress(
            &self.root,
            if is_idle { SessionProgress::Ready } else { SessionProgress::GoesOn },
        );
        // Questions that were asked before the client attached.
        for question in self.handle.open_questions() {
            self.ask(question);
        }
        for question in self.handle.open_user_questions() {
            self.ask_user(question);
        }
    }

    /// Handles an item of the observer and those that are queued behind it, up to a batch, then sends the updates.
    async fn observed(&mut self, first: ObserverItem) {
        let mut item = first;
        for handled in 1..=BATCH {
            match item {
                ObserverItem::Event(envelope) => self.event(&envelope).await,
                observed => {
                    if let ObserverItem::Lost(_) = &observed {
                        self.replay_ends().await;
                    }
                    self.view.observed(&observed, &mut self.out);
                }
            }
            // An item is taken from the observer only if it is handled before the updates are sent.
            let next = || self.observer.next().now_or_never().flatten();
            match (handled < BATCH).then(next).flatten() {
                Some(next) => item = next,
                None => break,
            }
        }
        self.flush().await;
    }

    /// Handles an event: collects it for the replay, or shows it and follows its effects on questions and prompts.
    async fn event(&mut self, envelope: &Envelope) {
        // 1) Events of the history wait for the end of the replay.
        let is_replayed = envelope.seq.is_some_and(|seq| seq <= self.replay_until);
        if is_replayed && self.replayed.is_some() {
            self.recall(envelope);
            self.past.push(envelope.clone());
            if envelope.seq == Some(self.replay_until) {
                self.replay_ends().await;
            }
            return;
        }
        // 2) Live events of all agents of the session.
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
        // 3) Events of the root session alone drive title, usage and prompts.
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
        let index = self.prompts.iter().position(|prompt| prompt.run_id == *run_id);
        if let Some(prompt) = index.and_then(|index| self.prompts.remove(index)) {
            self.answer(prompt, result);
        }
    }

    /// Shows the collected history, greets the client and answers prompts that ended in it, if a replay is under way.
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
            // Fails if the connection has ended.
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
                // The response goes before the updates that it causes.
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

    /// Sets an option of the session. Returns the options if the response carries them.
    async fn set(
        &mut self,
        option: OptionName,
        value: OptionValue,
    ) -> Result<Vec<SessionConfigOption>, Error> {
        let id = self.handle.session_id().clone();
        let options = self.host.options(&id).await.map_err(|error| host_error(&error))?;
        let target = options.iter().find(|target| match &option {
            OptionName::Named(name) => target.name == name,
            OptionName::OfKind(kind) => target.kind == *kind,
        });
        let target = target.ok_or_else(|| invalid("there is no such option"))?;
        let value = match value {
            OptionValue::Named(value) => value,
            OptionValue::Switched(is_on) => view::switched(target, is_on)
                .ok_or_else(|| invalid("the option is neither on nor off"))?
                .to_owned(),
        };
        let set = self.host.set_option(&id, target.name, &value).await;
        set.map_err(|error| host_error(&error))?;
        match option {
            // The response carries the options.
            OptionName::Named(_) => self.published.answered(&mut self.out).await,
            // The response carries nothing: changes are sent after it.
            OptionName::OfKind(_) => Ok(Vec::new()),
        }
        .map_err(|error| host_error(&error))
    }

    /// Sends the collected updates, each as soon as the client has room for it.
    pub(super) async fn flush(&mut self) {
        for update in merged(std::mem::take(&mut self.out)) {
            self.peer.room(&self.root).await;
            self.peer.update(update);
        }
    }

    /// Sends the collected updates at once, whether the client has room or not.
    pub(super) fn send(&mut self) {
        for update in merged(std::mem::take(&mut self.out)) {
            self.peer.update(update);
        }
    }

    /// Ends the pump because the session is left or its agent has ended: settles calls, answers prompts and requests.
    pub(super) fn end(mut self) {
        // Errors that no response will report.
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
        // No request may be queued after the last one is answered.
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            request.refuse(invalid("the session is closed"));
        }
    }
}
