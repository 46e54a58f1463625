//! Parses a template into texts and fields.

use crow_core::config::unknown_word_message;

use super::field::{FIELDS, ROLES, StatusField};
use crate::{bounded_text::bounded_line, styled_text::TextRole};

/// Maximum width of a wrong name in a message, in columns.
const LONGEST_NAME: usize = 40;

/// The error of a template. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatusTemplateError {
    /// There is no field of this name.
    #[error("at character {position}: {}", unknown_word("field", name, &FIELDS.map(|(_, name)| name)))]
    UnknownField {
        /// Position of the name.
        position: usize,
        name: String,
    },
    /// There is no role of this name.
    #[error("at character {position}: {}", unknown_word("role", name, &ROLES.map(|(_, name)| name)))]
    UnknownRole {
        /// Position of the name.
        position: usize,
        name: String,
    },
    /// `{` without `}`.
    #[error("at character {position}: `{{` without `}}`; `{{{{` stands for a brace")]
    UnclosedField {
        /// Position of the brace.
        position: usize,
    },
    /// `}` without `{`.
    #[error("at character {position}: `}}` without `{{`; `}}}}` stands for a brace")]
    UnopenedField {
        /// Position of the brace.
        position: usize,
    },
}

fn unknown_word(kind: &str, name: &str, known: &[&str]) -> String {
    unknown_word_message(kind, &bounded_line(name, LONGEST_NAME), known)
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePart {
    Text(String),
    Field { field: StatusField, role: TextRole },
}

/// Parses a template. No text follows another one.
pub(super) fn parse(template: &str) -> Result<Vec<TemplatePart>, StatusTemplateError> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut characters = (1..).zip(template.chars()).peekable();
    while let Some((position, character)) = characters.next() {
        let is_double = characters.peek().is_some_and(|(_, next)| *next == character);
        match character {
            '{' | '}' if is_double => {
                characters.next();
                text.push(character);
            }
            '{' => {
                let mut content = String::new();
                loop {
                    match characters.next() {
                        Some((_, '}')) => break,
                        Some((_, '{')) | None => {
                            return Err(StatusTemplateError::UnclosedField { position });
                        }
                        Some((_, character)) => content.push(character),
                    }
                }
                if !text.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut text)));
                }
                parts.push(parse_field(&content, position + 1)?);
            }
            '}' => return Err(StatusTemplateError::UnopenedField { position }),
            _ => text.push(character),
        }
    }
    if !text.is_empty() {
        parts.push(TemplatePart::Text(text));
    }
    Ok(parts)
}

/// Parses `name` or `name:role`, which begins at a position.
fn parse_field(content: &str, start: usize) -> Result<TemplatePart, StatusTemplateError> {
    let (name, role) = match content.split_once(':') {
        Some((name, role)) => (name, Some(role)),
        None => (content, None),
    };
    let field = FIELDS.iter().find(|(_, known)| *known == name).map(|(field, _)| *field);
    let field = field.ok_or_else(|| StatusTemplateError::UnknownField {
        position: start,
        name: name.to_owned(),
    })?;
    let Some(role) = role else {
        return Ok(TemplatePart::Field { field, role: TextRole::Dim });
    };
    let found = ROLES.iter().find(|(_, known)| *known == role).map(|(role, _)| *role);
    let role = found.ok_or_else(|| StatusTemplateError::UnknownRole {
        position: start + name.chars().count() + 1,
        name: role.to_owned(),
    })?;
    Ok(TemplatePart::Field { field, role })
}
