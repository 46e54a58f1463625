//! The files that a message of the user mentions with `@`: what is in them is told together with the message.
//!
//! `@src/main.rs`, `@src/main.rs:10-20` (or `#L10-20`), `@"a name with blanks"`, a folder (`@src/`) and a pattern
//! (`@src/*.rs`) are read by the tools for that, under the rules for calls of the model. What could not be read without a
//! question is not read, and the user is told. An `@` before anything that does not exist is only text.

use std::{fmt::Write as _, path::Path};

use crow_core::{
    message::{Block, Image, escape_tags},
    tool::{ToolRegistry, ToolStatus},
};
use crow_runtime::{AgentError, AgentInternals, read_unasked};
use crow_text::{one_line, shorten};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The tools that read what is mentioned.
const READ_FILE: &str = "read_file";
const LIST_DIRECTORY: &str = "list_directory";
const GLOB: &str = "glob";
/// Maximum number of mentions of a message.
const MOST_MENTIONS: usize = 20;
/// Maximum number of files of a pattern whose content is told.
const MOST_MATCHES: usize = 10;
/// Maximum length of a mention in bytes.
const LONGEST: usize = 400;
/// Maximum length of all that is told, in bytes.
const ROOM: usize = 128 * 1024;
/// The tag around what was read.
const TAG: &str = "mentioned";

/// Returns the tools that read what messages mention.
pub(crate) fn mention_readers(tools: &ToolRegistry) -> ToolRegistry {
    tools.for_agent(&[READ_FILE, LIST_DIRECTORY, GLOB].map(str::to_owned)).0
}

/// What a message mentions.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct MentionedFiles {
    /// What was read, for the model; empty if nothing was.
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
    /// Messages for the user about what was not read.
    pub(crate) faults: Vec<String>,
}

/// A mention of a file, folder or pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mention {
    path: String,
    /// The lines, from 1; the last one is included.
    lines: Option<(u64, u64)>,
}

impl Mention {
    /// Returns the text after the `@`, for the user.
    fn shown(&self) -> String {
        match self.lines {
            Some((first, last)) => format!("{}:{first}-{last}", one_line(&self.path)),
            None => one_line(&self.path),
        }
    }
}

/// The kind of what is mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MentionKind {
    File,
    Folder,
    Pattern,
    /// There is nothing of that name.
    Nothing,
}

/// Reads what a message mentions.
pub(crate) async fn read_mentioned_files(
    agent: &mut AgentInternals,
    readers: &ToolRegistry,
    content: &[Block],
    cancel: &CancellationToken,
) -> Result<MentionedFiles, AgentError> {
    let mut found = MentionedFiles::default();
    let mentions = mentions(&Block::text_of(content));
    if mentions.is_empty() {
        return Ok(found);
    }
    let cwd = agent.context().workspace.cwd().to_owned();
    let kinds = tokio::task::spawn_blocking(move || {
        mentions.into_iter().map(|mention| (kind_of(&mention, &cwd), mention)).collect::<Vec<_>>()
    });
    let Ok(kinds) = kinds.await else { return Ok(found) };
    for (kind, mention) in kinds {
        match kind {
            MentionKind::Nothing => {}
            MentionKind::File => {
                let input = file_input(&mention.path, mention.lines);
                found.add(agent, readers, READ_FILE, (&mention.shown(), input), cancel).await?;
            }
            MentionKind::Folder => {
                let input = json!({"path": mention.path});
                let call = (mention.path.as_str(), input);
                found.add(agent, readers, LIST_DIRECTORY, call, cancel).await?;
            }
            MentionKind::Pattern => {
                let call = (mention.path.as_str(), json!({"pattern": mention.path}));
                let Some(list) = found.add(agent, readers, GLOB, call, cancel).await? else {
                    continue;
                };
                for path in list.lines().filter(|line| is_path(line)).take(MOST_MATCHES) {
                    let call = (path, file_input(path, None));
                    found.add(agent, readers, READ_FILE, call, cancel).await?;
                }
            }
        }
    }
    Ok(found)
}

impl MentionedFiles {
    /// Calls a tool, and adds what it shows. Returns the text, unless it is not permitted or failed.
    async fn add(
        &mut self,
        agent: &mut AgentInternals,
        readers: &ToolRegistry,
        tool: &str,
        (shown, input): (&str, Value),
        cancel: &CancellationToken,
    ) -> Result<Option<String>, AgentError> {
        let Some(reader) = readers.get(tool) else { return Ok(None) };
        let Some(result) = read_unasked(agent, reader, input, cancel).await? else {
            self.faults.push(format!(
                "@{shown} was not read: it needs a permission, which the agent can ask for"
            ));
            return Ok(None);
        };
        if result.status != ToolStatus::Success {
            let why = result.error.unwrap_or_default();
            self.faults.push(format!("@{shown} was not read: {}", one_line(&why)));
            return Ok(None);
        }
        let room = ROOM.saturating_sub(self.text.len());
        if room == 0 {
            self.faults
                .push(format!("@{shown} was not read: the files before it fill the message"));
            return Ok(None);
        }
        let text = shorten(&result.output, room);
        let path = shown.replace(['"', '<', '>'], "");
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "<{TAG} path=\"{path}\">\n{}\n</{TAG}>",
            escape_tags(&text, &[TAG])
        );
        self.images.extend(result.images);
        Ok(Some(text))
    }
}

fn file_input(path: &str, lines: Option<(u64, u64)>) -> Value {
    match lines {
        Some((first, last)) => json!({"path": path, "offset": first, "limit": last - first + 1}),
        None => json!({"path": path}),
    }
}

