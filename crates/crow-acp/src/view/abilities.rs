//! Capabilities of a client.

use agent_client_protocol::v1::schema::{ClientCapabilities, InitializeRequest};
use serde_json::Value;

/// Capabilities that a client declared. One that declares none supports only the base of the protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientAbilities {
    /// Shows terminals whose output the agent sends along (`_meta.terminal_output`).
    pub(crate) terminals: Support,
    /// Takes notices.
    pub(crate) notices: Support,
    /// Takes updates about compactions.
    pub(crate) compaction: Support,
    /// Shows boolean options.
    pub(crate) booleans: Support,
    /// Shows coagents and subagents as sessions.
    pub(crate) subagents: Support,
    /// Asks the user to fill in a form.
    pub(crate) forms: Support,
    /// Asks the user to open an address.
    pub(crate) urls: Support,
    /// Reads text files for the agent, including unsaved changes.
    pub(crate) reads_files: Support,
    /// Writes text files for the agent.
    pub(crate) writes_files: Support,
    /// Opens a terminal in which the user can log in.
    pub(crate) login_terminal: Support,
    /// Name of the client, if it gave one.
    pub(crate) name: Option<String>,
}

/// Support of a capability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Support {
    /// The client did not declare it.
    #[default]
    No,
    /// The client declared it.
    Yes,
}

impl Support {
    /// Returns true if the client declared the capability.
    pub(crate) fn is_yes(self) -> bool {
        self == Self::Yes
    }

    fn of(is_declared: bool) -> Self {
        if is_declared { Self::Yes } else { Self::No }
    }
}

impl From<&InitializeRequest> for ClientAbilities {
    fn from(request: &InitializeRequest) -> Self {
        let name = request.client_info.as_ref().map(|client| client.name.clone());
        Self { name, ..Self::from(&request.client_capabilities) }
    }
}

impl From<&ClientCapabilities> for ClientAbilities {
    fn from(capabilities: &ClientCapabilities) -> Self {
        let session = capabilities.session.as_ref();
        let options = session.and_then(|session| session.config_options.as_ref());
        let elicitation = capabilities.elicitation.as_ref();
        let flag = |name: &str| {
            let meta = capabilities.meta.as_ref().and_then(|meta| meta.get(name));
            Support::of(meta.and_then(Value::as_bool) == Some(true))
        };
        Self {
            terminals: flag("terminal_output"),
            notices: Support::of(session.is_some_and(|session| session.notices.is_some())),
            compaction: Support::of(session.is_some_and(|session| session.compaction.is_some())),
            booleans: Support::of(options.is_some_and(|options| options.boolean.is_some())),
            subagents: Support::of(capabilities.subagents.is_some()),
            forms: Support::of(elicitation.is_some_and(|modes| modes.form.is_some())),
            urls: Support::of(elicitation.is_some_and(|modes| modes.url.is_some())),
            reads_files: Support::of(capabilities.fs.read_text_file),
            writes_files: Support::of(capabilities.fs.write_text_file),
            login_terminal: Support::of(capabilities.auth.terminal),
            name: None,
        }
    }
}
