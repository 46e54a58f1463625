//! What calls change, and undoing it.

mod crashes;
mod journal;
mod laws;
mod recording;
mod sessions;
mod stage;
