//! One run from the command line: the request, the agent that carries it out, and the output. The chat reuses the
//! parts.
//!
//! A panic here would end the run with all its calls, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod drive;
mod launch;
mod request;
mod screen;
mod signals;

pub(crate) use drive::{SHUTDOWN, TICK, drive, event_stream, is_root_run_end, set_prices};
pub(crate) use launch::{ProductLaunch, StartedAgent, audience_of, host, launch, resume, run};
pub(crate) use request::{AgentRequest, RunRequest};
pub(crate) use screen::{PumpEnd, RunDisplay, RunSink, ScreenThread};
pub(crate) use signals::{SignalAction, Signals, end_signal};
