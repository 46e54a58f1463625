//! The servers of a session as one source of tools.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    event::NoticeLevel,
    tool::{SourceNotice, SourcedTools, Tool, ToolSource},
};
use futures_util::future::join_all;
use tokio::{sync::watch, time::timeout};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    cache::SchemaCache,
    connection::Lifetime,
    name::{server_names, tool_names},
    prompts::McpPrompt,
    resources::{ReadResource, read_mentions},
    server::{Health, McpServer, ServersShared},
    settings::{ConnectionContext, McpSettings},
    tool::McpTool,
};

/// Default length of the tools' definitions in tokens above which they are found by a search. It is half of the first
/// request without tools of servers.
pub const DEFAULT_DEFERRAL_THRESHOLD: u64 = 6000;
/// Maximum number of servers of a session.
const MOST_SERVERS: usize = 50;
/// Time limit for servers to end.
const CLOSE: Duration = Duration::from_secs(2);

/// The tools of the servers of one session.
///
/// Creating it starts nothing. The first [`ready`](ToolSource::ready) connects all servers in parallel; those with
/// cached tools offer them at once. Dropping it kills the servers; [`close`](ToolSource::close) ends them in an orderly
/// way and waits up to two seconds for them.
pub struct McpTools {
    servers: Mutex<Arc<[Arc<McpServer>]>>,
    shared: Arc<ServersShared>,
    merged: Mutex<SourcedTools>,
    deferral_threshold: u64,
    is_deferral_told: AtomicBool,
    _ends: DropGuard,
}

/// The state of a server of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSummary {
    /// Display name.
    pub name: String,
    /// State of its connection.
    pub state: ServerState,
    /// Names of its tools, as the model calls them.
    pub tools: Vec<String>,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// No connection was needed yet.
    Unused,
    /// It is connected.
    Connected,
    /// The last attempt failed, or the connection was lost.
    Failed {
        /// Text of the error.
        why: String,
    },
}

impl McpTools {
    /// Creates the source. `cache` stores the tools that servers list, if given.
    pub fn new(
        settings: Vec<McpSettings>,
        cache: Option<SchemaCache>,
        outside: ConnectionContext,
    ) -> Self {
        let token = CancellationToken::new();
        let lifetime = Lifetime { token: token.clone(), tasks: TaskTracker::new() };
        let shared = Arc::new(ServersShared {
            context: outside,
            cache,
            lifetime,
            revision: watch::Sender::new(0),
            notices: Mutex::default(),
        });
        let servers = servers(settings, &[], &shared);
        Self {
            servers: Mutex::new(servers),
            shared,
            merged: Mutex::default(),
            deferral_threshold: DEFAULT_DEFERRAL_THRESHOLD,
            is_deferral_told: AtomicBool::new(false),
            _ends: token.drop_guard(),
        }
    }

    /// Sets the length of all tools' definitions in tokens above which they are found by a search instead of being listed
    /// in each request.
    #[must_use]
    pub fn with_deferral_threshold(self, deferral_threshold: u64) -> Self {
        Self { deferral_threshold, ..self }
    }

    /// Replaces the servers. Those with unchanged settings keep their connections and running calls; the others are
    /// ended. Returns when they have ended, in bounded time.
    pub async fn replace_servers(&self, settings: Vec<McpSettings>) {
        let (before, now) = {
            let mut own = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            let now = servers(settings, &own, &self.shared);
            (std::mem::replace(&mut *own, Arc::clone(&now)), now)
        };
        let gone = difference(&before, &now);
        let new = difference(&now, &before);
        if gone.is_empty() && new.is_empty() {
            return;
        }
        self.shared.revision.send_modify(|revision| *revision += 1);
        let changes = [("+", names(&new, &gone)), ("-", names(&gone, &new))];
        let changes: Vec<String> = changes
            .into_iter()
            .flat_map(|(mark, names)| names.into_iter().map(move |name| format!("{mark}{name}")))
            .collect();
        if !changes.is_empty() {
            let text = format!("the client changed the MCP servers: {}", changes.join(" "));
            self.shared.push_notice(NoticeLevel::Info, text);
        }
        join_all(gone.iter().map(|server| server.retire())).await;
    }

    /// Adds a notice for the user to the queue of the servers' notices.
    pub fn push_notice(&self, news: SourceNotice) {
        self.shared.push_notice(news.level, news.text);
    }

    /// Returns a watch on the revision of the tools: it changes when they do.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Returns the state of each server.
    pub fn servers(&self) -> Vec<ServerSummary> {
        let summary = |server: &Arc<McpServer>| ServerSummary {
            name: server.label.clone(),
            state: match server.health() {
                Health::Unused => ServerState::Unused,
                Health::Connected => ServerState::Connected,
                Health::Failed(why) => ServerState::Failed { why },
            },
            tools: server_tools(server).iter().map(|tool| tool.name().to_owned()).collect(),
        };
        self.own().iter().map(summary).collect()
    }

