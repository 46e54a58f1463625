//! Commands that are prompts in files: `prompts/commands/NAME.md` of the user, `commands/NAME.md` of a trusted project.

use crow_agent::layers::{LayerKind, Layers};
use crow_runtime::HostCommand;

/// Folder of the user's prompt files.
const USER_FOLDER: &str = "prompts/commands";
/// Folder of a project's prompt files.
const PROJECT_FOLDER: &str = "commands";
/// Maximum length of a command name, in bytes.
const LONGEST_NAME: usize = 64;
/// Maximum length of a shown description or argument hint, in characters.
const DESCRIPTION: usize = 120;
/// Number of words that have a placeholder: `$1` to `$9`.
const NUMBERED_WORDS: usize = 9;
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
pub(super) struct PromptFile {
    name: String,
    description: String,
    argument: String,
    text: String,
}

impl PromptFiles {
    /// Reads the prompt files of the layers. A project file replaces a user file of the same name; an unreadable file
    /// gives a warning. Blocks.
    pub fn read(layers: &Layers) -> Self {
        let (mut files, mut warnings): (Vec<PromptFile>, Vec<String>) = Default::default();
        for layer in layers.iter() {
            let folder = match layer.kind() {
                LayerKind::Project => PROJECT_FOLDER,
                LayerKind::User => USER_FOLDER,
                LayerKind::BuiltIn | LayerKind::CommandLine => continue,
            };
            for name in layer.names(folder, ".md") {
                let path = format!("{folder}/{name}.md");
                let text = match layer.read(&path) {
                    Ok(Some(text)) if is_name(&name) => text,
                    Ok(Some(_)) => {
                        let path = layer.path(&path).display().to_string();
                        let why = "a command name may have only letters, digits, \"-\" and \"_\"";
                        warnings.push(format!("{path}: {why}"));
                        continue;
                    }
                    Ok(None) => continue,
                    Err(error) => {
                        warnings.push(error.to_string());
                        continue;
                    }
                };
                let file = PromptFile::parse(&name, &text);
                files.retain(|other| other.name != file.name);
                files.push(file);
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Self { files, warnings }
    }

    pub(super) fn find(&self, name: &str) -> Option<&PromptFile> {
        self.files.iter().find(|file| file.name == name)
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = HostCommand> {
        self.files.iter().map(|file| HostCommand {
            name: file.name.clone().into(),
            argument: file.argument.clone().into(),
            description: file.description.clone().into(),
        })
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
            name: name.to_ascii_lowercase(),
            description: description
                .unwrap_or_else(|| shorten(first().trim_start_matches(['#', ' ']))),
            argument: field("argument-hint").unwrap_or_default(),
            text: body.trim().to_owned(),
        }
    }

    /// Returns the prompt with the argument inserted: `$ARGUMENTS` is the whole argument, `$1` its first word.
    /// Without either placeholder the argument is appended.
    pub(super) fn prompt(&self, argument: &str) -> String {
        let argument = argument.trim();
        let words: Vec<&str> = argument.split_whitespace().take(NUMBERED_WORDS).collect();
        let (mut text, mut rest, mut is_used) = (String::new(), self.text.as_str(), false);
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            if let Some(after) = after.strip_prefix("ARGUMENTS") {
                text.push_str(argument);
                (rest, is_used) = (after, true);
            } else if let Some((number, after)) = numbered(after) {
                text.push_str(words.get(number - 1).copied().unwrap_or_default());
                (rest, is_used) = (after, true);
            } else {
                text.push('$');
                rest = after;
            }
        }
        text.push_str(rest);
        if !is_used && !argument.is_empty() {
            text.push_str("\n\n");
            text.push_str(argument);
        }
        text
    }
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
pub(super) fn is_command_name(name: &str) -> bool {
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
            assert_eq!(file(text).prompt(argument), expected, "{text:?}");
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
        let read = PromptFiles::read(&layers);
        let names: Vec<_> = read.commands().map(|command| command.name.into_owned()).collect();
        assert_eq!(names, ["fix", "ship_2"]);
        assert_eq!(read.find("fix").unwrap().prompt(""), "theirs");
        assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
    }
}
