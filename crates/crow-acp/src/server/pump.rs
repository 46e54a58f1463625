//! The task of an attached session: handles requests of the client and events of the agent in order.
//!
//! A [`Pump`] has three inputs: events of the agent (`observer`), requests of the client (`requests`), and a timer
//! for running output that every update repeats as a whole (`catch_up`). The [`SessionView`] converts events to
//! updates, which are collected in `updates`. [`Pump::flush`] sends them, and waits until the client has room for each
//! one: a client that reads slowly slows down its pump instead of filling the library's queue.
//!
//! Start: after the response that names the session to the client ([`Begin::AfterResponse`]), or with a replay of its
//! history ([`Begin::Replay`]). A replay collects the logged events in `replay_events` and shows them when the last one
//! is there, because a rewind hides events before it. In both cases `greet` then sends what no event carries, and asks
//! open questions.
//!
//! Invariants: updates are sent in the order of their events, and never before the client can know the session; every
//! prompt is answered exactly once, at the end of its run or in [`Pump::end`]; a pause takes effect only between two
//! steps, so that a paused pump can be resumed, or restarted if the client opens
//! the session again ([`Pump::begin_again`]): open prompts and queued requests survive.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use agent_client_protocol::{
    Error,
    v1::schema::{self as acp, ContentBlock, ContentChunk, SessionConfigOption, SessionUpdate},
};
use crow_core::{
    event::{AgentEvent, AgentState, Envelope, Failure, InputSource, RunOutcome},
    ids::{RequestId, RunId},
    usage::TokenUsage,
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
    attached::{AttachedRequest, OptionName, OptionValue},
    peer::{Peer, SessionProgress},
    prompts::OpenPrompt,
    published_state::PublishedState,
};
use crate::view::{
    self, ClientAbilities, EventSource, SessionUpdateOut, SessionView, StoredContents, host_error,
    invalid,
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
    AfterResponse(oneshot::Receiver<()>),
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
            Self::AfterResponse(_) => handle.subscribe(),
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
    pub(super) updates: Vec<SessionUpdateOut>,
    pub(super) published: PublishedState,
    /// Sequence number of the last event to replay; 0 without a replay.
    replay_until: u64,
    /// Signals the end of the replay; `None` when it is over or there is none.
    replay_done: Option<oneshot::Sender<()>>,
    /// Events of the replay, collected until all of them are there.
    replay_events: Vec<Envelope>,
    /// Ends of the runs of open prompts within the replayed events.
    replay_run_ends: Vec<(RunId, RunOutcome)>,
    /// Time from which running output may be shown again.
    pub(super) catch_up: Instant,
    /// Resolves when the client knows the session; `None` after that and with a replay.
    pub(super) start_signal: Option<oneshot::Receiver<()>>,
    /// Prompts whose runs have not ended, the oldest first.
    pub(super) prompts: VecDeque<OpenPrompt>,
    /// The current run.
    pub(super) run_id: Option<RunId>,
    /// Held back errors of the current run: the one that the response to its prompt reports is not shown as well.
    pub(super) errors: Vec<Envelope>,
    /// Number of commands that were run, for message ids.
    pub(super) command_count: u64,
    /// Tasks that wait for the client's answers to open questions.
    pub(super) question_tasks: HashMap<RequestId, AbortHandle>,
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
            Begin::AfterResponse(known) => (0, None, Some(known)),
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
            updates: Vec::new(),
            published,
            replay_until,
            replay_done: replayed,
            replay_events: Vec::new(),
            replay_run_ends: Vec::new(),
            catch_up: Instant::now(),
            start_signal: when,
            prompts: VecDeque::new(),
            run_id: None,
            errors: Vec::new(),
            command_count: 0,
            question_tasks: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Runs until the connection leaves the session or its agent ends. Returns the pump if it was paused.
    pub(super) async fn run(mut self: Box<Self>, pause: CancellationToken) -> Option<Box<Self>> {
        let leave = self.leave.clone();
        if let Some(known) = self.start_signal.take() {
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
                self.view.flush(&mut self.updates);
                self.flush().await;
                self.catch_up = Instant::now() + CATCH_UP;
                Next::Step
            }
            observed = self.observer.next() => match observed {
                Some(observed) => {
                    self.on_observer_item(observed).await;
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
        self.published.push_commands(&mut self.updates).await;
        self.published.push_usage(&mut self.updates).await;
        self.flush().await;
        let is_idle = self.handle.state() == AgentState::Idle;
        self.peer.report_progress(
            &self.root,
            if is_idle { SessionProgress::Idle } else { SessionProgress::Running },
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
    async fn on_observer_item(&mut self, first: ObserverItem) {
        let mut item = first;
        for handled in 1..=BATCH {
            match item {
                ObserverItem::Event(envelope) => self.on_event(&envelope).await,
                observed => {
                    if let ObserverItem::Lost(_) = &observed {
                        self.end_replay().await;
                    }
                    self.view.on_observer_item(&observed, &mut self.updates);
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
    async fn on_event(&mut self, envelope: &Envelope) {
        // 1) Events of the history wait for the end of the replay.
        let is_replayed = envelope.seq.is_some_and(|seq| seq <= self.replay_until);
        if is_replayed && self.replay_done.is_some() {
            self.on_replayed_event(envelope);
            self.replay_events.push(envelope.clone());
            if envelope.seq == Some(self.replay_until) {
                self.end_replay().await;
            }
            return;
        }
        // 2) Live events of all agents of the session.
        if self.hold_back_error(envelope) {
            return;
        }
        self.view.on_event(envelope, EventSource::Live, &mut self.updates);
        self.on_question_event(&envelope.event).await;
        if let AgentEvent::Usage { usage, .. } = &envelope.event
            && let Some(prompt) = self.prompts.front_mut()
        {
            prompt.usage += *usage;
        }
        if let AgentEvent::Switch { .. } = &envelope.event {
            self.published.push_options(&mut self.updates).await;
        }
        // 3) Events of the root session alone drive title, usage and prompts.
        if envelope.session_id != envelope.root_id {
            return;
        }
        if let AgentEvent::Usage { .. } = &envelope.event {
            self.published.push_usage(&mut self.updates).await;
        }
        if let AgentEvent::RunStart { run_id, .. } = &envelope.event {
            self.run_id = Some(run_id.clone());
        }
        if let AgentEvent::UserInput { message_id, source: InputSource::Prompt, .. } =
            &envelope.event
        {
            self.published.push_title(&self.handle, &mut self.updates);
            self.on_inserted(message_id.as_str());
        }
        if let AgentEvent::RunEnd { run_id, result, .. } = &envelope.event {
            self.run_ended(run_id, result).await;
        }
    }

    /// Answers the prompt that started a run.
    async fn run_ended(&mut self, run_id: &RunId, result: &RunOutcome) {
        self.published.push_title(&self.handle, &mut self.updates);
        self.published.push_usage(&mut self.updates).await;
        self.published.push_commands(&mut self.updates).await;
        self.flush().await;
        let index = self.prompts.iter().position(|prompt| prompt.run_id == *run_id);
        if let Some(prompt) = index.and_then(|index| self.prompts.remove(index)) {
            self.answer(prompt, result);
        }
    }

    /// Shows the collected history, greets the client and answers prompts that ended in it, if a replay is under way.
    async fn end_replay(&mut self) {
        if let Some(done) = self.replay_done.take() {
            for envelope in view::replayable(std::mem::take(&mut self.replay_events)) {
                self.view.on_event(&envelope, EventSource::Replayed, &mut self.updates);
                if self.updates.len() >= BATCH {
                    self.flush().await;
                }
            }
            if self.handle.state() == AgentState::Idle {
                self.view.settle(&mut self.updates, "it was interrupted");
            }
            self.flush().await;
            // Fails if the connection has ended.
            let _ = done.send(());
            self.greet().await;
            for (run_id, result) in std::mem::take(&mut self.replay_run_ends) {
                self.run_ended(&run_id, &result).await;
            }
        }
    }

    async fn request(&mut self, request: AttachedRequest) {
        match request {
            AttachedRequest::Prompt {
                content,
                cancellation: withdrawn,
                cancel_mark: received,
                reply,
            } => {
                self.prompt(content, withdrawn, received, reply).await;
            }
            AttachedRequest::Set { option, value, reply } => {
                let set = self.set(option, value).await;
                // The response goes before the updates that it causes.
                reply.send(set);
                self.flush().await;
                self.published.push_options(&mut self.updates).await;
                self.published.push_commands(&mut self.updates).await;
                self.flush().await;
            }
            AttachedRequest::Refresh => {
                self.published.push_title(&self.handle, &mut self.updates);
                self.published.push_options(&mut self.updates).await;
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
            OptionValue::Switched(is_on) => view::switch_value(target, is_on)
                .ok_or_else(|| invalid("the option is neither on nor off"))?
                .to_owned(),
        };
        let set = self.host.set_option(&id, target.name, &value).await;
        set.map_err(|error| host_error(&error))?;
        match option {
            // The response carries the options.
            OptionName::Named(_) => self.published.options_for_response(&mut self.updates).await,
            // The response carries nothing: changes are sent after it.
            OptionName::OfKind(_) => Ok(Vec::new()),
        }
        .map_err(|error| host_error(&error))
    }

    /// Sends the collected updates, each as soon as the client has room for it.
    pub(super) async fn flush(&mut self) {
        for update in merged(std::mem::take(&mut self.updates)) {
            self.peer.wait_for_room(&self.root).await;
            self.peer.update(update);
        }
    }

    /// Sends the collected updates at once, whether the client has room or not.
    pub(super) fn send(&mut self) {
        for update in merged(std::mem::take(&mut self.updates)) {
            self.peer.update(update);
        }
    }

    /// Ends the pump because the session is left or its agent has ended: settles calls, answers prompts and requests.
    pub(super) fn end(mut self) {
        // Errors that no response will report.
        for error in std::mem::take(&mut self.errors) {
            self.view.on_event(&error, EventSource::Live, &mut self.updates);
        }
        self.view.settle(&mut self.updates, "the session was closed");
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

impl Pump {
    /// Restarts a paused pump for a new peer. Open prompts are answered when their runs end, as without the restart.
    pub(super) fn begin_again(
        &mut self,
        peer: Arc<dyn Peer>,
        published: PublishedState,
        begin: Begin,
    ) {
        self.peer = peer;
        self.published = published;
        // Open questions are task again by `greet`.
        for (_, task) in self.question_tasks.drain() {
            task.abort();
        }
        match begin {
            Begin::AfterResponse(known) => self.start_signal = Some(known),
            Begin::Replay(replay) => {
                self.observer = self.handle.subscribe_after(0);
                let cwd = self.handle.metadata().crow().cwd;
                let contents = Arc::new(StoredContents::of(&self.handle));
                let id = self.handle.session_id().clone();
                self.view = SessionView::new(self.abilities.clone(), id, cwd, contents);
                self.updates.clear();
                self.replay_events.clear();
                self.errors.clear();
                self.replay_run_ends.clear();
                self.replay_until = replay.until;
                self.replay_done = Some(replay.done);
                // The replay sets both again.
                self.run_id = None;
                for prompt in &mut self.prompts {
                    prompt.usage = TokenUsage::default();
                }
            }
        }
    }

    /// Updates open prompts by an event of the replayed history.
    fn on_replayed_event(&mut self, envelope: &Envelope) {
        let run = self.run_id.as_ref();
        if let AgentEvent::Usage { usage, .. } = &envelope.event
            && let Some(prompt) = self.prompts.iter_mut().find(|prompt| Some(&prompt.run_id) == run)
        {
            prompt.usage += *usage;
        }
        if envelope.session_id != envelope.root_id {
            return;
        }
        if let AgentEvent::RunStart { run_id, .. } = &envelope.event {
            self.run_id = Some(run_id.clone());
        }
        if let AgentEvent::UserInput { message_id, source: InputSource::Prompt, .. } =
            &envelope.event
        {
            self.on_inserted(message_id.as_str());
        }
        if let AgentEvent::RunEnd { run_id, result, .. } = &envelope.event
            && self.prompts.iter().any(|prompt| prompt.run_id == *run_id)
        {
            self.replay_run_ends.push((run_id.clone(), result.clone()));
        }
    }
}

/// Largest text of a merged chunk, in bytes.
const LONGEST_CHUNK: usize = 16 << 10;

/// Merges consecutive text chunks of the same message.
fn merged(updates: Vec<SessionUpdateOut>) -> Vec<SessionUpdateOut> {
    let mut merged: Vec<SessionUpdateOut> = Vec::with_capacity(updates.len());
    for mut update in updates {
        let joined = merged.last_mut().is_some_and(|last| join(last, &mut update));
        if !joined {
            merged.push(update);
        }
    }
    merged
}

/// Appends the text of `next` to `last` and returns true, if both are chunks of the same message.
fn join(last: &mut SessionUpdateOut, next: &mut SessionUpdateOut) -> bool {
    if last.session_id != next.session_id {
        return false;
    }
    match (&mut last.update, &next.update) {
        (SessionUpdate::AgentMessageChunk(last), SessionUpdate::AgentMessageChunk(next))
        | (SessionUpdate::AgentThoughtChunk(last), SessionUpdate::AgentThoughtChunk(next)) => {
            append(last, next)
        }
        _ => false,
    }
}

fn append(last: &mut ContentChunk, next: &ContentChunk) -> bool {
    let fits =
        last.message_id.is_some() && last.message_id == next.message_id && last.meta == next.meta;
    if let (true, ContentBlock::Text(text), ContentBlock::Text(more)) =
        (fits, &mut last.content, &next.content)
        && text.text.len() + more.text.len() <= LONGEST_CHUNK
        && text.annotations == more.annotations
        && text.meta == more.meta
    {
        text.text.push_str(&more.text);
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::TextContent;

    use super::*;

    fn chunk(id: &str, text: &str) -> SessionUpdateOut {
        let content = ContentBlock::Text(TextContent::new(text));
        let chunk = ContentChunk::new(content).message_id(Some(id.to_owned().into()));
        SessionUpdateOut { session_id: "s".into(), update: SessionUpdate::AgentMessageChunk(chunk) }
    }

    fn texts(updates: Vec<SessionUpdateOut>) -> Vec<String> {
        let text = |update: SessionUpdateOut| {
            let update = serde_json::to_value(update.update).unwrap();
            update["content"]["text"].as_str().unwrap().to_owned()
        };
        merged(updates).into_iter().map(text).collect()
    }

    #[test]
    fn chunks_of_one_message_are_joined_up_to_a_bound() {
        assert_eq!(texts(vec![chunk("1", "a"), chunk("1", "b"), chunk("2", "c")]), ["ab", "c"]);
        let long = "x".repeat(LONGEST_CHUNK);
        assert_eq!(texts(vec![chunk("1", &long), chunk("1", "b")]), [long.as_str(), "b"]);
        assert_eq!(texts(Vec::new()), [""; 0]);
    }
}
