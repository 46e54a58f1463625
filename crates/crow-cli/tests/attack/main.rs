//! Attacks on the built program, each with a canary, and work that must go on undisturbed.
//!
//! A case is a few words: what the attacker put there, what the model then asks for, and what may come of it. Every case
//! runs the program in a home and a project of its own. After it all canaries are looked at, whatever the case is about:
//! files outside of the project, protected files in it, sockets of the host, secrets in anything that was printed, sent or
//! kept, and processes that are left.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests start the program and fail loudly"
)]

mod attack;
mod benign;
mod bites;
mod canaries;
mod clones;
mod differential;
mod injection;
mod mcp;
mod network;
mod paths;
mod protected;
mod sandbox;
mod scene;
mod secrets;
mod shell;
mod terminal;
mod trials;
