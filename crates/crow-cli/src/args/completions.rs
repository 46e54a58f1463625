//! What is derived from the arguments: the completion scripts, the candidates that a shell offers, and the manual page.
//!
//! The scripts contain no completions: at each tab they start the program with [`VARIABLE`] set and the words typed
//! so far, and it prints the candidates. So all shells offer the same, and completions follow the current
//! configuration. Finding candidates asks nobody and starts nothing: they are read from the configuration and the
//! sessions, and what cannot be read offers nothing.

use std::{borrow::Cow, ffi::OsString, path::Path};

use clap::CommandFactory as _;
use clap_complete::{
    Shell,
    engine::{ArgValueCandidates, CompletionCandidate},
    env::Shells,
};
use crow_agent::definition::{AgentKind, AgentRegistry, DefinedRole, ListedAgent};
use crow_app::{
    ModelLists, ProcessEnvironment,
    config::{Configuration, configured_servers, layers, tool_names},
    credentials::MCP_LOGIN,
    product,
    trust::{self, Project},
};
use crow_console::ExitCode;
use crow_core::model::ModelRef;
use crow_providers::{CredentialStatus, ProviderModels, ProviderSummary};
use crow_runtime::{SessionFilter, SessionMetadata, UnusedSessions};
use crow_text::one_line;

use super::Cli;
use crate::{error::CliError, terminal::write_out};

/// How many sessions are offered.
const MOST_SESSIONS: usize = 100;

/// Models: the configured one, those of the last sessions, those of providers whose key is there, and all others.
pub(super) fn models() -> ArgValueCandidates {
    candidates(|environment, project| {
        let providers = product::models(environment, &project.additions.providers)?;
        let (usable, others): (Vec<_>, Vec<_>) = providers.list().into_iter().partition(is_usable);
        let configured = Configuration::load(environment, &project.additions).ok();
        let configured = configured.and_then(|configuration| configuration.settings.model);
        let used = sessions(environment).unwrap_or_default();
        let lists = ModelLists::load(environment);
        let listed = usable.iter().chain(&others).flat_map(|provider| {
            let ids = lists.of(&provider.name).iter();
            ids.map(|id| ModelRef { provider: provider.name.clone(), model: id.clone() })
        });
        let mut models: Vec<String> = Vec::new();
        let known = configured
            .into_iter()
            .chain(used.iter().map(SessionMetadata::model_ref))
            .chain(usable.iter().chain(&others).flat_map(models_of))
            .chain(listed)
            .map(|model| model.to_string());
        for model in known {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        Ok(models.into_iter().map(|model| candidate(&model, "")).collect())
    })
}

/// Agents that people start.
pub(super) fn primary_agents() -> ArgValueCandidates {
    candidates(|environment, project| {
        Ok(registry(environment, project)?.list_primary().iter().map(agent).collect())
    })
}

/// All agents.
pub(super) fn agents() -> ArgValueCandidates {
    candidates(|environment, project| {
        Ok(registry(environment, project)?.list().iter().map(agent).collect())
    })
}

/// Base agents, which rules speak of.
pub(super) fn base_agents() -> ArgValueCandidates {
    candidates(|environment, project| {
        let names = registry(environment, project)?.names(AgentKind::Base);
        Ok(names.iter().map(|name| candidate(name, "")).collect())
    })
}

/// Sessions, the last used first.
pub(super) fn session_ids() -> ArgValueCandidates {
    candidates(|environment, _| {
        let sessions = sessions(environment)?;
        let one = |session: &SessionMetadata| {
            candidate(session.session_id.as_str(), &session.crow().title)
        };
        Ok(sessions.iter().map(one).collect())
    })
}

/// All providers.
pub(super) fn providers() -> ArgValueCandidates {
    providers_where(|_, _| true)
}

/// Providers that need a key.
pub(super) fn providers_with_key() -> ArgValueCandidates {
    providers_where(|models, provider| {
        !matches!(provider.credentials, CredentialStatus::NotNeeded)
            && models.key_home(&provider.name).is_ok()
    })
}

/// Providers whose key is stored.
pub(super) fn providers_with_stored_key() -> ArgValueCandidates {
    candidates(|environment, _| {
        let keys = product::credential_file(environment)?.load()?;
        let is_login = |name: &&String| name.starts_with(MCP_LOGIN);
        Ok(keys.keys().filter(|name| !is_login(name)).map(|name| candidate(name, "")).collect())
    })
}

/// MCP servers that are not switched off.
pub(super) fn mcp_servers() -> ArgValueCandidates {
    candidates(|environment, project| {
        let found = configured_servers(environment, &project.additions)?;
        Ok(found.servers.iter().map(|(one, _)| candidate(&one.server.name, "")).collect())
    })
}

fn candidates(
    find: impl Fn(&ProcessEnvironment, &Project) -> Result<Vec<CompletionCandidate>, CliError>
    + Send
    + Sync
    + 'static,
) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let environment = ProcessEnvironment::from_process();
        let project =
            environment.current_dir().and_then(|cwd| trust::project_of(cwd, &environment));
        find(&environment, &project.unwrap_or_default()).unwrap_or_default()
    })
}

