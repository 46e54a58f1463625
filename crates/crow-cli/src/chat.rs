//! The chat: `crow-agent` without a command, at a terminal.

use std::sync::Arc;

use crow_app::{AppError, Audience, ProcessEnvironment};
use crow_console::ExitCode;
use crow_runtime::HostError;
use crow_terminal::{ChatEnd, ChatError, ChatSetup, ErrorDescription, chat as terminal_chat};

use crate::{
    args::ChatArgs,
    error::CliError,
    run::{AgentRequest, ProductLaunch, SHUTDOWN, StartedAgent, launch},
    terminal::{console_style, print_message},
};

/// Runs the chat and returns the exit code of the process.
pub(crate) async fn chat(
    args: ChatArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let ChatArgs { agent, session, prompt } = args;
    let mut request = AgentRequest::of_chat(agent, session)?;
    if !request.choose_session(environment)? {
        return Ok(ExitCode::Done);
    }
    if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(CliError::usage("--prompt: the prompt is empty"));
    }
    let parts = ProductLaunch::new(&request, Audience::Person, environment)?;
    let (store, models) = (Arc::clone(&parts.store), Arc::clone(&parts.models));
    let StartedAgent { host, handle, warnings, .. } = launch(parts).await?;
    let host = Arc::new(host);
    let end = terminal_chat(ChatSetup {
        host: Arc::clone(&host) as Arc<_>,
        handle,
        store,
        models,
        style: console_style(environment),
        term: environment.var("TERM").unwrap_or_default(),
        data_dir: environment.data_dir().ok(),
        home: environment.var("HOME").map(Into::into),
        program: concat!("crow-agent ", env!("CARGO_PKG_VERSION")).to_owned(),
        warnings,
        is_resumed: request.resume.is_some() && !request.fork,
        first_prompt: prompt,
        describe_error,
    })
    .await;
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

fn describe_error(error: HostError) -> ErrorDescription {
    let AppError { message, hint, .. } = error.into();
    ErrorDescription { message, hint }
}
