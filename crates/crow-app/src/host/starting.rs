//! Creating, opening and copying sessions, and starting their agents.
//!
//! All ways end in `start`, which takes a session and a [`PreparedAgent`]. They differ in where the parameters of the
//! agent ([`OpenedWith`]) come from: `make` takes the request, else the last choices in the project, else the
//! configuration; `start_stored` takes the header of the stored session, changed by the request; `switch` replaces
//! the agent of a running session, which uses the new one from its next run on.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_agent::{AssembledAgent, Surroundings, serve_latest};
use crow_core::{
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    ids::SessionId,
    mcp::McpServerConfig,
    model::{Abilities, ModelRef},
    permission::PermissionMode,
    tool::ToolSource as _,
};
use crow_runtime::{
    AgentHandle, AgentSession, HostError, NewSession, OpenedWith, ProcessRunner, RuntimeConfig,
    SessionError, SessionMetadata, SessionSetup, SessionSpec, make_readable, set_hooks,
};
use tokio::sync::watch;

use super::{
    choices::Choices,
    default_model::no_model,
    directory_configs::{DirectoryConfig, additional, check_directory_exists, resolved},
    opened::OpenSession,
    product_host::{ProductHost, blocking, parse_model, refused},
};
use crate::{
    hooks::{CommandHooks, HookLaunch},
    import::is_new_import,
    known_secrets::secrets_of_server,
    trust::project_root,
};

/// Everything read from disk before a new session is created.
struct StartContext {
    cwd: PathBuf,
    additional_directories: Vec<PathBuf>,
    config: Arc<DirectoryConfig>,
    choices: Choices,
}

/// An assembled agent, with the parameters and the configuration it was assembled from.
struct PreparedAgent {
    opened_with: OpenedWith,
    agent: AssembledAgent,
    config: Arc<DirectoryConfig>,
}

impl ProductHost {
    /// Creates a session and starts its agent.
    pub(super) async fn make(&self, new: NewSession) -> Result<AgentHandle, HostError> {
        let NewSession { cwd, id, setup } = new;
        let directories = setup.additional_directories.clone().unwrap_or_default();
        let context = self.start_context(cwd, directories).await?;
        let permissions = setup.permissions.or(self.permissions).or(context.choices.permissions);
        let ready = self.first_agent(&context, &setup).await?;
        let (reference, abilities) = model_of(&ready.agent);
        let spec = SessionSpec {
            id,
            abilities,
            additional_directories: context.additional_directories,
            permissions: Some(permissions.unwrap_or(PermissionMode::Ask)),
            opened_with: Some(ready.opened_with.clone()),
            ..SessionSpec::new(ready.agent.agent.primary().name(), reference, &context.cwd)
        };
        let config = Arc::clone(self.runtime().config());
        let session = blocking(move || AgentSession::create(&config, spec)).await??;
        self.start(session, ready, setup.mcp_servers).await
    }

    /// Assembles the agent that a new session in a directory would have, without creating the session. It may ask about a
    /// model server.
    ///
    /// # Errors
    /// Fails as the creation of the session would: if no model is usable, or the configuration of the directory is not.
    pub async fn check_new_session(&self, cwd: &Path) -> Result<(), HostError> {
        let context = self.start_context(cwd.to_path_buf(), Vec::new()).await?;
        self.first_agent(&context, &SessionSetup::default()).await.map(drop)
    }

    /// Reads what the start of a session in a directory needs.
    async fn start_context(
        &self,
        cwd: PathBuf,
        directories: Vec<PathBuf>,
    ) -> Result<StartContext, HostError> {
        let (places, store) = (Arc::clone(&self.directory_configs), self.choices.clone());
        blocking(move || {
            let cwd = resolved(&cwd)?;
            let choices = store.map(|store| store.load(&project_root(&cwd)));
            Ok::<_, HostError>(StartContext {
                additional_directories: additional(&cwd, &directories)?,
                config: places.for_directory(&cwd)?,
                choices: choices.unwrap_or_default(),
                cwd,
            })
        })
        .await?
    }

    /// Assembles the agent of a new session: as requested, else as last chosen in the project, else as configured.
    async fn first_agent(
        &self,
        context: &StartContext,
        setup: &SessionSetup,
    ) -> Result<PreparedAgent, HostError> {
        let place = &context.config;
        let default = place.agents.default_name();
        let named = setup.agent.as_ref().or(self.agent.as_ref());
        let model = setup.model.as_deref().map(parse_model).transpose()?;
        let plain = OpenedWith {
            agent: named.map_or_else(|| default.to_owned(), Clone::clone),
            model: model.or_else(|| self.model.clone()),
            reviewer_model: self.reviewer_model.clone().or_else(|| place.review_model.clone()),
            system_prompt: setup.system_prompt.clone(),
            ..OpenedWith::default()
        };
        let chosen = remembered(&context.choices, named.is_some(), place, &plain);
        if chosen != plain
            && let Ok(ready) = self.put_together(chosen, place).await
        {
            return Ok(ready);
        }
        // A remembered choice may name an agent or model that no longer exists.
        self.put_together(plain, place).await
    }

