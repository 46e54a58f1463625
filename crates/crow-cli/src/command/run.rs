//! `run` and `sessions resume`.

use std::sync::Arc;

use crow_core::model::Models;

use crate::{
    CliError, Environment,
    args::{RunArgs, RunOptions},
    output::ExitCode,
    product,
    run::{Audience, Launch, RunRequest, Show, drive, launch},
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
        request: &request.agent,
        audience: Audience::of(request.output, environment),
        environment,
        store,
        models: Arc::clone(&models),
        rules: product::rule_store(environment)?.load()?,
        snapshots: product::snapshot_stores(environment)?,
        providers: Some(providers),
        fallback: None,
    })
    .await?;
    drive(launched, request.prompt, Show::new(request.output, environment), models).await
}
