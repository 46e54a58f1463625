//! The plan of an import, and carrying it out.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crow_core::permission::{PermissionRule, RuleMatcher, RuleSet};
use serde_json::{Map, Value};

use super::{front_matter::MarkdownFile, rules::ImportedRules};
use crate::{
    config::{NewServer, ProjectAdditions, add_server, configured_servers},
    environment::ProcessEnvironment,
    error::AppError,
    private_file, product,
    prompt_files::is_command_name,
};

/// Maximum size of a file that is read, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Maximum number of entries that are looked at below one folder, of files of a skill, and depth of folders.
const MOST_ENTRIES: usize = 5_000;
const MOST_FILES: usize = 1_000;
const DEEPEST: usize = 4;
/// Keys that limit an agent.
const LIMITS: [&str; 3] = ["disallowedTools", "permission", "permissionMode"];
/// Reason for leaving out what has such a name.
const NO_NAME: &str =
    "a name here has at most 64 letters, digits, \"-\" and \"_\", and begins with a letter";
/// Keys in the front matter of commands that Crow reads.
const COMMAND_KEYS: [&str; 2] = ["description", "argument-hint"];
/// Maximum size of a skill with all its files, in bytes.
const LARGEST_SKILL: u64 = 20 * 1024 * 1024;

/// What is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportKind {
    Server,
    Rule,
    Agent,
    Command,
    Skill,
    Instructions,
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

/// Something to import.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportItem {
    pub kind: ImportKind,
    pub name: String,
    /// The file that it comes from.
    pub from: PathBuf,
    pub state: ImportState,
    /// What of it has no meaning here.
    pub notes: Vec<String>,
    change: ImportChange,
}

#[derive(Debug, Clone, PartialEq)]
enum ImportChange {
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
}

/// Something that is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub what: String,
    pub why: String,
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportResult {
    /// Number of items that were written.
    pub written: usize,
    /// Items that could not be written, and why.
    pub failed: Vec<LeftOut>,
}

/// What an import would do.
#[derive(Debug)]
pub struct ImportPlan {
    pub items: Vec<ImportItem>,
    /// What Crow reads where it is: nothing has to be imported.
    pub used: Vec<String>,
    pub left_out: Vec<LeftOut>,
    environment: ProcessEnvironment,
    pub(super) home: PathBuf,
    /// Names of servers that were seen: also one that is switched off hides those that would come after it.
    servers: BTreeSet<String>,
    /// Crow's folder.
    folder: PathBuf,
}