    /// Assembles an agent. Looks for a default model, which may ask the user, only if the agent needs one and none is
    /// known.
    async fn put_together(
        &self,
        with: OpenedWith,
        place: &Arc<DirectoryConfig>,
    ) -> Result<PreparedAgent, HostError> {
        let configured = place.model.as_ref();
        let known_model = with.model.clone().or_else(|| self.default_model.known(configured));
        let made = match known_model {
            Some(model) => place.agents.assemble(&with, Ok(model)).await?,
            // Finding a model may ask the user, so it is done only if the agent needs one.
            None => match place.agents.assemble(&with, Err(no_model())).await {
                Err(HostError::NoCredentials { .. }) => {
                    let default_model = self.default_model.find(configured).await;
                    place.agents.assemble(&with, default_model).await?
                }
                made => made?,
            },
        };
        Ok(PreparedAgent { opened_with: with, agent: made, config: Arc::clone(place) })
    }

    /// Opens a stored session and starts its agent.
    pub(super) async fn open_stored(
        &self,
        id: &SessionId,
        setup: SessionSetup,
    ) -> Result<AgentHandle, HostError> {
        let session_id = id.clone();
        self.start_stored(id, setup, move |config, abilities| {
            AgentSession::open(config, &session_id, abilities)
        })
        .await
    }

    /// Creates a session with the history of another one and starts its agent.
    pub(super) async fn copy(
        &self,
        id: &SessionId,
        setup: SessionSetup,
    ) -> Result<AgentHandle, HostError> {
        let original = id.clone();
        self.start_stored(id, setup, move |config, abilities| {
            AgentSession::fork(config, &original, abilities)
        })
        .await
    }

    /// Assembles the agent of a stored session from its header, with the changes that `setup` requests, and starts it
    /// in the session that `open` returns.
    async fn start_stored(
        &self,
        id: &SessionId,
        mut setup: SessionSetup,
        open: impl FnOnce(&RuntimeConfig, Abilities) -> Result<AgentSession, SessionError>
        + Send
        + 'static,
    ) -> Result<AgentHandle, HostError> {
        let (store, places, session_id) =
            (Arc::clone(&self.store), Arc::clone(&self.directory_configs), id.clone());
        let (given, requested) = (setup.additional_directories.clone(), setup.clone());
        // 1) Read the header and check that the session can be opened here.
        let (metadata, place, directories) = blocking(move || {
            let metadata = store.header(&session_id)?;
            let crow = metadata.crow();
            requested.check_cwd(&session_id, &crow.cwd)?;
            if crow.agent_lost && requested.agent.is_none() {
                return Err(agent_lost(&session_id));
            }
            check_directory_exists(&crow.cwd)?;
            let directories = given.map(|given| additional(&crow.cwd, &given)).transpose()?;
            // Stored directories that no longer exist are dropped.
            let existing = || crow.additional_directories.into_iter().filter(|path| path.is_dir());
            let directories = directories.unwrap_or_else(|| existing().collect());
            Ok::<_, HostError>((metadata, places.for_directory(&crow.cwd)?, directories))
        })
        .await??;
        // 2) Assemble the agent with the requested changes.
        let (with, made) = if is_new_import(&metadata) {
            self.agent_of_import(&mut setup, &metadata, &place).await?
        } else {
            let mut with = opened_with(&metadata);
            change(&mut with, &setup)?;
            let reviewer_model = self.reviewer_model.as_ref().or(place.review_model.as_ref());
            if let Some(model) = reviewer_model {
                with.reviewer_model = Some(model.clone());
            }
            let made = place.agents.assemble(&with, Ok(metadata.model_ref())).await?;
            (with, made)
        };
        let (reference, abilities) = model_of(&made);
        let (primary, stored_with) = (made.agent.primary().name().to_owned(), with.clone());
        let config = Arc::clone(self.runtime().config());
        // 3) Open the session and record what differs from its header.
        let session = blocking(move || {
            let mut session = open(&config, abilities)?;
            session.set_additional_directories(&config, directories)?;
            session.set_agent(&config, &primary, stored_with)?;
            session.set_model(&config, &reference, abilities)?;
            if setup.permissions.is_some() {
                session.set_permission_mode(setup.permissions)?;
            }
            Ok::<_, HostError>(session)
        })
        .await??;
        self.start(
            session,
            PreparedAgent { opened_with: with, agent: made, config: place },
            setup.mcp_servers,
        )
        .await
    }

