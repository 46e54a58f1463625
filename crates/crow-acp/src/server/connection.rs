//! A connection with its attached sessions, independent of the protocol version.
//!
//! A session is attached at most once per connection. When the client opens it again, its task is paused and restarted
//! ([`Pump::begin_again`]), so that open prompts and queued requests survive.

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
use tracing::Instrument as _;

use super::{
    attached::{AttachedRequest, AttachedSession, PumpTask, WAITING_REQUESTS},
    links::Links,
    peer::{Peer, PromptReply},
    published_state::PublishedState,
    pump::{Begin, Pump, PumpParts, Replay},
    serve::ServerShared,
    setup::{Setup, absolute},
    wire::ClientWires,
};
use crate::view::{ClientAbilities, host_error, invalid, not_open};

/// Limit of concurrent requests that are not handled by the task of a session.
const REQUESTS: usize = 128;

/// A connection to a client.
#[derive(Debug)]
pub(super) struct AcpConnection {
    pub shared: Arc<ServerShared>,
    pub wires: Arc<ClientWires>,
    attached: Mutex<HashMap<SessionId, AttachedSession>>,
    /// Serialises attaching: one session after the other.
    attaching: tokio::sync::Mutex<()>,
    abilities: OnceLock<ClientAbilities>,
    /// MCP servers that the client serves.
    pub links: Arc<Links>,
    /// Tasks of requests that are not handled by the task of a session.
    pub tasks: TaskTracker,
    pub ended: CancellationToken,
    /// Set when all sessions have been left.
    sessions_left: OnceCell<()>,
}

/// A session that the next response discloses to the client.
#[derive(Debug)]
pub(super) struct ConnectedSession {
    pub id: SessionId,
    pub options: Vec<SessionConfigOption>,
    pub modes: Option<SessionModeState>,
    /// To be signalled after that response: it starts the session's task. `None` after a replay.
    pub start_signal: Option<oneshot::Sender<()>>,
}

/// Extent of the history that is sent when a session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplayExtent {
    /// The whole history.
    Everything,
    /// Only events from now on.
    Nothing,
}

impl AcpConnection {
    pub(super) fn new(shared: Arc<ServerShared>, ways: Arc<ClientWires>) -> Arc<Self> {
        let ended = CancellationToken::new();
        Arc::new(Self {
            shared,
            wires: ways,
            links: Links::new(&ended),
            attached: Mutex::default(),
            attaching: tokio::sync::Mutex::default(),
            abilities: OnceLock::new(),
            tasks: TaskTracker::new(),
            ended,
            sessions_left: OnceCell::new(),
        })
    }

    /// Stores the capabilities of the client. Only the first call counts.
    pub(super) fn set_abilities(&self, abilities: ClientAbilities) {
        // A second `initialize` changes nothing for the sessions.
        drop(self.abilities.set(abilities));
    }

    /// Returns true if the client has sent `initialize`.
    pub(super) fn is_introduced(&self) -> bool {
        self.abilities.get().is_some()
    }

