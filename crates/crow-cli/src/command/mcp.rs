//! The commands `mcp list` and `mcp test`.

use std::{fmt::Write as _, time::Duration};

use crow_app::{
    ProcessEnvironment,
    config::{ConfiguredServers, ServerOrigin, configured_servers},
    mcp::McpLaunch,
    product,
    trust::Project,
};
use crow_console::ExitCode;
use crow_core::mcp::McpTransport;
use crow_mcp::{McpSettings, ProbedServer, ProbedTool, probe};
use crow_providers::{HttpClient, Proxies};
use crow_text::{neutralise, one_line};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::trust::project_around;
use crate::{
    args::OutputForm,
    error::CliError,
    terminal::{print_message, write_out},
};

/// Maximum length of a tool's description in a list, in bytes.
const SHOWN: usize = 100;
/// Time after which `mcp test` prints what it waits for.
const SILENCE: Duration = Duration::from_secs(1);

/// Runs `mcp list`: prints the configured servers with their cached tools. Starts no server.
pub(crate) fn list(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let (found, launch, _) = load_servers(environment)?;
    let cache = launch.cache();
    let mut text = String::new();
    for (settings, origin) in &found.servers {
        let cached = cache.as_ref().and_then(|cache| cache.cached_tools(&settings.server));
        match output {
            OutputForm::Text => describe(settings, *origin, cached.as_deref(), &mut text),
            OutputForm::Json => {
                let line = listed_json(settings, *origin, cached.as_deref());
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{line}");
            }
        }
    }
    for name in &found.disabled {
        let _ = match output {
            OutputForm::Text => writeln!(text, "{}  switched off", one_line(name)),
            OutputForm::Json => writeln!(text, "{}", json!({"name": name, "enabled": false})),
        };
    }
    if text.is_empty() && output == OutputForm::Text {
        text.push_str(
            "There are no MCP servers. Configure them in config.toml as [mcp.servers.NAME], or in mcp.json beside it.\n",
        );
    }
    write_out(text.as_bytes())
}

/// Runs `mcp test`: connects to a server, lists its tools and ends it again.
pub(crate) async fn test(
    name: &str,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let (found, launch, project) = load_servers(environment)?;
    let Some((settings, _)) =
        found.servers.iter().find(|(candidate, _)| candidate.server.name == name)
    else {
        return Err(unknown(name, &found));
    };
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
                write_out(format!("{line}\n").as_bytes())?;
                return Ok(ExitCode::Failed);
            }
            let message = format!("the MCP server {name} cannot be used: {failure}");
            Err(CliError { code: "mcp", ..CliError::failed(message) })
        }
    }
}

/// Loads the servers configured for the current directory, printing their faults, and what starting one needs.
fn load_servers(
    environment: &ProcessEnvironment,
) -> Result<(ConfiguredServers, McpLaunch, Project), CliError> {
    let project = project_around(environment.current_dir()?, environment)?;
    let found = configured_servers(environment, &project.additions)?;
    found.faults.iter().for_each(|fault| print_message(fault));
    let http = HttpClient::new(Proxies::from_lookup(|name| environment.var(name)));
    let keys = product::models(environment, &project.additions.providers)?.key_variables();
    let launch = McpLaunch::new(environment.clone(), http, environment.child_environment(&keys));
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

/// Returns the kind of a transport, and its command line, URL or id. Values of variables and headers are left out.
fn transport_summary(transport: &McpTransport) -> (&'static str, String) {
    match transport {
        McpTransport::Stdio { command, args, .. } => {
            let words: Vec<&str> =
                std::iter::once(command).chain(args).map(String::as_str).collect();
            ("stdio", words.join(" "))
        }
        McpTransport::Http { url, .. } => ("http", url.clone()),
        McpTransport::Client(server) => ("acp", server.link().id().to_owned()),
    }
}

fn describe(
    settings: &McpSettings,
    origin: ServerOrigin,
    cached: Option<&[ProbedTool]>,
    text: &mut String,
) {
    let (kind, target) = transport_summary(&settings.server.transport);
    let state = match cached {
        Some(tools) => format!("{} tools when it was last seen", tools.len()),
        None => "never seen; `crow-agent mcp test` tries it".to_owned(),
    };
    let suffix = match origin {
        ServerOrigin::User => "",
        ServerOrigin::Project => "  of the project",
    };
    let name = one_line(&settings.server.name);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name}  {kind}  {}{suffix}\n  {state}", one_line(&target));
    for tool in cached.unwrap_or_default() {
        tool_line(tool, text);
    }
}

fn tool_line(tool: &ProbedTool, text: &mut String) {
    let description = one_line(&tool.description);
    let end = description.floor_char_boundary(SHOWN);
    let shown = &description[..end];
    let _ = writeln!(text, "    {}  {shown}", tool.name);
}

fn listed_json(
    settings: &McpSettings,
    origin: ServerOrigin,
    cached: Option<&[ProbedTool]>,
) -> serde_json::Value {
    let (kind, target) = transport_summary(&settings.server.transport);
    json!({
        "name": settings.server.name,
        "enabled": true,
        "transport": kind,
        "target": target,
        "origin": match origin {
            ServerOrigin::User => "user",
            ServerOrigin::Project => "project",
        },
        "seen": cached.is_some(),
        "tools": cached.map(tools_json),
    })
}

fn tools_json(tools: &[ProbedTool]) -> Vec<serde_json::Value> {
    let tool = |tool: &ProbedTool| json!({"name": tool.name, "own_name": tool.own_name, "description": tool.description});
    tools.iter().map(tool).collect()
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
        return format!("{line}\n");
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
