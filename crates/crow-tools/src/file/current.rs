//! A file as it is right now, for a tool that is about to change it.

use std::path::{Path, PathBuf};

use crow_core::{
    file_views::{ContentHash, FileViews},
    tool::Preview,
};

use super::{LoadError, load};

/// Whether the session knows what a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was shown or written by the agent, and has not changed since.
    Current,
    /// It was, and something else has changed it since.
    Stale,
    /// It never was.
    Never,
}

/// The content of a file, or that there is none.
#[derive(Debug)]
pub(crate) struct Current {
    path: PathBuf,
    content: Option<(Vec<u8>, ContentHash)>,
}

impl Current {
    /// Loads the file at a resolved path. A file that is missing is no error.
    pub(crate) fn load(path: &Path) -> Result<Self, LoadError> {
        let content = match load(path) {
            Ok(bytes) => {
                let hash = ContentHash::of(&bytes);
                Some((bytes, hash))
            }
            Err(LoadError::Missing) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), content })
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether there is a file.
    pub(crate) fn exists(&self) -> bool {
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
    pub(crate) fn seen(&self, views: &FileViews) -> Seen {
        match (views.get(&self.path), self.hash()) {
            (None, _) => Seen::Never,
            (Some(view), Some(hash)) if view.hash == *hash => Seen::Current,
            (Some(_), _) => Seen::Stale,
        }
    }

    /// Returns whether this is the content that the user was shown the change of, if they were shown one.
    pub(crate) fn was_previewed(&self, preview: Option<&Preview>) -> bool {
        preview.is_none_or(|preview| {
            preview
                .basis
                .iter()
                .filter(|(path, _)| *path == self.path)
                .all(|(_, hash)| hash.as_ref() == self.hash())
        })
    }
}
