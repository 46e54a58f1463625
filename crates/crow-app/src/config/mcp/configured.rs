//! Collection of the servers configured for a directory, and expansion of `${NAME}` and `${NAME:-otherwise}` in them.
//!
//! Sources, in order of precedence: `[mcp.servers]` of the merged `config.toml`, the user's `mcp.json`, and
//! `.mcp.json` of a trusted project. A name that occurs again is reported and ignored.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crow_agent::layers::{LayerKind, Node};
use crow_core::mcp::McpTransport;
use crow_mcp::{ClientKey, ClientKeyError, McpSettings, OAuthGrant};

use super::table::{LARGEST, OAuthTable, ServerTable, USER_FILE, parse_servers_file};
use crate::{
    config::{ProjectAdditions, SETTINGS, Settings, layers as config_layers},
    environment::ProcessEnvironment,
    error::AppError,
};

/// Whose configuration defines a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOrigin {
    /// The user's configuration.
    User,
    /// A trusted project's configuration.
    Project,
}

/// The servers configured for a directory; names are unique.
#[derive(Debug, Default)]
pub struct ConfiguredServers {
    /// Enabled servers, sorted by name.
    pub servers: Vec<(McpSettings, ServerOrigin)>,
    /// Names of disabled servers.
    pub disabled: Vec<String>,
    /// Messages for the user: which servers are left out, and why.
    pub faults: Vec<String>,
    /// Length of the tools' definitions in tokens above which they are found by a search; `None` for the default.
    pub defer_above: Option<u64>,
}

/// Collects the servers of `config.toml`, of the user's `mcp.json`, and of a trusted project, in this order. Blocks.
pub fn configured_servers(
    environment: &ProcessEnvironment,
    project: &ProjectAdditions,
) -> Result<ConfiguredServers, AppError> {
    let mut found = ConfiguredServers::default();
    let layers = config_layers(environment, project)?;
    if let Some(node) = layers.merged(SETTINGS)? {
        let settings = Settings::read(&layers)?;
        found.defer_above = settings.mcp.defer_above;
        for (name, server) in &settings.mcp.servers {
            found.add(name, server, origin(&node, name), environment);
        }
    }
    let path = environment.config_dir()?.join(USER_FILE);
    if let Some(text) = read(&path)? {
        let contents = parse_servers_file(&path, &text)?;
        found.faults.extend(contents.faults);
        for (name, server) in &contents.servers {
            found.add(name, server, ServerOrigin::User, environment);
        }
    }
    for (name, server) in &project.mcp_servers {
        found.add(name, server, ServerOrigin::Project, environment);
    }
    // A project's server starts in the project's root, to which its paths are relative, wherever in the project the
    // session works.
    if let Some(root) = &project.root {
        for (settings, _) in
            found.servers.iter_mut().filter(|server| server.1 == ServerOrigin::Project)
        {
            if let McpTransport::Stdio { cwd, .. } = &mut settings.server.transport {
                *cwd = Some(root.join(cwd.take().unwrap_or_default()));
            }
        }
    }
    found.withhold(&project.blocked_commands);
    found.servers.sort_by(|one, other| one.0.server.name.cmp(&other.0.server.name));
    Ok(found)
}

impl ConfiguredServers {
    /// Removes the servers whose command line is in `withheld`, since the user did not trust the files they start from.
    fn withhold(&mut self, withheld: &[Vec<String>]) {
        let is_withheld = |transport: &McpTransport| match transport {
            McpTransport::Stdio { command, args, .. } => {
                let argv = std::iter::once(command).chain(args);
                withheld.iter().any(|line| line.iter().eq(argv.clone()))
            }
            McpTransport::Http { .. } | McpTransport::Client(_) => false,
        };
        let (left_out, servers) = std::mem::take(&mut self.servers)
            .into_iter()
            .partition(|(server, _)| is_withheld(&server.server.transport));
        self.servers = servers;
        self.faults.extend(left_out.into_iter().map(|(server, _): (McpSettings, _)| {
            format!(
                "the MCP server {} is left out: it is started from files of the project that you did not trust, or that changed since; `crow-agent trust` shows them and asks",
                server.server.name
            )
        }));
    }

