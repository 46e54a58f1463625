//! What was in files before and after calls.

use std::{fmt, fs::File, io::Read as _, path::Path, sync::Arc};

use crow_core::ids::SnapshotId;
use crow_runtime::{AgentHandle, Content, Entry, SnapshotStore};

/// The largest file of which a difference is shown, in bytes.
pub(crate) const LARGEST: usize = 256 * 1024;

/// What was in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    /// There was no file.
    Absent,
    /// This text, at most 256 KiB of it.
    Known(String),
    /// It has more than 256 KiB.
    TooLarge,
    /// It is no text: bytes, a folder, a link.
    NoText,
    /// Nobody knows.
    Unknown,
}

impl Text {
    pub(super) fn of_bytes(bytes: Vec<u8>) -> Self {
        if bytes.len() > LARGEST {
            return Self::TooLarge;
        }
        if bytes.contains(&0) {
            return Self::NoText;
        }
        String::from_utf8(bytes).map_or(Self::NoText, Self::Known)
    }
}

/// Tells what was in files. Both methods may block for as long as it takes to read a file of 256 KiB.
pub(crate) trait Contents: Send + Sync + fmt::Debug {
    /// Returns what was at an absolute path in a snapshot.
    fn in_snapshot(&self, snapshot: &SnapshotId, path: &Path) -> Text;

    /// Returns what is at an absolute path now.
    fn now(&self, path: &Path) -> Text;
}

/// Knows of no contents. Differences show what their hunks say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NoContents;

impl Contents for NoContents {
    fn in_snapshot(&self, _snapshot: &SnapshotId, _path: &Path) -> Text {
        Text::Unknown
    }

    fn now(&self, _path: &Path) -> Text {
        Text::Unknown
    }
}

/// Contents out of the snapshots of a project, and from the disk.
#[derive(Debug, Clone)]
pub(crate) struct StoredContents {
    store: Option<Arc<SnapshotStore>>,
}

impl StoredContents {
    /// Reads from a store; without one, only from the disk.
    pub(crate) fn new(store: Option<Arc<SnapshotStore>>) -> Self {
        Self { store }
    }

    /// Reads what the snapshots of an agent's project say. Blocks.
    pub(crate) fn of(handle: &AgentHandle) -> Self {
        let store = handle.snapshot_store().unwrap_or_else(|error| {
            tracing::warn!(%error, "differences are shown without the snapshots");
            None
        });
        Self::new(store)
    }
}

impl Contents for StoredContents {
    fn in_snapshot(&self, snapshot: &SnapshotId, path: &Path) -> Text {
        let Some(store) = &self.store else { return Text::Unknown };
        let entry = match store.entry(snapshot, path) {
            Ok(Some(entry)) => entry,
            Ok(None) | Err(_) => return Text::Unknown,
        };
        match &entry {
            Entry::Absent => Text::Absent,
            Entry::Folder { .. } | Entry::Link { .. } => Text::NoText,
            Entry::LeftOut { .. } | Entry::File { content: Content::NotStored { .. }, .. } => {
                Text::Unknown
            }
            Entry::File { size, .. } if *size > LARGEST as u64 => Text::TooLarge,
            Entry::File { content: Content::Stored(_), .. } => {
                store.read(&entry).map_or(Text::Unknown, Text::of_bytes)
            }
        }
    }

    fn now(&self, path: &Path) -> Text {
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Text::Absent,
            Err(_) => return Text::Unknown,
        };
        if !metadata.is_file() {
            return Text::NoText;
        }
        let Ok(file) = File::open(path) else { return Text::Unknown };
        let mut bytes = Vec::new();
        match file.take(LARGEST as u64 + 1).read_to_end(&mut bytes) {
            Ok(_) => Text::of_bytes(bytes),
            Err(_) => Text::Unknown,
        }
    }
}