    /// Returns the prompts of the servers, as last listed, perhaps in an earlier session. Starts no server.
    pub async fn prompts(&self) -> Vec<McpPrompt> {
        join_all(self.own().iter().map(|server| server.load_cached())).await;
        let prompts = |server: &Arc<McpServer>| {
            let Some(listed) = server.listed() else { return Vec::new() };
            let own: Vec<&str> = listed.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
            let names = tool_names(&server.name_part, &own);
            let prompts = names.into_iter().zip(&listed.prompts);
            prompts.map(|(name, prompt)| McpPrompt::new(name, prompt, server)).collect()
        };
        self.own().iter().flat_map(prompts).collect()
    }

    fn own(&self) -> Arc<[Arc<McpServer>]> {
        Arc::clone(&self.servers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ToolSource for McpTools {
    async fn ready(&self, cancel: &CancellationToken) {
        if self.shared.lifetime.token.is_cancelled() {
            return;
        }
        let own = self.own();
        let all = join_all(own.iter().map(McpServer::ready));
        cancel.run_until_cancelled(all).await;
    }

    fn pending_names(&self) -> Vec<String> {
        let own = self.own();
        let waiting = own.iter().filter(|server| !server.is_settled());
        waiting.map(|server| server.label.clone()).collect()
    }

    fn tools(&self) -> SourcedTools {
        let revision = *self.shared.revision.borrow();
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if merged.revision != revision {
            let own = self.own();
            let tools: Vec<Arc<dyn Tool>> = own.iter().flat_map(server_tools).collect();
            *merged = SourcedTools { revision, tools: tools.into() };
        }
        merged.clone()
    }

    fn deferral_threshold(&self) -> u64 {
        self.deferral_threshold
    }

    fn takes_deferral_notice(&self) -> bool {
        !self.is_deferral_told.swap(true, Ordering::Relaxed)
    }

    async fn read_mentions(&self, text: &str, cancel: &CancellationToken) -> Option<String> {
        let (found, faults) = read_mentions(&self.own(), text, cancel).await;
        for text in faults {
            self.shared.push_notice(NoticeLevel::Warning, text);
        }
        found
    }

    fn take_notices(&self) -> Vec<SourceNotice> {
        self.shared.notices.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    async fn close(&self) {
        join_all(self.own().iter().map(|server| server.close())).await;
        self.shared.lifetime.token.cancel();
        self.shared.lifetime.tasks.close();
        drop(timeout(CLOSE, self.shared.lifetime.tasks.wait()).await);
    }
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").field("servers", &self.own()).finish_non_exhaustive()
    }
}

/// Creates the servers, or takes those of `known` with the same settings and name part.
fn servers(
    settings: Vec<McpSettings>,
    known: &[Arc<McpServer>],
    shared: &Arc<ServersShared>,
) -> Arc<[Arc<McpServer>]> {
    if settings.len() > MOST_SERVERS {
        let text = format!(
            "of {} MCP servers only the first {MOST_SERVERS} are used: that is the limit",
            settings.len()
        );
        shared.push_notice(NoticeLevel::Warning, text);
    }
    let parts = server_names(settings.iter().map(|one| one.server.name.as_str()));
    let all = settings.into_iter().zip(parts).take(MOST_SERVERS).map(|(one, part)| {
        let known = known.iter().find(|known| known.settings == one && known.name_part == part);
        let new = || Arc::new(McpServer::new(one.clone(), part.clone(), Arc::clone(shared)));
        known.map_or_else(new, Arc::clone)
    });
    all.collect()
}

/// Returns the servers that are not among `others`.
fn difference(servers: &[Arc<McpServer>], others: &[Arc<McpServer>]) -> Vec<Arc<McpServer>> {
    let is_other = |one: &&Arc<McpServer>| !others.iter().any(|other| Arc::ptr_eq(one, other));
    servers.iter().filter(is_other).cloned().collect()
}

/// Returns the labels of `servers` that no other server has.
fn names<'a>(servers: &'a [Arc<McpServer>], others: &[Arc<McpServer>]) -> Vec<&'a str> {
    let names = servers.iter().map(|server| server.label.as_str());
    names.filter(|name| others.iter().all(|other| other.label != *name)).collect()
}

/// Creates the tools of a server from its current listing, if there is one, and that of its resources.
fn server_tools(server: &Arc<McpServer>) -> Vec<Arc<dyn Tool>> {
    let Some(listed) = server.listed() else { return Vec::new() };
    let mut own: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
    if listed.has_resources {
        own.push(ReadResource::NAME);
    }
    let mut names = tool_names(&server.name_part, &own);
    let resources = names.split_off(listed.tools.len()).pop();
    let tools = names.into_iter().zip(&listed.tools).map(|(name, tool)| {
        Arc::new(McpTool::new(name, tool.clone(), Arc::clone(server))) as Arc<dyn Tool>
    });
    let resources = resources
        .map(|name| Arc::new(ReadResource::new(name, Arc::clone(server))) as Arc<dyn Tool>);
    tools.chain(resources).collect()
}
