//! What calls change, and undoing it.

mod crashes;
mod journal;
mod laws;
mod recording;
mod review;
mod review_agents;
mod sessions;
mod stage;
