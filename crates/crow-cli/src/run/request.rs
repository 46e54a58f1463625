//! Requests for runs and agents, built from the arguments of the command line.

use std::{path::PathBuf, time::Duration};

use crow_app::{
    ProcessEnvironment,
    config::AgentLimits,
    host::{ChoiceMemory, working_directory},
};
use crow_core::ids::SessionId;
use crow_runtime::SessionStore;

use crate::{
    args::{
        AcpArgs, AgentOptions, ChatArgs, OutputForm, Permissions, RunArgs, RunOptions,
        SandboxOptions,
    },
    error::CliError,
    output::Deltas,
    run::piped::{read_piped, read_prompt, with_piped},
    undo::last_session_of_current_dir,
};

/// Time to wait for the first byte of a pipe on standard input if there is a prompt argument: many parent processes
/// leave a pipe open and never write to it.
const FIRST_BYTE: Duration = Duration::from_secs(3);

/// Request for a run: the prompt, the form of the output, and the agent.
#[derive(Debug)]
pub(crate) struct RunRequest {
    pub prompt: String,
    pub output: OutputForm,
    pub deltas: Deltas,
    pub agent: AgentRequest,
}

/// Request for an agent: its settings, and the session in which it works.
#[derive(Debug)]
pub(crate) struct AgentRequest {
    pub agent: Option<String>,
    pub model: Option<String>,
    pub reviewer_model: Option<String>,
    pub permissions: Option<Permissions>,
    /// Initial settings of a new session: the user's last choices in its project, or none.
    pub choice_memory: ChoiceMemory,
    pub sandbox: SandboxOptions,
    pub limits: AgentLimits,
    pub resume: Option<Resume>,
    pub session_id: Option<String>,
    pub cwd: Option<PathBuf>,
}

/// The session to resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resume {
    /// The last session of the current directory, or of its nearest ancestor that has sessions.
    Last,
    /// The session whose id starts with this prefix.
    Named(String),
}

impl From<String> for Resume {
    /// Converts the value of `--resume`; an empty one means the last session.
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
            choice_memory: ChoiceMemory::Disabled,
            sandbox,
            limits: AgentLimits::default(),
            resume: None,
            session_id: None,
            cwd: None,
        }
    }
}

impl AgentRequest {
    /// Returns the working directory: that of the resumed session, or for a new one the directory of the request.
    /// Blocks.
    pub(crate) fn directory(
        &self,
        store: &dyn SessionStore,
        environment: &ProcessEnvironment,
    ) -> Result<PathBuf, CliError> {
        match self.resumed(store, environment)? {
            Some(id) => Ok(store.header(&id)?.crow().cwd),
            None => Ok(working_directory(self.cwd.as_deref(), environment)?),
        }
    }

    /// Returns the id of the session to resume, if one is requested. Blocks.
    ///
    /// # Errors
    /// Fails if no session matches.
    pub(crate) fn resumed(
        &self,
        store: &dyn SessionStore,
        environment: &ProcessEnvironment,
    ) -> Result<Option<SessionId>, CliError> {
        match &self.resume {
            None => Ok(None),
            Some(Resume::Named(prefix)) => Ok(Some(store.find(prefix)?)),
            Some(Resume::Last) => {
                let with_hint = |error: CliError| {
                    error.hint("name one with --resume ID; `crow-agent sessions list` shows them")
                };
                last_session_of_current_dir(store, environment).map(Some).map_err(with_hint)
            }
        }
    }
}

impl From<AcpArgs> for AgentRequest {
    fn from(args: AcpArgs) -> Self {
        let AcpArgs { agent, max_steps, max_rounds, .. } = args;
        let limits = AgentLimits { max_steps, max_rounds };
        // Choices in one thread of an editor apply to that thread only: editors keep defaults of their own.
        Self { limits, ..Self::new(agent) }
    }
}

impl From<ChatArgs> for AgentRequest {
    fn from(args: ChatArgs) -> Self {
        let ChatArgs { agent, resume, cwd } = args;
        Self {
            resume: resume.map(Resume::from),
            cwd,
            choice_memory: ChoiceMemory::Persistent,
            ..Self::new(agent)
        }
    }
}

impl RunRequest {
    /// Builds the request from the arguments of `run`; reads the prompt if it comes from standard input.
    pub(crate) fn new(args: RunArgs, environment: &ProcessEnvironment) -> Result<Self, CliError> {
        let RunArgs { prompt, options, resume, session_id, cwd } = args;
        // In `run --resume "what to do"` the value is the prompt: session ids contain no whitespace.
        let (prompt, resume) = match (prompt, resume) {
            (None, Some(text)) if text.contains(char::is_whitespace) => {
                (Some(text), Some(Resume::Last))
            }
            (prompt, resume) => (prompt, resume.map(Resume::from)),
        };
        let request = Self::read(prompt, options, environment)?;
        Ok(Self { agent: AgentRequest { resume, session_id, cwd, ..request.agent }, ..request })
    }

    /// Builds the request from the arguments of `sessions resume`.
    pub(crate) fn resume(
        id: String,
        prompt: Option<String>,
        options: RunOptions,
        environment: &ProcessEnvironment,
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
        environment: &ProcessEnvironment,
    ) -> Result<Self, CliError> {
        if options.no_deltas && options.output == OutputForm::Text {
            return Err(CliError::usage("--no-deltas needs --output json"));
        }
        let prompt = match prompt {
            Some(text) if text == "-" => read_prompt()?,
            Some(text) if environment.stdin_is_terminal => text,
            // `cat log | crow-agent run "explain"`: the piped text is appended to the prompt.
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
    fn editors_and_scripts_start_without_the_last_choices() {
        let remembers = |args: &[&str]| match Cli::try_parse_from(args).unwrap().command {
            Some(Command::Acp(args)) => AgentRequest::from(args).choice_memory,
            Some(Command::Run(args)) => AgentRequest::new(args.options.agent).choice_memory,
            _ => panic!("{args:?}"),
        };
        assert_eq!(remembers(&["crow-agent", "acp"]), ChoiceMemory::Disabled);
        assert_eq!(remembers(&["crow-agent", "run", "x"]), ChoiceMemory::Disabled);
    }
}
