//! The task of a session that a connection shows: requests and events, in their order.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{self as acp, ContentBlock, PromptResponse, SessionConfigOption},
};
use crow_core::{
    capability::{PermissionAnswer, PermissionRequest, QuestionRequest},
    event::{AgentEvent, AgentState, Envelope, InputSource, RunOutcome},
    ids::{RequestId, RunId},
    message::Block,
    usage::TokenUsage,
};
use crow_runtime::{AgentHandle, AgentHost, CommandOutcome, Observed, Observer};
use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    fault::{handle_error, host_error, invalid, prompt_fault},
    merge::merged,
    peer::{Peer, Progress, PromptReply},
    published::Published,
    question,
    requests::{OptionName, OptionValue, Request},
};
use crate::view::{self, ClientAbilities, Outgoing, PermissionReply, Source, StoredContents, View};

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
    pub published: Published,
    pub requests: mpsc::Receiver<Request>,
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

/// The task of a session.
pub(super) struct Pump {
    peer: Arc<dyn Peer>,
    host: Arc<dyn AgentHost>,
    handle: AgentHandle,
    /// The session as the client knows it.
    root: acp::SessionId,
    observer: Observer,
    requests: mpsc::Receiver<Request>,
    leave: CancellationToken,
    abilities: ClientAbilities,
    view: View,
    out: Vec<Outgoing>,
    published: Published,
    replay_until: u64,
    replayed: Option<oneshot::Sender<()>>,
    /// What is shown again when all of it is there.
    past: Vec<Envelope>,
    /// When what is shown as a whole each time is shown again.
    catch_up: Instant,
    when: Option<oneshot::Receiver<()>>,
    /// Prompts whose runs have not ended, the oldest first.
    prompts: VecDeque<Prompt>,
    /// The run under way.
    run_id: Option<RunId>,
    /// How many commands were done.
    commands: u64,
    /// Questions that the client was asked.
    asked: HashMap<RequestId, AbortHandle>,
    tasks: JoinSet<()>,
}

/// A prompt whose run has not ended.
struct Prompt {
    run_id: RunId,
    /// What was said.
    content: Vec<ContentBlock>,
    /// None if it was given before the end.
    reply: Option<PromptReply>,
    usage: TokenUsage,
    /// Waits for the client to give it up.
    watch: Option<AbortHandle>,
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
        let view = View::new(abilities.clone(), handle.session_id().clone(), cwd, contents);
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
            catch_up: Instant::now(),
            when,
            prompts: VecDeque::new(),
            run_id: None,
            commands: 0,
            asked: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Works until the connection leaves the session, or its agent ends.
    pub(super) async fn run(mut self) {
        let leave = self.leave.clone();
        if let Some(known) = self.when.take() {
            // Whoever answers the client is gone where this fails, and the connection with it.
            let _ = leave.run_until_cancelled(known).await;
            let _ = leave.run_until_cancelled(self.greet()).await;
        }
        loop {
            // What is under way is dropped on leaving: nothing in it must be done to its end.
            let goes_on = leave.run_until_cancelled(self.step()).await;
            if goes_on != Some(true) {
                break;
            }
        }
        self.end();
    }

    /// Does what comes next. Returns false when nothing will come any more.
    async fn step(&mut self) -> bool {
        let is_behind = self.view.is_behind();
        tokio::select! {
            biased;
            Some(_) = self.tasks.join_next() => true,
            () = sleep_until(self.catch_up), if is_behind => {
                self.view.flush(&mut self.out);
                self.flush().await;
                self.catch_up = Instant::now() + CATCH_UP;
                true
            }
            observed = self.observer.next() => match observed {
                Some(observed) => {
                    self.observed(observed).await;
                    true
                }
                None => false,
            },
            Some(request) = self.requests.recv() => {
                self.request(request).await;
                true
            }
        }
    }

    /// Tells what a client cannot know before it knows the session.
    async fn greet(&mut self) {
        self.published.tell_commands(&mut self.out).await;
        self.published.tell_usage(&mut self.out).await;
        self.flush().await;
        let is_idle = self.handle.state() == AgentState::Idle;
        self.peer.progress(&self.root, if is_idle { Progress::Ready } else { Progress::GoesOn });
        // Questions that were open before.
        for question in self.handle.open_questions() {
            self.ask(question);
        }
        for question in self.handle.open_user_questions() {
            self.ask_user(question);
        }
    }

