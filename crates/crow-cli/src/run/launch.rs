//! Starting the agent of a run.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_agent::{AgentConfig, BUILDER_PROMPT, BUILDER_TOOLS, BaseAgent, Surroundings, serve};
use crow_core::{
    capability::Answerer,
    ids::SessionId,
    model::{ModelRef, Models, ResolvedModel},
    permission::PermissionPolicy,
    turn::TurnLimits,
};
use crow_providers::{ProviderModels, discover};
use crow_runtime::{
    AgentHandle, AgentRuntime, AgentSession, RuntimeConfig, SessionSpec, SessionStore,
};
use jiff::Zoned;
use tokio::sync::mpsc;

use super::{
    RunRequest,
    answerer::{HeadlessAnswerer, Question, TerminalAnswerer},
    say,
};
use crate::{CliError, Environment, args::OutputForm, output::ExitCode, product};

/// The name of the agent.
const AGENT: &str = "builder";

/// What an agent is started from.
pub(crate) struct Launch<'a> {
    pub request: &'a RunRequest,
    pub environment: &'a Environment,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    /// The model to ask where neither the user nor the session names one.
    pub fallback: Option<ModelRef>,
    /// Variables that hold keys, which commands must not see.
    pub keys: Vec<String>,
}

/// A started agent.
pub(crate) struct Launched {
    pub runtime: AgentRuntime,
    pub handle: AgentHandle,
    pub questions: Option<mpsc::Receiver<Question>>,
    pub warning: Option<String>,
    /// Whether nothing shows that the model is waited for, so that it must be said.
    pub waits_silently: bool,
}

/// What is known of the session before it is opened.
struct Known {
    id: SessionId,
    model: ModelRef,
    cwd: PathBuf,
}

/// Starts the agent: finds the model, makes or opens the session, and spawns.
pub(crate) async fn launch(launch: Launch<'_>) -> Result<Launched, CliError> {
    let Launch { request, environment, store, models, fallback, keys } = launch;
    let known = request
        .resume
        .as_deref()
        .map(|prefix| known_session(store.as_ref(), prefix))
        .transpose()?;
    let cwd = match &known {
        Some(known) => session_directory(&known.cwd)?,
        None => working_directory(request.cwd.as_deref(), environment)?,
    };
    let reference = match (&request.model, &known) {
        (Some(text), _) => text
            .parse()
            .map_err(|error: crow_core::model::ModelRefError| CliError::usage(error.to_string()))?,
        (None, Some(known)) => known.model.clone(),
        (None, None) => fallback.ok_or_else(no_model)?,
    };
    let resolved = models.resolve(&reference).await?;
    let (answerer, questions) = answerer(request, environment);
    let session_id = request.session_id.as_ref().map(|id| SessionId::new(id.as_str()));
    let config = RuntimeConfig {
        store: Arc::clone(&store),
        models,
        policy: PermissionPolicy::new(request.permissions.into()),
        answerer,
        child_env: environment.for_children(&keys),
        ..RuntimeConfig::default()
    };
    let session = match known {
        Some(known) => {
            let mut session = AgentSession::open(&config, &known.id, resolved.info.abilities)?;
            session.set_model(&config, &reference, resolved.info.abilities)?;
            if session.torn_bytes() > 0 {
                say(
                    "the last event of the session was not written to its end; it was cut off and kept in history.torn",
                );
            }
            session
        }
        None => AgentSession::create(
            &config,
            SessionSpec {
                id: session_id,
                abilities: resolved.info.abilities,
                ..SessionSpec::new(AGENT, reference, &cwd)
            },
        )?,
    };
    let warning = resolved.warning.clone();
    let agent = builder(request, resolved);
    let surroundings = Surroundings::gather(&cwd, Zoned::now().date().to_string());
    let runtime = AgentRuntime::new(config);
    let handle = runtime.spawn(session, |internals| serve(agent, surroundings, internals));
    let waits_silently = !environment.stderr_is_terminal || request.output == OutputForm::Json;
    Ok(Launched { runtime, handle, questions, warning, waits_silently })
}

