//! The chat: `crow-agent` without a command, at a terminal.

use std::{fmt::Display, str::FromStr, sync::Arc};

use crow_app::{
    AppError, Audience, ProcessEnvironment,
    config::{LocatedText, TerminalSettings},
};
use crow_console::{ConsoleStyle, ExitCode};
use crow_core::config::unknown_word_message;
use crow_runtime::HostError;
use crow_terminal::{
    ChatEnd, ChatError, ChatOptions, ChatSetup, EditingStyle, ErrorDescription,
    TerminalEnvironment, chat as terminal_chat,
};

use crow_tools::read_picture;

use crate::{
    args::ChatArgs,
    chat_recording::RecordingPath,
    error::CliError,
    run::{AgentRequest, ProductLaunch, SHUTDOWN, StartedAgent, launch},
    setup::{SetupEnd, set_up},
    terminal::{console_style, print_message},
};

/// Runs the chat and returns the exit code of the process.
pub(crate) async fn chat(
    args: ChatArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let ChatArgs { agent, session, budget, prompt, record } = args;
    let record = record.map(|path| RecordingPath::check(&path, environment)).transpose()?;
    let mut request = AgentRequest::of_chat(agent, session, budget)?;
    if !request.choose_session(environment)? {
        return Ok(ExitCode::Done);
    }
    if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(CliError::usage("--prompt: the prompt is empty"));
    }
    let parts = ProductLaunch::new(&request, Audience::Person, environment)?;
    let (store, models) = (Arc::clone(&parts.store), Arc::clone(&parts.models));
    let StartedAgent { host, handle, warnings, .. } = launch_or_set_up(parts).await?;
    let host = Arc::new(host);
    let settings = host.terminal_settings();
    let options = chat_options(settings)?;
    let style = console_style(environment);
    let style = ConsoleStyle { live: style.live && !settings.screen_reader, ..style };
    let recorded = record.map(|path| path.begin(&style, environment)).transpose()?;
    let end = terminal_chat(ChatSetup {
        host: Arc::clone(&host) as Arc<_>,
        handle,
        store,
        models,
        style,
        term: environment.var("TERM").unwrap_or_default(),
        environment: TerminalEnvironment::from_variables(|name| environment.var(name)),
        options,
        data_dir: environment.data_dir().ok(),
        home: environment.var("HOME").map(Into::into),
        program: concat!("crow-agent ", env!("CARGO_PKG_VERSION")).to_owned(),
        warnings,
        is_resumed: request.resume.is_some() && !request.fork,
        shell: environment.var("SHELL").unwrap_or_else(|| "sh".to_owned()),
        editor: environment.var("VISUAL").or_else(|| environment.var("EDITOR")),
        first_prompt: prompt,
        read_image: |path| read_picture(path).map_err(|error| error.to_string()),
        recording: recorded.as_ref().map(|recorded| recorded.recording.clone()),
        describe_error,
    })
    .await;
    if let Some(recorded) = recorded {
        recorded.finish();
    }
    if let Some(message) = host.shut_down(SHUTDOWN).await {
        print_message(&message);
    }
    match end {
        Ok(ChatEnd::UserLeft) => Ok(ExitCode::Done),
        Ok(ChatEnd::Interrupted) => Ok(ExitCode::Interrupted),
        Err(ChatError::AgentEnded { is_shown: true, .. }) => Ok(ExitCode::Failed),
        Err(ChatError::Host(error)) => Err(error.into()),
        Err(error) => Err(CliError::failed(error.to_string())),
    }
}

/// Starts the agent of the chat. If a new session has no usable model, and none is named on the command line, the user
/// sets one up first; the error stays if the user leaves.
async fn launch_or_set_up(parts: ProductLaunch<'_>) -> Result<StartedAgent, CliError> {
    // A server that was found is one of the choices of the setup.
    let parts = ProductLaunch { server_audience: Audience::Unattended, ..parts };
    let (request, environment) = (parts.request, parts.environment);
    let error = match launch(parts.clone()).await {
        Err(error) if error.exit == ExitCode::Credentials => error,
        launched => return launched,
    };
    if request.model.is_some() || request.resume.is_some() {
        return Err(error);
    }
    match set_up(environment, Some(&error.message)).await? {
        SetupEnd::Done => launch(parts).await,
        SetupEnd::Left => Err(error),
    }
}

/// Parses the settings of the terminal.
fn chat_options(settings: &TerminalSettings) -> Result<ChatOptions, CliError> {
    let keys = match &settings.keys {
        None => EditingStyle::default(),
        Some(keys) => match keys.text.as_str() {
            "emacs" => EditingStyle::Emacs,
            "vi" => EditingStyle::Vi,
            other => {
                let message = unknown_word_message("set of keys", other, &["emacs", "vi"]);
                return Err(keys.error(message).into());
            }
        },
    };
    Ok(ChatOptions {
        theme: parsed(settings.theme.as_ref())?,
        keys,
        status_line: parsed(settings.status_line.as_ref())?,
        notifications: parsed(settings.notifications.as_ref())?,
    })
}

/// Parses a setting; without one, the default applies.
fn parsed<T>(setting: Option<&LocatedText>) -> Result<T, CliError>
where
    T: FromStr<Err: Display> + Default,
{
    let Some(setting) = setting else { return Ok(T::default()) };
    setting.text.parse().map_err(|error: T::Err| setting.error(error.to_string()).into())
}

fn describe_error(error: HostError) -> ErrorDescription {
    let AppError { message, hint, .. } = error.into();
    ErrorDescription { message, hint }
}
