//! The commands `mcp add`, `remove`, `list`, `test`, `login` and `logout`.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, Read as _},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use crow_app::{
    ProcessEnvironment,
    config::{ConfiguredServers, NewServer, RemovedServer, add_server, remove_server},
    mcp::{CredentialLogins, McpLaunch, SystemBrowser},
    trust::Project,
};
use crow_console::ExitCode;
use crow_core::mcp::McpTransport;
use crow_mcp::{
    AuthorizationPage, LoginDialog, LoginError, LoginStorage as _, McpSettings, ProbedServer,
    log_in, probe,
};
use crow_text::{neutralise, one_line};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{McpAddArgs, OutputForm},
    error::CliError,
    listings::servers::{
        ServerConfiguration, listing, server_configuration, tool_line, tools_json,
    },
    output::{output_line, visible_json},
    terminal::{print_message, write_line, write_out},
};

/// Maximum length of a pasted line, in bytes.
const LONGEST_LINE: u64 = 16 * 1024;
/// Time after which `mcp test` prints what it waits for.
const SILENCE: Duration = Duration::from_secs(1);

/// Runs `mcp list`: prints the configured servers with their cached tools. Starts no server.
pub(crate) fn list(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    listing(output, environment)?.print()
}

/// Runs `mcp test`: connects to a server, lists its tools and ends it again.
pub(crate) async fn test(
    name: &str,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let (found, launch, project) = load_servers(environment)?;
    let settings = find(name, &found)?;
    let cwd = environment.current_dir()?.to_path_buf();
    let cancel = CancellationToken::new();
    let cache = launch.cache();
    let outside = launch.connection_context(vec![cwd], &project);
    let probing = probe(settings, &outside, cache.as_ref(), &cancel);
    tokio::pin!(probing);
    let silence = tokio::time::sleep(SILENCE);
    tokio::pin!(silence);
    let mut is_announced = false;
    let probed = loop {
        tokio::select! {
            probed = &mut probing => break probed,
            () = &mut silence, if !is_announced => {
                is_announced = true;
                let limit = settings.connect_limit().as_secs();
                print_message(&format!("waiting for the MCP server {name}, {limit} s at most"));
            }
            _ = tokio::signal::ctrl_c() => {
                cancel.cancel();
                // The probe ends the server that it started.
                drop(probing.await);
                return Ok(ExitCode::Interrupted);
            }
        }
    };
    match probed {
        Ok(server) => write_out(success_output(name, &server, output).as_bytes()),
        Err(failure) => {
            if output == OutputForm::Json {
                let line = json!({"name": name, "ok": false, "error": failure.why});
                write_out(&output_line(&line)?)?;
                return Ok(ExitCode::Failed);
            }
            let message = format!("the MCP server {name} cannot be used: {failure}");
            Err(CliError { code: "mcp", ..CliError::failed(message) })
        }
    }
}

/// Runs `mcp add`: adds a server to the user's `config.toml`.
pub(crate) fn add(
    args: &McpAddArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let pair = |text: &String, separator: char, form: &str| {
        let pair = text.split_once(separator).filter(|(name, _)| !name.trim().is_empty());
        let pair = pair.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        // The value may be a secret, so the text is not quoted.
        pair.ok_or_else(|| CliError::usage(format!("it is written {form}")))
    };
    let env = args.env.iter().map(|text| pair(text, '=', "--env NAME=VALUE"));
    let headers = args.header.iter().map(|text| pair(text, ':', "--header \"NAME: VALUE\""));
    let server = NewServer {
        name: args.name.clone(),
        target: args.target.clone(),
        env: env.collect::<Result<_, _>>()?,
        headers: headers.collect::<Result<_, _>>()?,
        client_id: args.client_id.clone(),
        scopes: args.scope.clone(),
        ..NewServer::default()
    };
    let path = add_server(environment, &server, args.replace)?;
    let name = one_line(&args.name);
    write_line(&format!("{name} is added to {}", one_line(&path.display().to_string())))?;
    print_message(&format!("crow-agent mcp test {name} tries it"));
    Ok(ExitCode::Done)
}

/// Runs `mcp remove`: removes a server from the user's `config.toml`, and the login at it.
pub(crate) async fn remove(
    name: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let RemovedServer { path, url } = remove_server(environment, name)?;
    if let Some(url) = url {
        let logins = CredentialLogins::new(environment)?;
        logins.remove(&url).await.map_err(|error| CliError::failed(error.to_string()))?;
    }
    let (name, path) = (one_line(name), one_line(&path.display().to_string()));
    write_line(&format!("{name} is removed from {path}"))
}

