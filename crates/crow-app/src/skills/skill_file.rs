//! The file `SKILL.md`: front matter in YAML, and instructions in Markdown.

use crow_text::one_line;
use saphyr_parser::{Event, Parser};

/// Maximum size of the front matter, in bytes.
const LONGEST_HEAD: usize = 64 * 1024;
/// Maximum length of a name and of a description in the format, in characters.
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;
/// Maximum length of the requirements in the format, in characters.
const LONGEST_COMPATIBILITY: usize = 500;
/// Line that begins and ends the front matter.
const FENCE: &str = "---";

/// The front matter of a skill, and where its instructions begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SkillFile {
    /// The name, if it is given.
    pub(super) name: Option<String>,
    /// The description, on one line.
    pub(super) description: String,
    /// Description of the arguments of its command.
    pub(super) argument: String,
    /// True if only the user may start it (`disable-model-invocation`).
    pub(super) only_user: bool,
    /// True if only the model may load it (`user-invocable: false`).
    pub(super) only_model: bool,
    /// Offset of the instructions, in bytes.
    pub(super) body_at: usize,
    /// Violations of the format that do not prevent its use.
    pub(super) faults: Vec<String>,
}

impl SkillFile {
    /// Parses the file of the skill in a folder of this name. The error is a sentence.
    pub(super) fn parse(folder: &str, text: &str) -> Result<Self, String> {
        let (head, body_at) = split(text)?;
        let mut file = Self { body_at, ..Self::default() };
        let fields = match plain_fields(head).map_or_else(|| fields_of_yaml(head), Ok) {
            Ok(fields) => fields,
            Err(why) => {
                // Often a description with a colon, which other programs accept.
                file.faults.push(format!("the front matter is no YAML: {why}"));
                fields_of_lines(head)
            }
        };
        for (key, value) in fields {
            let value = one_line(&value);
            match key.as_str() {
                "name" => file.name = Some(value),
                "description" => file.description = value,
                "compatibility" if value.chars().count() > LONGEST_COMPATIBILITY => {
                    let most = LONGEST_COMPATIBILITY;
                    file.faults.push(format!("`compatibility` has more than {most} characters"));
                }
                "argument-hint" => file.argument = value,
                "disable-model-invocation" => file.only_user = file.flag(&key, &value, true),
                "user-invocable" => file.only_model = !file.flag(&key, &value, false),
                _ => {}
            }
        }
        if file.description.is_empty() {
            return Err("the description is missing, so nobody knows what it is for".to_owned());
        }
        if file.description.chars().count() > LONGEST_DESCRIPTION {
            let fault = format!(
                "the description has more than {LONGEST_DESCRIPTION} characters; the rest is left out"
            );
            file.faults.push(fault);
            file.description = file.description.chars().take(LONGEST_DESCRIPTION).collect();
        }
        match &file.name {
            None => file.faults.push("the name is missing; that of the folder is used".to_owned()),
            Some(name) if name != folder => {
                let fault = format!("the name {name} is not that of the folder, which is used");
                file.faults.push(fault);
            }
            Some(_) => {}
        }
        if !is_name(folder) {
            let fault = "a name has at most 64 small letters, digits and single hyphens";
            file.faults.push(fault.to_owned());
        }
        Ok(file)
    }
}

impl SkillFile {
    /// Returns a value that is true or false. Anything else is a fault, and counts as `closed`, with which less may be done.
    fn flag(&mut self, key: &str, value: &str, closed: bool) -> bool {
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => true,
            "false" | "no" | "off" => false,
            _ => {
                self.faults.push(format!("`{key}` is neither true nor false"));
                closed
            }
        }
    }
}

/// Returns true for a name as the format wants it.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() && !c.is_uppercase())
    };
    name.chars().count() <= LONGEST_NAME && name.split('-').all(is_part)
}

/// Splits a file into its front matter, and the offset of what follows.
fn split(text: &str) -> Result<(&str, usize), String> {
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut at = start;
    let mut head_at = None;
    for line in text[start..].split_inclusive('\n') {
        let end = at + line.len();
        if line.trim_end() == FENCE {
            match head_at {
                None => head_at = Some(end),
                Some(head_at) => return Ok((&text[head_at..at], end)),
            }
        } else if head_at.is_none() {
            break;
        }
        if end > LONGEST_HEAD {
            return Err(format!("the front matter has more than {LONGEST_HEAD} bytes"));
        }
        at = end;
    }
    Err(match head_at {
        None => "the first line is not `---`, so there is no front matter".to_owned(),
        Some(_) => "the front matter has no end: a line with `---`".to_owned(),
    })
}

/// Returns the texts at the top level of a YAML mapping. Anything nested is passed over; anchors and aliases are not
/// followed, so that a small file stays small.
fn fields_of_yaml(head: &str) -> Result<Vec<(String, String)>, String> {
    let (mut fields, mut key, mut depth) = (Vec::new(), None, 0_usize);
    for event in Parser::new_from_str(head) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => {
                depth -= 1;
                if depth == 1 {
                    key = None;
                }
            }
            Event::Scalar(text, ..) if depth == 1 => match key.take() {
                None => key = Some(text.into_owned()),
                Some(key) => fields.push((key, text.into_owned())),
            },
            Event::Alias(_) if depth == 1 => key = None,
            Event::Scalar(text, ..) if depth == 0 && !text.is_empty() => {
                return Err("it has no keys".to_owned());
            }
            _ => {}
        }
    }
    Ok(fields)
}

/// Returns the fields of a front matter that is a field with a plain text on each line, as most are. `None` for all other
/// YAML: reading it takes longer, which a start with many skills notices.
fn plain_fields(head: &str) -> Option<Vec<(String, String)>> {
    let is_key = |key: &str| {
        key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let is_plain = |value: &str| {
        value.starts_with(|c: char| c.is_ascii_alphanumeric())
            && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && !value.ends_with([' ', ':'])
            && !value.contains(": ")
            && !value.contains(" #")
    };
    let field = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        (is_key(key) && is_plain(value)).then(|| (key.to_owned(), value.to_owned()))
    };
    head.lines().map(field).collect()
}

/// Returns the fields of a front matter that is no YAML: one on each line.
fn fields_of_lines(head: &str) -> Vec<(String, String)> {
    let field = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let is_key = !key.is_empty() && !key.starts_with([' ', '\t', '#', '-']);
        let value = value.trim().trim_matches(['"', '\'']);
        is_key.then(|| (key.trim().to_owned(), value.to_owned()))
    };
    head.lines().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_fields_are_those_of_yaml() {
        let lines = [
            "name: pdf",
            "description: Fills forms, joins files (fast) and more.",
            "license: MIT",
            "a_b-c: 1.5e3",
            "name: yes",
            "text: it's \"so\" a:b c#d [x] {y} & * ! | > %",
            "text: a - b ? c",
            "text: a: b",
            "text: a #b",
            "text: ends:",
            "text:",
            "text: ",
            "text: -1",
            "text: [a]",
            "text: |",
            "  more: text",
            "  and more",
            "- item: a",
            "key with space: a",
            "\ttab: a",
            "text: a\tb",
            "text: \u{e4}",
            "no key",
            "",
        ];
        let mut plain = 0;
        for first in lines {
            for second in lines {
                let head = format!("{first}\n{second}\n");
                if let Some(fields) = plain_fields(&head) {
                    assert_eq!(fields_of_yaml(&head), Ok(fields), "{head}");
                    plain += 1;
                }
            }
        }
        assert_eq!(plain, 49, "the first seven lines are plain");
    }
}
