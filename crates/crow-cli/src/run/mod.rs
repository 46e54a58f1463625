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
pub(crate) use launch::{Audience, HostLaunch, ProductLaunch, StartedAgent, host, launch};
pub(crate) use questions::{AnswerDelivery, Effect, QuestionQueue, TerminalQuestion};
pub(crate) use request::{AgentRequest, RunRequest};
pub(crate) use screen::{PumpEnd, ScreenThread};
pub(crate) use signals::{Signals, Wish};
pub use sink::console_style;
pub(crate) use sink::{RunSink, Show};
pub(crate) use typing::{LineInputBuffer, TypedLine};
