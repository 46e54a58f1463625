//! The configuration of servers: the tables `[mcp.servers.NAME]` of `config.toml`, and the JSON files with `mcpServers` that
//! many programs share, `.mcp.json` of a project and `mcp.json` of the user.

use std::{
    collections::BTreeMap,
    num::NonZeroU16,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_agent::{
    definition::Seconds,
    layers::{LayerKind, Node},
};
use crow_core::{
    config::ConfigError,
    mcp::{McpServerConfig, McpTransport},
};
use crow_mcp::{McpSettings, OAuthGrant, OAuthSettings};
use crow_text::one_line;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::error::AppError;

/// Maximum value of a timeout.
const LONGEST: Duration = Duration::from_hours(1);

/// Servers of the Model Context Protocol.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpTable {
    /// The length in tokens above which the tools of all servers are found by a search instead of being listed in each
    /// request [default: 6000]; 0: always.
    pub(crate) defer_above: Option<u64>,
    /// The servers by their names.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, ServerTable>,
}

/// A server: a program that is started (`command`), or an address (`url`).
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerTable {
    /// The program.
    pub(crate) command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Variables in addition to those that every command sees; in your own configuration `${NAME}` stands for one of yours.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Where it is started [default: the working directory of the session].
    pub(crate) cwd: Option<PathBuf>,
    /// The address of a server that speaks streamable HTTP.
    pub(crate) url: Option<String>,
    /// Headers of each request; in your own configuration `${NAME}` stands for a variable of yours.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// How long the first request of a session waits for a server that was never seen before [default: 10 seconds].
    pub(super) startup_timeout: Option<Seconds>,
    /// How long a call may go without progress [default: 60 seconds]; with progress ten times as long.
    pub(super) tool_timeout: Option<Seconds>,
    /// `false` leaves the server out.
    pub(crate) enabled: Option<bool>,
    /// The tools to take, by the names that the server has for them [default: all].
    pub(crate) tools: Option<Vec<String>>,
    /// `true`: its tools change no files of the project, which then need not be compared before and after each call.
    #[serde(default)]
    pub(super) changes_no_files: bool,
    /// The version of the protocol, for a server that negotiates none: `2025-11-25`, for example.
    pub(super) protocol_version: Option<String>,
    /// The login at a server that wants one; `crow-agent mcp login` logs in. All is optional.
    pub(super) oauth: Option<OAuthTable>,
}

/// The login at a server with a `url`. By default Crow discovers the authorization server and registers there itself.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuthTable {
    /// The client id, if you registered Crow at the authorization server yourself.
    pub(super) client_id: Option<String>,
    /// The secret of that registration; in your own configuration `${NAME}` stands for a variable of yours.
    pub(super) client_secret: Option<String>,
    /// The private key of that registration, in PEM form, instead of a secret; only in your own configuration, where
    /// `${NAME}` stands for a variable of yours.
    pub(super) private_key: Option<String>,
    /// The file with the private key, absolute or below the home (`~/…`); only in your own configuration.
    pub(super) private_key_file: Option<PathBuf>,
    /// The id of the key, if several are registered.
    pub(super) private_key_id: Option<String>,
    /// `authorization_code`: you log in with a browser; `client_credentials`: Crow logs in without a user, with the secret or
    /// key, at the `issuer`; only in your own configuration [default: `authorization_code`].
    pub(super) grant: Option<GrantName>,
    /// The HTTPS address of a client metadata document, which is the client id where such documents are accepted.
    pub(super) client_metadata_url: Option<String>,
    /// The scopes to request [default: those that the server names].
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// The port of the redirect `http://127.0.0.1:PORT/callback` [default: a free one].
    pub(super) redirect_port: Option<NonZeroU16>,
    /// The only authorization server to log in at, by its issuer identifier [default: the one that the server names].
    pub(super) issuer: Option<String>,
    /// `true`: a server on the internet may name an authorization server in a private network.
    #[serde(default)]
    pub(super) private_network: bool,
}

/// The way to an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GrantName {
    AuthorizationCode,
    ClientCredentials,
}