/// Runs `mcp login`: lets the user log in at a server in the browser, and stores the tokens.
pub(crate) async fn login(
    name: &str,
    scopes: Vec<String>,
    no_browser: bool,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let (found, launch, project) = load_servers(environment)?;
    let mut settings = find(name, &found)?.clone();
    settings.oauth.scopes.extend(scopes);
    let browser = SystemBrowser::new(environment);
    let browser = if no_browser { browser.without_program() } else { browser };
    let launch = launch.with_browser(Arc::new(browser));
    let outside =
        launch.connection_context(vec![environment.current_dir()?.to_path_buf()], &project);
    let cancel = CancellationToken::new();
    let dialog = TerminalLoginDialog { can_read: environment.stdin_is_terminal };
    let logging_in = log_in(&settings, &outside, &dialog, &cancel);
    tokio::pin!(logging_in);
    let logged_in = tokio::select! {
        logged_in = &mut logging_in => logged_in,
        _ = tokio::signal::ctrl_c() => {
            cancel.cancel();
            drop(logging_in.await);
            return Ok(ExitCode::Interrupted);
        }
    };
    let shown = one_line(name);
    match logged_in {
        Ok(outcome) if outcome.scopes.is_empty() => write_line(&format!("logged in at {shown}")),
        Ok(outcome) => {
            let scopes = one_line(&outcome.scopes.join(" "));
            write_line(&format!("logged in at {shown}, with these permissions: {scopes}"))
        }
        Err(LoginError::NotNeeded) => write_line(&format!("{shown} needs no login")),
        Err(error) => {
            let message = format!("no login at the MCP server {shown}: {error}");
            Err(CliError { code: "mcp", ..CliError::failed(message) })
        }
    }
}

/// Runs `mcp logout`: deletes the login at a server.
pub(crate) async fn logout(
    name: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let (found, _, _) = load_servers(environment)?;
    let settings = find(name, &found)?;
    let shown = one_line(name);
    let McpTransport::Http { url, .. } = &settings.server.transport else {
        return Err(CliError::usage(format!("{shown} has no url, so there is no login at it")));
    };
    let logins = CredentialLogins::new(environment)?;
    let removed = logins.remove(url).await.map_err(|error| CliError::failed(error.to_string()))?;
    write_line(&if removed {
        format!("the login at {shown} is deleted")
    } else {
        format!("there is no login at {shown}")
    })
}

/// The dialog of a login in the terminal.
struct TerminalLoginDialog {
    /// True if the user can paste an address.
    can_read: bool,
}

#[async_trait]
impl LoginDialog for TerminalLoginDialog {
    async fn confirm(&self, page: &AuthorizationPage) -> bool {
        print_message(&one_line(&format!("log in {page}: {}", page.url)));
        if self.can_read {
            print_message(
                "if the browser is on another machine, paste the address that it shows at the end",
            );
        }
        true
    }

    async fn browser_failed(&self, _page: &AuthorizationPage, why: &str) {
        print_message(&format!("no browser was opened: {why}; open the page yourself"));
    }

    async fn read_pasted(&self, fault: Option<&str>, cancel: &CancellationToken) -> Option<String> {
        if !self.can_read {
            return std::future::pending().await;
        }
        if let Some(fault) = fault {
            print_message(fault);
        }
        let (sender, line) = tokio::sync::oneshot::channel();
        // A thread of its own, so that the program can end while it reads.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = io::stdin().lock().take(LONGEST_LINE).read_line(&mut line);
            drop(sender.send(read.ok().filter(|count| *count > 0).map(|_| line)));
        });
        match cancel.run_until_cancelled(line).await {
            Some(Ok(line)) => line,
            Some(Err(_)) | None => None,
        }
    }
}

/// Returns the settings of a server that is configured and not switched off.
fn find<'a>(name: &str, found: &'a ConfiguredServers) -> Result<&'a McpSettings, CliError> {
    let servers = found.servers.iter().map(|(settings, _)| settings);
    let mut named = servers.filter(|settings| settings.server.name == name);
    named.next().ok_or_else(|| unknown(name, found))
}

/// Loads the servers configured for the current directory, printing their faults, and what starting one needs.
fn load_servers(
    environment: &ProcessEnvironment,
) -> Result<(ConfiguredServers, McpLaunch, Project), CliError> {
    let ServerConfiguration { found, launch, project, messages } =
        server_configuration(environment)?;
    for message in &messages {
        print_message(message);
    }
    Ok((found, launch, project))
}

/// Returns the error for a server that is switched off or not configured.
fn unknown(name: &str, found: &ConfiguredServers) -> CliError {
    if found.disabled.iter().any(|off| off == name) {
        return CliError::usage(format!("the MCP server {name} is switched off"));
    }
    let known: Vec<&str> =
        found.servers.iter().map(|(settings, _)| settings.server.name.as_str()).collect();
    CliError::usage(crow_core::config::unknown_word_message("MCP server", name, &known))
        .hint("crow-agent mcp list shows them")
}

/// Returns the output for a server that answered.
fn success_output(name: &str, server: &ProbedServer, output: OutputForm) -> String {
    let took = server.took.as_millis();
    if output == OutputForm::Json {
        let line = json!({
            "name": name,
            "ok": true,
            "took_ms": u64::try_from(took).unwrap_or(u64::MAX),
            "tools": tools_json(&server.tools),
            "left_out": server.left_out,
            "invalid": server.invalid,
        });
        return format!("{}\n", visible_json(&line));
    }
    let mut text = format!("{} works: {} tools in {took} ms\n", one_line(name), server.tools.len());
    for tool in &server.tools {
        tool_line(tool, &mut text);
    }
    if server.left_out > 0 {
        let _ = writeln!(
            text,
            "  and {} more beyond the limit; `tools` selects which to use",
            server.left_out
        );
    }
    for name in &server.invalid {
        let _ = writeln!(text, "  {name} is left out: its definition is invalid");
    }
    neutralise(&text)
}
