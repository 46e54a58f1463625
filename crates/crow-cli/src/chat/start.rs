//! Starting the chat and shutting it down.

use std::sync::Arc;

use crow_app::{Audience, ProcessEnvironment, product, trust};
use crow_console::ExitCode;
use crow_core::model::Models;

use crate::{
    args::{ChatArgs, OutputForm},
    chat::{
        conversation::{ChatEnd, ChatLoop, ChatLoopParts, SessionRetention},
        modes::{EscapeSupport, Modes, TerminalModeGuard},
    },
    error::CliError,
    run::{AgentRequest, ProductLaunch, RunSink, SHUTDOWN, launch},
    terminal::{TerminalDialog, console_style},
};

/// Runs the chat and returns the exit code of the process.
pub(crate) async fn chat(
    args: ChatArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let request = AgentRequest::from(args);
    let store = product::session_store(environment)?;
    let cwd = request.directory(store.as_ref(), environment)?;
    // Trust is asked about first: it decides which providers and servers exist.
    let project = trust::admit(&cwd, environment, Audience::Person, &TerminalDialog)?;
    let providers = Arc::new(product::models(environment, &project.additions.providers)?);
    let models: Arc<dyn Models> = Arc::clone(&providers) as _;
    let launched = launch(ProductLaunch {
        cwd,
        project,
        rules: product::rule_store(environment)?.load()?,
        snapshots: product::snapshot_stores(environment)?,
        request: &request,
        audience: Audience::Person,
        environment,
        store: Arc::clone(&store),
        models: Arc::clone(&models),
        providers: Some(providers),
        fallback: None,
    })
    .await?;
    let capable =
        if console_style(environment).live { EscapeSupport::Yes } else { EscapeSupport::No };
    let terminal = Modes::read(capable)
        .map_err(|error| CliError::failed(format!("the terminal cannot be used: {error}")))?;
    // The guard restores the terminal however the chat ends; it is dropped explicitly before the exit code is
    // returned.
    let restore = TerminalModeGuard(terminal.clone());
    let mut conversation = ChatLoop::new(ChatLoopParts {
        launched,
        environment: environment.clone(),
        store,
        models,
        sink: RunSink::new(OutputForm::Text, environment),
        modes: terminal,
    })
    .await?;
    let retention =
        if request.resume.is_some() { SessionRetention::Yes } else { SessionRetention::NotYet };
    let end = conversation.run(retention).await;
    conversation.close().await;
    conversation.runtime().shutdown_all(SHUTDOWN).await;
    drop(restore);
    match end {
        Ok(ChatEnd::UserLeft) => Ok(ExitCode::Done),
        Ok(ChatEnd::Interrupted) => Ok(ExitCode::Interrupted),
        // The error is on the screen already, so only the exit code is returned.
        Err(error) if error.message == conversation.work.error => Ok(error.exit),
        Err(error) => Err(error),
    }
}
