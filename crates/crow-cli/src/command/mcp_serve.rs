//! `mcp serve`: Crow as a server of the Model Context Protocol.

use std::sync::Arc;

use crow_app::{Audience, ProcessEnvironment, new_live_view_token};
use crow_console::{ExitCode, end_signal};
use crow_mcp::TaskServer;
use crow_runtime::{AccessToken, AgentHost, HandleAnswerer};
use tokio::net::TcpListener;

use crate::{
    args::McpServeArgs,
    error::CliError,
    run::{AgentRequest, ProductLaunch, SHUTDOWN, host, listen_to_signals},
    terminal::print_message,
};

/// Environment variable with the token that clients over HTTP must present.
const TOKEN: &str = "CROW_MCP_TOKEN";

/// Serves a client on stdin and stdout until it disconnects, or clients over HTTP until a signal.
pub(crate) async fn mcp_serve(
    args: McpServeArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let listen = args.listen;
    if let Some(address) = listen
        && !address.ip().is_loopback()
    {
        let message = format!("other machines could reach {address}");
        return Err(CliError::usage(message).hint("listen at 127.0.0.1, and forward the port"));
    }
    let token = match environment.var(TOKEN) {
        Some(given) => AccessToken::new(given.trim()).ok_or_else(|| {
            let shortest = AccessToken::SHORTEST;
            let message = format!("the token in {TOKEN} has fewer than {shortest} characters");
            CliError::usage(message).hint("openssl rand -hex 32 makes one")
        })?,
        None => new_live_view_token()?,
    };
    let request = AgentRequest::from(args);
    // Questions go to the clients, so nobody is asked here.
    let launch = ProductLaunch::new(&request, Audience::Unattended, environment)?;
    let cwd = launch.cwd.clone();
    // The signals are taken over before anything runs.
    let stop = end_signal(listen_to_signals()?);
    let host = Arc::new(host(launch, Arc::new(HandleAnswerer))?);
    let tasks = Arc::clone(&host) as Arc<dyn AgentHost>;
    let server = TaskServer::new(tasks, cwd, env!("CARGO_PKG_VERSION"));
    let ended = match listen {
        None => server.serve(tokio::io::stdin(), tokio::io::stdout(), stop).await,
        Some(address) => {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                CliError::failed(format!("cannot listen at {address}: {error}"))
                    .hint("--listen 127.0.0.1:0 takes a free port")
            })?;
            let address = listener.local_addr().unwrap_or(address);
            let secret = if environment.is_set(TOKEN) {
                "the one in CROW_MCP_TOKEN"
            } else {
                token.as_str()
            };
            print_message(&format!(
                "serving at http://{address}/mcp with the token {secret}; ctrl-c ends it"
            ));
            server.serve_http(listener, token, stop).await
        }
    };
    if let Some(message) = host.shut_down(SHUTDOWN).await {
        print_message(&message);
    }
    server.wait_for_end().await;
    ended.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(ExitCode::Done)
}
