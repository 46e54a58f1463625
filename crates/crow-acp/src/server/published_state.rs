//! Session state that is sent besides events (options, mode, commands, title, usage), so that only changes are sent.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionConfigOption,
    SessionModeState, SessionUpdate,
};
use crow_core::ids::SessionId;
use crow_runtime::{AgentHandle, AgentHost, HostError, SessionUsage};

use crate::view::{self, ClientAbilities, SessionUpdateOut};

/// Last state of a session that was sent to a client.
#[derive(Debug)]
pub(super) struct PublishedState {
    host: Arc<dyn AgentHost>,
    id: SessionId,
    abilities: ClientAbilities,
    options: Vec<SessionConfigOption>,
    modes: Option<SessionModeState>,
    commands: Option<AvailableCommandsUpdate>,
    title: String,
    usage: Option<SessionUsage>,
}

impl PublishedState {
    pub(super) fn new(
        host: Arc<dyn AgentHost>,
        handle: &AgentHandle,
        abilities: ClientAbilities,
    ) -> Self {
        let id = handle.session_id().clone();
        let title = handle.metadata().crow().title;
        let (options, modes, commands, usage) = (Vec::new(), None, None, None);
        Self { host, id, abilities, options, modes, commands, title, usage }
    }

    /// Returns the current options and modes for a response that carries them, and records them as sent.
    pub(super) async fn options(
        &mut self,
    ) -> Result<(Vec<SessionConfigOption>, Option<SessionModeState>), HostError> {
        let options = self.host.options(&self.id).await?;
        self.options = view::config_options(&options, &self.abilities);
        self.modes = view::modes(&options);
        Ok((self.options.clone(), self.modes.clone()))
    }

    /// Returns the current options for a response that carries them. Adds an update if the mode changed, for clients
    /// that know only modes.
    pub(super) async fn options_for_response(
        &mut self,
        out: &mut Vec<SessionUpdateOut>,
    ) -> Result<Vec<SessionConfigOption>, HostError> {
        let before = self.modes.clone();
        let (options, _) = self.options().await?;
        self.push_mode(before.as_ref(), out);
        Ok(options)
    }

    /// Adds updates for options and mode if they changed.
    pub(super) async fn push_options(&mut self, out: &mut Vec<SessionUpdateOut>) {
        let (before, mode_before) = (self.options.clone(), self.modes.clone());
        let options = match self.options().await {
            Ok((options, _)) => options,
            Err(error) => return not_sent(&error, "options"),
        };
        if options != before {
            self.push_update(
                SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options)),
                out,
            );
        }
        self.push_mode(mode_before.as_ref(), out);
    }

    /// Adds a mode update if the mode differs from `before`.
    fn push_mode(&self, before: Option<&SessionModeState>, out: &mut Vec<SessionUpdateOut>) {
        let Some(modes) = &self.modes else { return };
        let is_new = before.is_none_or(|mode| mode.current_mode_id != modes.current_mode_id);
        if is_new {
            let update = CurrentModeUpdate::new(modes.current_mode_id.clone());
            self.push_update(SessionUpdate::CurrentModeUpdate(update), out);
        }
    }

    /// Adds an update with the available commands if they changed.
    pub(super) async fn push_commands(&mut self, out: &mut Vec<SessionUpdateOut>) {
        let commands = match self.host.commands(&self.id).await {
            Ok(commands) => commands,
            Err(error) => return not_sent(&error, "commands"),
        };
        let update = view::commands(&commands);
        if self.commands.as_ref() != Some(&update) {
            self.commands = Some(update.clone());
            self.push_update(SessionUpdate::AvailableCommandsUpdate(update), out);
        }
    }

    /// Adds an update with the title if it changed.
    pub(super) fn push_title(&mut self, handle: &AgentHandle, out: &mut Vec<SessionUpdateOut>) {
        let metadata = handle.metadata();
        let title = metadata.crow().title;
        if title != self.title {
            self.title = title;
            let update = view::session_info_update(&metadata);
            self.push_update(SessionUpdate::SessionInfoUpdate(update), out);
        }
    }

    /// Adds an update with the used context window and the cost if they changed.
    pub(super) async fn push_usage(&mut self, out: &mut Vec<SessionUpdateOut>) {
        let usage = match self.host.usage(&self.id).await {
            Ok(usage) => usage,
            Err(error) => return not_sent(&error, "usage"),
        };
        if self.usage != Some(usage) {
            self.usage = Some(usage);
            if let Some(update) = view::usage_update(&usage) {
                self.push_update(SessionUpdate::UsageUpdate(update), out);
            }
        }
    }

    fn push_update(&self, update: SessionUpdate, out: &mut Vec<SessionUpdateOut>) {
        out.push(SessionUpdateOut { session_id: self.id.as_str().to_owned().into(), update });
    }
}

/// Logs that a change is not sent to the client, which continues with what it knows.
fn not_sent(error: &HostError, what: &str) {
    tracing::debug!(%error, "{what} of the session cannot be read, so the client keeps the old ones");
}
