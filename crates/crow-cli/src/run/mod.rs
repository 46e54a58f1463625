//! One run from the command line: what is asked for, the agent that does it, and what is shown of it.

mod answerer;
mod drive;
mod launch;
mod request;
mod screen;
mod sink;

pub(crate) use drive::{drive, say};
pub(crate) use launch::{Audience, Launch, Launched, launch};
pub(crate) use request::RunRequest;
pub(crate) use sink::{Sink, console_style};
