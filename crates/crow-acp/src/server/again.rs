//! Restart of the task of an attached session that the client opens again. Open prompts and queued requests survive.

use std::sync::Arc;

use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    usage::TokenUsage,
};

use super::{
    peer::Peer,
    published_state::PublishedState,
    pump::{Begin, Pump},
};
use crate::view::{SessionView, StoredContents};

impl Pump {
    /// Restarts a paused pump for a new peer. Open prompts are answered when their runs end, as without the restart.
    pub(super) fn begin_again(
        &mut self,
        peer: Arc<dyn Peer>,
        published: PublishedState,
        begin: Begin,
    ) {
        self.peer = peer;
        self.published = published;
        // Open questions are task again by `greet`.
        for (_, task) in self.question_tasks.drain() {
            task.abort();
        }
        match begin {
            Begin::AfterResponse(known) => self.start_signal = Some(known),
            Begin::Replay(replay) => {
                self.observer = self.handle.subscribe_after(0);
                let cwd = self.handle.metadata().crow().cwd;
                let contents = Arc::new(StoredContents::of(&self.handle));
                let id = self.handle.session_id().clone();
                self.view = SessionView::new(self.abilities.clone(), id, cwd, contents);
                self.updates.clear();
                self.replay_events.clear();
                self.errors.clear();
                self.replay_run_ends.clear();
                self.replay_until = replay.until;
                self.replay_done = Some(replay.done);
                // The replay sets both again.
                self.run_id = None;
                for prompt in &mut self.prompts {
                    prompt.usage = TokenUsage::default();
                }
            }
        }
    }

    /// Updates open prompts by an event of the replayed history.
    pub(super) fn on_replayed_event(&mut self, envelope: &Envelope) {
        let run = self.run_id.as_ref();
        if let AgentEvent::Usage { usage, .. } = &envelope.event
            && let Some(prompt) = self.prompts.iter_mut().find(|prompt| Some(&prompt.run_id) == run)
        {
            prompt.usage += *usage;
        }
        if envelope.session_id != envelope.root_id {
            return;
        }
        if let AgentEvent::RunStart { run_id, .. } = &envelope.event {
            self.run_id = Some(run_id.clone());
        }
        if let AgentEvent::UserInput { message_id, source: InputSource::Prompt, .. } =
            &envelope.event
        {
            self.on_inserted(message_id.as_str());
        }
        if let AgentEvent::RunEnd { run_id, result } = &envelope.event
            && self.prompts.iter().any(|prompt| prompt.run_id == *run_id)
        {
            self.replay_run_ends.push((run_id.clone(), result.clone()));
        }
    }
}
