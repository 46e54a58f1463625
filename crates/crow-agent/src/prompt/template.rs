//! Templates of prompts, which are checked before they are used.
//!
//! Their texts come from files of several authors. A template can use only variables that exist, cannot include
//! itself, and its depth and the size of its result have limits.

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use crow_core::config::{TextPosition, unknown_word_message};
use handlebars::{Handlebars, Template as Parsed, no_escape};
use serde::Serialize;

use super::check::TemplateCheck;

/// Most blocks of one template.
const MOST_BLOCKS: usize = 200;
/// Longest tag, in bytes.
const LONGEST_TAG: usize = 400;
/// Largest rendered text, in bytes.
const LARGEST: usize = 512 * 1024;

/// A checked template, with all partials that it includes.
#[derive(Debug, Clone)]
pub struct Template {
    parsed: BTreeMap<String, Arc<Parsed>>,
}

/// A reason for which a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// Name of the partial with the error, if it is in one.
    pub partial: Option<String>,
    /// Position in the template or partial.
    pub position: Option<TextPosition>,
    /// Description of the error.
    pub message: String,
}

/// Name of the template itself, among its partials.
pub(super) const MAIN: &str = "";

impl Template {
    /// Parses a template and its partials, which `partial` finds by name, and checks that they use no variables other
    /// than
    /// `variables`.
    pub fn parse(
        text: &str,
        variables: &[&str],
        partial: &dyn Fn(&str) -> Result<Option<String>, String>,
    ) -> Result<Self, TemplateError> {
        let main = parse(text, None)?;
        let mut check = TemplateCheck::new(variables, partial);
        check.template(MAIN, &main)?;
        let mut parsed = check.into_partials();
        parsed.insert(MAIN.to_owned(), Arc::new(main));
        Ok(Self { parsed })
    }

    /// Renders the template with these values.
    pub fn render(&self, values: &impl Serialize) -> Result<String, TemplateError> {
        let mut registry = Handlebars::new();
        registry.set_strict_mode(true);
        registry.register_escape_fn(no_escape);
        for (name, parsed) in &self.parsed {
            registry.register_template(name, Parsed::clone(parsed));
        }
        let mut text = BoundedOutput(Vec::new());
        registry.render_to_write(MAIN, values, &mut text).map_err(|error| TemplateError {
            partial: None,
            position: error
                .line_no
                .zip(error.column_no)
                .map(|(line, column)| TextPosition { line, column }),
            message: if text.0.len() >= LARGEST {
                format!("the text grows to more than {} KiB", LARGEST >> 10)
            } else {
                error.reason().to_string()
            },
        })?;
        String::from_utf8(text.0).map_err(|_| TemplateError::new(None, None, "gives no text"))
    }
}

impl TemplateError {
    pub(super) fn new(
        partial: Option<&str>,
        place: Option<TextPosition>,
        message: impl Into<String>,
    ) -> Self {
        let partial = partial.filter(|name| *name != MAIN).map(str::to_owned);
        Self { partial, position: place, message: message.into() }
    }
}

impl std::error::Error for TemplateError {}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.partial, self.position) {
            (Some(partial), Some(place)) => write!(f, "in {{{{> {partial}}}}}, {place}: ")?,
            (Some(partial), None) => write!(f, "in {{{{> {partial}}}}}: ")?,
            (None, Some(place)) => write!(f, "in the template, {place}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.message)
    }
}

/// Parses a text. Rejects in advance what could keep the parser busy.
pub(super) fn parse(text: &str, partial: Option<&str>) -> Result<Parsed, TemplateError> {
    let error_at = |place, message: String| TemplateError::new(partial, place, message);
    let mut blocks = 0;
    for (start, _) in text.match_indices("{{") {
        let rest = &text[start + 2..];
        let end = rest.find("}}").unwrap_or(rest.len());
        let place = || Some(TextPosition::of_byte(text, start));
        let is_comment = rest.trim_start_matches('~').starts_with('!');
        if end > LONGEST_TAG && !is_comment && !rest.starts_with('{') {
            return Err(error_at(place(), format!("a tag of more than {LONGEST_TAG} bytes")));
        }
        if rest.trim_start_matches('~').starts_with(['#', '^', '{']) {
            blocks += 1;
        }
        if blocks > MOST_BLOCKS {
            return Err(error_at(place(), format!("more than {MOST_BLOCKS} blocks")));
        }
    }
    Parsed::compile(text).map_err(|error| {
        let place = error.pos().map(|(line, column)| TextPosition { line, column });
        error_at(place, syntax(&error.reason().to_string()))
    })
}

/// Shortens a message of the parser: its list of expected grammar rules does not help the author.
fn syntax(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let description = if reason.contains("invalid handlebars syntax") {
        "this tag is not complete"
    } else {
        line
    };
    format!("{description}; write \\{{{{ for literal braces")
}

pub(super) fn unknown_variable(name: &str, known: &[&str]) -> String {
    unknown_word_message("variable", name, known)
}

/// Output that fails when the limit is reached.
struct BoundedOutput(Vec<u8>);

impl io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() >= LARGEST {
            return Err(io::Error::other("too much"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
