//! `run` and `sessions resume`.

use std::sync::Arc;

use crow_core::model::Models;

use crate::{
    CliError, Environment,
    args::{RunArgs, RunOptions},
    output::ExitCode,
    product,
    run::{Launch, RunRequest, Sink, drive, launch},
};

/// `run`.
pub(crate) async fn run(args: RunArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    start(RunRequest::new(args, environment)?, environment).await
}

/// `sessions resume`.
pub(crate) async fn resume(
    id: String,
    prompt: Option<String>,
    options: RunOptions,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    start(RunRequest::resume(id, prompt, options, environment)?, environment).await
}

async fn start(request: RunRequest, environment: &Environment) -> Result<ExitCode, CliError> {
    let providers = Arc::new(product::models(environment)?);
    let models: Arc<dyn Models> = Arc::clone(&providers) as _;
    let store = product::session_store(environment)?;
    let launched = launch(Launch {
        request: &request,
        environment,
        store,
        models: Arc::clone(&models),
        providers: Some(providers),
        fallback: None,
    })
    .await?;
    let sink = Sink::new(request.output, environment);
    drive(launched, request.prompt, sink, models).await
}
