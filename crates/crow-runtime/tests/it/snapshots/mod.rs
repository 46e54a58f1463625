//! The snapshot store.

mod activities;
mod hazards;
mod laws;
mod packs;
mod project;
mod race;
mod scans;
mod undos;
mod upkeep;
