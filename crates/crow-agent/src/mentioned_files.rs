//! The files that a message of the user mentions with `@`: what is in them is told together with the message.
//!
//! `@src/main.rs`, `@src/main.rs:10-20` (or `#L10-20`), `@"a name with blanks"`, a folder (`@src/`) and a pattern
//! (`@src/*.rs`) are read by the tools for that, under the rules for calls of the model. What could not be read without a
//! question is not read, and the user is told. An `@` before anything that does not exist is only text, and so is one in what
//! others wrote: attachments of editors, prompts of servers, standard input, skills.

use std::{
    fmt::Write as _,
    path::{Component, Path, PathBuf},
};

use crow_core::{
    message::{Block, Image, OWN_TAGS, escape_tags, words_of_user},
    tool::{ToolRegistry, ToolResult, ToolStatus},
};
use crow_runtime::{AgentError, AgentInternals, UnaskedRead, read_unasked};
use crow_text::{one_line, shorten};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The tools that read what is mentioned.
const READ_FILE: &str = "read_file";
const LIST_DIRECTORY: &str = "list_directory";
const GLOB: &str = "glob";
/// Maximum number of words that are looked up, and of mentions that are read.
const MOST_WORDS: usize = 200;
const MOST_MENTIONS: usize = 20;
/// Maximum number of files of a pattern whose content is told.
const MOST_MATCHES: usize = 10;
/// Maximum number of pictures: providers refuse requests with many.
const MOST_IMAGES: usize = 8;
/// Maximum length of a mention in bytes.
const LONGEST: usize = 400;
/// Maximum length of all that is told, in bytes; and the part of the context window, with the usual length of a token.
const ROOM: usize = 128 * 1024;
const WINDOW_PART: u64 = 4;
const BYTES_PER_TOKEN: u64 = 3;
/// The tag around what was read.
const TAG: &str = "mentioned";

/// Returns the tools that read what messages mention.
pub(crate) fn mention_readers(tools: &ToolRegistry) -> ToolRegistry {
    tools.for_agent(&[READ_FILE, LIST_DIRECTORY, GLOB].map(str::to_owned)).0
}

/// The content of the files, folders and patterns that a message mentions.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct MentionedFiles {
    /// Text for the model: each file, folder or pattern in a tag; empty if nothing was read.
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
    /// True if it is in quotes, and so surely meant as a path.
    is_quoted: bool,
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

/// Reads what the user mentions in a message, for a model with this context window, in tokens.
pub(crate) async fn read_mentioned_files(
    agent: &mut AgentInternals,
    readers: &ToolRegistry,
    content: &[Block],
    window: Option<u64>,
    cancel: &CancellationToken,
) -> Result<MentionedFiles, AgentError> {
    let text = Block::text_of(content);
    let mentions = mentions(words_of_user(&text));
    if mentions.is_empty() {
        return Ok(MentionedFiles::default());
    }
    let part = window.map(|window| window / WINDOW_PART * BYTES_PER_TOKEN);
    let room = part.and_then(|part| usize::try_from(part).ok()).unwrap_or(ROOM).min(ROOM);
    let mut reading = MentionReading { readers, cancel, room, found: MentionedFiles::default() };
    let cwd = agent.context().workspace.cwd().to_owned();
    // A file system may not answer.
    let kinds = tokio::task::spawn_blocking({
        let cwd = cwd.clone();
        move || {
            let with_kind = |mention: Mention| (kind_of(&mention, &cwd), mention);
            mentions.into_iter().map(with_kind).collect::<Vec<_>>()
        }
    });
    let Some(Ok(kinds)) = cancel.run_until_cancelled(kinds).await else {
        return Ok(reading.found);
    };
    let mut count = 0;
    for (kind, mention) in kinds {
        let shown = mention.shown();
        if kind == MentionKind::Nothing {
            if mention.is_quoted {
                reading.found.faults.push(format!("@{shown} was not read: there is no such file"));
            }
            continue;
        }
        count += 1;
        if count > MOST_MENTIONS {
            let fault = format!("@{shown} was not read: at most {MOST_MENTIONS} are");
            reading.found.faults.push(fault);
            break;
        }
        match kind {
            MentionKind::File => {
                let input = file_input(&mention.path, mention.lines);
                reading.add(agent, READ_FILE, (&shown, input)).await?;
            }
            MentionKind::Folder => {
                let input = json!({"path": mention.path});
                reading.add(agent, LIST_DIRECTORY, (&shown, input)).await?;
            }
            MentionKind::Pattern => reading.add_matches(agent, &mention.path, &cwd).await?,
            MentionKind::Nothing => {}
        }
    }
    Ok(reading.found)
}

