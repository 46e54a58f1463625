//! Commands that are prompts in files: `prompts/commands/NAME.md` of the user, `commands/NAME.md` of a trusted project, and
//! those of Claude Code, `.claude/commands/NAME.md`, of both.

use std::path::{Path, PathBuf};

use crow_agent::layers::{LayerKind, Layers};
use crow_core::message::{Block, PromptCommand, UserPrompt};

use crate::environment::ProcessEnvironment;

/// Folder of the user's prompt files.
const USER_FOLDER: &str = "prompts/commands";
/// Folder of a project's prompt files.
const PROJECT_FOLDER: &str = "commands";
/// Ending of the files.
const ENDING: &str = ".md";
/// Claude Code's folder: below the home, and as it is named among the files of a trusted project.
const CLAUDE_FOLDER: &str = ".claude/commands";
const CLAUDE_PREFIX: &str = "../.claude/commands/";
/// Maximum number of files of Claude Code's folder in the home, depth of folders in it, and size of a file in bytes.
const MOST_FILES: usize = 500;
const DEEPEST: usize = 3;
const LARGEST: u64 = 256 * 1024;
/// Maximum length of a command name, in bytes.
const LONGEST_NAME: usize = 64;
/// Maximum length of a shown description or argument hint, in characters.
const DESCRIPTION: usize = 120;
/// Line that begins and ends the front matter.
const FENCE: &str = "---";

/// The prompt files, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptFiles {
    files: Vec<PromptFile>,
    /// Warnings about files that cannot be used.
    pub warnings: Vec<String>,
}

/// A command whose text is sent as a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptFile {
    pub(crate) path: PathBuf,
    /// The layer of the file: the user's or a project's.
    pub(crate) origin: LayerKind,
    pub(crate) name: String,
    pub(crate) description: String,
    /// Description of the arguments; empty if the file states none.
    pub(crate) argument: String,
    text: String,
}

impl PromptFiles {
    /// Reads the prompt files of the layers, and those of Claude Code in the home. One of the project replaces one of the user
    /// of the same name, which is told; an unreadable file gives a warning. Blocks.
    pub fn read(layers: &Layers, environment: &ProcessEnvironment) -> Self {
        let mut found = Self::default();
        for (path, text) in claude_files(environment) {
            found.add(&path, LayerKind::User, text.map(Some));
        }
        for layer in layers.iter() {
            let folder = match layer.kind() {
                LayerKind::Project => PROJECT_FOLDER,
                LayerKind::User => USER_FOLDER,
                LayerKind::BuiltIn | LayerKind::CommandLine => continue,
            };
            let of_claude = layer.names_in_memory();
            let of_claude = of_claude.filter(|file| is_claude_command(file)).map(str::to_owned);
            let own = layer.names(folder, ENDING).into_iter();
            let own = own.map(|name| format!("{folder}/{name}{ENDING}"));
            for file in of_claude.chain(own).collect::<Vec<_>>() {
                let read = layer.read(&file).map_err(|error| error.to_string());
                found.add(&layer.path(&file), layer.kind(), read);
            }
        }
        found.files.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    fn add(&mut self, path: &Path, origin: LayerKind, text: Result<Option<String>, String>) {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let shown = path.display();
        let text = match text {
            Ok(Some(text)) if is_name(&name) => text,
            Ok(Some(_)) => {
                let why = "a command name may have only letters, digits, \"-\" and \"_\"";
                return self.warnings.push(format!("{shown}: {why}"));
            }
            Ok(None) => return,
            Err(error) => return self.warnings.push(error),
        };
        let path_buf = path.to_path_buf();
        let file = PromptFile { path: path_buf, origin, ..PromptFile::parse(&name, &text) };
        if let Some(at) = self.files.iter().position(|other| other.name == file.name) {
            let other = self.files.remove(at);
            let (name, other) = (&file.name, other.path.display());
            self.warnings.push(format!(
                "there are two commands named /{name}: {shown} is used, {other} is not"
            ));
        }
        self.files.push(file);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&PromptFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Returns the files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PromptFile> {
        self.files.iter()
    }
}

impl PromptFile {
    fn parse(name: &str, text: &str) -> Self {
        // A byte order mark would hide the front matter.
        let text = text.trim_start_matches('\u{feff}');
        let (head, body) = split(text).unwrap_or(("", text));
        let field = |key: &str| {
            let mut lines = head.lines();
            let value =
                lines.find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'));
            value.map(|value| shorten(value.trim().trim_matches(['"', '\''])))
        };
        let first = || body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(name);
        let description = field("description").filter(|text| !text.is_empty());
        Self {
            path: PathBuf::new(),
            origin: LayerKind::User,
            name: name.to_ascii_lowercase(),
            description: description
                .unwrap_or_else(|| shorten(first().trim_start_matches(['#', ' ']))),
            argument: field("argument-hint").unwrap_or_default(),
            text: body.trim().to_owned(),
        }
    }

    /// Returns the prompt with the argument inserted: `$ARGUMENTS` is the whole argument, `$1` its first word, and words in
    /// quotes count as one. Without either placeholder the argument is appended.
    ///
    /// The argument is never part of a command: in commands (``!`git log $1` ``) the placeholders are variables of the shell.
    pub(crate) fn prompt(&self, argument: &str) -> UserPrompt {
        let argument = argument.trim();
        let words = words(argument);
        let (mut text, mut is_used, mut commands) = (String::new(), false, Vec::new());
        for part in parts(&self.text) {
            match part {
                PromptPart::Text(part) => is_used |= insert(part, argument, &words, &mut text),
                PromptPart::Command { place, line } => {
                    is_used |= line.contains("ARGUMENTS") || line.contains('$');
                    text.push_str(place);
                    commands.push(PromptCommand {
                        place: place.to_owned(),
                        line: line.to_owned(),
                        argument: argument.to_owned(),
                        words: words.clone(),
                        is_required: false,
                    });
                }
            }
        }
        if !is_used && !argument.is_empty() {
            text.push_str("\n\n");
            text.push_str(argument);
        }
        UserPrompt { content: vec![Block::text(text)], commands }
    }
}

/// Returns true if a file of a project, by its name among the trusted files, is a command of Claude Code.
pub(crate) fn is_claude_command(name: &str) -> bool {
    name.starts_with(CLAUDE_PREFIX) && name.ends_with(ENDING)
}

/// Returns the lines that a prompt file runs.
pub(crate) fn command_lines(text: &str) -> Vec<String> {
    let prompt = PromptFile::parse("", text).prompt("");
    prompt.commands.into_iter().map(|command| command.line).collect()
}

/// Returns the folder of Claude Code's commands in the home, resolved if it exists.
pub(crate) fn claude_commands_folder(environment: &ProcessEnvironment) -> Option<PathBuf> {
    let folder = environment.var("HOME").map(|home| PathBuf::from(home).join(CLAUDE_FOLDER))?;
    Some(folder.canonicalize().unwrap_or(folder))
}

/// Reads the commands of Claude Code in the home. Links are followed: users link their files from elsewhere.
fn claude_files(environment: &ProcessEnvironment) -> Vec<(PathBuf, Result<String, String>)> {
    let mut found = Vec::new();
    if let Some(folder) = claude_commands_folder(environment) {
        collect_files(&folder, 0, &mut found);
    }
    found.sort();
    let read = |path: PathBuf| {
        let text = path.canonicalize().and_then(|path| crow_fs::read_bounded(&path, LARGEST));
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()));
        let text = text.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
        });
        (path, text)
    };
    found.into_iter().map(read).collect()
}

