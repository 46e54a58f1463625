//! Templates of prompts: what may stand in one is checked before it is used.
//!
//! Texts come from files of several hands. A template can name only what there is, includes itself nowhere, and neither
//! its depth nor what it grows to is without a bound.

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use crow_core::config::{TextPosition, unknown};
use handlebars::{Handlebars, Template as Parsed, no_escape};
use serde::Serialize;

use super::check::TemplateCheck;

/// The most blocks of one template.
const MOST_BLOCKS: usize = 200;
/// The longest tag, in bytes.
const LONGEST_TAG: usize = 400;
/// What a rendered text may grow to, in bytes.
const LARGEST: usize = 512 * 1024;

/// A template that was checked, with all that it includes.
#[derive(Debug, Clone)]
pub struct Template {
    parsed: BTreeMap<String, Arc<Parsed>>,
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The included template that it is in, if it is in one.
    pub partial: Option<String>,
    /// Where in the template.
    pub place: Option<TextPosition>,
    /// What is wrong.
    pub message: String,
}

/// The name of the template itself, among those that it includes.
pub(super) const MAIN: &str = "";

impl Template {
    /// Parses a template and what it includes, which `partial` finds by name, and checks that it names nothing but
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

    /// Fills it in.
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
            place: error
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
        Self { partial, place, message: message.into() }
    }
}

impl std::error::Error for TemplateError {}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.partial, self.place) {
            (Some(partial), Some(place)) => write!(f, "in {{{{> {partial}}}}}, {place}: ")?,
            (Some(partial), None) => write!(f, "in {{{{> {partial}}}}}: ")?,
            (None, Some(place)) => write!(f, "in the template, {place}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.message)
    }
}

/// Parses a text. What could keep the parser busy is refused before.
pub(super) fn parse(text: &str, partial: Option<&str>) -> Result<Parsed, TemplateError> {
    let wrong = |place, message: String| TemplateError::new(partial, place, message);
    let mut blocks = 0;
    for (start, _) in text.match_indices("{{") {
        let rest = text.get(start + 2..).unwrap_or_default();
        let end = rest.find("}}").unwrap_or(rest.len());
        let place = || Some(TextPosition::of(text, start));
        let is_comment = rest.trim_start_matches('~').starts_with('!');
        if end > LONGEST_TAG && !is_comment && !rest.starts_with('{') {
            return Err(wrong(place(), format!("a tag of more than {LONGEST_TAG} bytes")));
        }
        if rest.trim_start_matches('~').starts_with(['#', '^', '{']) {
            blocks += 1;
        }
        if blocks > MOST_BLOCKS {
            return Err(wrong(place(), format!("more than {MOST_BLOCKS} blocks")));
        }
    }
    Parsed::compile(text).map_err(|error| {
        let place = error.pos().map(|(line, column)| TextPosition { line, column });
        wrong(place, syntax(&error.reason().to_string()))
    })
}

/// What the parser would have expected is a list of its own rules, and helps nobody.
fn syntax(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let told = if reason.contains("invalid handlebars syntax") {
        "this tag is not complete"
    } else {
        line
    };
    format!("{told}; write \\{{{{ for braces that are meant as such")
}

pub(super) fn unknown_variable(name: &str, known: &[&str]) -> String {
    unknown("variable", name, known)
}

/// Takes no more than the bound.
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
