//! All that is recorded of a session: its own log, and those of the agents below it.

use std::collections::BTreeSet;

use crow_core::{
    event::Envelope,
    ids::SessionId,
    model::{ModelRef, Models, Price},
    redact::Redactor,
};
use crow_runtime::{Damage, SessionError, SessionMetadata, SessionStore};

use crate::output::models_of;

/// What is recorded of a session and of the agents below it.
pub(crate) struct SessionRecord {
    pub metadata: SessionMetadata,
    /// In the order in which it happened.
    pub events: Vec<Envelope>,
    /// What of the session's own files is damaged.
    pub damage: Damage,
}

impl SessionRecord {
    /// Reads a session without the secrets that are known now: a log may be older than the secret, or than this program.
    /// Of the sessions below it, those that cannot be read are left out. Blocks.
    pub(crate) fn read(
        store: &dyn SessionStore,
        id: &SessionId,
        redactor: &Redactor,
    ) -> Result<Self, SessionError> {
        let root = store.read(id)?;
        let mut lines = Vec::new();
        number(root.events, &mut lines);
        let mut known = BTreeSet::from([id.clone()]);
        let mut open = root.metadata.child_session_ids.clone();
        while let Some(child) = open.pop() {
            if !known.insert(child.clone()) {
                continue;
            }
            let Ok(stored) = store.read(&child) else { continue };
            open.extend(stored.metadata.child_session_ids);
            number(stored.events, &mut lines);
        }
        lines.sort_by_key(|(number, _)| *number);
        let mut events: Vec<Envelope> = lines.into_iter().map(|(_, event)| event).collect();
        for line in &mut events {
            redactor.redact_event(&mut line.event);
        }
        Ok(Self { metadata: root.metadata, events, damage: root.damage })
    }

    /// Looks up what its models cost, as far as that is known. Makes no request.
    pub(crate) async fn prices(&self, models: &dyn Models) -> Vec<(ModelRef, Price)> {
        let mut prices = Vec::new();
        for model in models_of(&self.events) {
            if let Some(price) = models.price(&model).await {
                prices.push((model, price));
            }
        }
        prices
    }
}

/// Gives each event of a log the number by which it is sorted among those of others: its own, or that of the one before.
fn number(events: Vec<Envelope>, lines: &mut Vec<(u64, Envelope)>) {
    let mut last = 0;
    for event in events {
        last = event.seq.unwrap_or(last);
        lines.push((last, event));
    }
}
