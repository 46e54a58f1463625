//! Texts that stand in a file of their own, or where they are used.

use std::path::PathBuf;

use crow_core::config::{ConfigError, TextPosition};

use super::raw::RawText;
use crate::{
    layers::{Layers, Node, stays_inside},
    prompt::{PromptRegistry, TemplateError},
};

/// Where texts stand.
const FOLDER: &str = "prompts/";

/// Reads texts, and the templates that they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefinitionTexts<'a> {
    pub(super) layers: &'a Layers,
    pub(super) prompts: &'a PromptRegistry,
}

/// A text, and where it stands.
#[derive(Debug)]
pub(super) struct DefinitionText {
    pub(super) content: String,
    path: PathBuf,
    at: TextOrigin,
}

#[derive(Debug)]
enum TextOrigin {
    /// From this line of the file on.
    Line(usize),
    /// In a value whose lines cannot be counted.
    Value(TextPosition),
}

impl DefinitionTexts<'_> {
    /// Reads the text at a path of keys. A file is looked for from the highest layer down, so that a prompt can be
    /// replaced without the agent that uses it.
    pub(super) fn read(
        &self,
        raw: &RawText,
        node: &Node,
        path: &[&str],
    ) -> Result<DefinitionText, ConfigError> {
        let origin = node.origin_of(path);
        let name = match raw {
            RawText::Here(text) => {
                let path = origin.file().path.clone();
                let is_body = path.extension().is_some_and(|ending| ending == "md");
                let at = match origin.place() {
                    place if is_body => TextOrigin::Line(place.line),
                    place => TextOrigin::Value(place),
                };
                return Ok(DefinitionText { content: text.clone(), path, at });
            }
            RawText::In(file) => &file.file,
        };
        let at_file: Vec<&str> = path.iter().copied().chain(["file"]).collect();
        let wrong = |message: String| node.origin_of(&at_file).error(message);
        // Other files of the folders hold keys and rules, which are no agent's to show.
        let name = name.trim_start_matches("./");
        if !stays_inside(name) || !name.starts_with(FOLDER) {
            return Err(wrong(format!("\"{name}\" is not below {FOLDER}, where texts stand")));
        }
        match self.layers.topmost(name)? {
            Some((layer, text)) => {
                self.prompts.note_read(name);
                Ok(DefinitionText {
                    content: text,
                    path: layer.path(name),
                    at: TextOrigin::Line(1),
                })
            }
            None => Err(wrong(format!("there is no file {name} beside it, nor in another layer"))),
        }
    }
}

impl DefinitionText {
    /// Makes the text of a whole file.
    pub(super) fn of_file(path: PathBuf, content: String) -> Self {
        Self { content, path, at: TextOrigin::Line(1) }
    }

    /// Makes an error about a place in the text.
    pub(super) fn error(&self, place: Option<TextPosition>, message: &str) -> ConfigError {
        let path = self.path.clone();
        match (&self.at, place) {
            (TextOrigin::Line(first), place) => {
                let TextPosition { line, column } =
                    place.unwrap_or(TextPosition { line: 1, column: 1 });
                let place = Some(TextPosition { line: line + first - 1, column });
                ConfigError { path, place, message: message.to_owned() }
            }
            (TextOrigin::Value(start), Some(place)) => {
                let message = format!("line {} of the text: {message}", place.line);
                ConfigError { path, place: Some(*start), message }
            }
            (TextOrigin::Value(start), None) => {
                ConfigError { path, place: Some(*start), message: message.to_owned() }
            }
        }
    }

    /// Makes an error about a template.
    pub(super) fn template_error(&self, error: &TemplateError) -> ConfigError {
        match &error.partial {
            None => self.error(error.place, &error.message),
            Some(_) => self.error(None, &error.to_string()),
        }
    }
}
