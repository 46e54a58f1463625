//! One run from the command line: the request, the agent that carries it out, and the output. The chat reuses the
//! parts.
//!
//! A panic here would end the run with all its calls, so nothing may panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod answerer;
mod drive;
mod launch;
mod piped;
mod request;
mod screen;
mod signals;
mod sink;

pub(crate) use drive::{SHUTDOWN, TICK, drive, is_root_run_end, set_prices};
pub(crate) use launch::{HostLaunch, ProductLaunch, StartedAgent, audience_of, host, launch};
pub(crate) use request::{AgentRequest, RunRequest};
pub(crate) use screen::{PumpEnd, ScreenThread};
pub(crate) use signals::{SignalAction, Signals};
pub(crate) use sink::{RunDisplay, RunSink};
