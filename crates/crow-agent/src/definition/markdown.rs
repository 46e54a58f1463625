//! Agents as Markdown: front matter between two lines of `---`, and the system prompt below it.
//!
//! Other programs have such files, too, with keys of their own. Known keys of this kind are ignored with a warning;
//! any other unknown key is an error.
//!
//! The front matter is read line by line, as a small part of YAML: `key: value`, with continuation lines for lists
//! and texts. Each key is translated into its path in TOML, so that the result is the same tree of nodes, with
//! origins in the Markdown file.

use std::{collections::BTreeMap, sync::Arc};

use crow_core::config::{ConfigError, unknown_word_message};

use super::{ToolNames, base::ToolName};
use crate::layers::{Node, SourceFile, TableEntry, Value, ValueOrigin};

/// The keys, and their paths in TOML.
const KEYS: [(&str, [&str; 2]); 12] = [
    ("name", ["agent", "name"]),
    ("description", ["agent", "description"]),
    ("role", ["agent", "role"]),
    ("mode", ["agent", "role"]),
    ("provider", ["model", "provider"]),
    ("model", ["model", "model"]),
    ("temperature", ["model", "temperature"]),
    ("max_tokens", ["model", "max_tokens"]),
    ("thinking", ["model", "thinking"]),
    ("max_iterations", ["react", "max_iterations"]),
    ("doom_loop_threshold", ["react", "doom_loop_threshold"]),
    ("tools", ["tools", "enabled"]),
];
/// Keys of other programs that are ignored with a warning.
const FOREIGN: [&str; 22] = [
    "allowed-tools",
    "argument-hint",
    "background",
    "color",
    "disable",
    "disallowedTools",
    "effort",
    "hidden",
    "hooks",
    "isolation",
    "license",
    "maxSteps",
    "maxTurns",
    "mcpServers",
    "memory",
    "metadata",
    "options",
    "permission",
    "permissionMode",
    "skills",
    "steps",
    "top_p",
];
/// Names of models in other programs.
const FOREIGN_MODELS: [&str; 5] = ["inherit", "sonnet", "opus", "haiku", "default"];

/// Returns true if agents in Markdown files have this key here.
pub fn is_markdown_key(key: &str) -> bool {
    KEYS.iter().any(|(known, _)| *known == key)
}

/// An agent from a Markdown file, in the form that TOML gives it.
#[derive(Debug)]
pub(super) struct MarkdownDefinition {
    pub(super) node: Node,
    pub(super) warnings: Vec<String>,
}

/// A key of the front matter.
struct FrontMatterLine<'a> {
    origin: ValueOrigin,
    key: &'a str,
    value: &'a str,
    value_at: ValueOrigin,
    /// Continuation lines: indented, or beginning with `-`.
    below: Vec<(ValueOrigin, &'a str)>,
}

/// Reads a Markdown agent.
pub(super) fn read(file: SourceFile, tools: &ToolNames) -> Result<MarkdownDefinition, ConfigError> {
    let file = Arc::new(file);
    let (head, body_at) = split(&file)?;
    let mut builder = Builder { file: &file, tools, warnings: Vec::new(), entries: Vec::new() };
    for line in head_lines(&file, head)? {
        builder.line(&line)?;
    }
    let body = &file.text[body_at..];
    let at = ValueOrigin::new(&file, body_at);
    let prompt = Node { origin: at.clone(), value: Value::Text(body.to_owned()) };
    builder.entries.push((["prompt", "system"], at, prompt));
    if !builder.entries.iter().any(|(path, _, _)| *path == ["tools", "enabled"]) {
        // As in the programs that have this format: an agent without this key has all tools.
        let names = tools.all().into_iter().filter(|name| name != "submit_for_review");
        let at = ValueOrigin::new(&file, 0);
        let node = |name| Node { origin: at.clone(), value: Value::Text(name) };
        let all = Node { origin: at.clone(), value: Value::List(names.map(node).collect()) };
        builder.entries.push((["tools", "enabled"], at.clone(), all));
    }
    Ok(builder.finish())
}

