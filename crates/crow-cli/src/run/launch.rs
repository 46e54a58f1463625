//! Starting the agent of a run: `run`, `sessions resume`, and what the chat and servers share with them.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use crow_app::{
    Audience, ProcessEnvironment, WireLogFile,
    config::Configuration,
    host::{ChoiceMemory, ConfigurationSource, HostParts, ProductHost, StartPlace},
    product,
    project_checks::accepted_check,
    sandbox::{SandboxSettings, sandbox_settings},
    skills::UserSkillReader,
    trust::{self, Project},
};
use crow_console::ExitCode;
use crow_core::{
    capability::{Answerer, PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionRequest},
    ids::SessionId,
    message::Block,
    model::{ModelRef, ModelRefError, Models},
    permission::PermissionMode,
    tool::Subject,
};
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentHandle, AgentHost as _, HandleAnswerer, NewSession, SessionMetadata, SessionSetup,
    SessionStore, SnapshotStores, StoredRules,
};

use super::{AgentRequest, RunDisplay, RunRequest, RunTask, drive};
use crate::{
    args::{OutputForm, RunArgs, RunOptions},
    error::CliError,
    session_commands::ConsoleCommands,
    stored_sessions::print_damage,
    terminal::{TerminalDialog, console_style, print_message},
};

/// Runs a prompt in a new session.
pub(crate) async fn run(
    args: RunArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    start(RunRequest::new(args, environment)?, environment).await
}

/// Runs a prompt in a stored session.
pub(crate) async fn resume(
    id: String,
    prompt: Option<String>,
    options: RunOptions,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    start(RunRequest::resume(id, prompt, options, environment)?, environment).await
}

pub(crate) async fn start(
    mut request: RunRequest,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    if !request.agent.choose_session(environment)? {
        return Ok(ExitCode::Interrupted);
    }
    let audience = audience_of(request.output, environment);
    let parts = ProductLaunch::new(&request.agent, audience, environment)?;
    if let (Some(notice), OutputForm::Json) = (&parts.project.notice, request.output) {
        // In text output the notice is one of the events.
        print_message(notice);
    }
    let models = Arc::clone(&parts.models);
    let launched = launch(parts).await?;
    let show = RunDisplay::new(request.output, environment).with_deltas(request.deltas);
    // An answer of a certain form is shown once it has it.
    let show = if request.form.is_some() { show.with_answer_at_end() } else { show };
    let images = request.images.into_iter().map(Block::Image);
    let mut prompt = request.prompt;
    prompt.content.extend(images);
    drive(launched, RunTask { prompt, form: request.form }, show, models).await
}

/// Parameters of [`launch`] and [`host`].
#[derive(Clone)]
pub(crate) struct ProductLaunch<'a> {
    pub request: &'a AgentRequest,
    /// The directory in which the session works, or the first one of several.
    pub cwd: PathBuf,
    /// The trusted configuration that the project in `cwd` adds.
    pub project: Project,
    pub audience: Audience,
    /// Recipient of the question whether a model server that was found may be used.
    pub server_audience: Audience,
    pub environment: &'a ProcessEnvironment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, if any.
    pub providers: Option<Arc<ProviderModels>>,
    pub rules: StoredRules,
    /// Stores of the file states before and after calls.
    pub snapshots: Arc<SnapshotStores>,
    /// The user's skills, which a thread reads meanwhile.
    pub user_skills: Option<UserSkillReader>,
    /// The model used if none is named; its presence selects the shipped configuration instead of the files.
    pub fallback: Option<ModelRef>,
}

impl<'a> ProductLaunch<'a> {
    /// Opens what the user's own folders hold, and asks about the trust in the project of the request. Blocks.
    pub(crate) fn new(
        request: &'a AgentRequest,
        audience: Audience,
        environment: &'a ProcessEnvironment,
    ) -> Result<Self, CliError> {
        let user_skills = UserSkillReader::start(environment);
        let store = product::session_store(environment)?;
        let cwd = request.directory(store.as_ref(), environment)?;
        // Trust is asked about first: it decides which providers and servers exist.
        let project = trust::admit(&cwd, environment, audience, &TerminalDialog)?;
        let providers = Arc::new(product::models(environment, &project.additions.providers)?);
        if environment.var("CROW_WIRE_LOG").is_some_and(|given| ["1", "true"].contains(&&*given)) {
            let log = WireLogFile::of_user(environment)?;
            providers.client().start_wire_log(Arc::new(log));
        }
        Ok(Self {
            request,
            cwd,
            project,
            audience,
            server_audience: audience,
            environment,
            store,
            models: Arc::clone(&providers) as Arc<dyn Models>,
            providers: Some(providers),
            rules: product::rule_store(environment)?.load()?,
            snapshots: product::snapshot_stores(environment)?,
            user_skills,
            fallback: None,
        })
    }
}

/// A started agent.
pub(crate) struct StartedAgent {
    pub host: ProductHost,
    pub handle: AgentHandle,
    /// Recipient of the agent's questions.
    pub audience: Audience,
    pub warnings: Vec<String>,
}

