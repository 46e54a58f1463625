//! The tool `apply_patch`: several files changed by one patch in the form that some models are trained on.

mod parse;
mod tool;

pub(crate) use tool::ApplyPatch;
