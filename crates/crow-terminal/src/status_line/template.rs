//! A template, and the line that it makes of the facts.

use std::str::FromStr;

use super::{
    facts::StatusFacts,
    parser::{self, StatusTemplateError},
    segment::{self, TemplateSegment},
};
use crate::styled_text::{StyledLine, TextRole};

/// The template of a status line that the user has not composed.
pub(super) const DEFAULT_STATUS_TEMPLATE: &str = "{agent} · {mode} · {permissions} · {model} · \
     {context} of context · {budget} of budget · {cost} · {branch} · {jobs}";

/// The template of a status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusTemplate {
    segments: Vec<TemplateSegment>,
}

impl StatusTemplate {
    /// Parses a template: text with fields as `{name}` or `{name:role}`. `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// Fails for a field or role that does not exist, and for a brace without its counterpart.
    pub(crate) fn parse(template: &str) -> Result<Self, StatusTemplateError> {
        Ok(Self { segments: segment::segments(parser::parse(template)?) })
    }

    /// Returns the status line in at most this number of columns. Segments that do not fit are dropped whole, the least
    /// important ones first.
    pub(crate) fn render(&self, facts: &StatusFacts, columns: usize) -> StyledLine {
        let mut shown: Vec<(&TemplateSegment, StyledLine)> = self
            .segments
            .iter()
            .filter_map(|segment| Some((segment, segment.render(facts)?)))
            .filter(|(_, line)| line.width() <= columns)
            .collect();
        loop {
            let line = joined(&shown);
            if line.width() <= columns {
                return line;
            }
            // Of several that matter as little, the last one.
            let ranks = shown.iter().map(|(segment, _)| segment.rank()).enumerate();
            let Some((least, _)) = ranks.max_by_key(|(_, rank)| *rank) else { return line };
            shown.remove(least);
        }
    }
}

impl Default for StatusTemplate {
    fn default() -> Self {
        Self::parse(DEFAULT_STATUS_TEMPLATE).expect("invariant: the default template is correct")
    }
}

impl FromStr for StatusTemplate {
    type Err = StatusTemplateError;

    fn from_str(template: &str) -> Result<Self, Self::Err> {
        Self::parse(template)
    }
}

/// Joins segments by the separators before them.
fn joined(segments: &[(&TemplateSegment, StyledLine)]) -> StyledLine {
    let mut line = StyledLine::default();
    for (index, (segment, content)) in segments.iter().enumerate() {
        if index > 0 {
            line.push(&segment.separator, TextRole::Dim);
        }
        line.append(content);
    }
    line
}
