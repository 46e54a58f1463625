//! The tasks of the server: sessions with an agent, and what is known of their last run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    event::{AgentEvent, Envelope, RunOutcome},
    ids::{RunId, SessionId},
    message::{Block, ReplyContent},
};
use crow_runtime::{AgentHandle, HandleError, Observer, ObserverItem};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Maximum number of tasks of a server at the same time.
const MOST_TASKS: usize = 64;

/// A task.
#[derive(Debug, Clone)]
pub(super) struct HostedTask {
    pub(super) handle: AgentHandle,
    pub(super) progress: watch::Receiver<TaskProgress>,
}

/// What is known of the last run of a task.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskProgress {
    /// Number of calls so far.
    pub(super) calls: u32,
    /// Title of the last call; empty before the first.
    pub(super) activity: String,
    /// Last text of the agent.
    pub(super) text: String,
    /// Runs that were sent and have not ended.
    pub(super) open_runs: Vec<RunId>,
    /// Outcome of the last run that ended.
    pub(super) outcome: Option<RunOutcome>,
    /// True if the agent has ended, by itself or with its session.
    pub(super) has_ended: bool,
}

impl TaskProgress {
    fn on_event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::CallStart { title, .. } => {
                self.calls += 1;
                self.activity.clone_from(title);
            }
            AgentEvent::Reply { blocks, .. } if envelope.is_root() => {
                let texts = blocks.iter().filter_map(|block| match &block.content {
                    ReplyContent::Text { text } => Some(text.as_str()),
                    _ => None,
                });
                let text = texts.collect::<Vec<_>>().join("\n");
                if !text.trim().is_empty() {
                    self.text = text;
                }
            }
            AgentEvent::RunEnd { run_id, result, .. } if envelope.is_root() => {
                self.open_runs.retain(|open| open != run_id);
                self.outcome = Some(result.clone());
            }
            _ => {}
        }
    }
}

/// The tasks of a server by session.
#[derive(Debug, Default)]
pub(super) struct TaskRegistry {
    tasks: Mutex<BTreeMap<SessionId, WatchedTask>>,
    /// The tasks that read events.
    watchers: TaskTracker,
}

#[derive(Debug)]
struct WatchedTask {
    task: HostedTask,
    updates: watch::Sender<TaskProgress>,
}

impl TaskRegistry {
    /// Sends a prompt to the agent of a session, and watches it from now on. Fails if there are too many tasks, or the
    /// agent takes no input.
    pub(super) fn start(&self, handle: &AgentHandle, prompt: String) -> Result<HostedTask, String> {
        let mut tasks = self.lock();
        tasks.retain(|_, watched| !watched.task.progress.borrow().has_ended);
        let id = handle.session_id().clone();
        let is_watched =
            tasks.get(&id).is_some_and(|watched| watched.task.handle.is_same_agent(handle));
        if !is_watched {
            if tasks.len() >= MOST_TASKS {
                return Err(format!("there are {MOST_TASKS} tasks; this is the limit"));
            }
            let (updates, progress) = watch::channel(TaskProgress::default());
            let task = HostedTask { handle: handle.clone(), progress };
            // Subscribed before the prompt is sent, so that no event is missed.
            self.watchers.spawn(watch_task(handle.subscribe(), updates.clone()));
            tasks.insert(id.clone(), WatchedTask { task, updates });
        }
        let watched = tasks.get(&id).ok_or("the task is gone")?;
        // The run is noted under the lock of the progress, so that its end cannot come first.
        let mut sent = Ok(());
        watched.updates.send_modify(|progress| {
            match handle.send_input(vec![Block::text(prompt)]) {
                Ok(run) => {
                    progress.open_runs.push(run);
                    progress.outcome = None;
                }
                Err(error) => sent = Err::<(), HandleError>(error),
            }
        });
        sent.map_err(|error| error.to_string())?;
        Ok(watched.task.clone())
    }

    pub(super) fn find(&self, id: &str) -> Option<HostedTask> {
        self.lock().get(&SessionId::new(id)).map(|watched| watched.task.clone())
    }

    pub(super) fn all(&self) -> Vec<HostedTask> {
        self.lock().values().map(|watched| watched.task.clone()).collect()
    }

    /// Waits until all agents have ended.
    pub(super) async fn wait_for_end(&self) {
        self.watchers.close();
        self.watchers.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, WatchedTask>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the events of an agent until it ends.
async fn watch_task(mut observer: Observer, updates: watch::Sender<TaskProgress>) {
    while let Some(item) = observer.next().await {
        if let ObserverItem::Event(envelope) = item {
            let is_relevant = matches!(
                envelope.event,
                AgentEvent::CallStart { .. }
                    | AgentEvent::CallEnd { .. }
                    | AgentEvent::Reply { .. }
                    | AgentEvent::RunEnd { .. }
                    | AgentEvent::StateChange { .. }
                    | AgentEvent::QuestionAsked { .. }
                    | AgentEvent::PermissionRequest { .. }
            );
            if is_relevant {
                updates.send_modify(|progress| progress.on_event(&envelope));
            }
        }
    }
    updates.send_modify(|progress| progress.has_ended = true);
}

impl HostedTask {
    /// Returns true if no run is under way or waits.
    pub(super) fn is_idle(&self) -> bool {
        let progress = self.progress.borrow();
        progress.open_runs.is_empty() || progress.has_ended
    }
}

/// Shares a registry with the connections of a server.
pub(super) type SharedTasks = Arc<TaskRegistry>;
