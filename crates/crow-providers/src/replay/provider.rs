//! A recording as a provider.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    ids::SessionId,
    message::Origin,
    model::{Abilities, Conversation, ModelInfo, ModelRef, Provider, ToolCallFormat},
};

use super::{
    conversation::ReplayConversation,
    recording::{RecordedConversation, RecordingError},
};

/// The name of the provider.
const NAME: &str = "replay";

/// Plays a recorded conversation, the same one in every session.
#[derive(Debug, Clone)]
pub struct ReplayProvider {
    recording: Arc<RecordedConversation>,
    pace: Duration,
}

impl ReplayProvider {
    /// Parses a recording.
    pub fn from_json(text: &str) -> Result<Self, RecordingError> {
        let recording = RecordedConversation::parse(text)?;
        Ok(Self { pace: recording.pace, recording: Arc::new(recording) })
    }

    /// Reads a recording from a file.
    pub async fn read(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = PathBuf::from(path.as_ref());
        match tokio::fs::read_to_string(&path).await {
            Ok(text) => Self::from_json(&text),
            Err(source) => Err(RecordingError::Unreadable { path, source }),
        }
    }

    /// Sets the pause between two deltas.
    #[must_use]
    pub fn with_pace(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Returns the properties of the recorded model, as far as a request needs them.
    pub fn model(&self) -> ModelInfo {
        let model = self.recording.model.clone();
        ModelInfo {
            reference: ModelRef { provider: NAME.to_owned(), model },
            context_window: None,
            max_output_tokens: None,
            abilities: Abilities { tools: true, vision: true, thinking: true },
            tool_calls: ToolCallFormat::Native,
        }
    }
}

impl Provider for ReplayProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn conversation(&self, model: &ModelInfo, _session: &SessionId) -> Box<dyn Conversation> {
        let origin = Origin {
            dialect: NAME.to_owned(),
            provider: NAME.to_owned(),
            base_url: String::new(),
            model: model.reference.model.clone(),
        };
        Box::new(ReplayConversation::new(Arc::clone(&self.recording), self.pace, origin))
    }
}
