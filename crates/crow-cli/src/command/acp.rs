//! `acp`: serving editors over the Agent Client Protocol.

use std::{env::current_exe, fs, path::Path, sync::Arc};

use crow_acp::{AcpIdentity, AcpServer, TerminalLogin};
use crow_app::{Audience, ProcessEnvironment, host::ProductHost};
use crow_console::{ExitCode, end_signal};
use crow_runtime::AccessToken;
use crow_runtime::{HandleAnswerer, SessionSetup};
use tokio::net::TcpListener;

use crate::{
    args::AcpArgs,
    error::CliError,
    run::{AgentRequest, ProductLaunch, SHUTDOWN, host, listen_to_signals},
    terminal::print_message,
};

/// Environment variable with the token that clients must present.
const TOKEN: &str = "CROW_ACP_TOKEN";

/// Serves an editor on stdin and stdout until it disconnects, or editors over HTTP until a signal.
pub(crate) async fn acp(
    args: AcpArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let listen = args.listen.map(|address| (address, args.token_file.clone()));
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
    // If the program cannot start, it still answers requests with the error: an editor shows answers, but hides a
    // program that ends at once.
    let started = ProductLaunch::new(&request, Audience::Unattended, environment)
        .and_then(|parts| host(parts, Arc::new(HandleAnswerer)));
    let mut hosts: Option<Arc<ProductHost>> = None;
    let server = match started {
        Ok(host) => AcpServer::new(hosts.insert(Arc::new(host)).clone(), identity),
        Err(error) => {
            let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            print_message(&format!("{}{hint}", error.message));
            AcpServer::unusable(format!("{}{hint}", error.message), identity)
        }
    };
    let stop = end_signal(listen_to_signals()?);
    let result = match listen {
        None => server.serve(tokio::io::stdin(), tokio::io::stdout(), stop).await,
        Some((address, file)) => {
            let token = token(file.as_deref(), environment)?;
            // Without a token only this machine may connect.
            if token.is_none() && !address.ip().is_loopback() {
                let message = format!("other machines can reach {address}, so a token is required");
                return Err(
                    CliError::usage(message).hint("--token-file FILE, or listen at 127.0.0.1")
                );
            }
            let listener = TcpListener::bind(address).await.map_err(|error| {
                CliError::failed(format!("cannot listen at {address}: {error}"))
            })?;
            let address = listener.local_addr().unwrap_or(address);
            print_message(&format!("serving editors at http://{address}/acp; ctrl-c ends it"));
            server.serve_http(listener, token, stop).await
        }
    };
    if let Some(host) = hosts
        && let Some(message) = host.shut_down(SHUTDOWN).await
    {
        print_message(&message);
    }
    result.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(ExitCode::Done)
}

/// Reads the token that clients must present: from the file, else from the environment. Fails if it is too short or
/// not ASCII.
fn token(
    file: Option<&Path>,
    environment: &ProcessEnvironment,
) -> Result<Option<AccessToken>, CliError> {
    let token = match file {
        Some(file) => Some(fs::read_to_string(file).map_err(|error| {
            CliError::usage(format!("cannot read the token in {}: {error}", file.display()))
        })?),
        None => environment.var(TOKEN),
    };
    let Some(token) = token else { return Ok(None) };
    AccessToken::new(token.trim()).map(Some).ok_or_else(|| {
        CliError::usage(format!(
            "the token has fewer than {} characters, or non-ASCII characters",
            AccessToken::SHORTEST
        ))
        .hint("openssl rand -hex 32 generates one")
    })
}

/// Returns the command with which a user stores a key: this program, in a terminal.
fn login() -> Option<TerminalLogin> {
    Some(TerminalLogin {
        program: current_exe().ok()?.to_str()?.to_owned(),
        args: vec!["login".to_owned()],
        name: "Log in".to_owned(),
        description: "Store the API key of a provider".to_owned(),
    })
}
