//! Redirections and the files they name.

use crow_core::tool::{Access, CommandWord, Redirect};
use tree_sitter::Node;

use super::{line::UnclearReason, words::read_word};

/// Reads a redirection: its file, if it has one, and the words after it, which belong to the command.
pub(super) fn read(
    node: Node<'_>,
    text: &str,
) -> Result<(Option<Redirect>, Vec<CommandWord>), UnclearReason> {
    let mut operator = "";
    let mut words = Vec::new();
    let mut end = None;
    for part in node.children(&mut node.walk()) {
        if !part.is_named() {
            operator = part.kind();
        } else if part.kind() != "file_descriptor" {
            if end == Some(part.start_byte()) {
                return Err("words without a space between them".into());
            }
            end = Some(part.end_byte());
            let word = text.get(part.byte_range()).and_then(read_word);
            words.push(word.ok_or("an unsupported target of a redirection")?);
        }
    }
    let access = match operator {
        "<" => Access::Read,
        ">" | ">>" | "&>" | "&>>" | ">|" => Access::Write,
        "<&-" | ">&-" => return Ok((None, words)),
        "<&" | ">&" => return copy(operator, words),
        _ => return Err("a redirection of an unknown kind".into()),
    };
    let (target, more) = first(words)?;
    Ok((Some(Redirect { access, target, path: None }), more))
}

/// Returns whether a redirection cannot fail: those of `/dev/null` and of the three standard descriptors.
pub(super) fn is_sure(text: &str) -> bool {
    const SURE: [&str; 11] = [
        "</dev/null",
        ">/dev/null",
        "1>/dev/null",
        "2>/dev/null",
        "&>/dev/null",
        ">>/dev/null",
        "2>>/dev/null",
        "2>&1",
        "1>&2",
        ">&1",
        ">&2",
    ];
    let text: String = text.chars().filter(|char| *char != ' ').collect();
    SURE.contains(&text.as_str())
}

/// Reads `<&` and `>&`: `2>&1` copies a descriptor; `>&file` writes to a file.
fn copy(
    operator: &str,
    words: Vec<CommandWord>,
) -> Result<(Option<Redirect>, Vec<CommandWord>), UnclearReason> {
    let (target, more) = first(words)?;
    let CommandWord::Literal(name) = &target else {
        return Err("an unknown descriptor".into());
    };
    let digits = name.strip_suffix('-').unwrap_or(name);
    if digits.chars().all(|char| char.is_ascii_digit()) {
        return Ok((None, more));
    }
    if operator == "<&" {
        return Err("an unknown descriptor".into());
    }
    Ok((Some(Redirect { access: Access::Write, target, path: None }), more))
}

fn first(words: Vec<CommandWord>) -> Result<(CommandWord, Vec<CommandWord>), UnclearReason> {
    let mut words = words.into_iter();
    let target = words.next().ok_or("a redirection without target")?;
    Ok((target, words.collect()))
}
