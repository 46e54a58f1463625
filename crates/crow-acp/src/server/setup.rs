//! Settings of a session in a client's request, and their conversion to [`SessionSetup`].

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol::{
    Error,
    v1::schema::{ContentBlock, McpServer, SystemPrompt as PromptOfClient, SystemPromptMode},
};
use crow_core::mcp::{McpServerConfig, McpTransport};
use crow_runtime::{SessionSetup, SystemPrompt};

use super::{links::Links, peer::Peer};
use crate::view::invalid;

/// Settings of a session that a client creates or opens.
pub(super) struct Setup {
    /// Working directory of a stored session; `None` for a new one.
    pub cwd: Option<PathBuf>,
    pub additional_directories: Vec<PathBuf>,
    pub mcp_servers: Vec<McpServer>,
    pub system_prompt: Option<PromptOfClient>,
}

impl Setup {
    /// Collects the settings that all requests have in common.
    pub(super) fn new(
        additional_directories: Vec<PathBuf>,
        mcp_servers: Vec<McpServer>,
        system_prompt: Option<PromptOfClient>,
    ) -> Self {
        Self { cwd: None, additional_directories, mcp_servers, system_prompt }
    }

    /// Sets the working directory of a stored session.
    pub(super) fn working_in(self, cwd: PathBuf) -> Self {
        Self { cwd: Some(cwd), ..self }
    }

    /// Converts the settings, which extend or override `defaults`. Servers that the client serves itself are reached
    /// through `links`. Fails on relative paths, duplicate server ids, and servers or prompts of an unsupported kind.
    pub(super) fn into_session_setup(
        self,
        defaults: &SessionSetup,
        links: &Arc<Links>,
        peer: &Arc<dyn Peer>,
    ) -> Result<SessionSetup, Error> {
        let Self { cwd, additional_directories, mcp_servers, system_prompt } = self;
        if let Some(cwd) = &cwd {
            absolute(cwd, "cwd")?;
        }
        for folder in &additional_directories {
            absolute(folder, "additionalDirectories")?;
        }
        let mut setup = defaults.clone();
        setup.cwd = cwd;
        setup.additional_directories = Some(additional_directories);
        let mut ids = HashSet::new();
        for server in mcp_servers {
            if let McpServer::Acp(own) = &server
                && !ids.insert(own.server_id.clone())
            {
                let id = &own.server_id;
                return Err(invalid(format!("mcpServers: two servers have the id {id}")));
            }
            setup.mcp_servers.push(mcp_server(server, links, peer)?);
        }
        if let Some(prompt) = system_prompt {
            setup.system_prompt = Some(text_of(prompt)?);
        }
        Ok(setup)
    }
}

/// Fails if a path is relative, because it would depend on where the program runs.
pub(super) fn absolute(path: &Path, field: &str) -> Result<(), Error> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(invalid(format!("{field}: {} is not an absolute path", path.display())))
}

fn mcp_server(
    server: McpServer,
    links: &Arc<Links>,
    peer: &Arc<dyn Peer>,
) -> Result<McpServerConfig, Error> {
    match server {
        McpServer::Stdio(stdio) => {
            let env = stdio.env.into_iter().map(|variable| (variable.name, variable.value));
            let command = stdio.command.to_str().ok_or_else(|| {
                invalid(format!("mcpServers: the command of {} is not text", stdio.name))
            })?;
            let transport = McpTransport::Stdio {
                command: command.to_owned(),
                args: stdio.args,
                env: env.collect(),
                cwd: None,
            };
            Ok(McpServerConfig { name: stdio.name, transport })
        }
        McpServer::Http(http) => {
            let headers = http.headers.into_iter().map(|header| (header.name, header.value));
            let transport = McpTransport::Http { url: http.url, headers: headers.collect() };
            Ok(McpServerConfig { name: http.name, transport })
        }
        McpServer::Acp(own) => Ok(links.server(peer, own)),
        McpServer::Sse(sse) => Err(invalid(format!(
            "mcpServers: {} speaks the old SSE transport; only stdio, streamable HTTP and acp are supported",
            sse.name
        ))),
        _ => Err(invalid("mcpServers: only stdio, streamable HTTP and acp are supported")),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
fn text_of(prompt: PromptOfClient) -> Result<SystemPrompt, Error> {
    let mut text = String::new();
    for block in prompt.content {
        let ContentBlock::Text(block) = block else {
            return Err(invalid("systemPrompt: only text is supported"));
        };
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&block.text);
    }
    match prompt.mode {
        SystemPromptMode::Append => Ok(SystemPrompt::Append(text)),
        SystemPromptMode::Override => Ok(SystemPrompt::Replace(text)),
        mode => Err(invalid(format!("systemPrompt: {mode:?} is not supported"))),
    }
}