    /// Adds a server, unless its name is taken, it is disabled, or its settings are invalid. Variables are expanded
    /// for the user's servers only; a project's server that names one is left out.
    fn add(
        &mut self,
        name: &str,
        server: &ServerTable,
        origin: ServerOrigin,
        environment: &ProcessEnvironment,
    ) {
        let is_duplicate = self.servers.iter().any(|(known, _)| known.server.name == name)
            || self.disabled.iter().any(|known| known == name);
        if is_duplicate {
            self.faults.push(format!("there are two MCP servers named {name}; the first is used"));
            return;
        }
        if !server.is_enabled() {
            self.disabled.push(name.to_owned());
            return;
        }
        let mut settings = match server.to_settings(name) {
            Ok(settings) => settings,
            Err((_, why)) => {
                self.faults.push(format!("the MCP server {name} is left out: {why}"));
                return;
            }
        };
        let secret = settings.oauth.client_secret.as_deref().unwrap_or_default();
        let has_variables = names_variables(&settings.server.transport) || secret.contains("${");
        if origin == ServerOrigin::Project && has_variables {
            self.faults.push(format!(
                "the MCP server {name} of the project is left out: a project cannot use your variables; configure the server yourself to pass some"
            ));
            return;
        }
        let has_key = server.oauth.as_ref().is_some_and(OAuthTable::has_key);
        let is_without_user = settings.oauth.grant == OAuthGrant::ClientCredentials;
        if origin == ServerOrigin::Project && (has_key || is_without_user) {
            self.faults.push(format!(
                "the MCP server {name} of the project is left out: only you can let it use a private key, or a login without a user"
            ));
            return;
        }
        if origin == ServerOrigin::Project && settings.oauth.private_network {
            self.faults.push(format!(
                "the MCP server {name} of the project is left out: only you can permit logins in a private network"
            ));
            return;
        }
        if origin == ServerOrigin::User
            && let Err(why) = add_user_values(&mut settings, server, environment)
        {
            self.faults.push(format!("the MCP server {name} is left out: {why}"));
            return;
        }
        self.servers.push((settings, origin));
    }
}

/// Expands the user's variables in the settings of a server, and reads the private key.
fn add_user_values(
    settings: &mut McpSettings,
    server: &ServerTable,
    environment: &ProcessEnvironment,
) -> Result<(), UserValueError> {
    let lookup = |name: &str| environment.var(name);
    let expanded = |text: &String| expand_text(text, &lookup);
    let secret = settings.oauth.client_secret.as_ref();
    settings.oauth.client_secret = secret.map(expanded).transpose()?;
    settings.server.transport = expand(settings.server.transport.clone(), &lookup)?;
    let Some(oauth) = &server.oauth else { return Ok(()) };
    if let Some(path) = &oauth.private_key_file {
        let relative = || {
            let path = path.display();
            AppError::usage(format!(
                "oauth.private_key_file: {path} must be absolute, or begin with ~/"
            ))
        };
        let path = environment.absolute_path(path).ok_or_else(relative)?;
        let missing = || AppError::usage(format!("there is no file {}", path.display()));
        let text = read(&path)?.ok_or_else(missing)?;
        let key = ClientKey::from_pem(&text, oauth.private_key_id.clone());
        let in_file = |source| UserValueError::KeyFile { path, source };
        settings.oauth.private_key = Some(key.map_err(in_file)?);
    } else if let Some(text) = &oauth.private_key {
        let key = ClientKey::from_pem(&expanded(text)?, oauth.private_key_id.clone());
        settings.oauth.private_key = Some(key.map_err(UserValueError::Key)?);
    }
    Ok(())
}

