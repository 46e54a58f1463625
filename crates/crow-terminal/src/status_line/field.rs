//! The fields of a status line: their names, their texts, and which of them matter most.

use crow_console::words;

use super::facts::StatusFacts;
use crate::{bounded_text::bounded_line, styled_text::TextRole};

/// Maximum width of a value, in columns. No screen is wider.
const LONGEST_VALUE: usize = 500;
/// Percentages at which a part that is used up is shown as a warning and as an error.
const WARNING_PERCENT: u64 = 80;
const ERROR_PERCENT: u64 = 95;

/// A field of a status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusField {
    Agent,
    Mode,
    Permissions,
    Model,
    Thinking,
    TokensIn,
    TokensOut,
    Cache,
    Cost,
    Context,
    Budget,
    Branch,
    Cwd,
    Session,
    Time,
    Jobs,
}

/// The fields and their names.
pub(super) const FIELDS: [(StatusField, &str); 16] = [
    (StatusField::Agent, "agent"),
    (StatusField::Mode, "mode"),
    (StatusField::Permissions, "permissions"),
    (StatusField::Model, "model"),
    (StatusField::Thinking, "thinking"),
    (StatusField::TokensIn, "tokens_in"),
    (StatusField::TokensOut, "tokens_out"),
    (StatusField::Cache, "cache"),
    (StatusField::Cost, "cost"),
    (StatusField::Context, "context"),
    (StatusField::Budget, "budget"),
    (StatusField::Branch, "branch"),
    (StatusField::Cwd, "cwd"),
    (StatusField::Session, "session"),
    (StatusField::Time, "time"),
    (StatusField::Jobs, "jobs"),
];

/// The roles that a template can give a field, and their names.
pub(super) const ROLES: [(TextRole, &str); 8] = [
    (TextRole::Plain, "plain"),
    (TextRole::Dim, "dim"),
    (TextRole::Accent, "accent"),
    (TextRole::Heading, "heading"),
    (TextRole::Code, "code"),
    (TextRole::Success, "success"),
    (TextRole::Warning, "warning"),
    (TextRole::Error, "error"),
];

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldValue {
    pub(super) text: String,
    /// The role of a value that needs attention, whatever the template says.
    pub(super) alert: Option<TextRole>,
}

impl StatusField {
    /// Returns the rank of the field: the field with the highest number is the first to be dropped from a line that is too
    /// wide. What the agent may do and what will soon run out stays longest.
    pub(super) fn rank(self) -> usize {
        match self {
            Self::Permissions => 0,
            Self::Context => 1,
            Self::Budget => 2,
            Self::Model => 3,
            Self::Mode => 4,
            Self::Agent => 5,
            Self::Cost => 6,
            Self::Jobs => 7,
            Self::Branch => 8,
            Self::Thinking => 9,
            Self::Time => 10,
            Self::Cwd => 11,
            Self::Session => 12,
            Self::TokensIn => 13,
            Self::TokensOut => 14,
            Self::Cache => 15,
        }
    }

    /// Returns the value; `None` if it is empty.
    pub(super) fn value(self, facts: &StatusFacts) -> Option<FieldValue> {
        let plain = |text: String| Some(FieldValue { text, alert: None });
        let foreign = |text: &Option<String>| {
            let text = bounded_line(text.as_deref()?, LONGEST_VALUE);
            (!text.is_empty()).then_some(FieldValue { text, alert: None })
        };
        match self {
            Self::Agent => foreign(&facts.agent),
            Self::Mode => foreign(&facts.mode),
            Self::Permissions => foreign(&facts.permissions),
            Self::Model => foreign(&facts.model),
            Self::Thinking => foreign(&facts.thinking),
            Self::TokensIn => plain(words::tokens(facts.tokens_in?)),
            Self::TokensOut => plain(words::tokens(facts.tokens_out?)),
            Self::Cache => plain(percent(facts.cache_percent?)),
            Self::Cost => plain(words::dollars(facts.cost_usd.filter(|cost| *cost > 0.0)?)),
            Self::Context => Some(used_part(facts.context_percent?)),
            Self::Budget => Some(used_part(facts.budget_percent?)),
            Self::Branch => foreign(&facts.branch),
            Self::Cwd => foreign(&facts.cwd),
            Self::Session => foreign(&facts.session),
            Self::Time => plain(words::whole_seconds(facts.time?.as_secs())),
            Self::Jobs if facts.jobs == 0 => None,
            Self::Jobs => plain(words::count(facts.jobs, "job")),
        }
    }
}

/// Returns a part that is used up.
fn used_part(value: u64) -> FieldValue {
    let alert = match value {
        0..WARNING_PERCENT => None,
        WARNING_PERCENT..ERROR_PERCENT => Some(TextRole::Warning),
        ERROR_PERCENT.. => Some(TextRole::Error),
    };
    FieldValue { text: percent(value), alert }
}

fn percent(value: u64) -> String {
    format!("{value} %")
}
