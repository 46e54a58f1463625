//! The rules of the house: layers, sizes, words that no source holds, manifests, and documents that tell the truth.
//!
//! A rule that fails names every offender. The way out is to change the offender, not the rule.

#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

mod documents;
mod file_access;
mod files;
mod layers;
mod manifests;
mod modules;
mod names;
mod source;
mod tree;
mod words;
mod workspace;