/// A value that only the user's configuration may have cannot be used.
#[derive(Debug, thiserror::Error)]
enum UserValueError {
    #[error(transparent)]
    Variable(#[from] ExpandError),
    #[error("{0}")]
    Unreadable(#[from] AppError),
    #[error("oauth.private_key: {0}")]
    Key(ClientKeyError),
    #[error("oauth.private_key_file {}: {source}", path.display())]
    KeyFile { path: PathBuf, source: ClientKeyError },
}

/// Returns [`ServerOrigin::Project`] if any value of the server comes from the project.
fn origin(node: &Node, name: &str) -> ServerOrigin {
    let table = node.find(&["mcp", "servers", name]);
    let leaves = table.map(Node::leaves).unwrap_or_default();
    let has_project_value =
        leaves.iter().any(|(_, leaf)| leaf.origin.layer() == LayerKind::Project);
    if has_project_value { ServerOrigin::Project } else { ServerOrigin::User }
}

/// Reads a file of up to [`LARGEST`] bytes. Returns `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, AppError> {
    let wrong =
        |error: io::Error| AppError::usage(format!("cannot read {}: {error}", path.display()));
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > LARGEST {
        return Err(AppError::usage(format!("{} is larger than 1 MiB", path.display())));
    }
    Ok(Some(text))
}

/// A text cannot be expanded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ExpandError {
    /// The variable is unset or empty, and the text gives no default.
    #[error("the variable {0} is not set")]
    NotSet(String),
    /// A brace is not closed, or its name is empty or has characters other than ASCII letters, digits and `_`.
    #[error("\"${{\" does not start a variable; write ${{NAME}} or ${{NAME:-otherwise}}")]
    Broken,
}

