//! `run` and `sessions resume`.

use std::sync::Arc;

use crow_core::model::Models;

use crate::{
    CliError, Environment,
    args::{RunArgs, RunOptions},
    output::ExitCode,
    product,
    run::{Launch, RunRequest, Sink, default_model, drive, launch},
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
    let named = request.model.is_some() || request.resume.is_some();
    let fallback = if named { None } else { default_model(&providers).await };
    let keys = providers.key_variables();
    let models: Arc<dyn Models> = providers;
    let store = product::session_store(environment)?;
    let launched = launch(Launch {
        request: &request,
        environment,
        store,
        models: Arc::clone(&models),
        fallback,
        keys,
    })
    .await?;
    let sink = Sink::new(request.output, environment);
    drive(launched, request.prompt, sink, models).await
}
