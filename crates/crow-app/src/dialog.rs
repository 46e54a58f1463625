//! The person in front of the program, as far as a front end can reach one before a conversation starts.

use crate::error::AppError;

/// Recipient of the questions of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person who can answer.
    Person,
    /// No one: the policy decides alone.
    Unattended,
}

/// Messages and questions of the product itself, which a front end shows.
///
/// The product asks only if its [`Audience`] is a person.
pub trait UserDialog: Send + Sync {
    /// Shows a message. Its text may contain characters that must not reach a terminal.
    fn show_message(&self, text: &str);

    /// Asks a yes-or-no question whose text is harmless, and returns true for a yes. Blocks.
    ///
    /// # Errors
    /// Fails if the question cannot be shown or the answer cannot be read.
    fn confirm(&self, question: &str) -> Result<bool, AppError>;
}

/// The dialog of a program without a person: drops messages, and answers every question with no.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDialog;

impl UserDialog for NoDialog {
    fn show_message(&self, _text: &str) {}

    fn confirm(&self, _question: &str) -> Result<bool, AppError> {
        Ok(false)
    }
}
