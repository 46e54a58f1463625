//! The snapshot store.

mod activities;
mod hazards;
mod laws;
mod project;
mod scans;
mod undos;
mod upkeep;