fn collect_files(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if found.len() == MOST_FILES {
            return;
        }
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        if path.is_dir() {
            if depth < DEEPEST {
                collect_files(&path, depth + 1, found);
            }
        } else if name.ends_with(ENDING) {
            found.push(path);
        }
    }
}

/// A part of the text of a prompt file.
#[derive(Debug, PartialEq, Eq)]
enum PromptPart<'a> {
    Text(&'a str),
    /// A command, and the text that it is written as.
    Command {
        place: &'a str,
        line: &'a str,
    },
}

/// Splits a text at its commands: ``!`git status` ``, at the beginning of a line or after a blank.
fn parts(text: &str) -> Vec<PromptPart<'_>> {
    const BEGIN: &str = "!`";
    let (mut parts, mut rest) = (Vec::new(), text);
    let mut from = 0;
    while let Some(at) = rest[from..].find(BEGIN).map(|at| from + at) {
        let begins = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
        let line = &rest[at + BEGIN.len()..];
        let end = line.find('`').filter(|end| begins && !line[..*end].trim().is_empty());
        let Some(end) = end.filter(|end| !line[..*end].contains('\n')) else {
            from = at + BEGIN.len();
            continue;
        };
        let after = at + BEGIN.len() + end + 1;
        parts.push(PromptPart::Text(&rest[..at]));
        parts.push(PromptPart::Command { place: &rest[at..after], line: line[..end].trim() });
        (rest, from) = (&rest[after..], 0);
    }
    parts.push(PromptPart::Text(rest));
    parts
}

