//! The list of MCP servers.

use std::fmt::Write as _;

use crow_app::{
    ProcessEnvironment,
    config::{ConfiguredServers, ServerOrigin, configured_servers},
    mcp::McpLaunch,
    product,
    trust::{Project, project_of},
};
use crow_core::mcp::McpTransport;
use crow_mcp::{McpSettings, ProbedTool};
use crow_providers::{HttpClient, Proxies};
use crow_text::one_line;
use serde_json::json;

use super::CommandListing;
use crate::{args::OutputForm, error::CliError, output::visible_json};

/// Maximum length of a tool's description in a list, in bytes.
const SHOWN: usize = 100;

/// Lists the configured servers with their cached tools. Starts no server.
pub(crate) fn listing(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<CommandListing, CliError> {
    let ServerConfiguration { found, launch, messages, .. } = server_configuration(environment)?;
    let cache = launch.cache();
    let mut text = String::new();
    for (settings, origin) in &found.servers {
        let cached = cache.as_ref().and_then(|cache| cache.cached_tools(&settings.server));
        match output {
            OutputForm::Text => describe(settings, *origin, cached.as_deref(), &mut text),
            OutputForm::Json => {
                let line = listed_json(settings, *origin, cached.as_deref());
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}", visible_json(&line));
            }
        }
    }
    for name in &found.disabled {
        let _ = match output {
            OutputForm::Text => writeln!(text, "{}  switched off", one_line(name)),
            OutputForm::Json => {
                writeln!(text, "{}", visible_json(&json!({"name": name, "enabled": false})))
            }
        };
    }
    if text.is_empty() && output == OutputForm::Text {
        text.push_str(
            "There are no MCP servers. `crow-agent mcp add NAME URL` or `crow-agent mcp add NAME COMMAND` adds one.\n",
        );
    }
    Ok(CommandListing { text, messages })
}

/// The servers configured for a directory, and what starting one needs.
pub(crate) struct ServerConfiguration {
    pub(crate) found: ConfiguredServers,
    pub(crate) launch: McpLaunch,
    pub(crate) project: Project,
    /// Messages about the project, and faults of the configuration.
    pub(crate) messages: Vec<String>,
}

/// Loads the servers configured for the current directory.
pub(crate) fn server_configuration(
    environment: &ProcessEnvironment,
) -> Result<ServerConfiguration, CliError> {
    let project = project_of(environment.current_dir()?, environment)?;
    let found = configured_servers(environment, &project.additions)?;
    let messages = project.notice.iter().chain(&found.faults).cloned().collect();
    let http = HttpClient::new(Proxies::from_lookup(|name| environment.var(name)));
    let keys = product::models(environment, &project.additions.providers)?.key_variables();
    let launch = McpLaunch::new(environment.clone(), http, environment.child_environment(&keys));
    Ok(ServerConfiguration { found, launch, project, messages })
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

/// Appends a tool of a server.
pub(crate) fn tool_line(tool: &ProbedTool, text: &mut String) {
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

/// Returns the tools of a server.
pub(crate) fn tools_json(tools: &[ProbedTool]) -> Vec<serde_json::Value> {
    let tool = |tool: &ProbedTool| json!({"name": tool.name, "own_name": tool.own_name, "description": tool.description});
    tools.iter().map(tool).collect()
}
