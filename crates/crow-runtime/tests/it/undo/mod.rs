//! What calls change, and undoing it.

mod adversity;
mod background;
mod crashes;
mod journal;
mod laws;
mod own_tools;
mod put_back;
mod recording;
mod roots;
mod sessions;
mod stage;