/// Builds the host that creates and opens the sessions of the program.
///
/// # Errors
/// Fails if the configuration cannot be read or a model reference does not parse.
pub(crate) fn host(
    launch: ProductLaunch<'_>,
    answerer: Arc<dyn Answerer>,
) -> Result<ProductHost, CliError> {
    let ProductLaunch { request, environment, project, fallback, .. } = &launch;
    let (configured, configuration) = if fallback.is_some() {
        // A caller that brings its own model gets the shipped configuration, not the user's.
        (ConfigurationSource::Shipped, Configuration::shipped())
    } else {
        let configuration = Configuration::load(environment, &project.additions)?;
        let accepted = accepted_check(environment, &launch.cwd)?;
        let configuration = configuration.with_project_check(accepted);
        (ConfigurationSource::InFiles, configuration)
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
    let (places, network) = (sandbox.sandbox_paths(), sandbox.network.clone());
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
        network,
        links: Some(links),
        agent: request.agent.clone(),
        model,
        reviewer_model,
        configuration_source: configured,
        limits: request.limits,
        sampling: request.sampling,
        choice_memory: request.choice_memory,
        store: launch.store,
        models: launch.models,
        providers: launch.providers,
        answerer,
        audience: launch.server_audience,
        dialog: Arc::new(TerminalDialog),
        session_commands: Some(Arc::new(session_commands)),
        rules: launch.rules,
        user_skills: launch.user_skills,
        start: Some(StartPlace { cwd: launch.cwd, project: launch.project, configuration }),
        snapshots: launch.snapshots,
    }))
}

/// Starts the agent of a run in a new or a resumed session.
pub(crate) async fn launch(launch: ProductLaunch<'_>) -> Result<StartedAgent, CliError> {
    let (request, cwd, audience) = (launch.request, launch.cwd.clone(), launch.audience);
    let permissions = request.permissions.map(PermissionMode::from);
    let store = Arc::clone(&launch.store);
    let resumed = request.resumed(store.as_ref(), launch.environment)?;
    let answerer: Arc<dyn Answerer> = match audience {
        Audience::Person => Arc::new(HandleAnswerer),
        Audience::Unattended => Arc::new(HeadlessAnswerer),
    };
    let given = &request.additional_directories;
    let absolute = |path: &PathBuf| Ok::<_, CliError>(launch.environment.current_dir()?.join(path));
    let added: Option<Vec<PathBuf>> =
        (!given.is_empty()).then(|| given.iter().map(absolute).collect()).transpose()?;
    let is_configured = launch.fallback.is_none();
    let models = Arc::clone(&launch.models);
    let host = host(launch, answerer)?;
    if audience == Audience::Person && is_configured {
        // A question about the project makes no sense before it is clear that there is a model.
        let is_usable = match &resumed {
            None => host.check_new_session(&cwd).await.map(|()| true)?,
            Some(id) => match store.header(id) {
                Ok(header) => models.resolve(&header.model_ref()).await.is_ok(),
                Err(_) => false,
            },
        };
        if is_usable {
            host.propose_check(&cwd, &TerminalDialog)?;
        }
    }
    // A resumed session does not repeat the warning about its model: it was shown at the start or at the change of the
    // model.
    let mut warned_of = None;
    let handle = match resumed {
        Some(id) => {
            let header = store.header(&id).ok();
            let stored = header.as_ref().map(|header| header.crow().additional_directories);
            warned_of = header.as_ref().map(SessionMetadata::model_ref);
            // A read-only session stays read-only; a wider mode is not inherited from the last run.
            let is_read_only = |mode: &PermissionMode| *mode == PermissionMode::ReadOnly;
            let inherited =
                header.and_then(|header| header.crow().permissions).filter(is_read_only);
            let setup = SessionSetup {
                agent: request.agent.clone(),
                model: request.model.clone(),
                permissions: Some(permissions.or(inherited).unwrap_or_default()),
                additional_directories: added.map(|added| {
                    // Stored directories that are gone are left out, as without new ones.
                    let stored = stored.unwrap_or_default().into_iter();
                    stored.filter(|path| path.is_dir()).chain(added).collect()
                }),
                ..SessionSetup::default()
            };
            if request.fork { host.fork(&id, setup).await? } else { host.open(&id, setup).await? }
        }
        None => {
            host.create(NewSession {
                cwd,
                id: request.session_id.as_ref().map(|id| SessionId::new(id.as_str())),
                // Options of the command line are defaults of the host and apply to all its sessions.
                setup: SessionSetup { additional_directories: added, ..SessionSetup::default() },
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

/// Answerer for runs without a terminal: the policy decides, and the hint says how the user can permit the call.
#[derive(Debug, Clone, Copy)]
struct HeadlessAnswerer;

#[async_trait]
impl Answerer for HeadlessAnswerer {
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer {
        // The hint omits the resolved path: it may lie in a place that the model may not read.
        let remedy = match (request.least_mode, &request.subject) {
            (Some(mode), _) => format!("the user can permit it with --permissions {mode}"),
            (None, Subject::Path(_)) => {
                "no mode permits it, only a rule of the user that names this path".to_owned()
            }
            (None, Subject::Host(host)) => format!(
                "no mode permits it, only --allow-host {host}, allow_hosts of [sandbox] in config.toml, or a rule of the user"
            ),
            (None, Subject::Nothing | Subject::Command(_)) => {
                "no mode permits it, only a rule of the user".to_owned()
            }
        };
        let hint = format!("{}, and there is no terminal to ask at; {remedy}", request.reason);
        PermissionAnswer::Nobody { hint }
    }

    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        QuestionAnswer::Nobody { hint: "there is no terminal to ask at".to_owned() }
    }

    fn is_attended(&self) -> bool {
        false
    }
}