impl OAuthTable {
    /// Returns true if it has a private key, which is read when the server is used.
    pub(super) fn has_key(&self) -> bool {
        self.private_key.is_some() || self.private_key_file.is_some()
    }

    /// Converts the table to settings. The error is a message.
    fn to_settings(&self) -> Result<OAuthSettings, String> {
        let has_secret = self.client_secret.is_some();
        let grant = match self.grant {
            None | Some(GrantName::AuthorizationCode) => OAuthGrant::AuthorizationCode,
            Some(GrantName::ClientCredentials) => OAuthGrant::ClientCredentials,
        };
        let is_without_user = grant == OAuthGrant::ClientCredentials;
        let fault = if self.client_id.is_none() && (has_secret || self.has_key()) {
            Some("a secret or a key needs a client_id")
        } else if has_secret && self.has_key() {
            Some("a registration has a client_secret or a key, not both")
        } else if self.private_key.is_some() && self.private_key_file.is_some() {
            Some("the key is in private_key or in private_key_file, not both")
        } else if self.private_key_id.is_some() && !self.has_key() {
            Some("private_key_id needs a key")
        } else if is_without_user && !(has_secret || self.has_key()) {
            Some("the grant client_credentials needs a client_id, and a client_secret or a key")
        } else if is_without_user && self.issuer.is_none() {
            Some(
                "the grant client_credentials needs an issuer: only there the credentials are sent",
            )
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(fault.to_owned());
        }
        let is_document = |url: &String| {
            Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
        };
        if self.client_metadata_url.as_ref().is_some_and(|url| !is_document(url)) {
            return Err("client_metadata_url is the https address of a document".to_owned());
        }
        Ok(OAuthSettings {
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.clone(),
            // It is read together with the variables.
            private_key: None,
            grant,
            client_metadata_url: self.client_metadata_url.clone(),
            scopes: self.scopes.clone(),
            redirect_port: self.redirect_port.map(NonZeroU16::get),
            issuer: self.issuer.clone(),
            private_network: self.private_network,
        })
    }
}

/// Leaves out the values of variables and headers, since they are often secrets.
impl std::fmt::Debug for ServerTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTable")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl ServerTable {
    /// Returns true unless `enabled = false` is set.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// Converts the table to the settings of a session. The error is the invalid key and a message.
    pub(crate) fn to_settings(&self, name: &str) -> Result<McpSettings, (&'static str, String)> {
        let transport = match (&self.command, &self.url) {
            (Some(command), None) if !command.trim().is_empty() => {
                if !self.headers.is_empty() {
                    return Err(("headers", "headers need a url".to_owned()));
                }
                McpTransport::Stdio {
                    command: command.clone(),
                    args: self.args.clone(),
                    env: self.env.clone(),
                    cwd: self.cwd.clone(),
                }
            }
            (None, Some(url)) if is_web(url) => {
                if !self.env.is_empty() || !self.args.is_empty() {
                    let key = if self.env.is_empty() { "args" } else { "env" };
                    return Err((key, format!("a server with a url has no {key}")));
                }
                McpTransport::Http { url: url.clone(), headers: self.headers.clone() }
            }
            (Some(_), Some(_)) => {
                return Err(("url", "a server has a command or a url, not both".to_owned()));
            }
            (Some(_), None) => return Err(("command", "the command is empty".to_owned())),
            (None, Some(_)) => {
                return Err(("url", "a url begins with http:// or https://".to_owned()));
            }
            (None, None) => {
                return Err(("command", "a server needs a command or a url".to_owned()));
            }
        };
        if name.trim().is_empty() {
            return Err(("command", "a server needs a name".to_owned()));
        }
        let mut settings = McpSettings::from(McpServerConfig { name: name.to_owned(), transport });
        if let Some(limit) = self.startup_timeout {
            settings.startup_timeout = bounded("startup_timeout", limit)?;
        }
        if let Some(limit) = self.tool_timeout {
            settings.tool_timeout = bounded("tool_timeout", limit)?;
        }
        settings.tools.clone_from(&self.tools);
        settings.changes_no_files = self.changes_no_files;
        if let Some(version) = &self.protocol_version {
            let mut known = McpSettings::protocol_versions();
            if known.all(|known| known != version) {
                let known: Vec<&str> = McpSettings::protocol_versions().collect();
                let why = format!("known versions are {}", known.join(", "));
                return Err(("protocol_version", why));
            }
            settings.protocol_version.clone_from(&self.protocol_version);
        }
        if let Some(oauth) = &self.oauth {
            if self.url.is_none() {
                return Err(("oauth", "only a server with a url has a login".to_owned()));
            }
            settings.oauth = oauth.to_settings().map_err(|why| ("oauth", why))?;
        }
        Ok(settings)
    }
}

