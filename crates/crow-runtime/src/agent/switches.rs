//! Switching to another model or agent within a session.

use crow_core::{event::AgentEvent, model::ModelInfo};

use super::agent_session::model_switch;
use super::{AgentError, AgentInternals};

impl AgentInternals {
    /// Switches to another model for all later model calls. The switch is recorded, and the header names the new model.
    pub async fn switch_model(&mut self, info: &ModelInfo) -> Result<(), AgentError> {
        let before = self.shared.metadata().model_ref();
        let reference = &info.reference;
        self.context.model.set(reference.clone(), info.abilities);
        if before == *reference {
            return Ok(());
        }
        self.emit(AgentEvent::Switch { change: model_switch(&before, reference) }).await?;
        {
            let mut metadata = self.shared.metadata();
            metadata.model.clone_from(&reference.model);
            metadata.provider.clone_from(&reference.provider);
        }
        self.save_metadata()
    }

    /// Switches to another agent: later events carry its name, and the permission rules of that agent apply. The
    /// `switches` describe the differences and are recorded first.
    pub async fn switch_agent(
        &mut self,
        name: &str,
        switches: Vec<String>,
    ) -> Result<(), AgentError> {
        for change in switches {
            self.emit(AgentEvent::Switch { change }).await?;
        }
        if self.shared.metadata().agent_type == name {
            return Ok(());
        }
        self.recorder.set_agent(name);
        self.context.agent_name.set(name);
        name.clone_into(&mut self.shared.metadata().agent_type);
        self.save_metadata()
    }
}
