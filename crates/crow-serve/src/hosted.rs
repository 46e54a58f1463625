//! The sessions whose agents run in this process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::SessionId,
};
use crow_runtime::{AgentHandle, AgentHost, HostError, ObserverItem, SessionSetup};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use crate::message::{SessionActivity, SessionEntry};

/// Maximum number of sessions that are open at the same time.
const MAX_OPEN: usize = 200;

/// The open sessions, by id, and a signal that one of them changed.
#[derive(Debug)]
pub(crate) struct HostedSessions {
    host: Arc<dyn AgentHost>,
    open: Mutex<BTreeMap<SessionId, AgentHandle>>,
    /// Counts changes of the list: sessions that open or end, work or wait.
    changed: watch::Sender<u64>,
    /// Room for more open sessions.
    room: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// Room for one open session.
#[derive(Debug)]
pub(crate) struct SessionRoom {
    _permit: OwnedSemaphorePermit,
}

impl HostedSessions {
    pub(crate) fn new(host: Arc<dyn AgentHost>) -> Arc<Self> {
        Arc::new(Self {
            host,
            open: Mutex::default(),
            changed: watch::Sender::new(0),
            room: Arc::new(Semaphore::new(MAX_OPEN)),
            tasks: TaskTracker::new(),
        })
    }

    pub(crate) fn host(&self) -> &dyn AgentHost {
        self.host.as_ref()
    }

    /// Returns a signal of changes of the list.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns the agent of an open session.
    pub(crate) fn get(&self, id: &SessionId) -> Option<AgentHandle> {
        self.lock().get(id).cloned()
    }

    /// Returns the agent of an open session, or the error that it is not open.
    pub(crate) fn opened(&self, id: &SessionId) -> Result<AgentHandle, HostError> {
        self.get(id).ok_or_else(|| HostError::NotOpen { id: id.clone() })
    }

    /// Opens a stored session.
    pub(crate) async fn open(self: &Arc<Self>, id: &SessionId) -> Result<AgentHandle, HostError> {
        if let Some(handle) = self.get(id).filter(|handle| !handle.state().is_end()) {
            return Ok(handle);
        }
        let room = self.reserve_room()?;
        let handle = self.host.open(id, SessionSetup::default()).await?;
        // Two requests for one session get the same agent.
        if self.get(id).is_none_or(|current| !current.is_same_agent(&handle)) {
            self.add(handle.clone(), room);
        }
        Ok(handle)
    }

    /// Reserves room for a session; fails if too many are open.
    pub(crate) fn reserve_room(&self) -> Result<SessionRoom, HostError> {
        let permit = Arc::clone(&self.room).try_acquire_owned();
        permit.map(|permit| SessionRoom { _permit: permit }).map_err(|_| HostError::Refused {
            message: format!("{MAX_OPEN} sessions are open"),
            hint: "close one that is done".to_owned(),
        })
    }

    /// Adds the agent of a session that was created or opened. It is listed until it ends.
    pub(crate) fn add(self: &Arc<Self>, handle: AgentHandle, room: SessionRoom) {
        let id = handle.session_id().clone();
        let mut observer = handle.subscribe();
        self.lock().insert(id.clone(), handle.clone());
        self.notify();
        let sessions = Arc::clone(self);
        self.tasks.spawn(async move {
            while let Some(item) = observer.next().await {
                // Where events were missed, the entry may have changed.
                let is_change = match &item {
                    ObserverItem::Event(line) => changes_entry(&line.event),
                    ObserverItem::Lagged { .. }
                    | ObserverItem::OpenReply(_)
                    | ObserverItem::Lost(_) => true,
                };
                if is_change {
                    sessions.notify();
                }
            }
            drop(room);
            let mut open = sessions.lock();
            // The session may have been opened anew.
            if open.get(&id).is_some_and(|current| current.is_same_agent(&handle)) {
                open.remove(&id);
            }
            drop(open);
            sessions.notify();
        });
    }

    /// Returns the entries of the open sessions.
    pub(crate) fn entries(&self) -> Vec<SessionEntry> {
        self.lock().values().map(entry_of).collect()
    }

    /// Waits until the tasks that watch agents have ended. The agents must end first.
    pub(crate) async fn wait_for_end(&self) {
        self.lock().clear();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, AgentHandle>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the entry of a session may differ after this event.
fn changes_entry(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::StateChange { .. }
            | AgentEvent::UserInput { .. }
            | AgentEvent::RunStart { .. }
            | AgentEvent::RunEnd { .. }
            | AgentEvent::Switch { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionDecision { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. }
    )
}

/// Returns the state of an open session.
pub(crate) fn state_of(handle: &AgentHandle) -> SessionActivity {
    if !handle.open_questions().is_empty() || !handle.open_user_questions().is_empty() {
        return SessionActivity::Asking;
    }
    match handle.state() {
        AgentState::Idle | AgentState::Done | AgentState::Error(_) => SessionActivity::Idle,
        AgentState::Processing
        | AgentState::WaitingForPermission
        | AgentState::ExecutingTool(_)
        | AgentState::WaitingForSubagent(_) => SessionActivity::Working,
    }
}

fn entry_of(handle: &AgentHandle) -> SessionEntry {
    SessionEntry::new(&handle.metadata(), state_of(handle))
}