impl McpTable {
    /// Returns the files with private keys, as they are written.
    pub(crate) fn key_files(&self) -> impl Iterator<Item = &Path> {
        let oauth = self.servers.values().filter_map(|server| server.oauth.as_ref());
        oauth.filter_map(|oauth| oauth.private_key_file.as_deref())
    }
}

/// Returns the limit if it is above zero and at most [`LONGEST`].
fn bounded(key: &'static str, limit: Seconds) -> Result<Duration, (&'static str, String)> {
    let limit = Duration::from(limit);
    if limit.is_zero() || limit > LONGEST {
        return Err((key, "it must be between a second and an hour".to_owned()));
    }
    Ok(limit)
}

/// Returns true for an address, or a variable that may become one.
fn is_web(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://") || url.starts_with("${")
}

/// Checks the servers of all layers. Errors name the position of the value. A project may not change a server of the
/// user: the values of a server must come either all from projects or all from others.
pub(crate) fn check_servers(servers: &McpTable, node: &Node) -> Result<(), ConfigError> {
    for (name, server) in &servers.servers {
        let path = ["mcp", "servers", name.as_str()];
        if let Some(table) = node.find(&path) {
            let leaves = table.leaves();
            let is_of_project =
                |leaf: &&(String, &Node)| leaf.1.origin.layer() == LayerKind::Project;
            let project_value = leaves.iter().find(is_of_project);
            if let Some((_, leaf)) =
                project_value.filter(|_| !leaves.iter().all(|leaf| is_of_project(&leaf)))
            {
                let message = format!(
                    "a project cannot change the MCP server {name} of the user; it needs another name"
                );
                return Err(leaf.origin.error(message));
            }
        }
        if let Err((key, message)) = server.to_settings(name) {
            let origin = node.origin_of(&["mcp", "servers", name, key]);
            return Err(origin.error(message));
        }
    }
    Ok(())
}

/// Describes what a server starts or reaches, for the question whether to trust it.
pub(crate) fn describe_access(name: &str, server: &ServerTable) -> String {
    let name = one_line(name);
    if !server.is_enabled() {
        return format!("the MCP server {name}, which is switched off");
    }
    match (&server.command, &server.url) {
        (Some(command), _) => {
            let words: Vec<&str> =
                std::iter::once(command).chain(&server.args).map(String::as_str).collect();
            // Values are shown: one like `--require ./x.js` starts a program by itself.
            let env: Vec<String> =
                server.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let env = if env.is_empty() {
                String::new()
            } else {
                format!(" with {}", one_line(&env.join(", ")))
            };
            let cwd = server
                .cwd
                .as_ref()
                .map(|cwd| format!(" in {}", one_line(&cwd.display().to_string())));
            let (line, cwd) = (one_line(&words.join(" ")), cwd.unwrap_or_default());
            format!("starts `{line}`{env}{cwd} as the MCP server {name}")
        }
        (None, Some(url)) => format!(
            "connects to {} as the MCP server {name}, with your login there if you have one",
            one_line(url)
        ),
        (None, None) => format!("the MCP server {name}, which cannot be used"),
    }
}

/// Name of the file at the root of a project.
pub(crate) const PROJECT_FILE: &str = ".mcp.json";
/// Name of the user's file, in the folder of `config.toml`.
pub(super) const USER_FILE: &str = "mcp.json";
/// Maximum size of a file, in bytes.
pub(super) const LARGEST: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "mcpServers")]
    servers: Option<BTreeMap<String, Value>>,
}

