//! The program as a library: the commands, and the output of runs for people and programs.

mod app;
mod args;
mod chat;
mod chat_recording;
mod command;
mod command_line;
mod configuration_check;
mod crash_report;
mod diagnostic_log;
mod doctor;
mod error;
mod export;
mod listings;
pub mod output;
mod quoted_path;
mod render;
mod run;
mod session_commands;
mod session_context;
mod session_ledger;
mod session_picker;
mod session_trace;
mod setup;
mod statistics_table;
mod stored_sessions;
mod terminal;
mod twin_commands;
mod undo;

pub use app::main;
pub use crow_app::ProcessEnvironment;
pub use error::CliError;
pub use terminal::console_style;
