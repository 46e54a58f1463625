//! One run from the command line: the request, the agent that carries it out, and the output. The chat reuses the
//! parts.
//!
//! A panic here would end the run with all its calls, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod drive;
mod launch;
mod output_schema;
mod request;
mod screen;

pub(crate) use drive::{AnswerForm, RunTask, SHUTDOWN, drive, listen_to_signals};
pub(crate) use launch::{
    ProductLaunch, StartedAgent, audience_of, host, launch, resume, run, start,
};
pub(crate) use output_schema::OutputSchema;
pub(crate) use request::{AgentRequest, RunRequest};
pub(crate) use screen::{RunDisplay, RunSink};