/// A server as other programs write it. Unknown keys are ignored.
#[derive(Deserialize)]
struct ServerEntry {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<std::path::PathBuf>,
    #[serde(default, alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
}

/// The valid servers of a file, and messages about the others.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServersFileContents {
    pub(super) servers: BTreeMap<String, ServerTable>,
    pub(super) faults: Vec<String>,
}

/// Parses a file. Fails if it is not JSON of this shape; an invalid server is reported in `faults`.
pub(super) fn parse_servers_file(path: &Path, text: &str) -> Result<ServersFileContents, AppError> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        let position = format!("{}:{}:{}", path.display(), error.line(), error.column());
        AppError { code: "config", ..AppError::usage(format!("{position}: {reason}")) }
    })?;
    let mut contents = ServersFileContents::default();
    if file.servers.is_none() {
        let path = path.display();
        contents.faults.push(format!("{path}: it names no server: the key mcpServers is missing"));
    }
    for (name, value) in file.servers.unwrap_or_default() {
        let server =
            serde_json::from_value::<ServerEntry>(value).map_err(|error| error.to_string());
        let server = server.and_then(|server| entry_table(server, &name));
        match server {
            Ok(server) => drop(contents.servers.insert(name, server)),
            Err(why) => {
                contents.faults.push(format!("{}: the MCP server {name}: {why}", path.display()));
            }
        }
    }
    Ok(contents)
}

/// Converts an entry to a table. Fails with a message if it is not a valid server.
fn entry_table(server: ServerEntry, name: &str) -> Result<ServerTable, String> {
    if server.kind.as_deref() == Some("sse") {
        return Err("it uses the old HTTP+SSE transport, which is not supported; many such servers offer streamable HTTP at another address".to_owned());
    }
    let table = ServerTable {
        command: server.command,
        args: server.args,
        env: server.env,
        cwd: server.cwd,
        url: server.url,
        headers: server.headers,
        enabled: Some(!server.disabled),
        ..ServerTable::default()
    };
    table.to_settings(name).map_err(|(_, why)| why)?;
    Ok(table)
}

/// Returns the servers and faults of a project's file, to be shown when the user is asked to trust it.
pub(crate) fn servers_of_project(
    path: &Path,
    bytes: &[u8],
) -> Result<(BTreeMap<String, ServerTable>, Vec<String>), AppError> {
    let text = std::str::from_utf8(bytes).map_err(|_| AppError {
        code: "config",
        ..AppError::usage(format!("{} is not text", path.display()))
    })?;
    let ServersFileContents { servers, faults } = parse_servers_file(path, text)?;
    Ok((servers, faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServersFileContents, String> {
        parse_servers_file(Path::new("p/.mcp.json"), text).map_err(|error| error.message)
    }

    #[test]
    fn servers_are_read_as_other_programs_write_them() {
        let read = read(
            r#"{"mcpServers": {
                "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "timeout": 5, "alwaysAllow": ["x"]},
                "web": {"type": "streamable-http", "url": "https://a.test/mcp", "headers": {"X": "y"}},
                "off": {"command": "x", "disabled": true},
                "old": {"type": "sse", "url": "https://a.test/sse"},
                "none": {}, "odd": {"command": ["a"]}
            }, "inputs": []}"#,
        )
        .unwrap();
        let names: Vec<_> = read.servers.keys().map(String::as_str).collect();
        assert_eq!(names, ["files", "off", "web"]);
        assert!(read.servers["files"].is_enabled() && !read.servers["off"].is_enabled());
        assert_eq!(read.servers["files"].args, ["-y", "x"]);
        insta::assert_snapshot!(read.faults.join("\n"));
    }

    #[test]
    fn a_broken_file_is_reported_with_its_position() {
        assert_eq!(
            read("{\n  \"mcpServers\": [}").unwrap_err(),
            "p/.mcp.json:2:16: invalid type: sequence, expected a map"
        );
    }
}
