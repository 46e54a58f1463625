//! Questions of agents to the person at the terminal: their text, the answers that are typed, and the order in which
//! they are asked.

mod permission_question;
mod queue;
mod user_question;

pub use queue::{AnswerDelivery, QuestionEffect, QuestionQueue, TerminalQuestion};
