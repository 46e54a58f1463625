//! Tests of the view.

mod calls;
mod laws;
mod prompts;
mod questions;
mod real;
mod replies;
mod sample;
mod screen;
mod session;
mod settings;