    /// Assembles the agent of a session of another program that is opened for the first time: as for a new session, and with
    /// its permission mode.
    async fn agent_of_import(
        &self,
        setup: &mut SessionSetup,
        metadata: &SessionMetadata,
        place: &Arc<DirectoryConfig>,
    ) -> Result<(OpenedWith, AssembledAgent), HostError> {
        let (cwd, store) = (metadata.crow().cwd, self.choices.clone());
        let load = move || store.map(|store| store.load(&project_root(&cwd))).unwrap_or_default();
        let choices = blocking(load).await?;
        let mode = setup.permissions.or(self.permissions).or(choices.permissions);
        setup.permissions = Some(mode.unwrap_or(PermissionMode::Ask));
        let context = StartContext {
            cwd: metadata.crow().cwd,
            additional_directories: Vec::new(),
            config: Arc::clone(place),
            choices,
        };
        let prepared = self.first_agent(&context, setup).await?;
        Ok((prepared.opened_with, prepared.agent))
    }

    /// Applies `setup` to a session that is open already. Fails if it names another working directory, or other
    /// additional directories.
    pub(super) async fn apply_setup(
        &self,
        id: &SessionId,
        setup: &SessionSetup,
    ) -> Result<(), HostError> {
        let current = self.open.current(id)?;
        let crow = current.handle.metadata().crow();
        setup.check_cwd(id, &crow.cwd)?;
        if let Some(given) = setup.additional_directories.clone() {
            let directories = blocking(move || additional(&crow.cwd, &given)).await??;
            if directories != crow.additional_directories {
                return Err(HostError::Refused {
                    message: "the directories of a session cannot change while it is open"
                        .to_owned(),
                    hint: "close it, and open it with them".to_owned(),
                });
            }
        }
        let mut with = current.opened_with.clone();
        change(&mut with, setup)?;
        if with != current.opened_with {
            self.switch(&current, with).await?;
        }
        if let Some(mode) = setup.permissions {
            let handle = current.handle.clone();
            blocking(move || handle.permissions().set_mode(mode)).await??;
        }
        self.replace_client_servers(&current, setup.mcp_servers.clone()).await
    }

    /// Replaces the MCP servers that the client of an open session provides by those of the client that opened it
    /// last.
    async fn replace_client_servers(
        &self,
        current: &super::opened::SessionState,
        servers: Vec<McpServerConfig>,
    ) -> Result<(), HostError> {
        self.keep_secret(servers.iter().flat_map(secrets_of_server).collect());
        // The tools are dropped when the agent ends.
        let Some(tools) = current.mcp.upgrade() else { return Ok(()) };
        let (mcp, place) = (self.mcp.clone(), Arc::clone(&current.config));
        let servers = blocking(move || mcp.servers(&place.project, servers)).await?;
        tools.replace_servers(servers.map_err(refused)?.servers).await;
        Ok(())
    }

    /// Replaces the agent of an open session from its next run on, and records that in the session.
    pub(super) async fn switch(
        &self,
        current: &super::opened::SessionState,
        with: OpenedWith,
    ) -> Result<(), HostError> {
        let model = with.model.clone();
        let default = model.or_else(|| self.default_model.known(current.config.model.as_ref()));
        let default = default.unwrap_or_else(|| current.model.reference.clone());
        let assembled = current.config.agents.assemble(&with, Ok(default)).await?;
        let (handle, stored_with) = (current.handle.clone(), with.clone());
        blocking(move || handle.header().set_opened_with(stored_with)).await??;
        self.open.switch(current.handle.session_id(), with, assembled)
    }

    /// Returns the hooks of sessions in a directory, if there are some.
    fn hooks_of(&self, place: &DirectoryConfig, cwd: &Path) -> Option<Arc<CommandHooks>> {
        if !CommandHooks::is_needed(&place.hooks) {
            return None;
        }
        let launch = HookLaunch {
            runner: ProcessRunner::new(self.runtime().config().child_env.clone())
                .with_project_roots(&[project_root(cwd)]),
            store: Arc::clone(&self.runtime().config().store),
            project: project_root(cwd),
            trusted: place.project.trusted.clone().map(Arc::new),
            home: self.environment.var("HOME").map(PathBuf::from),
            redactor: self.runtime().config().redactor.clone(),
        };
        Some(Arc::new(CommandHooks::new(Arc::clone(&place.hooks), launch)))
    }

