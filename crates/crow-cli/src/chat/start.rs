//! Opening the chat and leaving it.

use std::sync::Arc;

use crow_core::model::Models;

use super::{
    conversation::{Conversation, Kept, Left, Parts},
    modes::{Capable, Modes, Restore},
};
use crate::{
    CliError, Environment,
    args::{ChatArgs, OutputForm},
    output::ExitCode,
    product,
    run::{AgentRequest, Audience, Launch, SHUTDOWN, Sink, console_style, launch},
    trust,
};

/// Opens the chat and returns how the process exits.
pub(crate) async fn chat(args: ChatArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let request = AgentRequest::from(args);
    let store = product::session_store(environment)?;
    let cwd = request.directory(store.as_ref(), environment)?;
    let project = trust::admit(&cwd, environment, Audience::Person)?;
    let providers = Arc::new(product::models(environment, &project.providers)?);
    let models: Arc<dyn Models> = Arc::clone(&providers) as _;
    let launched = launch(Launch {
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
    let capable = if console_style(environment).live { Capable::Yes } else { Capable::No };
    let terminal = Modes::read(capable)
        .map_err(|error| CliError::failed(format!("the terminal cannot be used: {error}")))?;
    let restore = Restore(terminal.clone());
    let mut conversation = Conversation::new(Parts {
        launched,
        environment: environment.clone(),
        store,
        models,
        sink: Sink::new(OutputForm::Text, environment),
        modes: terminal,
    })
    .await?;
    let kept = if request.resume.is_some() { Kept::Yes } else { Kept::NotYet };
    let left = conversation.hold(kept).await;
    conversation.close().await;
    conversation.runtime().shutdown_all(SHUTDOWN).await;
    drop(restore);
    match left {
        Ok(Left::Asked) => Ok(ExitCode::Done),
        Ok(Left::Interrupted) => Ok(ExitCode::Interrupted),
        // It is on the screen already.
        Err(error) if error.message == conversation.work.error => Ok(error.exit),
        Err(error) => Err(error),
    }
}
