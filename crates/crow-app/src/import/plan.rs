//! The plan of an import.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::{ids::SessionId, permission::PermissionRule};
use serde_json::{Map, Value};

use super::{
    files::{MOST_FILES, read_text, skill_files, toml_to_json, without_comments},
    front_matter::MarkdownFile,
    rules::ImportedRules,
    sessions::format::{SessionFile, SessionFormat},
};
use crate::{
    config::NewServer, environment::ProcessEnvironment, error::AppError,
    prompt_files::is_command_name,
};

/// Keys that limit an agent.
const LIMITS: [&str; 3] = ["disallowedTools", "permission", "permissionMode"];
/// Reason for leaving out what has such a name.
const NO_NAME: &str =
    "a name here has at most 64 letters, digits, \"-\" and \"_\", and begins with a letter";
/// Keys in the front matter of commands that Crow reads.
const COMMAND_KEYS: [&str; 2] = ["description", "argument-hint"];
/// Kind of an imported item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportKind {
    Server,
    Rule,
    Agent,
    Command,
    Skill,
    Instructions,
    Session,
}

impl ImportKind {
    /// Returns the name for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "MCP server",
            Self::Rule => "rule",
            Self::Agent => "agent",
            Self::Command => "command",
            Self::Skill => "skill",
            Self::Instructions => "instructions",
            Self::Session => "session",
        }
    }
}

/// Whether Crow has it already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportState {
    /// It does not.
    New,
    /// It has the same.
    Present,
    /// It has one of that name, of which nothing else is known; it stays unless it is to be replaced.
    Other,
}

/// Which sessions are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChoice {
    None,
    /// Those of the project that the user is in.
    Project,
    All,
}

/// A session to import.
#[derive(Debug)]
pub(super) struct SessionImport {
    /// The name of the program for people.
    pub(super) program: &'static str,
    pub(super) id: SessionId,
    /// The digest of the conversation.
    pub(super) digest: String,
    pub(super) file: SessionFile,
    /// Reads the file again.
    pub(super) format: Arc<dyn SessionFormat>,
}

/// Something to import.
#[derive(Debug)]
pub struct ImportItem {
    pub kind: ImportKind,
    pub name: String,
    /// The file that it comes from.
    pub from: PathBuf,
    pub state: ImportState,
    /// Settings of the item that Crow does not support.
    pub notes: Vec<String>,
    pub(super) change: ImportChange,
}

#[derive(Debug)]
pub(super) enum ImportChange {
    /// A file with this text.
    File {
        to: PathBuf,
        text: String,
    },
    /// A copy of a folder.
    Folder {
        to: PathBuf,
    },
    Server(NewServer),
    Rules(Vec<PermissionRule>),
    Session(SessionImport),
}

/// Something that is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub what: String,
    pub why: String,
}

/// Outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportResult {
    /// Number of items that were written.
    pub written: usize,
    /// Items that could not be written, and why.
    pub failed: Vec<LeftOut>,
}

/// Items that an import would write, and those that it would skip.
#[derive(Debug)]
pub struct ImportPlan {
    pub items: Vec<ImportItem>,
    /// Files of the other program that Crow reads in place, without an import.
    pub used: Vec<String>,
    pub left_out: Vec<LeftOut>,
    pub(super) environment: ProcessEnvironment,
    pub(super) home: PathBuf,
    /// Names of servers that were seen: also one that is switched off hides those that would come after it.
    servers: BTreeSet<String>,
    /// Crow's folder.
    folder: PathBuf,
    pub(super) sessions: SessionChoice,
}

impl ImportPlan {
    pub(super) fn new(
        environment: &ProcessEnvironment,
        sessions: SessionChoice,
    ) -> Result<Self, AppError> {
        let home = environment.var("HOME").map(PathBuf::from);
        let home = home.ok_or_else(|| AppError::usage("HOME is not set"))?;
        Ok(Self {
            items: Vec::new(),
            used: Vec::new(),
            left_out: Vec::new(),
            servers: BTreeSet::new(),
            environment: environment.clone(),
            home,
            folder: environment.config_dir()?,
            sessions,
        })
    }