    /// Starts the agent of a session: connects the tools of its servers, adds rules and protected files of the
    /// project, and spawns the agent loop.
    async fn start(
        &self,
        mut session: AgentSession,
        ready: PreparedAgent,
        servers: Vec<McpServerConfig>,
    ) -> Result<AgentHandle, HostError> {
        self.keep_secret(servers.iter().flat_map(secrets_of_server).collect());
        let PreparedAgent { opened_with: with, agent: made, config: place } = ready;
        let (id, crow) = (session.id().clone(), session.metadata().crow());
        let (mcp, config) = (self.mcp.clone(), Arc::clone(&place));
        let directories = crow.additional_directories.clone();
        let date = self.today();
        let hook_cwd = crow.cwd.clone();
        // 1) Blocking part: connect tools, add rules and protected files, collect the facts of the environment block.
        let (session, surroundings, tools) = blocking(move || {
            let roots = crow.workspace().roots().to_vec();
            let started = mcp.started_files(&roots, &config.project, &servers);
            let tools = mcp.tools(roots, &config.project, servers).map_err(refused)?;
            session.add_rules(config.project.additions.rules.clone());
            session.protect_files(started);
            if let Some(trusted) = &config.project.trusted {
                session.protect_files(trusted.protected.clone());
            }
            let surroundings = Surroundings::gather(&crow.cwd, date)
                .with_directories(directories)
                .with_checks(config.agents.checks());
            Ok::<_, HostError>((session, surroundings, tools))
        })
        .await??;
        // 2) Spawn the agent. It owns the tools and closes them at its end; `OpenSession` only refers to them weakly.
        let mcp = Arc::downgrade(&tools);
        let notice = place.project.notice.clone();
        let (agent, agents) = watch::channel(made.agent);
        let mut readable = place.skills.readable_folders(&self.environment);
        readable.extend(place.hooks.readable_paths(&self.environment));
        let hooks = self.hooks_of(&place, &hook_cwd);
        let handle = self.runtime().spawn(session, |mut internals| async move {
            for folder in &readable {
                make_readable(&internals, folder);
            }
            if let Some(text) = notice {
                let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
                internals.emit(AgentEvent::Notice { level, audience, text }).await?;
            }
            internals.offer_tools(Arc::clone(&tools) as _);
            if let Some(hooks) = hooks {
                set_hooks(&internals, hooks);
            }
            let served = serve_latest(agents, surroundings, internals).await;
            tools.close().await;
            served
        });
        // 3) Register the open session.
        let file_warnings = place.prompts.warnings.iter().chain(&place.misplaced);
        let file_warnings = file_warnings.chain(&place.skills.faults).cloned();
        let file_warnings = file_warnings.chain(self.command_clashes(&place));
        let warnings = made.warnings.into_iter().chain(file_warnings).collect();
        let standing = made.review;
        let session = OpenSession {
            handle: handle.clone(),
            agent,
            opened_with: with,
            review: standing,
            config: place,
            mcp,
            warnings,
            before_plan: None,
        };
        self.open.add(id, session);
        self.telemetry.watch(&handle);
        Ok(handle)
    }
}

/// Returns `plain` with the last choices in the project where the request names neither agent nor model.
fn remembered(
    choices: &Choices,
    is_named: bool,
    place: &DirectoryConfig,
    plain: &OpenedWith,
) -> OpenedWith {
    let mut with = plain.clone();
    if !is_named {
        let default = place.agents.default_name().to_owned();
        let agent = choices.agent.as_ref().and_then(|agent| agent.over(Some(&default)));
        with.agent = agent.unwrap_or(default);
        with.mode = choices.mode;
    }
    if with.model.is_none() {
        let model = choices.model.as_ref();
        with.model = model.and_then(|model| model.over(place.model.as_ref()));
    }
    with
}

/// Applies the request to the stored parameters. Another agent brings its own mode and reviewers.
fn change(with: &mut OpenedWith, setup: &SessionSetup) -> Result<(), HostError> {
    if let Some(agent) = setup.agent.as_ref().filter(|agent| **agent != with.agent) {
        with.agent.clone_from(agent);
        (with.mode, with.reviewers) = (None, None);
    }
    if let Some(model) = &setup.model {
        with.model = Some(parse_model(model)?);
    }
    if let Some(prompt) = &setup.system_prompt {
        with.system_prompt = Some(prompt.clone());
    }
    Ok(())
}

/// Returns the refusal for a session whose header, and with it the agent, is lost.
fn agent_lost(id: &SessionId) -> HostError {
    HostError::Refused {
        message: format!(
            "session {id} lost its header, and with it its agent and permission mode"
        ),
        hint: "name the agent with --agent; the session only reads unless --permissions says otherwise"
            .to_owned(),
    }
}

/// Returns the parameters in the header; sessions of versions with one agent only have none, so theirs are made from
/// agent type and model.
fn opened_with(metadata: &SessionMetadata) -> OpenedWith {
    metadata.crow().opened_with.unwrap_or_else(|| OpenedWith {
        model: Some(metadata.model_ref()),
        ..OpenedWith::new(&metadata.agent_type)
    })
}

fn model_of(made: &AssembledAgent) -> (ModelRef, Abilities) {
    let info = &made.agent.model().info;
    (info.reference.clone(), info.abilities)
}
