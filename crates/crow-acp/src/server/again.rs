//! A session that its connection shows already and is asked for again: its task begins anew, and what it has under way goes on.

use std::sync::Arc;

use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    usage::TokenUsage,
};

use super::{
    peer::Peer,
    published::PublishedState,
    pump::{Begin, Pump},
};
use crate::view::{SessionView, StoredContents};

impl Pump {
    /// Begins anew, after a pause. Prompts under way are answered when their runs end, as if nothing had happened.
    pub(super) fn begin_again(
        &mut self,
        peer: Arc<dyn Peer>,
        published: PublishedState,
        begin: Begin,
    ) {
        self.peer = peer;
        self.published = published;
        // Questions that are open are asked again.
        for (_, asked) in self.asked.drain() {
            asked.abort();
        }
        match begin {
            Begin::When(known) => self.when = Some(known),
            Begin::Replay(replay) => {
                self.observer = self.handle.subscribe_after(0);
                let cwd = self.handle.metadata().crow().cwd;
                let contents = Arc::new(StoredContents::of(&self.handle));
                let id = self.handle.session_id().clone();
                self.view = SessionView::new(self.abilities.clone(), id, cwd, contents);
                self.out.clear();
                self.past.clear();
                self.errors.clear();
                self.past_ends.clear();
                self.replay_until = replay.until;
                self.replayed = Some(replay.done);
                // Both are read again.
                self.run_id = None;
                for prompt in &mut self.prompts {
                    prompt.usage = TokenUsage::default();
                }
            }
        }
    }

    /// Keeps up with the prompts under way while what happened before is read.
    pub(super) fn recall(&mut self, envelope: &Envelope) {
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
            self.inserted(message_id.as_str());
        }
        if let AgentEvent::RunEnd { run_id, result } = &envelope.event
            && self.prompts.iter().any(|prompt| prompt.run_id == *run_id)
        {
            self.past_ends.push((run_id.clone(), result.clone()));
        }
    }
}