/// Returns the range of the front matter, and the byte at which the body begins.
fn split(file: &SourceFile) -> Result<(std::ops::Range<usize>, usize), ConfigError> {
    let file_error = |message: &str| ConfigError::of_file(&file.path, message);
    let text = file.text.as_str();
    let mut at = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut lines = text[at..].split_inclusive('\n');
    match lines.next() {
        Some(first) if first.trim_end() == "---" => at += first.len(),
        Some(_) | None => {
            return Err(file_error(
                "does not begin with a --- line, followed by name and description",
            ));
        }
    }
    let start = at;
    for line in lines {
        let end = at;
        at += line.len();
        if line.trim_end() == "---" {
            return Ok((start..end, at));
        }
    }
    Err(file_error("has no second --- line, followed by the system prompt"))
}

/// Splits the front matter into keys with their continuation lines.
fn head_lines(
    file: &Arc<SourceFile>,
    head: std::ops::Range<usize>,
) -> Result<Vec<FrontMatterLine<'_>>, ConfigError> {
    let mut lines: Vec<FrontMatterLine<'_>> = Vec::new();
    let mut at = head.start;
    for raw in file.text[head].split_inclusive('\n') {
        let origin = ValueOrigin::new(file, at);
        at += raw.len();
        let line = raw.trim_end();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t', '-']) {
            match lines.last_mut() {
                Some(last) => last.below.push((origin, line)),
                None => return Err(origin.error("a front matter line must begin with a key")),
            }
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(origin.error("a front matter line must be key: value"));
        };
        let value_at = at - raw.len() + key.len() + 1 + (value.len() - value.trim_start().len());
        lines.push(FrontMatterLine {
            value_at: ValueOrigin::new(file, value_at),
            origin,
            key: key.trim(),
            value: value.trim(),
            below: Vec::new(),
        });
    }
    Ok(lines)
}

