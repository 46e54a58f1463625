//! Adding servers to the user's configuration, and removing them.

use std::{fs, path::PathBuf};

use crow_core::{config::SourceText, mcp::McpTransport};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use super::{
    configured::configured_servers,
    table::{OAuthTable, ServerTable, USER_FILE},
};
use crate::{
    config::{ProjectAdditions, SETTINGS, write},
    environment::ProcessEnvironment,
    error::AppError,
    private_file,
};

/// A server to add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Its URL, or its command followed by arguments.
    pub target: Vec<String>,
    /// Variables of a program.
    pub env: Vec<(String, String)>,
    /// Headers of requests to a URL.
    pub headers: Vec<(String, String)>,
    /// Client id, if the user registered Crow at the authorization server.
    pub client_id: Option<String>,
    /// Scopes of the login.
    pub scopes: Vec<String>,
    /// Working directory of a program.
    pub cwd: Option<PathBuf>,
    /// The tools to take; `None` for all.
    pub tools: Option<Vec<String>>,
}

impl From<&NewServer> for ServerTable {
    fn from(server: &NewServer) -> Self {
        let (url, argv) = server.url_and_argv();
        let command = argv.split_first();
        Self {
            url: url.cloned(),
            command: command.map(|(command, _)| command.clone()),
            args: command.map(|(_, args)| args.to_vec()).unwrap_or_default(),
            env: server.env.iter().cloned().collect(),
            headers: server.headers.iter().cloned().collect(),
            oauth: server.oauth(),
            cwd: server.cwd.clone(),
            tools: server.tools.clone(),
            ..Self::default()
        }
    }
}

impl NewServer {
    /// Returns the URL, or the command line.
    fn url_and_argv(&self) -> (Option<&String>, &[String]) {
        match self.target.as_slice() {
            [url] if url.starts_with("http://") || url.starts_with("https://") => (Some(url), &[]),
            argv => (None, argv),
        }
    }

    fn oauth(&self) -> Option<OAuthTable> {
        let is_given = self.client_id.is_some() || !self.scopes.is_empty();
        is_given.then(|| OAuthTable {
            client_id: self.client_id.clone(),
            scopes: self.scopes.clone(),
            ..OAuthTable::default()
        })
    }

    /// Returns its table in `config.toml`.
    fn to_table(&self) -> Table {
        let mut table = Table::new();
        let texts = |texts: &[String]| texts.iter().map(String::as_str).collect::<Array>();
        let pairs = |pairs: &[(String, String)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            pairs.collect::<InlineTable>()
        };
        let (url, argv) = self.url_and_argv();
        if let Some(url) = url {
            table.insert("url", url.into());
        }
        if let Some((command, args)) = argv.split_first() {
            table.insert("command", command.into());
            if !args.is_empty() {
                table.insert("args", Item::Value(Value::Array(texts(args))));
            }
        }
        for (key, given) in [("env", &self.env), ("headers", &self.headers)] {
            if !given.is_empty() {
                table.insert(key, Item::Value(Value::InlineTable(pairs(given))));
            }
        }
        if let Some(cwd) = &self.cwd {
            table.insert("cwd", cwd.to_string_lossy().as_ref().into());
        }
        if let Some(tools) = &self.tools {
            table.insert("tools", Item::Value(Value::Array(texts(tools))));
        }
        let mut oauth = InlineTable::new();
        if let Some(id) = &self.client_id {
            oauth.insert("client_id", id.into());
        }
        if !self.scopes.is_empty() {
            oauth.insert("scopes", Value::Array(texts(&self.scopes)));
        }
        if !oauth.is_empty() {
            table.insert("oauth", Item::Value(Value::InlineTable(oauth)));
        }
        table
    }
}

/// Adds a server to the user's `config.toml`, and returns the path of the file. Comments and layout are kept. Blocks.
///
/// # Errors
/// Fails if there is a server of this name and `replaces` is false, if the server's settings are invalid, or if the file
/// cannot be read or written; nothing is changed then.
pub fn add_server(
    environment: &ProcessEnvironment,
    server: &NewServer,
    replaces: bool,
) -> Result<PathBuf, AppError> {
    let table = server.to_table();
    ServerTable::from(server).to_settings(&server.name).map_err(|(_, why)| AppError::usage(why))?;
    let known = configured_servers(environment, &ProjectAdditions::default())?;
    let mut names =
        known.servers.iter().map(|(known, _)| &known.server.name).chain(&known.disabled);
    let is_known = names.any(|name| *name == server.name);
    change_servers(environment, |servers| {
        // Also one that is left out for a fault.
        if !replaces && (is_known || servers.contains_key(&server.name)) {
            let message = format!("there is an MCP server {} already", server.name);
            return Err(AppError::usage(message).hint("--replace replaces it"));
        }
        servers.insert(&server.name, Item::Table(table));
        Ok(())
    })
}

/// A server that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedServer {
    /// Path of the file that defined it.
    pub path: PathBuf,
    /// Its URL, if it had one that no other server has.
    pub url: Option<String>,
}

