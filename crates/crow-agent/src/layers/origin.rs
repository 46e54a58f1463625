//! The origin of a value.

use std::{fmt, path::PathBuf, sync::Arc};

use crow_core::config::{ConfigError, TextPosition};

use super::LayerKind;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Layer of the file.
    pub layer: LayerKind,
    /// Path for display.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
}

/// The origin of a value: file and byte. The line is counted only when it is needed.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueOrigin {
    file: Arc<SourceFile>,
    byte: usize,
}

impl ValueOrigin {
    pub(crate) fn new(file: &Arc<SourceFile>, byte: usize) -> Self {
        Self { file: Arc::clone(file), byte }
    }

    /// Returns the layer.
    pub fn layer(&self) -> LayerKind {
        self.file.layer
    }

    /// Returns the file.
    pub fn file(&self) -> &SourceFile {
        &self.file
    }

    /// Returns line and column in the file.
    pub fn position(&self) -> TextPosition {
        TextPosition::of_byte(&self.file.text, self.byte)
    }

    /// Makes an error about the value at this origin.
    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError {
            path: self.file.path.clone(),
            position: Some(self.position()),
            message: message.into(),
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.path.display(), self.position().line)
    }
}

impl fmt::Debug for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}
