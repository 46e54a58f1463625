//! The arguments of a command as its program will get them, as far as they are known.

use crow_core::tool::CommandWord;

use super::{command_context::CommandContext, globs};

/// The most arguments that the words of one command may expand to.
const MAX_ARGUMENTS: usize = 1_000;

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Argument {
    Known(String),
    /// A pipe from a command of the same line, as in `<(sort a)`.
    Pipe,
    /// Zero or more arguments that are known only when the line runs.
    Unknown,
}

impl Argument {
    pub(super) fn as_known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Pipe | Self::Unknown => None,
        }
    }
}

/// Returns the arguments that words expand to.
pub(super) fn arguments(words: &[CommandWord], context: &CommandContext<'_>) -> Vec<Argument> {
    let mut arguments = Vec::new();
    for word in words {
        match word {
            CommandWord::Literal(text) => arguments.push(Argument::Known(text.clone())),
            CommandWord::Computed(text) => arguments.extend(computed(text, context)),
        }
        if arguments.len() > MAX_ARGUMENTS {
            return vec![Argument::Unknown];
        }
    }
    arguments
}

fn computed(text: &str, context: &CommandContext<'_>) -> Vec<Argument> {
    if text.starts_with("<(") && text.ends_with(')') {
        return vec![Argument::Pipe];
    }
    let values = variable(text, context).or_else(|| expanded(text, context));
    match values {
        Some(values) => values.into_iter().map(Argument::Known).collect(),
        None => vec![Argument::Unknown],
    }
}

/// Returns the values of a variable that a loop sets, or that is assigned once; `None` if they are unknown or may
/// become options or several words.
fn variable(text: &str, context: &CommandContext<'_>) -> Option<Vec<String>> {
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let inner = bare.unwrap_or(text).strip_prefix('$')?;
    let name = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let mut values = Vec::new();
    for word in context.facts.variables.get(name)?.as_ref()? {
        match word {
            CommandWord::Literal(text) => values.push(text.clone()),
            CommandWord::Computed(text) => values.extend(expanded(text, context)?),
        }
    }
    let is_one_word = |value: &String| {
        !value.is_empty() && !value.contains(|char: char| " \t\n*?[\\".contains(char))
    };
    let is_safe =
        |value: &String| !value.starts_with('-') && (bare.is_some() || is_one_word(value));
    values.iter().all(is_safe).then_some(values)
}

fn expanded(text: &str, context: &CommandContext<'_>) -> Option<Vec<String>> {
    let [folder] = context.folders? else { return None };
    let values = globs::expand(text, folder, context.budget)?;
    // A file may be named like an option; a pattern without matches stays as it is.
    let is_safe = |value: &String| !value.starts_with('-') || value == text;
    values.iter().all(is_safe).then_some(values)
}
