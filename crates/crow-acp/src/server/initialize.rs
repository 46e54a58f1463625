//! Identity of the agent towards clients, and the response to `initialize`: capabilities and authentication methods.
//! Reads no files.

use std::collections::HashMap;

use agent_client_protocol::{
    schema::ProtocolVersion,
    v1::schema::{
        AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodId,
        AuthMethodTerminal, Implementation, InitializeRequest, InitializeResponse,
        LogoutCapabilities, McpCapabilities, PromptCapabilities,
        SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
        SessionDeleteCapabilities, SessionForkCapabilities, SessionListCapabilities,
        SessionResumeCapabilities, SessionSystemPromptCapabilities,
        SessionSystemPromptModeCapabilities, SessionSystemPromptOverrideCapabilities,
        SessionTitleCapabilities,
    },
};
use crow_runtime::SessionSetup;
use serde_json::json;

/// Identity of the agent towards clients, and defaults of its sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcpIdentity {
    /// Machine-readable name.
    pub name: String,
    /// Display name.
    pub title: String,
    /// Version of the agent.
    pub version: String,
    /// Interactive login, if the agent has one.
    pub login: Option<TerminalLogin>,
    /// Defaults of new sessions, which clients can override or extend.
    pub setup: SessionSetup,
}

/// Login of a user in a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalLogin {
    /// Absolute path of the program.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Display name of the login method.
    pub name: String,
    /// Description of the login method.
    pub description: String,
}

/// Id of the authentication method that uses configured keys.
const CONFIGURED: &str = "configured";
/// Id of the authentication method in a terminal.
const LOGIN: &str = "login";

/// Answers `initialize` with version 1, whichever version the client asks for.
pub(super) fn initialize(
    identity: &AcpIdentity,
    request: &InitializeRequest,
) -> InitializeResponse {
    let info = Implementation::new(&identity.name, &identity.version).title(identity.title.clone());
    // Files are read and written on the disk, where commands and the sandbox see them.
    let crow = json!({ "promptQueueing": true, "readsUnsavedText": false });
    let meta = json!({ "steering": { "supported": true }, "crow": crow });
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_info(info)
        .agent_capabilities(capabilities())
        .auth_methods(auth_methods(identity, request))
        .meta(meta.as_object().cloned())
}

/// Returns true if the agent has the authentication method.
pub(super) fn is_method(identity: &AcpIdentity, id: &AuthMethodId) -> bool {
    *id.0 == *CONFIGURED || (*id.0 == *LOGIN && identity.login.is_some())
}

fn capabilities() -> AgentCapabilities {
    let system_prompt = SessionSystemPromptCapabilities::new().mode(
        SessionSystemPromptModeCapabilities::new()
            .override_(SessionSystemPromptOverrideCapabilities::new()),
    );
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .title(SessionTitleCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(system_prompt);
    AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true).acp(true))
        .session_capabilities(sessions)
        .auth(AgentAuthCapabilities::new().logout(LogoutCapabilities::new()))
}

fn auth_methods(identity: &AcpIdentity, request: &InitializeRequest) -> Vec<AuthMethod> {
    let configured = AuthMethodAgent::new(CONFIGURED, "Configured keys")
        .description("Use the API key in the environment or the configuration".to_owned());
    let mut methods = vec![AuthMethod::Agent(configured)];
    let client = &request.client_capabilities;
    let in_terminal = client.auth.terminal
        || client
            .meta
            .as_ref()
            .and_then(|meta| meta.get("terminal-auth"))
            .is_some_and(|value| value == true);
    if let Some(login) = identity.login.as_ref().filter(|_| in_terminal) {
        methods.push(terminal(login));
    }
    methods
}

/// Builds the login method in the protocol's form and, under `_meta.terminal-auth`, in the form of older clients.
fn terminal(login: &TerminalLogin) -> AuthMethod {
    let meta = json!({ "terminal-auth": {
        "command": login.program,
        "args": login.args,
        "label": login.name,
    } });
    let method = AuthMethodTerminal::new(LOGIN, &login.name)
        .description(login.description.clone())
        .args(login.args.clone())
        .env(HashMap::new())
        .meta(meta.as_object().cloned());
    AuthMethod::Terminal(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_that_unsaved_text_is_not_read() {
        let request = InitializeRequest::new(ProtocolVersion::V1);
        let answer = initialize(&AcpIdentity::default(), &request);
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!(answer["_meta"]["crow"]["readsUnsavedText"], false);
    }
}
