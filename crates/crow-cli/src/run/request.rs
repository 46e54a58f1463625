//! What a run is asked for.

use std::{path::PathBuf, time::Duration};

use crow_core::ids::SessionId;
use crow_runtime::SessionStore;

use super::piped::{read_piped, read_prompt, with_piped};
use crate::{
    args::{AcpArgs, AgentOptions, ChatArgs, OutputForm, Permissions, RunArgs, RunOptions},
    environment::Environment,
    error::CliError,
    host::{AgentLimits, Remembers, working_directory},
    output::Deltas,
    sandbox::SandboxOptions,
    undo::last_here,
};

/// How long a pipe on standard input is waited for beside a prompt: many that start programs leave one open and write nothing.
const FIRST_BYTE: Duration = Duration::from_secs(3);

/// What a run is asked for.
#[derive(Debug)]
pub(crate) struct RunRequest {
    pub prompt: String,
    pub output: OutputForm,
    pub deltas: Deltas,
    pub agent: AgentRequest,
}

/// Which agent is to work, and in which session.
#[derive(Debug)]
pub(crate) struct AgentRequest {
    pub agent: Option<String>,
    pub model: Option<String>,
    pub reviewer_model: Option<String>,
    pub permissions: Option<Permissions>,
    /// Whether a new session begins with what the user chose last in its project.
    pub remembers: Remembers,
    pub sandbox: SandboxOptions,
    pub limits: AgentLimits,
    pub resume: Option<Resume>,
    pub session_id: Option<String>,
    pub cwd: Option<PathBuf>,
}

/// Which session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resume {
    /// The last one of the current directory, or of the nearest folder above it in which one worked.
    Last,
    /// The one whose id begins so.
    Named(String),
}

impl From<String> for Resume {
    /// Takes what stands behind the option: nothing means the last session.
    fn from(id: String) -> Self {
        if id.is_empty() { Self::Last } else { Self::Named(id) }
    }
}

impl AgentRequest {
    fn new(options: AgentOptions) -> Self {
        let AgentOptions { agent, model, reviewer_model, permissions, sandbox } = options;
        Self {
            agent,
            model,
            reviewer_model,
            permissions,
            remembers: Remembers::Nothing,
            sandbox,
            limits: AgentLimits::default(),
            resume: None,
            session_id: None,
            cwd: None,
        }
    }
}

impl AgentRequest {
    /// Finds the directory in which the session works: a new one where the user says, an old one where it began. Blocks.
    pub(crate) fn directory(
        &self,
        store: &dyn SessionStore,
        environment: &Environment,
    ) -> Result<PathBuf, CliError> {
        match self.resumed(store, environment)? {
            Some(id) => Ok(store.header(&id)?.crow().cwd),
            None => working_directory(self.cwd.as_deref(), environment),
        }
    }

    /// Finds the session that goes on, if one does. Blocks.
    pub(crate) fn resumed(
        &self,
        store: &dyn SessionStore,
        environment: &Environment,
    ) -> Result<Option<SessionId>, CliError> {
        match &self.resume {
            None => Ok(None),
            Some(Resume::Named(prefix)) => Ok(Some(store.find(prefix)?)),
            Some(Resume::Last) => {
                let nobody = |error: CliError| {
                    error.hint("name one with --resume ID; `crow-agent sessions list` shows them")
                };
                last_here(store, environment).map(Some).map_err(nobody)
            }
        }
    }
}

impl From<AcpArgs> for AgentRequest {
    fn from(args: AcpArgs) -> Self {
        let AcpArgs { agent, max_steps, max_rounds, .. } = args;
        let limits = AgentLimits { max_steps, max_rounds };
        // What is chosen in one thread of an editor holds for that thread: editors keep defaults of their own.
        Self { limits, ..Self::new(agent) }
    }
}

impl From<ChatArgs> for AgentRequest {
    fn from(args: ChatArgs) -> Self {
        let ChatArgs { agent, resume, cwd } = args;
        Self {
            resume: resume.map(Resume::from),
            cwd,
            remembers: Remembers::Choices,
            ..Self::new(agent)
        }
    }
}

impl RunRequest {
    /// Takes the arguments of `run` and reads the prompt if it comes from standard input.
    pub(crate) fn new(args: RunArgs, environment: &Environment) -> Result<Self, CliError> {
        let RunArgs { prompt, options, resume, session_id, cwd } = args;
        // `run --resume "what to do"`: ids have no blanks.
        let (prompt, resume) = match (prompt, resume) {
            (None, Some(text)) if text.contains(char::is_whitespace) => {
                (Some(text), Some(Resume::Last))
            }
            (prompt, resume) => (prompt, resume.map(Resume::from)),
        };
        let request = Self::read(prompt, options, environment)?;
        Ok(Self { agent: AgentRequest { resume, session_id, cwd, ..request.agent }, ..request })
    }

    /// Takes the arguments of `sessions resume`.
    pub(crate) fn resume(
        id: String,
        prompt: Option<String>,
        options: RunOptions,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let request = Self::read(prompt, options, environment)?;
        Ok(Self {
            agent: AgentRequest { resume: Some(Resume::Named(id)), ..request.agent },
            ..request
        })
    }

    fn read(
        prompt: Option<String>,
        options: RunOptions,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        if options.no_deltas && options.output == OutputForm::Text {
            return Err(CliError::usage("--no-deltas goes with --output json"));
        }
        let prompt = match prompt {
            Some(text) if text == "-" => read_prompt()?,
            Some(text) if environment.stdin_is_terminal => text,
            // `cat log | crow-agent run "explain"`
            Some(text) => with_piped(text, read_piped(FIRST_BYTE)?.as_deref()),
            None if environment.stdin_is_terminal => {
                return Err(CliError::usage("there is no prompt")
                    .hint("crow-agent run \"what to do\", or `-` to read it from standard input"));
            }
            None => read_prompt()?,
        };
        if prompt.trim().is_empty() {
            return Err(
                CliError::usage("the prompt is empty").hint("crow-agent run \"what to do\"")
            );
        }
        let RunOptions { agent, max_steps, max_rounds, output, no_deltas } = options;
        let limits = AgentLimits { max_steps, max_rounds };
        let deltas = if no_deltas { Deltas::LeftOut } else { Deltas::Written };
        let agent = AgentRequest { limits, ..AgentRequest::new(agent) };
        Ok(Self { prompt, output, deltas, agent })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn only_the_chat_begins_with_what_was_chosen_last() {
        let remembers = |args: &[&str]| match Cli::try_parse_from(args).unwrap().command {
            Some(Command::Acp(args)) => AgentRequest::from(args).remembers,
            Some(Command::Run(args)) => AgentRequest::new(args.options.agent).remembers,
            _ => panic!("{args:?}"),
        };
        assert_eq!(remembers(&["crow-agent", "acp"]), Remembers::Nothing);
        assert_eq!(remembers(&["crow-agent", "run", "x"]), Remembers::Nothing);
    }
}
