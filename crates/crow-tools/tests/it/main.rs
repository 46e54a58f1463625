//! Calls the tools as a runtime does: plan, preview, execute.
//!
//! The modules `roundN_*` come from the Nth review of the permission engine: lines that must not pass without a question,
//! and ordinary lines that must.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod apply_patch;
mod ask_user;
mod attacks;
mod bash;
mod bench;
mod corpus;
mod definitions;
mod denials;
mod edit_file;
mod fuzz_corpus;
mod glob;
mod grants;
mod grep;
mod hostile;
mod jobs;
mod list_directory;
mod outside;
#[cfg(feature = "pdf")]
mod pdf;
mod permission;
#[cfg(feature = "pictures")]
mod pictures;
mod project;
mod race;
mod read_file;
mod round10_denials;
mod round11_denials;
mod round12_grants;
mod round3_denials;
mod round3_final_check;
mod round3_followup;
mod round3_grants;
mod round3_reads;
mod round3_secrets;
mod round4_reads;
mod round5_denials;
mod round5_folders;
mod round5_grants;
mod round5_reads;
mod round6_reads;
mod round9_denials;
mod round9_reads;
mod secrets;
mod session;
mod shell_folder;
#[cfg(feature = "syntax")]
mod syntax;
#[cfg(feature = "web")]
mod web;
mod withheld;
mod write_file;
