//! A connection: the sessions that it shows, whatever version of the protocol it speaks.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{ContentBlock, SessionConfigOption, SessionModeState},
};
use crow_core::ids::SessionId;
use crow_runtime::{AgentHandle, NewSession, SessionSetup};
use futures_util::future::join_all;
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    attached::{AttachedSession, PumpTask, WAITING_REQUESTS},
    fault::{host_error, invalid, not_open},
    links::Links,
    peer::{Peer, PromptReply},
    published::PublishedState,
    pump::{Begin, Pump, PumpParts, Replay},
    requests::AttachedRequest,
    serve::ServerShared,
    setup::{Setup, absolute},
    ways::Ways,
};
use crate::view::ClientAbilities;

/// How many requests beside those of attached sessions may be under way.
const REQUESTS: usize = 128;

/// A connection.
#[derive(Debug)]
pub(super) struct AcpConnection {
    pub shared: Arc<ServerShared>,
    pub ways: Arc<Ways>,
    attached: Mutex<HashMap<SessionId, AttachedSession>>,
    /// Held while a session is attached: one after the other.
    attaching: tokio::sync::Mutex<()>,
    abilities: OnceLock<ClientAbilities>,
    /// The servers of tools that the client serves.
    pub links: Arc<Links>,
    /// What is done for requests that no session's task does.
    pub tasks: TaskTracker,
    pub ended: CancellationToken,
    /// That all sessions are left.
    left: OnceCell<()>,
}

/// A session that the client comes to know.
#[derive(Debug)]
pub(super) struct DisclosedSession {
    pub id: SessionId,
    pub options: Vec<SessionConfigOption>,
    pub modes: Option<SessionModeState>,
    /// To be told when the client knows the session.
    pub known: Option<oneshot::Sender<()>>,
}

/// How much of a session that is opened is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplayExtent {
    /// All that happened before.
    Everything,
    /// What comes from here on.
    FromHereOn,
}

impl AcpConnection {
    pub(super) fn new(shared: Arc<ServerShared>, ways: Arc<Ways>) -> Arc<Self> {
        let ended = CancellationToken::new();
        Arc::new(Self {
            shared,
            ways,
            links: Links::new(&ended),
            attached: Mutex::default(),
            attaching: tokio::sync::Mutex::default(),
            abilities: OnceLock::new(),
            tasks: TaskTracker::new(),
            ended,
            left: OnceCell::new(),
        })
    }

    /// Keeps what the client can do. The first word counts.
    pub(super) fn knows(&self, abilities: ClientAbilities) {
        // A client that introduces itself twice changes nothing for its sessions.
        drop(self.abilities.set(abilities));
    }

    /// Returns whether the client said what it can do.
    pub(super) fn is_introduced(&self) -> bool {
        self.abilities.get().is_some()
    }

