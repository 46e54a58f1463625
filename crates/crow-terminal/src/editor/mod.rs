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

pub(crate) use chips::image_labels;
pub use chips::{ChipId, Submission, SubmissionBlock};
pub use completion::{CompletionContext, CompletionKind, file_reference};
pub use key_bindings::EditingStyle;
pub use prompt_editor::{EditorEffect, EditorSnapshot, PromptEditor};
pub use view::EditorView;

#[cfg(test)]
pub(crate) use {
    chips::Fragment,
    prompt_text::{LONGEST_SEGMENT, PromptText},
};
