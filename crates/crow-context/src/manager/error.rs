//! Errors of the context manager.

/// Error of building what a model is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// What cannot be left out is longer than the budget: the template, the task, the last message.
    #[error("the request needs at least {needed} tokens, and its budget is {budget}")]
    BudgetTooSmall {
        /// Tokens of what cannot be left out.
        needed: u64,
        /// The budget in tokens.
        budget: u64,
    },
    /// A range of messages does not exist.
    #[error("there are no messages {start} to {end}: the conversation has {length}")]
    NoSuchMessages {
        /// The first message.
        start: usize,
        /// The message after the last one.
        end: usize,
        /// Number of messages.
        length: usize,
    },
    /// A range of messages would leave a result without its call, or a call without its result.
    #[error("the messages {start} to {end} separate a call from its result")]
    SeparatesCall {
        /// The first message.
        start: usize,
        /// The message after the last one.
        end: usize,
    },
    /// A summary cannot be used.
    #[error("the summary is not used: {reason}")]
    Summary {
        /// Why.
        reason: String,
    },
}