    /// Does something on the side. What is under way is dropped when the connection ends.
    pub(super) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        if self.tasks.len() >= REQUESTS {
            let message = format!("{REQUESTS} requests are under way; wait for their answers");
            return Err(invalid(message));
        }
        let ended = self.ended.clone();
        self.tasks.spawn(async move {
            // What waits for an answer is answered by the library.
            let _ = ended.run_until_cancelled(work).await;
        });
        Ok(())
    }

    pub(super) async fn create(
        &self,
        peer: Arc<dyn Peer>,
        cwd: PathBuf,
        setup: Setup,
    ) -> Result<DisclosedSession, Error> {
        absolute(&cwd, "cwd")?;
        let setup = setup.over(&self.shared.identity.setup, &self.links, &peer)?;
        let new = NewSession { cwd, setup, ..NewSession::default() };
        let created = self.shared.host()?.create(new).await;
        let handle = created.map_err(|error| host_error(&error))?;
        self.attach(peer, handle, ReplayExtent::FromHereOn).await
    }

    pub(super) async fn open(
        &self,
        peer: Arc<dyn Peer>,
        id: SessionId,
        setup: Setup,
        showing: ReplayExtent,
    ) -> Result<DisclosedSession, Error> {
        let setup = setup.over(&SessionSetup::default(), &self.links, &peer)?;
        let opened = self.shared.host()?.open(&id, setup).await;
        let handle = opened.map_err(|error| host_error(&error))?;
        self.attach(peer, handle, showing).await
    }

    pub(super) async fn fork(
        &self,
        peer: Arc<dyn Peer>,
        id: SessionId,
        setup: Setup,
    ) -> Result<DisclosedSession, Error> {
        let setup = setup.over(&SessionSetup::default(), &self.links, &peer)?;
        let forked = self.shared.host()?.fork(&id, setup).await;
        let handle = forked.map_err(|error| host_error(&error))?;
        self.attach(peer, handle, ReplayExtent::FromHereOn).await
    }

    /// Ends the agent of a session.
    pub(super) async fn close(&self, id: &SessionId) -> Result<(), Error> {
        let attached = self.attached().remove(id);
        let closed = self.shared.host()?.close(id).await;
        if let Some(attached) = attached {
            attached.leave().await;
            self.shared.detached(id);
        }
        closed.map_err(|error| host_error(&error))?;
        // Only then the stream of the session ends.
        self.ways.forget(id.as_str());
        Ok(())
    }

    /// Removes a session for good.
    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), Error> {
        let attached = self.attached().remove(id);
        let deleted = self.shared.host()?.delete(id).await;
        if let Some(attached) = attached {
            attached.leave().await;
            self.shared.detached(id);
        }
        deleted.map_err(|error| host_error(&error))?;
        // Only then the stream of the session ends.
        self.ways.forget(id.as_str());
        Ok(())
    }

    pub(super) async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), Error> {
        let titled = self.shared.host()?.set_title(id, title).await;
        titled.map_err(|error| host_error(&error))?;
        if let Some(attached) = self.attached().get(id) {
            // A session with a full queue tells its title at the end of its run.
            drop(attached.request(AttachedRequest::Refresh));
        }
        Ok(())
    }

    /// Has the client told what changed of its sessions beside what happened in them.
    pub(super) fn refresh_sessions(&self) {
        for attached in self.attached().values() {
            // A session with a full queue tells its options when one of them is set.
            drop(attached.request(AttachedRequest::Refresh));
        }
    }

    /// Cancels what the agent of a session does and what waits for it: all prompts that were received before.
    pub(super) fn cancel(&self, id: &SessionId) {
        if let Some(attached) = self.attached().get(id) {
            attached.cancels.add();
            attached.handle.interrupt();
        }
    }

    /// Returns the agent of a session that is attached.
    pub(super) fn handle(&self, id: &SessionId) -> Result<AgentHandle, Error> {
        let attached = self.attached();
        attached.get(id).map(|attached| attached.handle.clone()).ok_or_else(|| not_open(id))
    }

    /// Puts a prompt into the queue of its session, or answers why not. A later cancel covers it from now on.
    pub(super) fn prompt(
        &self,
        id: &SessionId,
        content: Vec<ContentBlock>,
        withdrawn: Option<RequestCancellation>,
        reply: PromptReply,
    ) {
        let received = self.attached().get(id).map(|attached| attached.cancels.mark());
        match received {
            Some(received) => {
                self.request(id, AttachedRequest::Prompt { content, withdrawn, received, reply });
            }
            None => reply.refuse(not_open(id)),
        }
    }

    /// Puts a request into the queue of its session, or answers why not.
    pub(super) fn request(&self, id: &SessionId, request: AttachedRequest) {
        let refused = match self.attached().get(id) {
            Some(attached) => attached.request(request).map_err(|request| (request, full())),
            None => Err((request, not_open(id))),
        };
        if let Err((request, error)) = refused {
            request.refuse(error);
        }
    }

    async fn attach(
        &self,
        peer: Arc<dyn Peer>,
        handle: AgentHandle,
        showing: ReplayExtent,
    ) -> Result<DisclosedSession, Error> {
        let id = handle.session_id().clone();
        let attaching = self.attaching.lock().await;
        let abilities = self.abilities.get().cloned().unwrap_or_default();
        let host = Arc::clone(self.shared.host()?);
        let mut published = PublishedState::new(Arc::clone(&host), &handle, abilities.clone());
        let (options, modes) = published.options().await.map_err(|error| host_error(&error))?;
        let paused = self.pause(&handle).await;
        let (known, begin, replayed) = match showing {
            ReplayExtent::FromHereOn => {
                let (known, when) = oneshot::channel();
                (Some(known), Begin::When(when), None)
            }
            ReplayExtent::Everything => {
                let (done, replayed) = oneshot::channel();
                let replay = Replay { until: handle.last_seq(), done };
                (None, Begin::Replay(replay), Some(replayed))
            }
        };
        if let Some(mut pump) = paused {
            pump.begin_again(peer, published, begin);
            self.go_on(&id, pump)?;
        } else {
            let observer = begin.observer(&handle);
            let (sender, requests) = mpsc::channel(WAITING_REQUESTS);
            let leave = self.ended.child_token();
            let pump = Pump::new(PumpParts {
                peer,
                host,
                handle: handle.clone(),
                observer,
                abilities,
                published,
                requests,
                leave: leave.clone(),
                begin,
            });
            let task = PumpTask::start(Box::new(pump));
            self.attached().insert(id.clone(), AttachedSession::new(handle, sender, leave, task));
            self.shared.attached(&id);
        }
        drop(attaching);
        if let Some(replayed) = replayed {
            // The session's task ended instead: there is nothing more to show.
            let _ = replayed.await;
        }
        Ok(DisclosedSession { id, options, modes, known })
    }

    /// Pauses the task of a session that is shown already, and returns it with all that it has under way: prompts, and
    /// requests that wait. One that showed an agent which has ended is left.
    async fn pause(&self, handle: &AgentHandle) -> Option<Box<Pump>> {
        let id = handle.session_id();
        let task = match self.attached().get_mut(id) {
            Some(attached) if attached.handle.is_same_agent(handle) => attached.take_task(),
            Some(_) | None => None,
        };
        let paused = match task {
            Some(task) => task.pause().await,
            None => None,
        };
        if paused.is_none() {
            let before = self.attached().remove(id);
            if let Some(before) = before {
                before.leave().await;
                self.shared.detached(id);
            }
        }
        paused
    }

    /// Lets the task of a session go on that was paused, unless the session was closed meanwhile.
    fn go_on(&self, id: &SessionId, pump: Box<Pump>) -> Result<(), Error> {
        if let Some(attached) = self.attached().get_mut(id) {
            attached.put_task(PumpTask::start(pump));
            return Ok(());
        }
        pump.end();
        Err(not_open(id))
    }

    /// Leaves all sessions, and ends the agents that no other connection shows. Whoever asks for it waits until it is done.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        self.left.get_or_init(|| self.leave_all()).await;
    }

    async fn leave_all(&self) {
        self.tasks.close();
        let all: Vec<_> = self.attached().drain().collect();
        join_all(all.into_iter().map(|(id, attached)| async move {
            if self.shared.detached(&id)
                && let Ok(host) = self.shared.host()
            {
                // It may have ended by itself.
                drop(host.close(&id).await);
                if attached.handle.metadata().is_unused() {
                    // Editors make sessions that they never use. One that cannot be removed is left out of lists.
                    drop(host.delete(&id).await);
                }
            }
            attached.leave().await;
        }))
        .await;
        self.tasks.wait().await;
    }

    fn attached(&self) -> MutexGuard<'_, HashMap<SessionId, AttachedSession>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full() -> Error {
    invalid("too many requests of this session wait; wait for their answers")
}