/// Removes a server from the user's `config.toml`. Blocks.
///
/// # Errors
/// Fails if the file does not define the server, or cannot be read or written; nothing is changed then.
pub fn remove_server(
    environment: &ProcessEnvironment,
    name: &str,
) -> Result<RemovedServer, AppError> {
    let mut url = None;
    let path = change_servers(environment, |servers| {
        if let Some(removed) = servers.remove(name) {
            url = removed.get("url").and_then(Item::as_str).map(str::to_owned);
            return Ok(());
        }
        let folder = environment.config_dir()?;
        let message = format!("{} defines no MCP server {name}", folder.join(SETTINGS).display());
        let hint = format!(
            "crow-agent mcp list shows all; those of {} and of projects are removed there",
            folder.join(USER_FILE).display()
        );
        Err(AppError::usage(message).hint(hint))
    })?;
    let others = configured_servers(environment, &ProjectAdditions::default())?;
    let is_used = |url: &String| {
        others.servers.iter().any(|(other, _)| match &other.server.transport {
            McpTransport::Http { url: other, .. } => other == url,
            McpTransport::Stdio { .. } | McpTransport::Client(_) => false,
        })
    };
    Ok(RemovedServer { path, url: url.filter(|url| !is_used(url)) })
}

/// Changes the table `mcp.servers` of the user's `config.toml`.
fn change_servers(
    environment: &ProcessEnvironment,
    change: impl FnOnce(&mut Table) -> Result<(), AppError>,
) -> Result<PathBuf, AppError> {
    let folder = environment.config_dir()?;
    let path = folder.join(SETTINGS);
    let storage = |message: String| AppError { code: "storage", ..AppError::usage(message) };
    let _lock =
        private_file::lock(&folder.join(".writing")).map_err(|error| storage(error.to_string()))?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(storage(format!("cannot read {}: {error}", path.display()))),
    };
    let source = SourceText { path: &path, text: &text };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        AppError::from(source.syntax_error(error.span(), error.message()))
    })?;
    let mut table = document.as_table_mut();
    for name in ["mcp", "servers"] {
        let item = table.entry(name).or_insert_with(|| {
            let mut new = Table::new();
            // It contains only tables, so it needs no header line.
            new.set_implicit(true);
            Item::Table(new)
        });
        if let Item::Value(Value::InlineTable(inline)) = item {
            *item = Item::Table(std::mem::take(inline).into_table());
        }
        let is_no_table = || AppError::usage(format!("{}: {name} is not a table", path.display()));
        table = item.as_table_mut().ok_or_else(is_no_table)?;
    }
    change(table)?;
    write(&path, &document.to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, ProcessEnvironment) {
        let home = tempfile::tempdir().unwrap();
        let environment = ProcessEnvironment::with([("HOME", home.path().to_str().unwrap())]);
        (home, environment)
    }

    fn server(name: &str, target: &[&str]) -> NewServer {
        let target = target.iter().map(|&word| word.to_owned()).collect();
        NewServer { name: name.to_owned(), target, ..NewServer::default() }
    }

    #[test]
    fn servers_are_added_and_removed_without_touching_the_rest_of_the_file() {
        let (_home, environment) = home();
        let path = environment.config_dir().unwrap().join(SETTINGS);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before =
            "# mine\n[sandbox]\nnetwork = false # safe\n\n[mcp.servers.a]\ncommand = \"x\"\n";
        fs::write(&path, before).unwrap();
        let time = NewServer {
            env: vec![("KEY".to_owned(), "${KEY}".to_owned())],
            ..server("my time", &["uvx", "mcp-server-time", "--zone"])
        };
        add_server(&environment, &time, false).unwrap();
        let web = NewServer {
            headers: vec![("X-Team".to_owned(), "birds".to_owned())],
            client_id: Some("crow".to_owned()),
            scopes: vec!["read".to_owned()],
            ..server("web", &["https://a.test/mcp"])
        };
        add_server(&environment, &web, false).unwrap();
        insta::assert_snapshot!(fs::read_to_string(&path).unwrap());
        let found = configured_servers(&environment, &ProjectAdditions::default()).unwrap();
        assert_eq!(found.servers.len(), 2, "{:?}", found.faults);
        for name in ["my time", "web"] {
            remove_server(&environment, name).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }

    #[test]
    fn a_taken_name_an_invalid_server_and_an_unknown_one_change_nothing() {
        let (_home, environment) = home();
        add_server(&environment, &server("a", &["x"]), false).unwrap();
        let path = environment.config_dir().unwrap().join(SETTINGS);
        let before = fs::read_to_string(&path).unwrap();
        let refused =
            |server: &NewServer| add_server(&environment, server, false).unwrap_err().message;
        assert!(refused(&server("a", &["y"])).contains("already"));
        assert!(refused(&server("b", &[])).contains("needs a command or a url"));
        let headers = vec![("X".to_owned(), "y".to_owned())];
        assert!(refused(&NewServer { headers, ..server("b", &["x"]) }).contains("need a url"));
        assert!(remove_server(&environment, "b").unwrap_err().message.contains("no MCP server b"));
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        add_server(&environment, &server("a", &["y"]), true).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\"y\""));
    }
}
