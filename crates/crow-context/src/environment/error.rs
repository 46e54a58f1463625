//! Errors of the environment.

/// Error of reading or changing an environment. The state is unchanged after each of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The text is no JSON pointer: it is neither empty nor begins with `/`, or has an invalid escape.
    #[error("\"{pointer}\" is not a JSON pointer")]
    InvalidPointer {
        /// The pointer.
        pointer: String,
    },
    /// Nothing is at that place, or the place above it does not exist.
    #[error("there is nothing at {pointer}")]
    NotFound {
        /// The pointer.
        pointer: String,
    },
    /// The value there, or a value that was to be set, does not have the type of its place.
    #[error("the value at {pointer} does not fit: {source}")]
    WrongType {
        /// The pointer.
        pointer: String,
        /// The error of the conversion.
        source: serde_json::Error,
    },
    /// A value violates the schema.
    #[error("the value at {pointer} violates the schema: {message}")]
    SchemaViolation {
        /// Pointer to the value that violates it.
        pointer: String,
        /// The violated rule.
        message: String,
    },
    /// A schema uses a keyword that is not supported, or is malformed.
    #[error("the schema cannot be used at {pointer}: {message}")]
    UnsupportedSchema {
        /// Pointer into the schema.
        pointer: String,
        /// The reason.
        message: String,
    },
    /// A handler rejected the result of a tool.
    #[error("the result of {tool} was rejected: {message}")]
    ResultRejected {
        /// The tool.
        tool: String,
        /// The reason.
        message: String,
    },
    /// A handler panicked.
    #[error("the handler of results of {tool} panicked: {message}")]
    HandlerPanicked {
        /// The tool.
        tool: String,
        /// The message of the panic.
        message: String,
    },
}

/// The reason as a text: handlers of results return it with `?`.
impl From<EnvironmentError> for String {
    fn from(error: EnvironmentError) -> Self {
        error.to_string()
    }
}