/// The state of reading the mentions of one message.
struct MentionReading<'a> {
    readers: &'a ToolRegistry,
    cancel: &'a CancellationToken,
    /// Maximum length of all texts, in bytes.
    room: usize,
    found: MentionedFiles,
}

impl MentionReading<'_> {
    /// Calls a tool. Returns its result and the path, unless it is not permitted or failed, which the user is told.
    async fn read(
        &mut self,
        agent: &mut AgentInternals,
        tool: &str,
        (shown, input): (&str, Value),
    ) -> Result<Option<(ToolResult, PathBuf)>, AgentError> {
        let Some(reader) = self.readers.get(tool) else { return Ok(None) };
        let why = match read_unasked(agent, reader, input, self.cancel).await? {
            UnaskedRead::Read { result, path } if result.status == ToolStatus::Success => {
                return Ok(Some((*result, path)));
            }
            UnaskedRead::Read { result, .. } => one_line(&result.error.unwrap_or_default()),
            UnaskedRead::NotPermitted => {
                "it needs a permission, which the agent can ask for".to_owned()
            }
            UnaskedRead::Denied => "a rule denies it".to_owned(),
            UnaskedRead::Invalid(why) => one_line(&why),
            UnaskedRead::Cancelled => return Ok(None),
        };
        self.found.faults.push(format!("@{shown} was not read: {why}"));
        Ok(None)
    }

    /// Adds what a tool shows.
    async fn add(
        &mut self,
        agent: &mut AgentInternals,
        tool: &str,
        (shown, input): (&str, Value),
    ) -> Result<(), AgentError> {
        let room = self.room.saturating_sub(self.found.text.len());
        if room == 0 || self.found.images.len() == MOST_IMAGES {
            let why = if room == 0 {
                "what comes before it fills the message"
            } else {
                "at most 8 pictures are"
            };
            self.found.faults.push(format!("@{shown} was not read: {why}"));
            return Ok(());
        }
        let Some((result, path)) = self.read(agent, tool, (shown, input)).await? else {
            return Ok(());
        };
        let text = shorten(&result.output, room);
        if text.len() < result.output.len() {
            // The model has not seen all of it, so it must read it before it changes it.
            agent.context().file_views.remove(&path);
            self.found.faults.push(format!("@{shown} was not read to its end: it is too long"));
        }
        let name = shown.replace(['"', '<', '>'], "");
        let text = escape_tags(&text, &OWN_TAGS);
        // Writing to a string cannot fail.
        let _ = writeln!(self.found.text, "<{TAG} path=\"{name}\">\n{text}\n</{TAG}>");
        let images = result.images.into_iter();
        self.found.images.extend(images.take(MOST_IMAGES - self.found.images.len()));
        Ok(())
    }

    /// Adds the files that match a pattern. One without matches is only text.
    async fn add_matches(
        &mut self,
        agent: &mut AgentInternals,
        pattern: &str,
        cwd: &Path,
    ) -> Result<(), AgentError> {
        let input = json!({"pattern": pattern});
        let Some((list, _)) = self.read(agent, GLOB, (pattern, input)).await? else {
            return Ok(());
        };
        let (lines, cwd) = (list.output.clone(), cwd.to_owned());
        let finding = tokio::task::spawn_blocking(move || {
            let is_file = |line: &&str| cwd.join(line).is_file();
            lines.lines().filter(is_file).map(str::to_owned).collect::<Vec<_>>()
        });
        let Some(Ok(files)) = self.cancel.run_until_cancelled(finding).await else { return Ok(()) };
        for file in files.iter().take(MOST_MATCHES) {
            self.add(agent, READ_FILE, (file, file_input(file, None))).await?;
        }
        if files.len() > MOST_MATCHES {
            let rest = files.len() - MOST_MATCHES;
            let fault =
                format!("of @{pattern}, {MOST_MATCHES} files were read, and {rest} were not");
            self.found.faults.push(fault);
        }
        Ok(())
    }
}

