//! The editor: a text with chips, the keys that change it, its history and its view.

mod chips;
mod commands;
mod completion;
mod document;
mod history;
mod key_bindings;
mod kill_ring;
mod layout;
mod prompt_editor;
mod prompt_text;
mod undo_log;
mod vertical_motion;
mod vi_commands;
mod vi_keys;
mod vi_motions;
mod view;
mod word_motions;

pub(crate) use chips::{ChipId, image_labels};
pub(crate) use completion::{CompletionContext, CompletionKind, file_reference};
pub use key_bindings::EditingStyle;
pub(crate) use prompt_editor::{EditorEffect, EditorSnapshot, PromptEditor};

#[cfg(test)]
pub(crate) use {
    chips::{Fragment, Submission, SubmissionBlock},
    prompt_editor::chip_ranges,
    prompt_text::{LONGEST_SEGMENT, PromptText},
    view::EditorView,
};
