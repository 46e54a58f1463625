//! Files and directories accessed through held descriptors.
//!
//! A path describes only the moment in which it was looked at. A process that can change the directories on the way,
//! such as a sandboxed command, can put a symbolic link there between a check and the following act, and the act then
//! happens elsewhere. This crate closes that gap: every function resolves the directory part of its path **in one
//! step and without following a single link**, holds the result as a descriptor, and acts on the last name in it. A
//! path in which a link appeared meanwhile is an error ([`is_link_error`]), never another file.
//!
//! Callers resolve links *before* they decide (`std::fs::canonicalize`), decide on the resolved path, and pass that
//! path to this crate. So links that users made are followed, and links that were made after the decision are not.
//!
//! On Linux the kernel does the resolution (`openat2` with `RESOLVE_NO_SYMLINKS`). Where that call is missing, the
//! path is walked name by name, each opened with `O_NOFOLLOW` in the descriptor of the one before. A path that cannot
//! be opened that way (through a directory that may be entered but not read, where the system has no `O_PATH`) is
//! refused.
//!
//! The crate knows neither agents nor tools, and has no policy: callers decide which paths may be touched.

mod atomic;
pub mod change_time;
mod directory;
mod directory_stamp;
mod file_lock;
mod ignore_files;
mod link_trail;
mod metadata;
mod paths;
mod resolve;
mod search_path;
mod tree;

pub use self::{
    atomic::{NewFile, remove_leftover_files},
    directory::{Directory, EntryName, RenameMode},
    directory_stamp::DirectoryStamp,
    file_lock::FileLock,
    ignore_files::has_readable_ignore_files,
    link_trail::LinkTrail,
    metadata::{EntryKind, EntryMetadata, FileIdentity},
    paths::{
        canonicalize, create_directories, create_directory, create_file, create_symlink, exchange,
        hard_link, metadata, metadata_through_links, open_file, open_for_writing,
        open_without_reading, read_bounded, read_directory, read_file, read_link, remove_directory,
        remove_file, rename, rename_without_replacing, set_mode,
    },
    resolve::is_link_error,
    search_path::SearchPath,
    tree::remove_tree,
};
