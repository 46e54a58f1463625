//! Identifiers. Each kind has its own type, so that a call id cannot be passed as a session id.

use std::{borrow::Cow, fmt, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps an existing identifier.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }

            /// Returns the identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::new)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                String::json_schema(generator)
            }
        }
    };
}

id_type! {
    /// Names a session. The id of the root session is the one id that a user sees.
    SessionId
}
id_type! {
    /// Names a run: everything that one user prompt starts.
    RunId
}
id_type! {
    /// Names a message of the history. Encoders cache the wire bytes of a message by it.
    MessageId
}
id_type! {
    /// Names one reply of the model. Calls that came in one reply share it.
    ReplyId
}
id_type! {
    /// Names a tool call: the id that the model gave, or a generated one if it gave none.
    CallId
}
id_type! {
    /// Names a job of one agent: `job-1`, `job-2`. Short, because models write it.
    JobId
}
id_type! {
    /// Names a background task of a child agent, unique per agent: `task-1`, `task-2`. Short, because models write it.
    TaskId
}
id_type! {
    /// Names a question to the user about a call.
    RequestId
}
id_type! {
    /// Names a captured state of files.
    SnapshotId
}
id_type! {
    /// Names a state of the workspace's files without ignored ones. Equal states have equal names.
    FilesId
}
id_type! {
    /// Names an undo, a redo or a restore of files.
    UndoId
}

/// Makes new identifiers. Injected, so that a run can be replayed.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// Returns an identifier that this source never returned before.
    fn next_id(&self) -> Arc<str>;
}