/// Returns true for a line of a list of paths that is one: not a note about the list.
fn is_path(line: &str) -> bool {
    !line.is_empty() && !line.ends_with('/') && !line.starts_with('[')
}

/// Blocks.
fn kind_of(mention: &Mention, cwd: &Path) -> MentionKind {
    let path = cwd.join(&mention.path);
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => MentionKind::Folder,
        Ok(_) => MentionKind::File,
        Err(_) if mention.path.contains(['*', '?', '{']) && mention.path.contains(['/', '.']) => {
            MentionKind::Pattern
        }
        Err(_) => MentionKind::Nothing,
    }
}

/// Returns what a text mentions, each once, in its order.
fn mentions(text: &str) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        before = rest[..at].chars().next_back().unwrap_or(before);
        let after = &rest[at + 1..];
        let begins = before.is_whitespace() || "([{\"'`,;".contains(before);
        let (mention, length) = if begins { mention(after) } else { (None, 0) };
        if let Some(mention) = mention.filter(|mention| !found.contains(mention)) {
            found.push(mention);
        }
        if found.len() == MOST_MENTIONS {
            break;
        }
        before = if length == 0 { '@' } else { 'x' };
        rest = &after[length..];
    }
    found
}

/// Reads a mention at the beginning of a text, and the length of what belongs to it.
fn mention(text: &str) -> (Option<Mention>, usize) {
    if let Some(quoted) = text.strip_prefix('"') {
        let Some(end) = quoted.find('"').filter(|end| (1..=LONGEST).contains(end)) else {
            return (None, 0);
        };
        let (lines, length) = range(&quoted[end + 1..]);
        return (Some(Mention { path: quoted[..end].to_owned(), lines }), end + 2 + length);
    }
    // A comma ends a word, but not inside the braces of a pattern.
    let mut depth = 0_usize;
    let mut is_end = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c.is_whitespace() || "\"'`;()<>|".contains(c) || (c == ',' && depth == 0)
    };
    let word = &text[..text.find(&mut is_end).unwrap_or(text.len())];
    let word = word.trim_end_matches(['.', ',', ':', '!', '?', ']']);
    if word.is_empty() || word.len() > LONGEST || word.contains("://") {
        return (None, 0);
    }
    let split = word.rfind([':', '#']).unwrap_or(word.len());
    let (lines, length) = range(&word[split..]);
    let path = if length == word.len() - split { &word[..split] } else { word };
    let lines = lines.filter(|_| path.len() < word.len());
    (Some(Mention { path: path.to_owned(), lines }), word.len())
}

/// Reads a range of lines (`:10`, `:10-20`, `#L10-L20`) at the beginning of a text, and its length.
fn range(text: &str) -> (Option<(u64, u64)>, usize) {
    let Some(rest) = text.strip_prefix(':').or_else(|| text.strip_prefix("#L")) else {
        return (None, 0);
    };
    let number = |text: &str| -> Option<(u64, usize)> {
        let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number = text[..length].parse().ok().filter(|number| *number > 0)?;
        Some((number, length))
    };
    let Some((first, first_len)) = number(rest) else { return (None, 0) };
    let begin = text.len() - rest.len();
    let after = &rest[first_len..];
    let last = after.strip_prefix('-').map(|last| last.strip_prefix('L').unwrap_or(last));
    match last.and_then(|text| Some((number(text)?, after.len() - text.len()))) {
        Some(((last, last_len), prefix)) if last >= first => {
            (Some((first, last)), begin + first_len + prefix + last_len)
        }
        _ => (Some((first, first)), begin + first_len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_paths_with_ranges_and_in_quotes() {
        let found =
            |text: &str| mentions(text).iter().map(Mention::shown).collect::<Vec<_>>().join(" | ");
        for (text, expected) in [
            ("Fix @src/main.rs, please", "src/main.rs"),
            ("(see @a.txt) and \"@b.txt\".", "a.txt | b.txt"),
            (
                "@a.rs:10 @a.rs:10-20 @a.rs#L3 @a.rs#L3-L9",
                "a.rs:10-10 | a.rs:10-20 | a.rs:3-3 | a.rs:3-9",
            ),
            ("@\"two words.md\":2-3 and @\"x y\"", "two words.md:2-3 | x y"),
            ("@src/ and @src/*.{rs,toml}", "src/ | src/*.{rs,toml}"),
            ("@{a,b}.rs @src/*.rs.", "{a,b}.rs | src/*.rs"),
            ("ann@example.org, @ alone, @@twice", "@twice"),
            ("@docs:file:///a.md @https://x.test/", ""),
            ("@a.rs:0 @a.rs:x @a.rs:9-3", "a.rs:0 | a.rs:x | a.rs:9-3"),
            ("@a @a @a", "a"),
            ("@ä/ö.txt", "ä/ö.txt"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
        let many: Vec<String> = (0..99).map(|number| format!("@f{number}")).collect();
        assert_eq!(mentions(&many.join(" ")).len(), MOST_MENTIONS);
    }

    #[test]
    fn any_text_can_be_searched_for_mentions() {
        proptest::proptest!(|(text in "[@\"a:#L0-9./{} -]{0,40}")| {
            for mention in mentions(&text) {
                proptest::prop_assert!(!mention.path.is_empty());
                if let Some((first, last)) = mention.lines {
                    proptest::prop_assert!(0 < first && first <= last);
                }
            }
        });
    }
}
