//! The style of a system prompt.

/// Length of a system prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PromptStyle {
    /// The whole prompt.
    #[default]
    Full,
    /// A short one, for models that follow few instructions or have small windows.
    Brief,
}

impl PromptStyle {
    /// Returns the word for it in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Brief => "brief",
        }
    }
}
