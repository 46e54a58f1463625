//! Files as the file tools see them: loaded entirely or not at all, decoded, compared, and replaced atomically.

mod load;
mod save;
mod text;

pub(crate) use load::{
    CurrentFile, LoadError, MAX_WHOLE, OpenFile, ViewFreshness, load_opened, open, open_any,
    open_entry,
};
pub(crate) use save::{
    SavedChange, delete, load_error, lock, record_written, save, save_moved, with_changes,
};
pub(crate) use text::{DecodedText, TextEncoding, file_diff};
