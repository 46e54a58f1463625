//! Texts of definitions: in the definition itself, or in a file of their own.

use std::path::PathBuf;

use crow_core::config::{ConfigError, TextPosition};

use super::raw::RawText;
use crate::{
    layers::{Layers, Node, stays_inside},
    prompt::{PromptRegistry, TemplateError},
};

/// Folder of the text files, relative to that of the configuration.
const FOLDER: &str = "prompts/";

/// Reader for texts and the templates that they contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefinitionTexts<'a> {
    pub(super) layers: &'a Layers,
    pub(super) prompts: &'a PromptRegistry,
}

/// A text, and its origin for error messages.
#[derive(Debug)]
pub(super) struct DefinitionText {
    pub(super) content: String,
    path: PathBuf,
    at: TextOrigin,
}

#[derive(Debug)]
enum TextOrigin {
    /// The text begins in this line of the file.
    Line(usize),
    /// The text is in a value; its lines are not lines of the file.
    Value(TextPosition),
}

impl DefinitionTexts<'_> {
    /// Reads the text at a path of keys. A file is searched from the highest layer down, so that a prompt can be
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
                let at = match origin.position() {
                    place if is_body => TextOrigin::Line(place.line),
                    place => TextOrigin::Value(place),
                };
                return Ok(DefinitionText { content: text.clone(), path, at });
            }
            RawText::In(file) => &file.file,
        };
        let at_file: Vec<&str> = path.iter().copied().chain(["file"]).collect();
        let error = |message: String| node.origin_of(&at_file).error(message);
        // Other files of these folders contain keys and rules, which no agent may show.
        let name = name.trim_start_matches("./");
        if !stays_inside(name) || !name.starts_with(FOLDER) {
            return Err(error(format!("\"{name}\" is not below {FOLDER}, the folder of texts")));
        }
        match self.layers.topmost(name)? {
            Some((layer, text)) => {
                self.prompts.mark_used(name);
                Ok(DefinitionText {
                    content: text,
                    path: layer.path(name),
                    at: TextOrigin::Line(1),
                })
            }
            None => Err(error(format!("there is no file {name} beside it, nor in another layer"))),
        }
    }
}

impl DefinitionText {
    /// Makes the text of an entire file.
    pub(super) fn of_file(path: PathBuf, content: String) -> Self {
        Self { content, path, at: TextOrigin::Line(1) }
    }

    /// Makes an error at a position in the text.
    pub(super) fn error(&self, place: Option<TextPosition>, message: &str) -> ConfigError {
        let path = self.path.clone();
        match (&self.at, place) {
            (TextOrigin::Line(first), place) => {
                let TextPosition { line, column } =
                    place.unwrap_or(TextPosition { line: 1, column: 1 });
                let place = Some(TextPosition { line: line + first - 1, column });
                ConfigError { path, position: place, message: message.to_owned() }
            }
            (TextOrigin::Value(start), Some(place)) => {
                let message = format!("line {} of the text: {message}", place.line);
                ConfigError { path, position: Some(*start), message }
            }
            (TextOrigin::Value(start), None) => {
                ConfigError { path, position: Some(*start), message: message.to_owned() }
            }
        }
    }

    /// Makes the error of a template. The position of an error in a partial does not refer to this text.
    pub(super) fn template_error(&self, error: &TemplateError) -> ConfigError {
        match &error.partial {
            None => self.error(error.position, &error.message),
            Some(_) => self.error(None, &error.to_string()),
        }
    }
}
