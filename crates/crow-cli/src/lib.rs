//! The program as a library: the composition root, the commands, and the output of runs for people and programs.

mod app;
mod args;
mod chat;
mod child_environment;
mod command;
mod command_line;
mod config;
mod confirm;
mod credentials;
mod damage;
mod doctor;
mod environment;
mod error;
mod export;
mod hardening;
mod host;
mod known_secrets;
mod mcp;
mod open_reply;
pub mod output;
mod permit_hint;
mod private_file;
mod product;
mod quoted_path;
pub mod render;
mod run;
mod sandbox;
mod session_record;
mod terminal;
mod trust;
mod undo;

pub use app::main;
pub use environment::Environment;
pub use error::CliError;
pub use terminal::console_style;