/// Collects the nodes, each with its path in TOML.
struct Builder<'a> {
    file: &'a Arc<SourceFile>,
    tools: &'a ToolNames,
    warnings: Vec<String>,
    entries: Vec<([&'static str; 2], ValueOrigin, Node)>,
}

impl Builder<'_> {
    fn line(&mut self, line: &FrontMatterLine<'_>) -> Result<(), ConfigError> {
        if FOREIGN.contains(&line.key) {
            self.warn(&line.origin, format!("the key {} has no effect here", line.key));
            return Ok(());
        }
        let Some((_, path)) = KEYS.iter().find(|(key, _)| *key == line.key) else {
            let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
            return Err(line.origin.error(unknown_word_message("key", line.key, &known)));
        };
        if self.entries.iter().any(|(other, _, _)| other == path) {
            return Err(line.origin.error(format!("the key {} is set twice", line.key)));
        }
        let value = match line.key {
            "tools" => self.tool_list(line)?,
            "model" => match self.model(line)? {
                Some(value) => value,
                None => return Ok(()),
            },
            "mode" if line.value == "all" => Value::Text("primary".to_owned()),
            _ => scalar(&text(line)?, line),
        };
        let node = Node { origin: line.value_at.clone(), value };
        self.entries.push((*path, line.origin.clone(), node));
        Ok(())
    }

    fn warn(&mut self, origin: &ValueOrigin, message: String) {
        self.warnings.push(origin.error(message).to_string());
    }

    /// Reads the model. `provider/model` sets both; models of other programs give `None`.
    fn model(&mut self, line: &FrontMatterLine<'_>) -> Result<Option<Value>, ConfigError> {
        let given = text(line)?;
        if FOREIGN_MODELS.contains(&given.as_str()) {
            if given != "inherit" {
                let message =
                    format!("\"{given}\" is a model of another program; the default is used");
                self.warn(&line.value_at, message);
            }
            return Ok(None);
        }
        let Some((provider, model)) = given.split_once('/') else {
            return Ok(Some(Value::Text(given)));
        };
        let origin = line.value_at.clone();
        let node = Node { origin, value: Value::Text(provider.to_owned()) };
        self.entries.push((["model", "provider"], line.origin.clone(), node));
        Ok(Some(Value::Text(model.to_owned())))
    }

    /// Reads a list of tools: separated by commas, as items with `-`, or as `name: true` and `name: false`.
    fn tool_list(&mut self, line: &FrontMatterLine<'_>) -> Result<Value, ConfigError> {
        let mut names: Vec<(ValueOrigin, String)> = Vec::new();
        let listed = line.value.trim_start_matches('[').trim_end_matches(']');
        // A rule in parentheses may contain commas.
        let mut depth = 0_i32;
        let parts = listed.split(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        });
        for part in parts.map(unquote).filter(|part| !part.is_empty()) {
            names.push((line.value_at.clone(), part.to_owned()));
        }
        let mut switched_off = Vec::new();
        for (origin, below) in &line.below {
            let below = below.trim();
            if let Some(item) = below.strip_prefix('-') {
                names.push((origin.clone(), unquote(item).to_owned()));
            } else if let Some((name, state)) = below.split_once(':') {
                match state.trim() {
                    "false" => switched_off.push((origin.clone(), unquote(name).to_owned())),
                    _ => names.push((origin.clone(), unquote(name).to_owned())),
                }
            } else {
                return Err(origin.error("a tool is written as `- name` or `name: true`"));
            }
        }
        // `*` means all tools, and so does a list that only switches tools off.
        if names.iter().any(|(_, name)| name == "*")
            || (names.is_empty() && !switched_off.is_empty())
        {
            let all = self.tools.all().into_iter().filter(|name| name != "submit_for_review");
            names = all.map(|name| (line.value_at.clone(), name)).collect();
        }
        let off: Vec<_> =
            switched_off.iter().map(|(_, name)| self.tools.find_alias(name)).collect();
        let mut items = Vec::new();
        for (origin, name) in names {
            let tool = self.tools.find_alias(&name);
            if off.contains(&tool) {
                continue;
            }
            match tool {
                ToolName::Tool(name) => items.push(Node { origin, value: Value::Text(name) }),
                ToolName::Unknown(note) => self.warn(&origin, note),
            }
        }
        Ok(Value::List(items))
    }

    /// Builds the tree: one table for each table of the TOML form.
    fn finish(self) -> MarkdownDefinition {
        let at = ValueOrigin::new(self.file, 0);
        let mut tables: BTreeMap<String, BTreeMap<String, TableEntry>> = BTreeMap::new();
        for ([table, key], origin, node) in self.entries {
            let table = tables.entry(table.to_owned()).or_default();
            table.insert(key.to_owned(), TableEntry { key: origin, node });
        }
        let tables = tables.into_iter().map(|(name, entries)| {
            let key = entries.values().next().map_or_else(|| at.clone(), |one| one.key.clone());
            let node = Node { origin: key.clone(), value: Value::Table(entries) };
            (name, TableEntry { key, node })
        });
        let node = Node { origin: at.clone(), value: Value::Table(tables.collect()) };
        MarkdownDefinition { node, warnings: self.warnings }
    }
}

/// Reads a text: quoted, plain, or from the continuation lines.
fn text(line: &FrontMatterLine<'_>) -> Result<String, ConfigError> {
    let folded = match line.value {
        "|" | "|-" | "|+" => "\n",
        ">" | ">-" | ">+" | "" => " ",
        _ if !line.below.is_empty() => {
            return Err(line.origin.error(format!("{} must be one line", line.key)));
        }
        value => return Ok(unquote(value).to_owned()),
    };
    let lines: Vec<&str> = line.below.iter().map(|(_, below)| below.trim()).collect();
    Ok(lines.join(folded))
}

/// Returns a number as a number, unless it is quoted.
fn scalar(text: &str, line: &FrontMatterLine<'_>) -> Value {
    let is_quoted = line.value.starts_with(['"', '\'']);
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(number), _) if !is_quoted => Value::Integer(number),
        (_, Ok(number)) if !is_quoted => Value::Float(number),
        (_, _) => Value::Text(text.to_owned()),
    }
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}
