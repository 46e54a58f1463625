//! The servers of a session as a source of tools.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    event::NoticeLevel,
    tool::{SourceNews, SourcedTools, Tool, ToolSource},
};
use futures_util::future::join_all;
use tokio::{
    sync::{OnceCell, watch},
    time::{Instant, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    cache::SchemaCache,
    connection::Lifetime,
    name::{server_names, tool_names},
    server::{Health, Server, Shared},
    settings::{McpSettings, Outside},
    tool::McpTool,
};

/// The most servers of a session.
const MOST_SERVERS: usize = 50;
/// How long servers may take to end.
const CLOSE: Duration = Duration::from_secs(2);

/// The tools of the servers of one session.
///
/// Making one does nothing. With the first [`ready`](ToolSource::ready) the servers are connected, side by side; those that
/// were seen before lend their tools at once. Dropping it ends the servers without a word; [`close`](ToolSource::close)
/// waits until they are gone.
pub struct McpTools {
    servers: Vec<Arc<Server>>,
    shared: Arc<Shared>,
    /// When the servers were started.
    started: OnceCell<Instant>,
    merged: Mutex<SourcedTools>,
    _ends: DropGuard,
}

/// How a server of a session does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSummary {
    /// Its name.
    pub name: String,
    /// How it does.
    pub state: ServerState,
    /// Its tools, by the names that the model has for them.
    pub tools: Vec<String>,
}

/// How a server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// There is no connection, since none was needed yet.
    Unused,
    /// It is connected.
    Connected,
    /// It failed.
    Failed {
        /// Why.
        why: String,
    },
}

impl McpTools {
    /// Makes the tools of these servers. Tools that they listed before are kept in `cache`, if there is one.
    pub fn new(settings: Vec<McpSettings>, cache: Option<SchemaCache>, outside: Outside) -> Self {
        let token = CancellationToken::new();
        let lifetime = Lifetime { token: token.clone(), tasks: TaskTracker::new() };
        let shared = Arc::new(Shared {
            outside,
            cache,
            lifetime,
            revision: watch::Sender::new(0),
            news: Mutex::default(),
        });
        if settings.len() > MOST_SERVERS {
            let text = format!(
                "of {} MCP servers the first {MOST_SERVERS} are used; there may be no more",
                settings.len()
            );
            shared.tell(NoticeLevel::Warning, text);
        }
        let parts = server_names(settings.iter().map(|one| one.server.name.as_str()));
        let servers = settings
            .into_iter()
            .zip(parts)
            .take(MOST_SERVERS)
            .map(|(one, part)| Arc::new(Server::new(one, part, Arc::clone(&shared))))
            .collect();
        Self {
            servers,
            shared,
            started: OnceCell::new(),
            merged: Mutex::default(),
            _ends: token.drop_guard(),
        }
    }

    /// Adds something that the user should be told with the news of the servers.
    pub fn tell(&self, news: SourceNews) {
        self.shared.tell(news.level, news.text);
    }

    /// Returns a watch on the number of the tools: it changes when they do.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Returns how the servers do.
    pub fn servers(&self) -> Vec<ServerSummary> {
        let summary = |server: &Arc<Server>| ServerSummary {
            name: server.label.clone(),
            state: match server.health() {
                Health::Unused => ServerState::Unused,
                Health::Connected => ServerState::Connected,
                Health::Failed(why) => ServerState::Failed { why },
            },
            tools: of_server(server).iter().map(|tool| tool.name().to_owned()).collect(),
        };
        self.servers.iter().map(summary).collect()
    }

    /// Starts the servers, once. Returns when that was.
    async fn start(&self) -> Instant {
        let start = || async {
            for server in &self.servers {
                let server = Arc::clone(server);
                self.shared.lifetime.tasks.spawn(server.start());
            }
            Instant::now()
        };
        *self.started.get_or_init(start).await
    }
}

#[async_trait]
impl ToolSource for McpTools {
    async fn ready(&self, cancel: &CancellationToken) {
        if self.shared.lifetime.token.is_cancelled() {
            return;
        }
        let started = self.start().await;
        let all = join_all(self.servers.iter().map(|server| {
            let until = started + server.settings.startup_timeout;
            server.settled(until)
        }));
        cancel.run_until_cancelled(all).await;
    }

    fn tools(&self) -> SourcedTools {
        let revision = *self.shared.revision.borrow();
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if merged.revision != revision {
            let tools: Vec<Arc<dyn Tool>> = self.servers.iter().flat_map(of_server).collect();
            *merged = SourcedTools { revision, tools: tools.into() };
        }
        merged.clone()
    }

    fn take_news(&self) -> Vec<SourceNews> {
        self.shared.news.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
        self.shared.lifetime.token.cancel();
        self.shared.lifetime.tasks.close();
        drop(timeout(CLOSE, self.shared.lifetime.tasks.wait()).await);
    }
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Makes the tools of a server, as far as they are known.
fn of_server(server: &Arc<Server>) -> Vec<Arc<dyn Tool>> {
    let Some(listed) = server.listed() else { return Vec::new() };
    let own: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
    let names = tool_names(&server.part, &own);
    let made = names.into_iter().zip(&listed.tools).map(|(name, tool)| {
        Arc::new(McpTool::new(name, tool.clone(), Arc::clone(server))) as Arc<dyn Tool>
    });
    made.collect()
}
