//! Starting the agent of a run.

use std::{path::PathBuf, sync::Arc};

use crow_app::{
    Audience, ProcessEnvironment,
    config::Configuration,
    host::{ChoiceMemory, ConfigurationSource, HostParts, ProductHost, StartPlace},
    sandbox::{SandboxSettings, sandbox_settings},
    trust::Project,
};
use crow_core::{
    capability::Answerer,
    ids::SessionId,
    model::{ModelRef, ModelRefError, Models},
    permission::PermissionMode,
};
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentHandle, AgentHost as _, HandleAnswerer, NewSession, SessionMetadata, SessionSetup,
    SessionStore, SnapshotStores, StoredRules,
};

use crate::{
    args::OutputForm,
    damage::print_damage,
    error::CliError,
    run::{AgentRequest, answerer::HeadlessAnswerer},
    session_commands::ConsoleCommands,
    terminal::{TerminalDialog, console_style, print_message},
};

/// Parameters of [`launch`].
pub(crate) struct ProductLaunch<'a> {
    pub request: &'a AgentRequest,
    /// The directory in which the session works.
    pub cwd: PathBuf,
    /// The trusted configuration that the project in `cwd` adds.
    pub project: Project,
    pub audience: Audience,
    pub environment: &'a ProcessEnvironment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, if any.
    pub providers: Option<Arc<ProviderModels>>,
    pub rules: StoredRules,
    /// Stores of the file states before and after calls.
    pub snapshots: Arc<SnapshotStores>,
    /// The model used if none is named; its presence selects the shipped configuration instead of the files.
    pub fallback: Option<ModelRef>,
}

/// A started agent.
pub(crate) struct StartedAgent {
    pub host: ProductHost,
    pub handle: AgentHandle,
    /// Recipient of the agent's questions.
    pub audience: Audience,
    pub warnings: Vec<String>,
}

/// Parameters of [`host`].
pub(crate) struct HostLaunch<'a> {
    pub request: &'a AgentRequest,
    /// The initial working directory of sessions.
    pub cwd: PathBuf,
    /// The trusted configuration that the project in `cwd` adds.
    pub project: Project,
    pub answerer: Arc<dyn Answerer>,
    /// Recipient of questions at the terminal before the first session.
    pub audience: Audience,
    pub environment: &'a ProcessEnvironment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, if any.
    pub providers: Option<Arc<ProviderModels>>,
    pub rules: StoredRules,
    /// Stores of the file states before and after calls.
    pub snapshots: Arc<SnapshotStores>,
    /// The model used if none is named; its presence selects the shipped configuration instead of the files.
    pub fallback: Option<ModelRef>,
}

/// Builds the host that creates and opens the sessions of the program.
///
/// # Errors
/// Fails if the configuration cannot be read or a model reference does not parse.
pub(crate) fn host(launch: HostLaunch<'_>) -> Result<ProductHost, CliError> {
    let HostLaunch { request, environment, project, fallback, .. } = &launch;
    let (configured, configuration) = if fallback.is_some() {
        // A caller that brings its own model gets the shipped configuration, not the user's.
        (ConfigurationSource::Shipped, Configuration::shipped())
    } else {
        (ConfigurationSource::InFiles, Configuration::load(environment, &project.additions)?)
    };
    let session_commands = ConsoleCommands::new(console_style(environment));
    // Options of the command line, which override the configuration.
    let parse = |text: &String| {
        text.parse().map_err(|error: ModelRefError| {
            CliError::usage(error.to_string()).hint("`crow-agent models` shows them")
        })
    };
    let model = request.model.as_ref().map(parse).transpose()?;
    let reviewer_model = request.reviewer_model.as_ref().map(parse).transpose()?;
    let permissions = request.permissions.map(PermissionMode::from);
    let SandboxSettings { config: sandbox, links } =
        sandbox_settings(environment, &request.sandbox.hosts()?)?;
    // File tools keep to the places of the sandbox even if commands run without one.
    let places = sandbox.sandbox_paths();
    let sandbox = request.sandbox.for_commands(sandbox);
    if sandbox.is_none() {
        print_message("--no-sandbox: commands run with all your rights");
    }
    Ok(ProductHost::new(HostParts {
        environment: (*environment).clone(),
        fallback: fallback.clone(),
        permissions: match (permissions, request.choice_memory) {
            // Without remembered choices a new session starts in the default mode.
            (None, ChoiceMemory::Disabled) => Some(PermissionMode::default()),
            (permissions, _) => permissions,
        },
        sandbox,
        sandbox_paths: places,
        links: Some(links),
        agent: request.agent.clone(),
        model,
        reviewer_model,
        configuration_source: configured,
        limits: request.limits,
        choice_memory: request.choice_memory,
        store: launch.store,
        models: launch.models,
        providers: launch.providers,
        answerer: launch.answerer,
        audience: launch.audience,
        dialog: Arc::new(TerminalDialog),
        session_commands: Some(Arc::new(session_commands)),
        rules: launch.rules,
        start: Some(StartPlace { cwd: launch.cwd, project: launch.project, configuration }),
        snapshots: launch.snapshots,
    }))
}

