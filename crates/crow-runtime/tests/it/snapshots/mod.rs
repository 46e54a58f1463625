//! The snapshot store.

mod activities;
mod hazards;
mod laws;
mod project;
mod race;
mod scans;
mod undos;
mod upkeep;
