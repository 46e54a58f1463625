//! One run from the command line: the request, the agent that carries it out, and the output. The chat reuses the
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
