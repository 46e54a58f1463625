//! What a client said that it can do.

use agent_client_protocol::v1::schema::{ClientCapabilities, InitializeRequest};
use serde_json::Value;

/// What a client said that it can do. A client that says nothing can do nothing beyond the protocol's base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientAbilities {
    /// Shows terminals whose output the agent sends along (`_meta.terminal_output`).
    pub(crate) terminals: Support,
    /// Takes notices.
    pub(crate) notices: Support,
    /// Takes what is told of compactions.
    pub(crate) compaction: Support,
    /// Shows options that are on or off as such.
    pub(crate) booleans: Support,
    /// Shows the sessions of agents that agents start.
    pub(crate) subagents: Support,
    /// Asks the user to fill in a form.
    pub(crate) forms: Support,
    /// Asks the user to open an address.
    pub(crate) urls: Support,
    /// Reads text files for the agent, those that are edited and not saved included.
    pub(crate) reads_files: Support,
    /// Writes text files for the agent.
    pub(crate) writes_files: Support,
    /// Opens a terminal in which the user can log in.
    pub(crate) login_terminal: Support,
    /// The name of the client, if it gave one.
    pub(crate) name: Option<String>,
}

/// Whether a client can do something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Support {
    /// It did not say so.
    #[default]
    No,
    /// It can.
    Yes,
}

impl Support {
    /// Returns whether the client can do it.
    pub(crate) fn is_yes(self) -> bool {
        self == Self::Yes
    }

    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

impl From<&InitializeRequest> for ClientAbilities {
    fn from(request: &InitializeRequest) -> Self {
        let name = request.client_info.as_ref().map(|client| client.name.clone());
        Self { name, ..Self::from(&request.client_capabilities) }
    }
}

impl From<&ClientCapabilities> for ClientAbilities {
    fn from(said: &ClientCapabilities) -> Self {
        let session = said.session.as_ref();
        let options = session.and_then(|session| session.config_options.as_ref());
        let elicitation = said.elicitation.as_ref();
        let flag = |name: &str| {
            let meta = said.meta.as_ref().and_then(|meta| meta.get(name));
            Support::of(meta.and_then(Value::as_bool) == Some(true))
        };
        Self {
            terminals: flag("terminal_output"),
            notices: Support::of(session.is_some_and(|session| session.notices.is_some())),
            compaction: Support::of(session.is_some_and(|session| session.compaction.is_some())),
            booleans: Support::of(options.is_some_and(|options| options.boolean.is_some())),
            subagents: Support::of(said.subagents.is_some()),
            forms: Support::of(elicitation.is_some_and(|asked| asked.form.is_some())),
            urls: Support::of(elicitation.is_some_and(|asked| asked.url.is_some())),
            reads_files: Support::of(said.fs.read_text_file),
            writes_files: Support::of(said.fs.write_text_file),
            login_terminal: Support::of(said.auth.terminal),
            name: None,
        }
    }
}
