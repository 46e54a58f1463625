//! What the model is told of its jobs without asking.

use crow_core::capability::{JobInfo, Jobs as _};

use super::{AgentError, AgentInternals};

impl AgentInternals {
    /// Tells the model of jobs whose end it has not seen, each once.
    pub(super) async fn tell_ended_jobs(&mut self) -> Result<(), AgentError> {
        let ended = self.jobs.take_ended();
        if ended.is_empty() {
            return Ok(());
        }
        let lines = ended.iter().map(|JobInfo { id, title, state, .. }| {
            format!("{id} ({title}) {state}; its output was not read")
        });
        self.remind(lines.collect::<Vec<_>>().join("\n")).await
    }
}
