//! The JSON files with `mcpServers` that many programs share: `.mcp.json` of a project, `mcp.json` of the user.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;

use super::ServerTable;
use crate::error::AppError;

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
pub(super) fn parse(path: &Path, text: &str) -> Result<ServersFileContents, AppError> {
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
        let server = server.and_then(|server| table(server, &name));
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
fn table(server: ServerEntry, name: &str) -> Result<ServerTable, String> {
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
    let ServersFileContents { servers, faults } = parse(path, text)?;
    Ok((servers, faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServersFileContents, String> {
        parse(Path::new("p/.mcp.json"), text).map_err(|error| error.message)
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