    /// Returns the value of a variable of the environment, as a path.
    pub(super) fn folder_variable(&self, name: &str) -> Option<PathBuf> {
        self.environment.var(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Returns the folder that the user works in.
    pub(super) fn current_dir(&self) -> Option<PathBuf> {
        self.environment.current_dir().ok().map(Path::to_path_buf)
    }

    pub(super) fn leave_out(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), why: why.into() });
    }

    pub(super) fn add_server(&mut self, from: &Path, server: NewServer, notes: Vec<String>) {
        let name = server.name.clone();
        self.add(ImportKind::Server, name, from, ImportChange::Server(server), notes);
    }

    /// Returns true for the first server of a name.
    pub(super) fn is_first_server(&mut self, name: &str) -> bool {
        self.servers.insert(name.to_owned())
    }

    pub(super) fn add_session(&mut self, session: SessionImport, notes: Vec<String>) {
        let (name, from) = (session.id.to_string(), session.file.path.clone());
        self.add(ImportKind::Session, name, &from, ImportChange::Session(session), notes);
    }

    pub(super) fn add_rules(&mut self, from: &Path, written: &str, rules: ImportedRules) {
        let change = ImportChange::Rules(rules.rules);
        self.add(ImportKind::Rule, written.to_owned(), from, change, rules.notes);
    }

    /// Adds an agent with these keys of its front matter, besides the name.
    pub(super) fn add_agent(
        &mut self,
        from: &Path,
        name: &str,
        head: &str,
        body: &str,
        notes: Vec<String>,
    ) {
        let what = format!("agent {name} of {}", from.display());
        if !is_plain_name(name) || !crow_agent::definition::is_name(name) {
            return self.leave_out(what, NO_NAME);
        }
        if body.contains("{{") {
            return self
                .leave_out(what, "its text has `{{`, which begins a part of a template here");
        }
        let text = format!("---\nname: {name}\n{head}---\n\n{}\n", body.trim());
        let to = self.folder.join("agents").join(format!("{name}.md"));
        let change = ImportChange::File { to, text };
        self.add(ImportKind::Agent, name.to_owned(), from, change, notes);
    }

    pub(super) fn add_command(
        &mut self,
        from: &Path,
        name: &str,
        text: String,
        notes: Vec<String>,
    ) {
        if !is_plain_name(name) || !is_command_name(name) {
            return self.leave_out(format!("command {name} of {}", from.display()), NO_NAME);
        }
        let to = self.folder.join("prompts/commands").join(format!("{name}.md"));
        let change = ImportChange::File { to, text };
        self.add(ImportKind::Command, name.to_owned(), from, change, notes);
    }

    /// Adds an agent from a Markdown file. One that is limited in a way that has no equal is left out: here it could do more.
    pub(super) fn add_agent_file(&mut self, from: &Path) {
        let Some(text) = self.read_text(from) else { return };
        let file = MarkdownFile::new(&text);
        let what = from.display().to_string();
        if file.keys().next().is_none() {
            return self.leave_out(what, "it does not begin with a front matter");
        }
        if let Some(limit) = file.keys().find(|key| LIMITS.contains(key)) {
            return self.leave_out(what, format!("it is limited by `{limit}`, which has no equal"));
        }
        if file.entry("tools").is_some_and(|entry| entry.contains("false")) {
            return self.leave_out(what, "it is limited by `tools` in a way that has no equal");
        }
        let written = file.value("name").filter(|name| is_plain_name(name));
        let name = written.map_or_else(|| file_name(from), str::to_owned);
        let is_read = |key: &&str| *key != "name" && crow_agent::definition::is_markdown_key(key);
        let entries = file.keys().filter(is_read).filter_map(|key| file.entry(key));
        let head = entries.collect::<String>();
        let notes = left_out_keys(&text, crow_agent::definition::is_markdown_key);
        let body = file.body.to_owned();
        self.add_agent(from, &name, &head, &body, notes);
    }

    /// Adds a command that is written in the format that Crow reads, too.
    pub(super) fn add_command_file(&mut self, from: &Path) {
        let Some(text) = self.read_text(from) else { return };
        let name = file_name(from);
        let notes = left_out_keys(&text, |key| COMMAND_KEYS.contains(&key));
        self.add_command(from, &name, text, notes);
    }

    /// Adds a command of a program that runs nothing in the text of commands.
    pub(super) fn add_text_command(&mut self, from: &Path, rewrite: fn(&str) -> String) {
        let Some(text) = self.read_text(from) else { return };
        let mut notes = left_out_keys(&text, |key| COMMAND_KEYS.contains(&key));
        if text.contains("${@") {
            notes.push("`${@…}` has no equal and stays as it is".to_owned());
        }
        if text.contains("!`") {
            notes.push("text like !`…` in it runs a command here".to_owned());
        }
        self.add_command(from, &file_name(from), rewrite(&text), notes);
    }

    /// Notes what Crow reads where it is.
    pub(super) fn use_folder(&mut self, folder: &Path, what: &str) {
        if folder.is_dir() {
            self.used.push(format!("{what} in {}", folder.display()));
        }
    }

    /// Leaves out a file or folder, if it exists.
    pub(super) fn leave_out_path(&mut self, path: &Path, why: &str) {
        if path.exists() {
            self.leave_out(path.display().to_string(), why);
        }
    }

    /// Adds the instructions for all projects, if there are some.
    pub(super) fn add_instructions(&mut self, from: &Path) {
        match read_text(from) {
            Ok(Some(text)) if !text.trim().is_empty() => {
                let to = self.folder.join("AGENTS.md");
                let change = ImportChange::File { to, text };
                let name = "AGENTS.md".to_owned();
                self.add(ImportKind::Instructions, name, from, change, Vec::new());
            }
            Ok(_) => {}
            Err(why) => self.leave_out(from.display().to_string(), why),
        }
    }

    /// Adds the skills in a folder.
    pub(super) fn add_skills(&mut self, folder: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_FILES);
        let mut skills: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        skills.sort();
        for skill in skills {
            let Some(name) = skill.file_name().and_then(|name| name.to_str()) else { continue };
            if name.starts_with('.') || !skill.join("SKILL.md").is_file() {
                continue;
            }
            let to = self.folder.join("skills").join(name);
            let (name, change) = (name.to_owned(), ImportChange::Folder { to });
            match skill_files(&skill) {
                Ok(files) => {
                    let notes = match files.left_out {
                        0 => Vec::new(),
                        count => vec![format!("links and special files are left out: {count}")],
                    };
                    self.add(ImportKind::Skill, name, &skill, change, notes);
                }
                Err(error) => self.leave_out(skill.display().to_string(), error.to_string()),
            }
        }
    }

    fn add(
        &mut self,
        kind: ImportKind,
        name: String,
        from: &Path,
        change: ImportChange,
        notes: Vec<String>,
    ) {
        let is_known = self.items.iter().any(|item| item.kind == kind && item.name == name);
        if is_known {
            let what = format!("{} {name} of {}", kind.as_str(), from.display());
            return self.leave_out(what, "another one of this name or id goes before it");
        }
        let (from, state) = (from.to_path_buf(), ImportState::New);
        self.items.push(ImportItem { kind, name, from, state, notes, change });
    }

    /// Reads a JSON file of the other program; comments are allowed. What cannot be used is left out. `None` without the file.
    pub(super) fn read_json(&mut self, path: &Path) -> Option<Map<String, Value>> {
        let text = match read_text(path) {
            Ok(text) => text?,
            Err(why) => {
                self.leave_out(path.display().to_string(), why);
                return None;
            }
        };
        match serde_json::from_str(&without_comments(text.trim_start_matches('\u{feff}'))) {
            Ok(Value::Object(object)) => Some(object),
            Ok(_) => {
                self.leave_out(path.display().to_string(), "it is no JSON object");
                None
            }
            Err(error) => {
                let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
                self.leave_out(place, format!("it is no JSON: {error}"));
                None
            }
        }
    }

    /// Reads a TOML file of the other program. What cannot be used is left out. `None` without the file.
    pub(super) fn read_toml(&mut self, path: &Path) -> Option<Map<String, Value>> {
        let text = self.read_text(path)?;
        match text.parse::<toml_edit::DocumentMut>() {
            Ok(document) => {
                let entries = document.iter();
                Some(entries.map(|(key, item)| (key.to_owned(), toml_to_json(item))).collect())
            }
            Err(error) => {
                // The first line says where, the last one why.
                let message = error.to_string();
                let lines = [message.lines().next(), message.lines().last()];
                let why = lines.into_iter().flatten().collect::<Vec<_>>().join(": ");
                self.leave_out(path.display().to_string(), format!("it is no TOML: {why}"));
                None
            }
        }
    }

    /// Returns the text of a file of the other program. What cannot be read is left out.
    pub(super) fn read_text(&mut self, path: &Path) -> Option<String> {
        match read_text(path) {
            Ok(text) => text,
            Err(why) => {
                self.leave_out(path.display().to_string(), why);
                None
            }
        }
    }
}

/// Returns the name of a command or agent for its file: other characters than [`is_plain`] ones become `-`. A name without any
/// stays as it is, for the message that says so.
pub(super) fn file_name(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = stem.chars().map(|char| if is_plain(char) { char } else { '-' });
    let name = name.collect::<String>().trim_matches('-').to_ascii_lowercase();
    if name.is_empty() { stem.to_owned() } else { name }
}

/// Returns true for a name that cannot lead out of a folder.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_plain)
}

fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_')
}

/// Returns a note for each key of the front matter that Crow does not read.
fn left_out_keys(text: &str, is_read: impl Fn(&str) -> bool) -> Vec<String> {
    let file = MarkdownFile::new(text);
    file.keys().filter(|key| !is_read(key)).map(|key| format!("`{key}` is left out")).collect()
}