/// Finds the model to ask when nobody names one: that of the first provider with a key, else a local server's.
pub(crate) async fn default_model(models: &ProviderModels) -> Option<ModelRef> {
    if let Some(model) = models.default_model() {
        return Some(model);
    }
    let found = discover(models).await;
    found.into_iter().find_map(|server| {
        let model = server.models.into_iter().next()?;
        Some(ModelRef { provider: server.provider, model: model.id })
    })
}

fn builder(request: &RunRequest, model: ResolvedModel) -> BaseAgent {
    let limits = TurnLimits::default();
    let config = AgentConfig {
        system_prompt: BUILDER_PROMPT.to_owned(),
        limits: TurnLimits { max_steps: request.max_steps.unwrap_or(limits.max_steps), ..limits },
        ..AgentConfig::default()
    };
    let (tools, _) = product::all_tools().for_agent(&BUILDER_TOOLS.map(str::to_owned));
    BaseAgent::new(AGENT, config, model, tools)
}

fn answerer(
    request: &RunRequest,
    environment: &Environment,
) -> (Arc<dyn Answerer>, Option<mpsc::Receiver<Question>>) {
    let somebody = environment.stdin_is_terminal
        && environment.stderr_is_terminal
        && request.output == OutputForm::Text;
    if somebody {
        let (answerer, questions) = TerminalAnswerer::new();
        (Arc::new(answerer), Some(questions))
    } else {
        (Arc::new(HeadlessAnswerer), None)
    }
}

fn known_session(store: &dyn SessionStore, prefix: &str) -> Result<Known, CliError> {
    let id = store.find(prefix)?;
    let metadata = store.read(&id)?.metadata;
    Ok(Known { id, model: metadata.model_ref(), cwd: metadata.crow().cwd })
}

/// A session goes on where it began: its paths and its history belong there.
fn session_directory(cwd: &Path) -> Result<PathBuf, CliError> {
    if cwd.is_dir() {
        return Ok(cwd.to_path_buf());
    }
    let message = format!("the directory of the session, {}, is not there any more", cwd.display());
    Err(CliError::usage(message).hint("put it back, or start a new session"))
}

/// Resolves the directory, which must exist.
fn working_directory(given: Option<&Path>, environment: &Environment) -> Result<PathBuf, CliError> {
    let path = match given {
        Some(path) if path.is_absolute() => path.to_path_buf(),
        Some(path) => environment.current_dir()?.join(path),
        None => environment.current_dir()?.to_path_buf(),
    };
    let resolved = path.canonicalize().map_err(|error| {
        CliError::usage(format!("the directory {} cannot be used: {error}", path.display()))
            .hint("give an existing one with --cwd")
    })?;
    if !resolved.is_dir() {
        return Err(CliError::usage(format!("{} is not a directory", path.display()))
            .hint("give an existing one with --cwd"));
    }
    Ok(resolved)
}

/// One screen that says how to get going.
fn no_model() -> CliError {
    let hint = "\
Give a provider's key, for example one of
  export ANTHROPIC_API_KEY=…     export OPENAI_API_KEY=…
  export GEMINI_API_KEY=…        export OPENROUTER_API_KEY=…
and run again. Or start a model server on this machine (Ollama, llama.cpp, LM Studio, vLLM): it is found by itself.

  crow-agent models              shows providers, models and what is missing
  crow-agent run -m PROVIDER/MODEL \"task\"   names the model yourself
  crow-agent demo                shows Crow at work without any model";
    CliError {
        exit: ExitCode::Credentials,
        code: "no_credentials",
        message:
            "there is no model to talk to: no provider has a key, and no local model server answers"
                .to_owned(),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_the_builder_exists() {
        let (tools, unknown) = product::all_tools().for_agent(&BUILDER_TOOLS.map(str::to_owned));
        assert_eq!((tools.names().count(), unknown), (BUILDER_TOOLS.len(), Vec::new()));
    }

    #[test]
    fn prompt_and_tools_of_the_builder_stay_small() {
        let (tools, _) = product::all_tools().for_agent(&BUILDER_TOOLS.map(str::to_owned));
        let tools = serde_json::to_string(&tools.definitions()).unwrap();
        let size = BUILDER_PROMPT.len() + tools.len();
        assert!(size <= 11_500, "{size} bytes");
    }
}