impl ImportPlan {
    pub(super) fn new(environment: &ProcessEnvironment) -> Result<Self, AppError> {
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
            return self.leave_out(what, "another one has its name");
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

    /// Compares with what Crow has.
    pub(super) fn compare(&mut self) -> Result<(), AppError> {
        let servers = configured_servers(&self.environment, &ProjectAdditions::default())?;
        let mut known: BTreeSet<String> = servers.disabled.iter().cloned().collect();
        known.extend(servers.servers.iter().map(|(known, _)| known.server.name.clone()));
        let rules = product::rule_store(&self.environment)?.load()?.user;
        for item in &mut self.items {
            item.state = match &item.change {
                ImportChange::File { to, text } => match read_text(to) {
                    Ok(None) => ImportState::New,
                    Ok(Some(present)) if present == *text => ImportState::Present,
                    Ok(Some(_)) | Err(_) => ImportState::Other,
                },
                ImportChange::Folder { to } if !to.exists() => ImportState::New,
                ImportChange::Folder { to } => {
                    let file = |folder: &Path| read_text(&folder.join("SKILL.md"));
                    let is_same = matches!((file(to), file(&item.from)), (Ok(one), Ok(other)) if one == other);
                    if is_same { ImportState::Present } else { ImportState::Other }
                }
                ImportChange::Server(server) if known.contains(&server.name) => ImportState::Other,
                ImportChange::Rules(new) if new.iter().all(|rule| is_present(&rules, rule)) => {
                    ImportState::Present
                }
                ImportChange::Server(_) | ImportChange::Rules(_) => ImportState::New,
            };
        }
        self.items.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(())
    }

    /// Writes what is new, or also replaces what is there. One item that cannot be written does not keep the others from it.
    /// Blocks.
    ///
    /// # Errors
    /// Fails if the rules cannot be read or written; nothing else is written then.
    pub fn carry_out(&self, replaces: bool) -> Result<ImportResult, AppError> {
        let is_wanted = |item: &&ImportItem| match item.state {
            ImportState::New => true,
            ImportState::Other => replaces,
            ImportState::Present => false,
        };
        let wanted: Vec<&ImportItem> = self.items.iter().filter(is_wanted).collect();
        let mut result = ImportResult { written: 0, failed: Vec::new() };
        // 1) The rules, all at once.
        let new = wanted.iter().filter_map(|item| match &item.change {
            ImportChange::Rules(rules) => Some(rules.clone()),
            _ => None,
        });
        let new: Vec<Vec<PermissionRule>> = new.collect();
        if !new.is_empty() {
            let store = product::rule_store(&self.environment)?;
            let mut rules = store.load()?.user.into_rules();
            result.written += new.len();
            let new: Vec<PermissionRule> = new.into_iter().flatten().collect();
            for rule in new {
                let id = free_id(&rules, &rule.id);
                rules.push(PermissionRule { id, ..rule });
            }
            let rules = RuleSet::new(rules).map_err(|error| AppError::failed(error.to_string()))?;
            store.save(&rules)?;
        }
        // 2) Everything else.
        for item in wanted {
            let written = match &item.change {
                ImportChange::Rules(_) => continue,
                ImportChange::File { to, text } => {
                    private_file::replace(to, text).map_err(|error| error.to_string())
                }
                ImportChange::Folder { to } => {
                    copy_skill(&item.from, to, replaces).map_err(|error| error.to_string())
                }
                ImportChange::Server(server) => {
                    let added = add_server(&self.environment, server, replaces);
                    added.map(drop).map_err(|error| error.message)
                }
            };
            match written {
                Ok(()) => result.written += 1,
                Err(why) => {
                    let what = format!("{} {}", item.kind.as_str(), item.name);
                    result.failed.push(LeftOut { what, why });
                }
            }
        }
        Ok(result)
    }
}

/// Returns true if there is a rule that matches and decides the same.
fn is_present(rules: &RuleSet, rule: &PermissionRule) -> bool {
    let text = |matcher: &RuleMatcher| serde_json::to_string(matcher).ok();
    let wanted = text(&rule.matcher);
    let is_same = |known: &PermissionRule| {
        known.decision == rule.decision
            && known.scope == rule.scope
            && text(&known.matcher) == wanted
    };
    rules.rules().iter().any(is_same)
}

/// Returns an id that no rule has.
fn free_id(rules: &[PermissionRule], wanted: &str) -> String {
    let is_free = |id: &str| rules.iter().all(|rule| rule.id != id);
    if is_free(wanted) {
        return wanted.to_owned();
    }
    let mut numbered = (2..).map(|number: u64| format!("{wanted}-{number}"));
    numbered.find(|id| is_free(id)).expect("invariant: there are more numbers than rules")
}

/// Reads a file of at most [`LARGEST`] bytes; `None` if there is none. Links are followed: users link their configuration from
/// elsewhere.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let bytes = crow_fs::read_bounded(&real, LARGEST).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8".to_owned())
}

