//! Reading the files of other programs, within bounds.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Maximum size of a file that is read, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Maximum number of entries that are looked at below one folder, of files of a skill, and depth of folders.
const MOST_ENTRIES: usize = 100_000;
pub(super) const MOST_FILES: usize = 1_000;
const DEEPEST: usize = 4;
/// Maximum size of a skill with all its files, in bytes.
const LARGEST_SKILL: u64 = 20 * 1024 * 1024;

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
    files_to_depth(folder, ending, DEEPEST)
}

/// Returns the files below a folder that have this ending, sorted. Those deeper than `deepest` folders are left out. A folder that
/// cannot be listed is returned itself: reading it as a file fails for the same reason.
pub(super) fn files_to_depth(folder: &Path, ending: &str, deepest: usize) -> Vec<PathBuf> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut pending = vec![(folder.to_path_buf(), 0)];
    let mut seen = BTreeSet::new();
    while let Some((folder, depth)) = pending.pop() {
        // Links to folders are followed, each folder once.
        if folder.canonicalize().is_ok_and(|real| !seen.insert(real)) {
            continue;
        }
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                let is_missing =
                    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                found.extend((!is_missing).then_some(folder));
                continue;
            }
        };
        for entry in entries.flatten() {
            looked_at += 1;
            if looked_at > MOST_ENTRIES {
                break;
            }
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            if path.is_dir() {
                if depth < deepest {
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

/// The files of a skill.
pub(super) struct SkillFiles {
    pub(super) files: Vec<PathBuf>,
    /// Number of links and special files, which are not copied.
    pub(super) left_out: usize,
}

/// Lists the regular files of a skill, and its `SKILL.md` also if that is a link.
pub(super) fn skill_files(skill: &Path) -> io::Result<SkillFiles> {
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

pub(super) fn toml_to_json(item: &toml_edit::Item) -> Value {
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

/// Replaces comments of JSON, and commas before closing brackets, by blanks.
pub(super) fn without_comments(text: &str) -> String {
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
