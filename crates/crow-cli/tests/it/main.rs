//! The built program, driven only by flags and environment, against the test kit's model server.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests start the program and fail loudly"
)]

mod acp;
mod acp_providers;
mod agents;
mod apply_patch;
mod book;
mod book_page;
mod chat;
mod chat_picture;
mod chat_views;
mod commands;
mod completions;
mod compositions;
mod concurrent_sessions;
mod config;
mod config_reference;
mod damage;
mod diagnostic_log;
mod dialects;
mod doctor;
mod errors;
mod eval;
mod export;
mod hardening;
mod hostile_terminal;
mod import;
mod inline_chat;
mod instructions;
mod jobs;
mod local_servers;
mod login;
mod lying_models;
mod mcp;
mod mcp_serve;
mod mentions;
mod permissions;
mod program;
mod questions;
mod redaction;
mod screen_picture;
mod screens;
mod serve;
mod sessions;
mod setup;
mod shipped_agents;
mod signals;
mod skills;
mod structured_output;
#[cfg(feature = "syntax")]
mod syntax;
mod telemetry;
mod terminal;
mod text_calls;
mod todo;
mod trust;
mod undo;
mod undo_fixture;
mod undo_mishaps;
mod undo_roots;
mod web;
