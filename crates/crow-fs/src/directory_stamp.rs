//! By what a directory whose entries have changed is told from what it was.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::SystemTime};

use crate::change_time::{is_settled, nanoseconds, since_1970};

/// Tells a directory from another one, and from itself with other entries. The inode times that it holds can be set by no
/// program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryStamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl DirectoryStamp {
    /// Returns the stamp of a directory; links are followed.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { device: found.dev(), inode: found.ino(), changed })
    }

    /// Returns whether any change from now on bears a later time.
    pub fn is_settled(&self) -> bool {
        is_settled(nanoseconds(self.changed), since_1970(SystemTime::now()))
    }
}
