//! Starting the agent of a run.

use std::{path::PathBuf, sync::Arc};

use crow_core::{capability::Answerer, ids::SessionId, model::ModelRef, model::Models};
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentHandle, AgentHost as _, HandleAnswerer, NewSession, SessionStore, SnapshotStores,
    StoredRules,
};

use super::{AgentRequest, answerer::HeadlessAnswerer, say};
use crate::{
    CliError, Environment,
    args::OutputForm,
    config::Configuration,
    host::{HostParts, ProductHost},
    sandbox::sandbox,
    trust::Project,
};

/// What an agent is started from.
pub(crate) struct Launch<'a> {
    pub request: &'a AgentRequest,
    /// The directory in which the session works.
    pub cwd: PathBuf,
    /// What the project there adds.
    pub project: Project,
    pub audience: Audience,
    pub environment: &'a Environment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The configured providers, where there are any.
    pub providers: Option<Arc<ProviderModels>>,
    pub rules: StoredRules,
    /// Where the states of files are kept that calls changed.
    pub snapshots: Arc<SnapshotStores>,
    /// The model to ask where nobody names one.
    pub fallback: Option<ModelRef>,
}

/// A started agent.
pub(crate) struct Launched {
    pub host: ProductHost,
    pub handle: AgentHandle,
    /// Who is there to be asked.
    pub audience: Audience,
    pub warning: Option<String>,
}

/// Who is there to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Somebody at the terminal.
    Person,
    /// Nobody: policy decides.
    Nobody,
}

/// Starts the agent: makes or opens the session, and spawns.
pub(crate) async fn launch(launch: Launch<'_>) -> Result<Launched, CliError> {
    let Launch {
        request,
        cwd,
        project,
        audience,
        environment,
        store,
        models,
        providers,
        fallback,
        rules,
        snapshots,
    } = launch;
    let answerer: Arc<dyn Answerer> = match audience {
        Audience::Person => Arc::new(HandleAnswerer),
        Audience::Nobody => Arc::new(HeadlessAnswerer),
    };
    let fallback = match fallback {
        Some(model) => Some(model),
        None => Configuration::load(environment, &project)?.settings.model,
    };
    let sandbox = sandbox(&request.sandbox, environment)?;
    if sandbox.is_none() {
        say("--no-sandbox: commands can do whatever you can do");
    }
    let host = ProductHost::new(HostParts {
        environment: environment.clone(),
        store: Arc::clone(&store),
        models,
        providers,
        fallback,
        answerer,
        permissions: request.permissions.into(),
        sandbox,
        rules,
        project: (cwd.clone(), project),
        snapshots,
        max_steps: request.max_steps,
    });
    let handle = match &request.resume {
        Some(prefix) => {
            let id = store.find(prefix)?;
            let permissions = Some(request.permissions.into());
            host.open_with(&id, request.model.as_deref(), permissions).await?
        }
        None => {
            host.create(NewSession {
                cwd,
                model: request.model.clone(),
                id: request.session_id.as_ref().map(|id| SessionId::new(id.as_str())),
                ..NewSession::default()
            })
            .await?
        }
    };
    if handle.torn_bytes() > 0 {
        say(
            "the last event of the session was not written to its end; it was cut off and kept in history.torn",
        );
    }
    let warning = host.model_warning(handle.session_id());
    Ok(Launched { host, handle, audience, warning })
}

impl Audience {
    /// Finds out who is there to be asked in a run that is shown in that form.
    pub(crate) fn of(output: OutputForm, environment: &Environment) -> Self {
        let somebody = environment.stdin_is_terminal
            && environment.stderr_is_terminal
            && output == OutputForm::Text;
        if somebody { Self::Person } else { Self::Nobody }
    }
}