fn file_input(path: &str, lines: Option<(u64, u64)>) -> Value {
    match lines {
        Some((first, last)) => json!({"path": path, "offset": first, "limit": last - first + 1}),
        None => json!({"path": path}),
    }
}

/// Blocks.
fn kind_of(mention: &Mention, cwd: &Path) -> MentionKind {
    match cwd.join(&mention.path).metadata() {
        Ok(metadata) if metadata.is_dir() => MentionKind::Folder,
        Ok(_) => MentionKind::File,
        Err(_) if is_pattern(&mention.path, cwd) => MentionKind::Pattern,
        Err(_) => MentionKind::Nothing,
    }
}

/// Returns true for a pattern below a folder of the working directory. Blocks.
fn is_pattern(path: &str, cwd: &Path) -> bool {
    let Some(at) = path.find(['*', '?', '{']) else { return false };
    let base = path[..at].rsplit_once('/').map_or("", |(base, _)| base);
    let is_below = Path::new(base).components().all(|part| matches!(part, Component::Normal(_)));
    let is_absolute = path.starts_with('/');
    // `@*` alone, or `@{x}`, is rather something else.
    let is_path = path.contains(['/', '.']);
    is_path && !is_absolute && is_below && cwd.join(base).is_dir()
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
        if found.len() == MOST_WORDS {
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
        let mention = Mention { path: quoted[..end].to_owned(), lines, is_quoted: true };
        return (Some(mention), end + 2 + length);
    }
    // A comma ends a word, but not inside the braces of a pattern.
    let mut depth = 0_usize;
    let mut is_end = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c.is_whitespace() || "\"'`;<>|".contains(c) || (c == ',' && depth == 0)
    };
    let word = without_end(&text[..text.find(&mut is_end).unwrap_or(text.len())]);
    if word.is_empty() || word.len() > LONGEST || word.contains("://") {
        return (None, 0);
    }
    let split = |text: &str| {
        let at = text.rfind([':', '#'])?;
        let (lines, length) = range(&text[at..]);
        lines.filter(|_| at > 0 && length == text.len() - at).map(|lines| (at, lines))
    };
    let (path, lines) = match split(word) {
        // Compilers write `file:line:column`.
        Some((at, (first, last))) if first == last => match split(&word[..at]) {
            Some((at, lines)) => (&word[..at], Some(lines)),
            None => (&word[..at], Some((first, last))),
        },
        Some((at, lines)) => (&word[..at], Some(lines)),
        None => (word, None),
    };
    (Some(Mention { path: path.to_owned(), lines, is_quoted: false }), word.len())
}

/// Returns a word without what ends a sentence or closes a bracket around it.
fn without_end(mut word: &str) -> &str {
    loop {
        let count = |bracket: char| word.matches(bracket).count();
        let shorter = match word.chars().next_back() {
            Some(')') if count(')') > count('(') => word.strip_suffix(')'),
            Some(']') if count(']') > count('[') => word.strip_suffix(']'),
            Some('}') if count('}') > count('{') => word.strip_suffix('}'),
            Some('.' | ',' | ':' | '!' | '?') => word.get(..word.len() - 1),
            _ => None,
        };
        match shorter {
            Some(shorter) => word = shorter,
            None => return word,
        }
    }
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
            (
                "@src/a.rs:10:5: error, @app/(auth)/x.ts (@a.rs:3)",
                "src/a.rs:10-10 | app/(auth)/x.ts | a.rs:3-3",
            ),
            ("@app/[id].tsx [@app/[id]]", "app/[id].tsx | app/[id]"),
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
        assert_eq!(mentions(&many.join(" ")).len(), 99);
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
