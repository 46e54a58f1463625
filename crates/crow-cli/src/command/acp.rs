//! `acp`.

use std::{env::current_exe, sync::Arc};

use crow_acp::{AcpIdentity, AcpServer, TerminalLogin};
use crow_core::model::Models;
use crow_runtime::{HandleAnswerer, SessionSetup};

use crate::{
    CliError, Environment,
    args::AcpArgs,
    host::{ProductHost, working_directory},
    output::ExitCode,
    product,
    run::{AgentRequest, Audience, HostLaunch, Signals, Wish, host, say},
    trust,
};

/// `acp`: serves an editor until it goes away.
pub(crate) async fn acp(args: AcpArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let request = AgentRequest::from(args);
    let identity = AcpIdentity {
        name: "crow-agent".to_owned(),
        title: "Crow".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        login: login(),
        setup: SessionSetup {
            agent: request.agent.clone(),
            model: request.model.clone(),
            ..SessionSetup::default()
        },
    };
    // An editor shows what an answer says, and hides a program that ends at once.
    let server = match product_host(&request, environment) {
        Ok(host) => AcpServer::new(Arc::new(host), identity),
        Err(error) => {
            let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            say(&format!("{}{hint}", error.message));
            AcpServer::unusable(format!("{}{hint}", error.message), identity)
        }
    };
    let mut signals = Signals::new()?;
    let wish = async move {
        loop {
            match signals.next().await {
                Wish::Interrupt | Wish::End => break,
                Wish::Continue => {}
            }
        }
    };
    let served = server.serve(tokio::io::stdin(), tokio::io::stdout(), wish).await;
    served.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(ExitCode::Done)
}

fn product_host(
    request: &AgentRequest,
    environment: &Environment,
) -> Result<ProductHost, CliError> {
    let cwd = working_directory(None, environment)?;
    let project = trust::admit(&cwd, environment, Audience::Nobody)?;
    let providers = Arc::new(product::models(environment, &project.providers)?);
    host(HostLaunch {
        request,
        cwd,
        project,
        answerer: Arc::new(HandleAnswerer),
        environment,
        store: product::session_store(environment)?,
        models: Arc::clone(&providers) as Arc<dyn Models>,
        providers: Some(providers),
        rules: product::rule_store(environment)?.load()?,
        snapshots: product::snapshot_stores(environment)?,
        fallback: None,
    })
}

/// How a person stores a key: this program, in a terminal.
fn login() -> Option<TerminalLogin> {
    Some(TerminalLogin {
        program: current_exe().ok()?.to_str()?.to_owned(),
        args: vec!["login".to_owned()],
        name: "Log in".to_owned(),
        description: "Store the API key of a provider".to_owned(),
    })
}
