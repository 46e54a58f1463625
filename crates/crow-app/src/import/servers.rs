//! MCP servers in the configurations of other programs.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::plan::ImportPlan;
use crate::config::NewServer;

/// Keys that other programs have for what Crow does by itself, or that have a meaning only for people.
const WITHOUT_MEANING: [&str; 4] = ["type", "transport", "description", "$typeName"];

/// Adds the servers of a table. `rewrite` changes texts to Crow's notation of variables, `${NAME}`.
pub(super) fn add_servers(
    plan: &mut ImportPlan,
    from: &Path,
    servers: Option<&Value>,
    rewrite: fn(&str) -> String,
) {
    let Some(servers) = servers.and_then(Value::as_object) else { return };
    for (name, settings) in servers {
        if !plan.is_first_server(name) {
            let what = format!("MCP server {name} of {}", from.display());
            plan.leave_out(what, "another one goes before it");
            continue;
        }
        let read = match settings.as_object() {
            Some(settings) => ServerReader { settings, rewrite, notes: Vec::new() }.read(name),
            None => Err("it is no object".to_owned()),
        };
        match read {
            Ok((server, notes)) => plan.add_server(from, server, notes),
            Err(why) => plan.leave_out(format!("MCP server {name} of {}", from.display()), why),
        }
    }
}

struct ServerReader<'a> {
    settings: &'a Map<String, Value>,
    rewrite: fn(&str) -> String,
    notes: Vec<String>,
}

impl ServerReader<'_> {
    fn read(mut self, name: &str) -> Result<(NewServer, Vec<String>), String> {
        let settings = self.settings;
        let is = |key: &str, expected: bool| settings.get(key) == Some(&Value::Bool(expected));
        if is("enabled", false) || is("disabled", true) {
            return Err("it is switched off there".to_owned());
        }
        let kind = settings.get("type").or(settings.get("transport")).and_then(Value::as_str);
        if kind == Some("sse") {
            return Err("it uses the old HTTP+SSE transport, which is not supported".to_owned());
        }
        let mut server = NewServer { name: name.to_owned(), ..NewServer::default() };
        for (key, value) in settings {
            match key.as_str() {
                "command" | "args" | "enabled" | "disabled" => {}
                "url" if kind.is_none() && settings.contains_key("httpUrl") => {}
                "url" | "httpUrl" | "serverUrl" => {
                    let url = self.text(key, value)?;
                    if !(url.starts_with("http://") || url.starts_with("https://")) {
                        return Err("its url does not begin with http:// or https://".to_owned());
                    }
                    server.target = vec![url];
                }
                "env" | "environment" => server.env = self.pairs(key, value)?,
                "headers" | "http_headers" => server.headers.extend(self.pairs(key, value)?),
                // The values are names of variables.
                "env_http_headers" => {
                    let pairs = self.pairs(key, value)?.into_iter();
                    server.headers.extend(pairs.map(|(name, value)| (name, variable(&value))));
                }
                "bearer_token_env_var" => {
                    let token = variable(&self.text(key, value)?);
                    server.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
                }
                "env_vars" => {
                    let names = self.texts(key, value)?.into_iter();
                    server.env.extend(names.map(|name| (name.clone(), variable(&name))));
                }
                "cwd" => server.cwd = Some(PathBuf::from(self.text(key, value)?)),
                "includeTools" | "enabled_tools" => server.tools = Some(self.texts(key, value)?),
                known if WITHOUT_MEANING.contains(&known) => {}
                other => self.notes.push(format!("`{other}` is left out")),
            }
        }
        // The command last: it decides what the server is.
        let mut command = match settings.get("command") {
            Some(value @ Value::Array(_)) => self.texts("command", value)?,
            Some(value) => vec![self.text("command", value)?],
            None => Vec::new(),
        };
        if let Some(value) = settings.get("args").filter(|_| !command.is_empty()) {
            command.extend(self.texts("args", value)?);
        }
        if !command.is_empty() {
            if !server.target.is_empty() {
                return Err("it has a command and a url".to_owned());
            }
            server.target = command;
        }
        match server.target.first() {
            None => Err("it has neither a command nor a url".to_owned()),
            Some(first) if first.trim().is_empty() => Err("its command is empty".to_owned()),
            Some(_) => Ok((server, self.notes)),
        }
    }

    fn text(&self, key: &str, value: &Value) -> Result<String, String> {
        match value {
            Value::String(text) => Ok((self.rewrite)(text)),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(value) => Ok(value.to_string()),
            _ => Err(format!("`{key}` is no text")),
        }
    }

    fn texts(&self, key: &str, value: &Value) -> Result<Vec<String>, String> {
        let values = value.as_array().ok_or_else(|| format!("`{key}` is no list"))?;
        values.iter().map(|value| self.text(key, value)).collect()
    }

    fn pairs(&self, key: &str, value: &Value) -> Result<Vec<(String, String)>, String> {
        let object = value.as_object().ok_or_else(|| format!("`{key}` is no table"))?;
        let pairs = object.iter();
        pairs.map(|(name, value)| Ok((name.clone(), self.text(key, value)?))).collect()
    }
}

fn variable(name: &str) -> String {
    format!("${{{name}}}")
}