/// Starts the agent of a run in a new or a resumed session.
pub(crate) async fn launch(launch: ProductLaunch<'_>) -> Result<StartedAgent, CliError> {
    let ProductLaunch { request, cwd, audience, .. } = launch;
    let permissions = request.permissions.map(PermissionMode::from);
    let store = Arc::clone(&launch.store);
    let resumed = request.resumed(store.as_ref(), launch.environment)?;
    let answerer: Arc<dyn Answerer> = match audience {
        Audience::Person => Arc::new(HandleAnswerer),
        Audience::Unattended => Arc::new(HeadlessAnswerer),
    };
    let host = host(HostLaunch {
        request,
        cwd: cwd.clone(),
        project: launch.project,
        answerer,
        audience,
        environment: launch.environment,
        store: launch.store,
        models: launch.models,
        providers: launch.providers,
        rules: launch.rules,
        snapshots: launch.snapshots,
        fallback: launch.fallback,
    })?;
    // A resumed session does not repeat the warning about its model: it was shown at the start or at the change of the
    // model.
    let mut warned_of = None;
    let handle = match resumed {
        Some(id) => {
            let header = store.header(&id).ok();
            warned_of = header.as_ref().map(SessionMetadata::model_ref);
            // A read-only session stays read-only; a wider mode is not inherited from the last run.
            let is_read_only = |mode: &PermissionMode| *mode == PermissionMode::ReadOnly;
            let inherited =
                header.and_then(|header| header.crow().permissions).filter(is_read_only);
            let setup = SessionSetup {
                agent: request.agent.clone(),
                model: request.model.clone(),
                permissions: Some(permissions.or(inherited).unwrap_or_default()),
                ..SessionSetup::default()
            };
            host.open(&id, setup).await?
        }
        None => {
            host.create(NewSession {
                cwd,
                id: request.session_id.as_ref().map(|id| SessionId::new(id.as_str())),
                // Options of the command line are defaults of the host and apply to all its sessions.
                setup: SessionSetup::default(),
            })
            .await?
        }
    };
    host.disable_questions();
    if handle.torn_bytes() > 0 {
        print_message("the last event of the session was incomplete; it was moved to history.torn");
    }
    print_damage(handle.session_id(), handle.damage());
    let warnings = host.warnings(handle.session_id(), warned_of.as_ref());
    Ok(StartedAgent { host, handle, audience, warnings })
}

/// Returns a person if stdin and stderr are terminals and the output is text, else none.
pub(crate) fn audience_of(output: OutputForm, environment: &ProcessEnvironment) -> Audience {
    let is_interactive = environment.stdin_is_terminal
        && environment.stderr_is_terminal
        && output == OutputForm::Text;
    if is_interactive { Audience::Person } else { Audience::Unattended }
}
