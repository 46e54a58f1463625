//! Attacks on the built program, and ordinary work that must pass undisturbed.
//!
//! A case states what the attacker prepared, what the model then asks for, and the expected outcome. Each case runs the
//! program in its own home and project. Afterwards all canaries are checked, whatever the case is about: files outside
//! the project, protected files in it, sockets of the host, secrets in anything that was printed, sent or stored, and
//! processes still running.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests start the program and fail loudly"
)]

mod attack;
mod benign;
mod canaries;
mod canary_checks;
mod clones;
mod differential;
mod injection;
mod linked_files;
mod mcp;
mod network;
mod paths;
mod permitted_paths;
mod planted;
mod protected;
mod round10_path;
mod round12_grants;
mod round12_reads;
mod round2_denials;
mod round2_everyday;
mod round2_grants;
mod round2_lines;
mod round2_output;
mod round2_repositories;
mod round2_secrets;
mod round2_tools;
mod round2_trust;
mod round3_everyday;
mod round3_git;
mod round3_killed;
mod round3_leftovers;
mod round3_reach;
mod round3_undo;
mod round4_git;
mod round5_attacks;
mod round8_combined;
mod round8_everyday;
mod round8_killed;
mod round8_mended;
mod round8_partial;
mod round8_story;
mod round9_events;
mod round9_everyday;
mod round9_git;
mod round9_kernel;
mod round9_lines;
mod round9_repositories;
mod round9_secrets;
mod round9_servers;
mod round9_starts;
mod round9_tool_files;
mod sandbox;
mod scene;
mod secrets;
mod shell;
mod terminal;
mod trial_runner;