/// Returns the words of an argument; those in quotes count as one.
fn words(argument: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for char in argument.chars() {
        match quote {
            Some(mark) if char == mark => quote = None,
            None if char == '"' || char == '\'' && word.is_none() => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            None if char.is_whitespace() => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// Appends a text with the argument at its placeholders. Returns true if it has one.
fn insert(text: &str, argument: &str, words: &[String], output: &mut String) -> bool {
    let (mut rest, mut is_used) = (text, false);
    while let Some((before, after)) = rest.split_once('$') {
        output.push_str(before);
        if let Some(after) = after.strip_prefix("ARGUMENTS") {
            output.push_str(argument);
            (rest, is_used) = (after, true);
        } else if let Some((number, after)) = numbered(after) {
            output.push_str(words.get(number - 1).map(String::as_str).unwrap_or_default());
            (rest, is_used) = (after, true);
        } else {
            output.push('$');
            rest = after;
        }
    }
    output.push_str(rest);
    is_used
}

/// Parses the digit of a placeholder. Returns `None` if more digits follow: `$100` is an amount of money, not `$1`
/// and two zeros.
fn numbered(text: &str) -> Option<(usize, &str)> {
    let number = text.chars().next()?.to_digit(10).filter(|number| *number > 0)?;
    let rest = text.get(1..)?;
    let is_longer = rest.starts_with(|next: char| next.is_ascii_digit());
    (!is_longer).then_some((usize::try_from(number).ok()?, rest))
}

/// Splits a file into front matter and body. Returns `None` without front matter.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix(FENCE)?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Some((rest.get(..at)?, rest.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

/// Returns true if a name is typed as it is to start a command: those of files may have capital letters, too.
pub(crate) fn is_command_name(name: &str) -> bool {
    is_name(name) && !name.contains(|c: char| c.is_ascii_uppercase())
}

/// Returns true if a name can be typed as a slash command.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.len() <= LONGEST_NAME
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(fits)
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(DESCRIPTION).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crow_agent::layers::ConfigLayer;

    use super::*;

    fn file(text: &str) -> PromptFile {
        PromptFile::parse("x", text)
    }

    fn text_of(file: &PromptFile, argument: &str) -> String {
        Block::text_of(&file.prompt(argument).content)
    }

    #[test]
    fn commands_are_found_and_an_argument_is_never_part_of_one() {
        let prompt = file("Status: !`git status`\nLog:\n!`git log $1` and $1").prompt("a;b `c`");
        let lines: Vec<_> = prompt.commands.iter().map(|one| one.line.as_str()).collect();
        assert_eq!(lines, ["git status", "git log $1"]);
        assert_eq!(prompt.commands[1].words, ["a;b", "`c`"]);
        let text = Block::text_of(&prompt.content);
        assert_eq!(text, "Status: !`git status`\nLog:\n!`git log $1` and a;b");
        let typed = file("Look at $ARGUMENTS.").prompt("!`rm -rf x`");
        assert_eq!(typed.commands, []);
    }

    #[test]
    fn what_only_looks_like_a_command_is_text() {
        for text in ["wow!`x`", "!``", "!` `", "!`no end", "!`two\nlines`", "a ! `b`"] {
            assert_eq!(file(text).prompt("").commands, [], "{text}");
            assert_eq!(text_of(&file(text), ""), text);
        }
    }

    #[test]
    fn words_in_quotes_count_as_one() {
        for (argument, expected) in [
            ("a b", &["a", "b"][..]),
            ("\"a b\" c", &["a b", "c"]),
            ("'a b' c", &["a b", "c"]),
            ("it's fine", &["it's", "fine"]),
            ("--x=\"a b\"", &["--x=a b"]),
            ("\"open", &["open"]),
            ("", &[]),
        ] {
            assert_eq!(words(argument), expected, "{argument}");
        }
    }

    #[test]
    fn the_argument_is_inserted_at_the_placeholders() {
        for (text, argument, expected) in [
            ("Look at $ARGUMENTS.", "a b", "Look at a b."),
            ("$2 before $1", "one two three", "two before one"),
            ("$1 and $2", "one", "one and "),
            ("It costs $100 or $X", "", "It costs $100 or $X"),
            ("Look around.", "here", "Look around.\n\nhere"),
            ("Look around.", " ", "Look around."),
            ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),
        ] {
            assert_eq!(text_of(&file(text), argument), expected, "{text:?}");
        }
    }

    #[test]
    fn front_matter_gives_description_and_argument_hint() {
        let read = file("---\ndescription: \"Look at it\"\nargument-hint: [FILE]\n---\n\nLook.\n");
        assert_eq!((read.description.as_str(), read.argument.as_str()), ("Look at it", "[FILE]"));
        assert_eq!(read.text, "Look.");
        let plain = file("# Find the fault\nand mend it");
        assert_eq!(plain.description, "Find the fault");
        assert_eq!(file("---\nno end").text, "---\nno end");
    }

    #[test]
    fn project_files_replace_user_files_and_invalid_names_are_left_out() {
        let layer = |kind, files: &[(&str, &str)]| {
            let files =
                files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
            ConfigLayer::memory(kind, "root", files.collect::<BTreeMap<_, _>>())
        };
        let user = [("prompts/commands/fix.md", "mine"), ("prompts/commands/b c.md", "x")];
        let project =
            [("commands/fix.md", "theirs"), ("commands/ship_2.md", "y"), ("commands/n.txt", "z")];
        let layers =
            Layers::new(vec![layer(LayerKind::Project, &project), layer(LayerKind::User, &user)]);
        let read = PromptFiles::read(&layers, &ProcessEnvironment::with([]));
        let names: Vec<_> = read.iter().map(|file| file.name.clone()).collect();
        assert_eq!(names, ["fix", "ship_2"]);
        assert_eq!(text_of(read.find("fix").unwrap(), ""), "theirs");
        assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
    }
}
