//! One run from the command line: what is asked for, the agent that does it, and what is shown of it. The chat uses its
//! parts.

mod answerer;
mod drive;
mod keyboard;
mod launch;
mod piped;
mod questions;
mod request;
mod screen;
mod signals;
mod sink;
mod typing;
mod user_question;

pub(crate) use drive::{SHUTDOWN, TICK, drive, is_end, learn_prices, say};
pub(crate) use keyboard::Keyboard;
pub(crate) use launch::{Audience, HostLaunch, Launch, Launched, host, launch};
pub(crate) use questions::{Answered, Effect, Question, Questions};
pub(crate) use request::{AgentRequest, RunRequest};
pub(crate) use screen::{Pumped, Screen};
pub(crate) use signals::{Signals, Wish};
pub use sink::console_style;
pub(crate) use sink::{Show, Sink};
pub(crate) use typing::{Typed, Typing};