/// A value, and what it is in one line. Shells read lines: a value with a line break offers nothing.
fn candidate(value: &str, help: &str) -> CompletionCandidate {
    let help = Some(one_line(help)).filter(|help| !help.is_empty());
    CompletionCandidate::new(one_line(value)).help(help.map(Into::into))
}

fn providers_where(
    is_wanted: impl Fn(&ProviderModels, &ProviderSummary) -> bool + Send + Sync + 'static,
) -> ArgValueCandidates {
    candidates(move |environment, project| {
        let models = product::models(environment, &project.additions.providers)?;
        let wanted = models.list().into_iter().filter(|provider| is_wanted(&models, provider));
        Ok(wanted.map(|provider| candidate(&provider.name, "")).collect())
    })
}

fn is_usable(provider: &ProviderSummary) -> bool {
    match provider.credentials {
        CredentialStatus::Present | CredentialStatus::Stored | CredentialStatus::NotNeeded => true,
        CredentialStatus::Missing { .. } | CredentialStatus::Unusable { .. } => false,
    }
}

/// The models that are known of a provider, its default first.
fn models_of(provider: &ProviderSummary) -> impl Iterator<Item = ModelRef> {
    let default = provider
        .default_model
        .as_ref()
        .map(|model| ModelRef { provider: provider.name.clone(), model: model.clone() });
    default.into_iter().chain(provider.models.iter().map(|model| model.info.reference.clone()))
}

fn registry(
    environment: &ProcessEnvironment,
    project: &Project,
) -> Result<AgentRegistry, CliError> {
    Ok(AgentRegistry::new(layers(environment, &project.additions)?, tool_names()))
}

fn agent(agent: &ListedAgent) -> CompletionCandidate {
    let help = match &agent.definition {
        Ok((DefinedRole::Primary | DefinedRole::Subagent, description)) => description.as_str(),
        Err(_) => "cannot be used",
    };
    candidate(&agent.name, help)
}

fn sessions(environment: &ProcessEnvironment) -> Result<Vec<SessionMetadata>, CliError> {
    let filter = SessionFilter {
        limit: Some(MOST_SESSIONS),
        // Nothing is removed while somebody types.
        unused: UnusedSessions::Listed,
        ..SessionFilter::default()
    };
    Ok(product::session_store(environment)?.list(&filter)?)
}

/// Environment variable that names the calling shell.
const VARIABLE: &str = "CROW_COMPLETE";
/// Separator between the program and the typed words.
const WORDS: &str = "--";
/// Script for bash. The one of the library splits words as bash does, and so completes nothing behind `--model=` and
/// behind a `:` in a model name.
const BASH: &str = include_str!("completions.bash");
/// Text appended for zsh, which runs a script from a folder of `fpath` at the first tab: with it, that tab already
/// gets candidates.
const ZSH_AT_FIRST: &str =
    "[[ $funcstack[1] == _crow-agent ]] && _clap_dynamic_completer_crow_agent \"$@\"\n";

/// Prints a completion script.
pub(crate) fn completions(
    shell: Shell,
    args: &[OsString],
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let program = program(args, environment);
    if shell == Shell::Bash {
        return write_out(BASH.replace("PROGRAM", &quoted(&program)).as_bytes());
    }
    let failed = |error: std::io::Error| CliError::failed(error.to_string());
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell.to_string())
        .ok_or_else(|| CliError::usage(format!("there is no script for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "crow-agent", "crow-agent", &program, &mut script)
        .map_err(failed)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(ZSH_AT_FIRST.as_bytes());
    }
    write_out(&script)
}

/// Prints the candidates for the word being typed. Returns `None` if the program was not called by a completion
/// script.
pub(crate) fn print_completions(
    args: &[OsString],
    environment: &ProcessEnvironment,
) -> Option<Result<ExitCode, CliError>> {
    let shell = environment.var(VARIABLE)?;
    let words = args.get(1..).filter(|rest| rest.first().is_some_and(|word| word == WORDS))?;
    let words = words[1..].to_vec();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell)?;
    let mut candidates = Vec::new();
    let cwd = environment.current_dir().ok();
    // A position without candidates is no error.
    let result = completer.write_complete(&mut Cli::command(), words, cwd, &mut candidates);
    Some(match result {
        Ok(()) => write_out(&candidates),
        Err(_) => Ok(ExitCode::Done),
    })
}

/// Returns the command with which a script starts the program: its name if it was started by name, else its absolute
/// path.
fn program(args: &[OsString], environment: &ProcessEnvironment) -> String {
    let path = args.first().map_or(Path::new("crow-agent"), Path::new);
    match environment.current_dir() {
        Ok(cwd) if path.components().count() > 1 => cwd.join(path).display().to_string(),
        _ => path.display().to_string(),
    }
}

/// Quotes a word for a shell if necessary.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/_-.+@:=,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Prints the manual page of the program, followed by those of its commands.
pub(crate) fn man() -> Result<ExitCode, CliError> {
    let mut pages = Vec::new();
    let mut command = Cli::command();
    command.build();
    render_page(&command, &mut pages)?;
    write_out(&pages)
}

fn render_page(command: &clap::Command, pages: &mut Vec<u8>) -> Result<(), CliError> {
    let page = clap_mangen::Man::new(command.clone());
    page.render(pages).map_err(|error| CliError::failed(error.to_string()))?;
    command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
        .try_for_each(|sub| render_page(sub, pages))
}