    /// Spawns the work of a request, which is dropped when the connection ends. Fails if too many are under way.
    pub(super) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        if self.tasks.len() >= REQUESTS {
            let message = format!("{REQUESTS} requests are under way; wait for their answers");
            return Err(invalid(message));
        }
        let ended = self.ended.clone();
        let work = async move {
            // The library answers a request whose work was dropped.
            let _ = ended.run_until_cancelled(work).await;
        };
        self.tasks.spawn(work.in_current_span());
        Ok(())
    }

    pub(super) async fn create(
        &self,
        peer: Arc<dyn Peer>,
        cwd: PathBuf,
        setup: Setup,
    ) -> Result<ConnectedSession, Error> {
        absolute(&cwd, "cwd")?;
        let setup = setup.into_session_setup(&self.shared.identity.setup, &self.links, &peer)?;
        let new = NewSession { cwd, setup, ..NewSession::default() };
        let created = self.shared.host()?.create(new).await;
        let handle = created.map_err(|error| host_error(&error))?;
        self.attach(peer, handle, ReplayExtent::Nothing).await
    }

    pub(super) async fn open(
        &self,
        peer: Arc<dyn Peer>,
        id: SessionId,
        setup: Setup,
        showing: ReplayExtent,
    ) -> Result<ConnectedSession, Error> {
        let setup = setup.into_session_setup(&SessionSetup::default(), &self.links, &peer)?;
        let opened = self.shared.host()?.open(&id, setup).await;
        let handle = opened.map_err(|error| host_error(&error))?;
        self.attach(peer, handle, showing).await
    }

    pub(super) async fn fork(
        &self,
        peer: Arc<dyn Peer>,
        id: SessionId,
        setup: Setup,
    ) -> Result<ConnectedSession, Error> {
        let setup = setup.into_session_setup(&SessionSetup::default(), &self.links, &peer)?;
        let forked = self.shared.host()?.fork(&id, setup).await;
        let handle = forked.map_err(|error| host_error(&error))?;
        self.attach(peer, handle, ReplayExtent::Nothing).await
    }

    /// Closes a session: ends its agent, and its task if it is attached.
    pub(super) async fn close(&self, id: &SessionId) -> Result<(), Error> {
        let attached = self.attached().remove(id);
        let closed = self.shared.host()?.close(id).await;
        if let Some(attached) = attached {
            attached.leave().await;
            self.shared.count_detached(id);
        }
        closed.map_err(|error| host_error(&error))?;
        // The session's stream ends only if this succeeded.
        self.wires.remove(id.as_str());
        Ok(())
    }

    /// Deletes a session permanently.
    pub(super) async fn delete(&self, id: &SessionId) -> Result<(), Error> {
        let attached = self.attached().remove(id);
        let deleted = self.shared.host()?.delete(id).await;
        if let Some(attached) = attached {
            attached.leave().await;
            self.shared.count_detached(id);
        }
        deleted.map_err(|error| host_error(&error))?;
        // The session's stream ends only if this succeeded.
        self.wires.remove(id.as_str());
        Ok(())
    }

    pub(super) async fn set_title(&self, id: &SessionId, title: &str) -> Result<(), Error> {
        let titled = self.shared.host()?.set_title(id, title).await;
        titled.map_err(|error| host_error(&error))?;
        if let Some(attached) = self.attached().get(id) {
            // If the queue is full, the title is sent at the end of the run.
            drop(attached.request(AttachedRequest::Refresh));
        }
        Ok(())
    }

    /// Has changed titles and options of all attached sessions sent to the client.
    pub(super) fn refresh_sessions(&self) {
        for attached in self.attached().values() {
            // If the queue is full, the options are sent when one of them is set.
            drop(attached.request(AttachedRequest::Refresh));
        }
    }

    /// Cancels the current work of a session's agent and all prompts that were received before.
    pub(super) fn cancel(&self, id: &SessionId) {
        if let Some(attached) = self.attached().get(id) {
            attached.cancels.add();
            attached.handle.interrupt();
        }
    }

    /// Returns the handle of the agent of an attached session.
    pub(super) fn handle(&self, id: &SessionId) -> Result<AgentHandle, Error> {
        let attached = self.attached();
        attached.get(id).map(|attached| attached.handle.clone()).ok_or_else(|| not_open(id))
    }

    /// Queues a prompt for the task of its session, or answers it with an error. Later cancels cover it from now on.
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
                self.request(
                    id,
                    AttachedRequest::Prompt {
                        content,
                        cancellation: withdrawn,
                        cancel_mark: received,
                        reply,
                    },
                );
            }
            None => reply.refuse(not_open(id)),
        }
    }

    /// Queues a request for the task of its session, or answers it with an error.
    pub(super) fn request(&self, id: &SessionId, request: AttachedRequest) {
        let refused = match self.attached().get(id) {
            Some(attached) => attached.request(request).map_err(|request| (request, full())),
            None => Err((request, not_open(id))),
        };
        if let Err((request, error)) = refused {
            request.refuse(error);
        }
    }

    /// Attaches a session, or restarts its task if it is attached already. Waits for the end of a replay.
    async fn attach(
        &self,
        peer: Arc<dyn Peer>,
        handle: AgentHandle,
        showing: ReplayExtent,
    ) -> Result<ConnectedSession, Error> {
        let id = handle.session_id().clone();
        let attaching = self.attaching.lock().await;
        // A client that has not introduced itself has none.
        let abilities = self.abilities.get().cloned().unwrap_or_default();
        let host = Arc::clone(self.shared.host()?);
        let mut published = PublishedState::new(Arc::clone(&host), &handle, abilities.clone());
        let (options, modes) = published.options().await.map_err(|error| host_error(&error))?;
        // 1) Pause the task if the session is attached already.
        let paused = self.pause(&handle).await;
        // 2) Choose the start: after the response, or with a replay that ends before it.
        let (known, begin, replayed) = match showing {
            ReplayExtent::Nothing => {
                let (known, when) = oneshot::channel();
                (Some(known), Begin::AfterResponse(when), None)
            }
            ReplayExtent::Everything => {
                let (done, replayed) = oneshot::channel();
                let replay = Replay { until: handle.last_seq(), done };
                (None, Begin::Replay(replay), Some(replayed))
            }
        };
        // 3) Restart the paused task, or start a new one.
        if let Some(mut pump) = paused {
            pump.begin_again(peer, published, begin);
            self.resume(&id, pump)?;
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
            self.shared.count_attached(&id);
        }
        drop(attaching);
        if let Some(replayed) = replayed {
            // An error means that the session's task has ended: there is nothing more to show.
            let _ = replayed.await;
        }
        Ok(ConnectedSession { id, options, modes, start_signal: known })
    }

    /// Pauses the task of a session that is attached already, and returns it with its open prompts and queued requests.
    /// A session that was attached to an agent which has ended is left instead.
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
                self.shared.count_detached(id);
            }
        }
        paused
    }

    /// Resumes a paused task. If the session was closed meanwhile, ends the task and fails.
    fn resume(&self, id: &SessionId, pump: Box<Pump>) -> Result<(), Error> {
        if let Some(attached) = self.attached().get_mut(id) {
            attached.put_task(PumpTask::start(pump));
            return Ok(());
        }
        pump.end();
        Err(not_open(id))
    }

    /// Leaves all sessions, and closes those that no other connection has attached. Every caller waits until it is
    /// done.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        self.sessions_left.get_or_init(|| self.leave_all()).await;
    }

    async fn leave_all(&self) {
        self.tasks.close();
        let all: Vec<_> = self.attached().drain().collect();
        join_all(all.into_iter().map(|(id, attached)| async move {
            if self.shared.count_detached(&id)
                && let Ok(host) = self.shared.host()
            {
                // Fails if the agent has ended by itself.
                drop(host.close(&id).await);
                if attached.handle.metadata().is_unused() {
                    // Editors create sessions that they never use. If deleting fails, lists leave the session out.
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
