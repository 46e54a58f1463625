//! `run` and `sessions resume`.

use std::sync::Arc;

use crow_app::{ProcessEnvironment, product, trust};
use crow_console::ExitCode;
use crow_core::model::Models;

use crate::{
    args::{OutputForm, RunArgs, RunOptions},
    error::CliError,
    run::{ProductLaunch, RunDisplay, RunRequest, audience_of, drive, launch},
    terminal::{TerminalDialog, print_message},
};

/// Runs a prompt in a new session.
pub(crate) async fn run(
    args: RunArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    start(RunRequest::new(args, environment)?, environment).await
}

/// Runs a prompt in a stored session.
pub(crate) async fn resume(
    id: String,
    prompt: Option<String>,
    options: RunOptions,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    start(RunRequest::resume(id, prompt, options, environment)?, environment).await
}

async fn start(
    request: RunRequest,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let store = product::session_store(environment)?;
    let audience = audience_of(request.output, environment);
    let cwd = request.agent.directory(store.as_ref(), environment)?;
    let project = trust::admit(&cwd, environment, audience, &TerminalDialog)?;
    let providers = Arc::new(product::models(environment, &project.additions.providers)?);
    let models: Arc<dyn Models> = Arc::clone(&providers) as _;
    if let (Some(notice), OutputForm::Json) = (&project.notice, request.output) {
        // In text output the notice is one of the events.
        print_message(notice);
    }
    let launched = launch(ProductLaunch {
        request: &request.agent,
        cwd,
        project,
        audience,
        environment,
        store,
        models: Arc::clone(&models),
        rules: product::rule_store(environment)?.load()?,
        snapshots: product::snapshot_stores(environment)?,
        providers: Some(providers),
        fallback: None,
    })
    .await?;
    let show = RunDisplay::new(request.output, environment).with_deltas(request.deltas);
    drive(launched, request.prompt, show, models).await
}
