//! `doctor`: what is in force, and what is not. It asks nobody but model servers of this machine, as `models` does.

mod configuration;
mod models;
mod report;
mod sandbox;

pub(crate) use report::doctor;
