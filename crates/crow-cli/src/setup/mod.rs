//! The setup of a model at the terminal: what Crow needs to work, asked step by step.
//!
//! It runs when a chat has no usable model, and with `crow-agent setup`. All answers are collected first and written at the
//! end with the means of `login` and `config set`, so that a user who leaves has changed nothing. Keys are never shown.

mod dialog;
mod model_step;
mod setup_command;
mod source_step;
mod wizard;

pub(crate) use setup_command::setup;
pub(crate) use wizard::{SetupEnd, set_up};