/// Returns the files below a folder that have this ending, sorted.
pub(super) fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut pending = vec![(folder.to_path_buf(), 0)];
    let mut seen = BTreeSet::new();
    while let Some((folder, depth)) = pending.pop() {
        // Links to folders are followed, each folder once.
        if folder.canonicalize().is_ok_and(|real| !seen.insert(real)) {
            continue;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MOST_ENTRIES {
                break;
            }
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            if path.is_dir() {
                if depth < DEEPEST {
                    pending.push((path, depth + 1));
                }
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
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

fn toml_to_json(item: &toml_edit::Item) -> Value {
    use toml_edit::{Item, Value as Toml};
    let table = |table: &dyn toml_edit::TableLike| {
        let entries = table.iter().map(|(key, item)| (key.to_owned(), toml_to_json(item)));
        Value::Object(entries.collect())
    };
    match item {
        Item::None => Value::Null,
        Item::Table(found) => table(found),
        Item::ArrayOfTables(tables) => tables.iter().map(|found| table(found)).collect(),
        Item::Value(Toml::InlineTable(found)) => table(found),
        Item::Value(Toml::Array(values)) => {
            values.iter().map(|value| toml_to_json(&Item::Value(value.clone()))).collect()
        }
        Item::Value(Toml::String(text)) => Value::String(text.value().clone()),
        Item::Value(Toml::Integer(number)) => Value::from(*number.value()),
        Item::Value(Toml::Float(number)) => Value::from(*number.value()),
        Item::Value(Toml::Boolean(value)) => Value::Bool(*value.value()),
        Item::Value(Toml::Datetime(moment)) => Value::String(moment.value().to_string()),
    }
}

/// The files of a skill.
struct SkillFiles {
    files: Vec<PathBuf>,
    /// Number of links and special files, which are not copied.
    left_out: usize,
}

/// Lists the regular files of a skill, and its `SKILL.md` also if that is a link.
fn skill_files(skill: &Path) -> io::Result<SkillFiles> {
    let main = skill.join("SKILL.md");
    let (mut files, mut left_out, mut size) = (Vec::new(), 0, 0);
    let mut pending = vec![(skill.to_path_buf(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if depth == DEEPEST {
                    return Err(io::Error::other("its folders are too deep"));
                }
                pending.push((entry.path(), depth + 1));
            } else if kind.is_file() || entry.path() == main {
                size += fs::metadata(entry.path())?.len();
                files.push(entry.path());
            } else {
                left_out += 1;
            }
            if files.len() > MOST_FILES || size > LARGEST_SKILL {
                return Err(io::Error::other("it has too many files, or they are too large"));
            }
        }
    }
    Ok(SkillFiles { files, left_out })
}

/// Copies a skill. What was there stays until all files are copied.
fn copy_skill(from: &Path, to: &Path, replaces: bool) -> io::Result<()> {
    let parent = to.parent().expect("invariant: it is in Crow's folder");
    fs::create_dir_all(parent)?;
    let fresh = tempfile::Builder::new().prefix(".new-").tempdir_in(parent)?;
    let copy = fresh.path().join("skill");
    fs::create_dir(&copy)?;
    for file in skill_files(from)?.files {
        let Ok(below) = file.strip_prefix(from) else { continue };
        let target = copy.join(below);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(&file, &target)?;
    }
    if to.exists() {
        if !replaces {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(to, fresh.path().join("old"))?;
    }
    fs::rename(&copy, to)
}

/// Replaces comments of JSON, and commas before closing brackets, by blanks.
fn without_comments(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut is_text = false;
    while let Some(char) = chars.next() {
        if is_text {
            output.push(char);
            match char {
                '\\' => output.extend(chars.next()),
                '"' => is_text = false,
                _ => {}
            }
            continue;
        }
        match (char, chars.peek()) {
            ('"', _) => {
                is_text = true;
                output.push(char);
            }
            ('/', Some('/')) => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            ('/', Some('*')) => {
                chars.next();
                let mut last = ' ';
                for next in chars.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    if next == '\n' {
                        output.push('\n');
                    }
                    last = next;
                }
            }
            (']' | '}', _) => {
                let end = output.trim_end().len();
                if output[..end].ends_with(',') {
                    output.replace_range(end - 1..end, " ");
                }
                output.push(char);
            }
            _ => output.push(char),
        }
    }
    output
}