/// Expands the variables in the command, arguments, environment, URL and headers of a server; not in the directory.
fn expand(
    transport: McpTransport,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<McpTransport, ExpandError> {
    let text = |text: String| expand_text(&text, lookup);
    Ok(match transport {
        McpTransport::Stdio { command, args, env, cwd } => McpTransport::Stdio {
            command: text(command)?,
            args: args.into_iter().map(text).collect::<Result<_, _>>()?,
            env: env
                .into_iter()
                .map(|(name, value)| Ok((name, text(value)?)))
                .collect::<Result<_, _>>()?,
            cwd,
        },
        McpTransport::Http { url, headers } => McpTransport::Http {
            url: text(url)?,
            headers: headers
                .into_iter()
                .map(|(name, value)| Ok((name, text(value)?)))
                .collect::<Result<_, _>>()?,
        },
        // Defined by the client, not by a configuration.
        McpTransport::Client(server) => McpTransport::Client(server),
    })
}

/// Returns true if a text of the transport names a variable or has a broken `${`.
fn names_variables(transport: &McpTransport) -> bool {
    let nothing = |_: &str| None;
    expand(transport.clone(), &nothing).as_ref() != Ok(transport)
}

/// Expands one text. The value of a variable is not expanded again.
fn expand_text(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let (inner, after) = after.split_once('}').ok_or(ExpandError::Broken)?;
        let (name, otherwise) = match inner.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inner, None),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(ExpandError::Broken);
        }
        let value = lookup(name).filter(|value| !value.is_empty());
        let value = value.or_else(|| otherwise.map(str::to_owned));
        expanded.push_str(&value.ok_or_else(|| ExpandError::NotSet(name.to_owned()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::mcp::table::GrantName;

    const KEY: &str = include_str!("test-key.pem");

    /// Returns the servers with an `oauth` table, in a home with a key in `key.pem`.
    fn configured(oauth: &str) -> Result<ConfiguredServers, String> {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/crow-agent");
        fs::create_dir_all(&folder).unwrap();
        let text =
            format!("[mcp.servers.a]\nurl = 'https://a.test'\n[mcp.servers.a.oauth]\n{oauth}");
        fs::write(folder.join("config.toml"), text).unwrap();
        fs::write(home.path().join("key.pem"), KEY).unwrap();
        fs::write(home.path().join("broken.pem"), "no key").unwrap();
        let vars = [("HOME", home.path().to_str().unwrap()), ("MY_KEY", KEY), ("BAD", "no key")];
        let environment = ProcessEnvironment::with(vars);
        let found = configured_servers(&environment, &ProjectAdditions::default());
        let home = home.path().display().to_string();
        found
            .map(|mut found| {
                for fault in &mut found.faults {
                    *fault = fault.replace(&home, "HOME");
                }
                found
            })
            .map_err(|error| error.message.replace(&home, "HOME"))
    }

    #[test]
    fn a_private_key_is_read_from_a_variable_or_a_file() {
        let key = ClientKey::from_pem(KEY, Some("k".to_owned())).unwrap();
        for source in ["private_key = '${MY_KEY}'", "private_key_file = '~/key.pem'"] {
            let oauth = format!("client_id = 'c'\n{source}\nprivate_key_id = 'k'\n");
            let found = configured(&oauth).unwrap();
            assert_eq!(found.faults, [""; 0]);
            assert_eq!(found.servers[0].0.oauth.private_key.as_ref(), Some(&key));
        }
    }

    #[test]
    fn a_project_uses_no_key_and_no_login_without_a_user() {
        let environment = ProcessEnvironment::with([("HOME", "/nowhere"), ("MY_KEY", KEY)]);
        for oauth in [
            OAuthTable { private_key: Some(KEY.to_owned()), ..OAuthTable::default() },
            OAuthTable {
                client_secret: Some("s".to_owned()),
                grant: Some(GrantName::ClientCredentials),
                issuer: Some("https://auth.test".to_owned()),
                ..OAuthTable::default()
            },
        ] {
            let oauth = OAuthTable { client_id: Some("c".to_owned()), ..oauth };
            let server = ServerTable {
                url: Some("https://a.test".to_owned()),
                oauth: Some(oauth),
                ..ServerTable::default()
            };
            let mut found = ConfiguredServers::default();
            found.add("a", &server, ServerOrigin::Project, &environment);
            assert!(found.servers.is_empty() && found.faults[0].contains("only you can let it"));
        }
    }

    #[test]
    fn credentials_that_cannot_be_used_leave_the_server_out_and_say_why() {
        for (oauth, fault) in [
            ("client_id = 'c'\nprivate_key = '${BAD}'", "oauth.private_key: it is no private key"),
            ("client_id = 'c'\nprivate_key = '${GONE}'", "the variable GONE is not set"),
            (
                "client_id = 'c'\nprivate_key_file = '~/broken.pem'",
                "oauth.private_key_file HOME/broken.pem: it is no private key",
            ),
            ("client_id = 'c'\nprivate_key_file = '~/gone.pem'", "there is no file HOME/gone.pem"),
            ("client_id = 'c'\nprivate_key_file = 'k.pem'", "must be absolute, or begin with ~/"),
        ] {
            let found = configured(oauth).unwrap();
            let [message] = &found.faults[..] else { panic!("{:?}", found.faults) };
            assert!(message.contains(fault), "{message}");
            assert!(found.servers.is_empty());
        }
        for (oauth, fault) in [
            ("private_key = 'x'", "a secret or a key needs a client_id"),
            ("client_id = 'c'\nclient_secret = 's'\nprivate_key = 'x'", "not both"),
            ("client_id = 'c'\nprivate_key_id = 'k'", "private_key_id needs a key"),
            ("client_id = 'c'\ngrant = 'client_credentials'", "needs a client_id, and a"),
            (
                "client_id = 'c'\nclient_secret = 's'\ngrant = 'client_credentials'",
                "needs an issuer",
            ),
            ("client_id = 'c'\ngrant = 'password'", "unknown value \"password\""),
        ] {
            let message = configured(oauth).unwrap_err();
            assert!(message.contains(fault) && message.contains("config.toml:"), "{message}");
        }
    }

    #[test]
    fn variables_are_expanded_and_missing_ones_are_named() {
        let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
        for (text, expanded) in [
            ("x${A}y${A}", Ok("x1y1")),
            ("${B:-z}${A:-z}", Ok("z1")),
            ("$A {A} $$", Ok("$A {A} $$")),
            ("${B}", Err(ExpandError::NotSet("B".to_owned()))),
            ("${A", Err(ExpandError::Broken)),
            ("${}", Err(ExpandError::Broken)),
            ("${A B}", Err(ExpandError::Broken)),
        ] {
            assert_eq!(expand_text(text, &lookup), expanded.map(str::to_owned), "{text}");
        }
        // Values are not expanded again.
        let nested = |_: &str| Some("${A}".to_owned());
        assert_eq!(expand_text("${A}", &nested), Ok("${A}".to_owned()));
    }
}