    /// Shows what was observed, and what else is there already.
    async fn observed(&mut self, first: Observed) {
        let mut next = Some(first);
        for _ in 0..BATCH {
            match next.take() {
                Some(Observed::Event(envelope)) => self.event(&envelope).await,
                Some(observed) => {
                    if let Observed::Lost(_) = &observed {
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
            self.past.push(envelope.clone());
            if envelope.seq == Some(self.replay_until) {
                self.replay_ends().await;
            }
            return;
        }
        self.view.event(envelope, Source::Live, &mut self.out);
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
        if let AgentEvent::RunStart { run_id } = &envelope.event {
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

    /// Asks what an agent of the session asks, and takes back what is no question any more.
    async fn question(&mut self, event: &AgentEvent) {
        if let AgentEvent::PermissionRequest { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask(question);
            }
        }
        if let AgentEvent::PermissionWithdrawn { request_id, .. }
        | AgentEvent::PermissionDecision { request_id, .. } = event
            && let Some(asked) = self.asked.remove(request_id)
        {
            asked.abort();
            if self.asked.is_empty() {
                self.peer.progress(&self.root, Progress::GoesOn);
            }
        }
        if let AgentEvent::QuestionAsked { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_user_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask_user(question);
            }
        }
        if let AgentEvent::QuestionWithdrawn { request_id, .. }
        | AgentEvent::QuestionAnswered { request_id, .. } = event
            && let Some(asked) = self.asked.remove(request_id)
        {
            asked.abort();
            if self.asked.is_empty() {
                self.peer.progress(&self.root, Progress::GoesOn);
            }
        }
    }

    /// Answers the prompt that started a run.
    async fn run_ended(&mut self, run_id: &RunId, result: &RunOutcome) {
        self.view.settle(&mut self.out, "the run ended");
        self.published.tell_title(&self.handle, &mut self.out);
        self.published.tell_usage(&mut self.out).await;
        self.published.tell_commands(&mut self.out).await;
        self.flush().await;
        let place = self.prompts.iter().position(|prompt| prompt.run_id == *run_id);
        if let Some(prompt) = place.and_then(|place| self.prompts.remove(place)) {
            self.answer(prompt, result);
        }
    }

    /// Answers a prompt whose run is over.
    fn answer(&self, prompt: Prompt, result: &RunOutcome) {
        if let Some(watch) = &prompt.watch {
            watch.abort();
        }
        let response = response(result, &prompt.usage);
        match prompt.reply {
            Some(PromptReply::Ended(reply)) => {
                self.peer.progress(&self.root, Progress::Ended(&response));
                reply.give(response);
            }
            // It was cancelled before the agent read it.
            Some(PromptReply::Inserted(reply)) => {
                reply.give(response.and(Err(Error::request_cancelled())));
            }
            None => self.peer.progress(&self.root, Progress::Ended(&response)),
        }
    }

    /// Tells that the agent has read a prompt.
    fn inserted(&mut self, message_id: &str) {
        let run = self.run_id.as_ref();
        let prompt = self.prompts.iter_mut().find(|prompt| Some(&prompt.run_id) == run);
        let Some(prompt) = prompt else { return };
        let began = Progress::Began { message_id, prompt: &prompt.content };
        match prompt.reply.take() {
            Some(PromptReply::Inserted(reply)) => {
                reply.give(Ok(message_id.to_owned()));
                self.peer.progress(&self.root, began);
            }
            ended => prompt.reply = ended,
        }
    }

    async fn replay_ends(&mut self) {
        if let Some(done) = self.replayed.take() {
            for envelope in view::replayable(std::mem::take(&mut self.past)) {
                self.view.event(&envelope, Source::Replayed, &mut self.out);
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
        }
    }

    async fn request(&mut self, request: Request) {
        match request {
            Request::Prompt { content, withdrawn, reply } => {
                self.prompt(content, withdrawn, reply).await;
            }
            Request::Set { option, value, reply } => {
                let set = self.set(option, value).await;
                reply.give(set);
                self.published.tell_options(&mut self.out).await;
                self.published.tell_commands(&mut self.out).await;
                self.flush().await;
            }
            Request::Refresh => {
                self.published.tell_title(&self.handle, &mut self.out);
                self.flush().await;
            }
        }
    }

    async fn prompt(
        &mut self,
        content: Vec<ContentBlock>,
        withdrawn: Option<RequestCancellation>,
        reply: PromptReply,
    ) {
        let cwd = self.handle.metadata().crow().cwd;
        let command = self.command(&content).await;
        let blocks = match view::prompt_blocks(content.clone(), &cwd) {
            Ok(blocks) => blocks,
            Err(fault) => return reply.refuse(prompt_fault(&fault)),
        };
        match command {
            Some(Ok(CommandOutcome::Shown(text))) => self.shown(&text, &content, reply).await,
            Some(Ok(CommandOutcome::Prompt(blocks))) => {
                self.start(content, blocks, withdrawn, reply);
            }
            Some(Err(error)) => reply.refuse(error),
            None => self.start(content, blocks, withdrawn, reply),
        }
    }

    /// Answers a prompt that was a command.
    async fn shown(&mut self, text: &str, content: &[ContentBlock], reply: PromptReply) {
        self.commands += 1;
        let message_id = format!("command-{}", self.commands);
        let reply = match reply {
            PromptReply::Inserted(reply) => {
                reply.give(Ok(message_id.clone()));
                None
            }
            PromptReply::Ended(reply) => Some(reply),
        };
        let began = Progress::Began { message_id: &message_id, prompt: content };
        self.peer.progress(&self.root, began);
        self.view.say_aside(text, &mut self.out);
        self.published.tell_options(&mut self.out).await;
        self.published.tell_title(&self.handle, &mut self.out);
        self.flush().await;
        let response = response(&RunOutcome::NeedsInput, &TokenUsage::default());
        self.peer.progress(&self.root, Progress::Ended(&response));
        if let Some(reply) = reply {
            reply.give(response);
        }
    }

    /// Runs the command that a prompt is, if it is one.
    async fn command(&mut self, prompt: &[ContentBlock]) -> Option<Result<CommandOutcome, Error>> {
        let (name, argument) = view::as_command(prompt)?;
        let id = self.handle.session_id().clone();
        let commands = self.host.commands(&id).await.ok()?;
        commands.iter().find(|command| command.name == name)?;
        let done = self.host.run_command(&id, &name, &argument).await;
        Some(done.map_err(|error| host_error(&error)))
    }

    fn start(
        &mut self,
        content: Vec<ContentBlock>,
        blocks: Vec<Block>,
        withdrawn: Option<RequestCancellation>,
        reply: PromptReply,
    ) {
        let run_id = match self.handle.send_input(blocks) {
            Ok(run_id) => run_id,
            Err(error) => return reply.refuse(handle_error(&error)),
        };
        let watch = withdrawn.map(|withdrawn| {
            let (handle, run_id) = (self.handle.clone(), run_id.clone());
            self.tasks.spawn(async move {
                withdrawn.cancelled().await;
                handle.cancel_run(&run_id);
            })
        });
        let (reply, usage) = (Some(reply), TokenUsage::default());
        self.prompts.push_back(Prompt { run_id, content, reply, usage, watch });
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
        let options = self.published.options().await;
        options.map(|(options, _)| options).map_err(|error| host_error(&error))
    }

    /// Asks the user about a call. The question goes when it is answered otherwise.
    fn ask(&mut self, question: PermissionRequest) {
        let request = self.view.permission_request(&question, &mut self.out);
        self.send();
        let answered = self.peer.ask(request);
        let (handle, id) = (self.handle.clone(), question.id.clone());
        let task = self.tasks.spawn(async move {
            let answer = match answered.await {
                Ok(response) => match view::answer(&response.outcome, &question) {
                    PermissionReply::Answer(answer) => answer,
                    PermissionReply::Cancelled => return handle.interrupt(),
                },
                Err(error) => PermissionAnswer::Nobody {
                    hint: format!("the editor could not ask: {}", error.message),
                },
            };
            // Somebody else was faster.
            drop(handle.answer(&question.id, answer));
        });
        self.asked.insert(id, task);
        self.peer.progress(&self.root, Progress::Waits);
    }

    /// Asks the user what an agent wants to know: with a form, or a choice, or not at all.
    fn ask_user(&mut self, asked: QuestionRequest) {
        let root = self.root.clone();
        let id = asked.id.clone();
        let handle = self.handle.clone();
        let task = if self.abilities.forms.is_yes() {
            let filled = self.peer.elicit(question::form(root, &asked));
            self.tasks.spawn(async move {
                let answer = match filled.await {
                    Ok(response) => question::form_answer(response, &asked.question),
                    Err(_) => question::nobody(),
                };
                // Somebody else was faster.
                drop(handle.answer_question(&asked.id, answer));
            })
        } else if let Some(request) = question::choice(root, &asked) {
            let chosen = self.peer.ask(request);
            self.tasks.spawn(async move {
                let answer = match chosen.await {
                    Ok(response) => question::choice_answer(response.outcome, &asked.question),
                    Err(_) => Some(question::nobody()),
                };
                match answer {
                    Some(answer) => drop(handle.answer_question(&asked.id, answer)),
                    None => handle.interrupt(),
                }
            })
        } else {
            // As above.
            drop(self.handle.answer_question(&id, question::nobody()));
            return;
        };
        self.asked.insert(id, task);
        self.peer.progress(&self.root, Progress::Waits);
    }

    /// Sends what is to be sent, as the client takes it.
    async fn flush(&mut self) {
        for update in merged(std::mem::take(&mut self.out)) {
            self.peer.room().await;
            self.peer.update(update);
        }
    }

    /// Sends what is to be sent, whether the client takes it or not.
    fn send(&mut self) {
        for update in merged(std::mem::take(&mut self.out)) {
            self.peer.update(update);
        }
    }

    /// Answers what waits: the session is left, or its agent has ended.
    fn end(mut self) {
        self.view.settle(&mut self.out, "the session was closed");
        self.send();
        let ended = if self.leave.is_cancelled() {
            RunOutcome::Cancelled
        } else {
            RunOutcome::Failed { error: "the agent of the session has ended".to_owned() }
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

/// Answers a prompt whose run has ended.
fn response(outcome: &RunOutcome, usage: &TokenUsage) -> Result<PromptResponse, Error> {
    let response = PromptResponse::new(view::run_end(outcome)?);
    Ok(if *usage == TokenUsage::default() {
        response
    } else {
        response.usage(view::prompt_usage(usage))
    })
}
