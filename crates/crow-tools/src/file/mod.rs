//! Files as the file tools see them: loaded entirely or not at all, decoded, compared, and replaced atomically.

mod current_file;
mod diff;
mod load;
mod lock;
mod missing;
mod save;
mod store;
mod text;

pub(crate) use current_file::{CurrentFile, ViewFreshness};
pub(crate) use diff::file_diff;
pub(crate) use load::{LoadError, MAX_WHOLE, OpenFile, load_opened, open, open_any, open_entry};
pub(crate) use lock::lock;
pub(crate) use missing::missing_file_message;
pub(crate) use save::{SavedChange, load_error, record_written, save};
pub(crate) use text::DecodedText;
