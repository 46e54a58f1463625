//! Checks of the workspace's rules: layers, sizes, forbidden words, names, manifests and documents.
//!
//! A failed check lists every offender. Fix the offender, not the rule.

#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

mod documents;
mod file_access;
mod files;
mod forbidden_words;
mod layers;
mod manifests;
mod modules;
mod names;
mod seeds;
mod source;
mod tree;
mod workspace;
