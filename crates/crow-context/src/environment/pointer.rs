//! Access by JSON pointers (RFC 6901) on the serialised state, and the errors of reading or changing an environment.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Environment, EnvironmentSection, EnvironmentState};

impl Environment {
    /// Returns the value at a JSON pointer, such as `/task/status`. Fails if nothing is there or if it has another type.
    /// Serialises the section: the typed accessors are faster.
    pub fn get<T: DeserializeOwned>(&self, pointer: &str) -> Result<T, EnvironmentError> {
        let (section, rest) = resolve(pointer)?;
        let value = match section {
            None => to_value(pointer, &self.state)?,
            Some(section) => section.to_value(pointer, &self.state)?,
        };
        let found = value.pointer(rest).cloned();
        let found =
            found.ok_or_else(|| EnvironmentError::NotFound { pointer: pointer.to_owned() })?;
        typed(pointer, found)
    }

    /// Sets the value at a JSON pointer. The place above it must exist; `-` appends to an array. The whole section is
    /// read into its types again, and checked against the schema: if it does not fit, nothing changes.
    pub fn set<T: Serialize>(&mut self, pointer: &str, value: T) -> Result<(), EnvironmentError> {
        let (section, rest) = resolve(pointer)?;
        let value = to_value(pointer, &value)?;
        let state = match section {
            None => typed(pointer, value)?,
            Some(section) => {
                let mut whole = section.to_value(pointer, &self.state)?;
                place(&mut whole, pointer, rest, value)?;
                let mut state = self.state.clone();
                section.assign(&mut state, pointer, whole)?;
                state
            }
        };
        self.replace_state(state)
    }
}

impl EnvironmentSection {
    fn to_value(self, pointer: &str, state: &EnvironmentState) -> Result<Value, EnvironmentError> {
        match self {
            Self::System => to_value(pointer, &state.system),
            Self::Task => to_value(pointer, &state.task),
            Self::Jobs => to_value(pointer, &state.jobs),
            Self::Checks => to_value(pointer, &state.checks),
            Self::Workspace => to_value(pointer, &state.workspace),
            Self::Knowledge => to_value(pointer, &state.knowledge),
            Self::Extensions => to_value(pointer, &state.extensions),
        }
    }

    fn assign(
        self,
        state: &mut EnvironmentState,
        pointer: &str,
        value: Value,
    ) -> Result<(), EnvironmentError> {
        match self {
            Self::System => state.system = typed(pointer, value)?,
            Self::Task => state.task = typed(pointer, value)?,
            Self::Jobs => state.jobs = typed(pointer, value)?,
            Self::Checks => state.checks = typed(pointer, value)?,
            Self::Workspace => state.workspace = typed(pointer, value)?,
            Self::Knowledge => state.knowledge = typed(pointer, value)?,
            Self::Extensions => state.extensions = typed(pointer, value)?,
        }
        Ok(())
    }
}

/// Splits a pointer into the section and the pointer inside it. No section means the whole state.
fn resolve(pointer: &str) -> Result<(Option<EnvironmentSection>, &str), EnvironmentError> {
    let invalid = || EnvironmentError::InvalidPointer { pointer: pointer.to_owned() };
    if pointer.is_empty() {
        return Ok((None, ""));
    }
    let path = pointer.strip_prefix('/').ok_or_else(invalid)?;
    let has_valid_escapes =
        path.split('~').skip(1).all(|after| after.starts_with('0') || after.starts_with('1'));
    if !has_valid_escapes {
        return Err(invalid());
    }
    let name = path.split('/').next().unwrap_or(path);
    let section = EnvironmentSection::from_name(name)
        .ok_or_else(|| EnvironmentError::NotFound { pointer: pointer.to_owned() })?;
    Ok((Some(section), &path[name.len()..]))
}

/// Puts a value at the place `rest` of a section.
fn place(
    whole: &mut Value,
    pointer: &str,
    rest: &str,
    value: Value,
) -> Result<(), EnvironmentError> {
    let Some((parent, last)) = rest.rsplit_once('/') else {
        *whole = value;
        return Ok(());
    };
    let not_found = || EnvironmentError::NotFound { pointer: pointer.to_owned() };
    match whole.pointer_mut(parent).ok_or_else(not_found)? {
        Value::Object(members) => {
            members.insert(unescape(last), value);
        }
        Value::Array(items) if last == "-" || last == items.len().to_string() => items.push(value),
        Value::Array(items) => {
            // As in RFC 6901, an index has no leading zeros.
            let index = last.parse::<usize>().ok().filter(|index| index.to_string() == last);
            let slot = index.and_then(|index| items.get_mut(index)).ok_or_else(not_found)?;
            *slot = value;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(not_found());
        }
    }
    Ok(())
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Returns the pointer to an extension.
pub(super) fn extension_pointer(name: &str) -> String {
    format!("/extensions/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Converts a value that is to be set at a pointer to JSON.
pub(super) fn to_value<T: Serialize>(pointer: &str, value: &T) -> Result<Value, EnvironmentError> {
    serde_json::to_value(value).map_err(|source| wrong_type(pointer, source))
}

/// Converts a value that is at, or is to be set at, a pointer.
pub(super) fn typed<T: DeserializeOwned>(
    pointer: &str,
    value: Value,
) -> Result<T, EnvironmentError> {
    serde_json::from_value(value).map_err(|source| wrong_type(pointer, source))
}

fn wrong_type(pointer: &str, source: serde_json::Error) -> EnvironmentError {
    EnvironmentError::WrongType { pointer: pointer.to_owned(), source }
}

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
