//! A file as it is right now, for a tool that is about to change it.

use std::path::Path;

use crow_core::{
    file_views::{ContentHash, FileViews},
    tool::Preview,
};
use crow_fs::{Directory, EntryName};

use super::{
    LoadError,
    load::{load_opened, open_entry},
};
use crate::paths::AllowedPath;

/// Whether the session knows what a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewFreshness {
    /// It was shown or written by the agent, and has not changed since.
    Current,
    /// It was, and something else has changed it since.
    Stale,
    /// It never was.
    Never,
}

/// The content of a file, or that there is none. The directory that it is in is held from then on, so that a change is
/// stored in that one and no other.
#[derive(Debug)]
pub(crate) struct CurrentFile {
    path: AllowedPath,
    /// The nearest directory above the file that exists.
    nearest: Directory,
    /// The directories between that one and the file, which are missing.
    missing: Vec<EntryName>,
    name: EntryName,
    content: Option<(Vec<u8>, ContentHash)>,
}

impl CurrentFile {
    /// Loads the file that a call may change. A file that is missing is no error.
    pub(crate) fn load(path: &AllowedPath, views: &FileViews) -> Result<Self, LoadError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(LoadError::Folder);
        };
        let (nearest, missing) = Directory::open_nearest(parent)?;
        let name = EntryName::new(name)?;
        let opened =
            if missing.is_empty() { open_entry(&nearest, &name) } else { Err(LoadError::Missing) };
        let content = match opened {
            Ok(open) => {
                let bytes = load_opened(path, open, views)?;
                let hash = ContentHash::of(&bytes);
                Some((bytes, hash))
            }
            Err(LoadError::Missing) => {
                path.check_missing()?;
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.clone(), nearest, missing, name, content })
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the nearest directory above it that existed when it was loaded.
    pub(super) fn nearest(&self) -> &Directory {
        &self.nearest
    }

    /// Returns the directories below the nearest one that were missing, the outermost first.
    pub(super) fn missing(&self) -> &[EntryName] {
        &self.missing
    }

    /// Returns its name in its directory.
    pub(super) fn name(&self) -> &EntryName {
        &self.name
    }

    /// Returns whether there is a file.
    pub(crate) fn is_present(&self) -> bool {
        self.content.is_some()
    }

    /// Returns the bytes; none if there is no file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.content.as_ref().map(|(bytes, _)| bytes.as_slice()).unwrap_or_default()
    }

    /// Returns the hash of the content, if there is a file.
    pub(crate) fn hash(&self) -> Option<&ContentHash> {
        self.content.as_ref().map(|(_, hash)| hash)
    }

    /// Returns whether the session knows this content.
    pub(crate) fn seen(&self, views: &FileViews) -> ViewFreshness {
        match (views.get(&self.path), self.hash()) {
            (None, _) => ViewFreshness::Never,
            (Some(view), Some(hash)) if view.hash == *hash => ViewFreshness::Current,
            (Some(_), _) => ViewFreshness::Stale,
        }
    }

    /// Returns whether this is the content that the user was shown the change of, if they were shown one.
    pub(crate) fn was_previewed(&self, preview: Option<&Preview>) -> bool {
        preview.is_none_or(|preview| {
            preview
                .basis
                .iter()
                .filter(|(path, _)| **path == *self.path)
                .all(|(_, hash)| hash.as_ref() == self.hash())
        })
    }
}
