//! `serve`: the live view of sessions in a browser.

use std::sync::Arc;

use crow_app::{Audience, ProcessEnvironment, kept_live_view_token, new_live_view_token, redactor};
use crow_console::{ExitCode, end_signal};
use crow_runtime::AccessToken;
use crow_runtime::{AgentHost, HandleAnswerer};
use crow_serve::{AccessRules, LiveServer, LiveServerParts};
use jiff::tz::TimeZone;
use tokio::net::TcpListener;

use crate::{
    args::ServeArgs,
    error::CliError,
    run::{AgentRequest, ProductLaunch, SHUTDOWN, host, listen_to_signals},
    terminal::print_message,
};

/// Serves the live view until a signal.
pub(crate) async fn serve(
    args: ServeArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let (address, host_names) = (args.listen, args.host_name.clone());
    if !address.ip().is_loopback() {
        let message = format!("other machines could reach {address}");
        return Err(CliError::usage(message)
            .hint("listen at 127.0.0.1, forward the port, and name the proxy with --host-name"));
    }
    let token =
        if args.keep_token { kept_live_view_token(environment) } else { new_live_view_token() }?;
    let request = AgentRequest::from(args);
    let launch = ProductLaunch::new(&request, Audience::Unattended, environment)?;
    let (store, models, cwd) =
        (Arc::clone(&launch.store), Arc::clone(&launch.models), launch.cwd.clone());
    let (own, providers) = (environment.clone(), launch.providers.clone());
    let redactor = Box::new(move || redactor(&own, providers.as_deref()));
    // The signals are taken over before anything runs.
    let stop = end_signal(listen_to_signals()?);
    let host = Arc::new(host(launch, Arc::new(HandleAnswerer))?);
    let listener = TcpListener::bind(address).await.map_err(|error| {
        CliError::failed(format!("cannot listen at {address}: {error}"))
            .hint("--listen 127.0.0.1:0 takes a free port")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    print_message(&page_address(&address.to_string(), &token));
    let server = LiveServer::new(LiveServerParts {
        host: Arc::clone(&host) as Arc<dyn AgentHost>,
        store,
        models,
        redactor,
        access: AccessRules { token, host_names },
        cwd,
        zone: TimeZone::system(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let ended = server.serve(listener, stop).await;
    if let Some(message) = host.shut_down(SHUTDOWN).await {
        print_message(&message);
    }
    server.wait_for_end().await;
    ended.map_err(|error| CliError::failed(format!("the live view ended: {error}")))?;
    Ok(ExitCode::Done)
}

/// Returns what the user is told: the address to open, with the token in the part that browsers do not send.
fn page_address(address: &str, token: &AccessToken) -> String {
    format!("sessions are shown at http://{address}/#token={}; ctrl-c ends it", token.as_str())
}
