//! A stamp that shows whether the entries of a directory have changed.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::SystemTime};

use crate::change_time::{is_settled, nanoseconds, since_1970};

/// Identity and change time of a directory: differs for another directory, and after a change of its entries. No
/// program can set the inode times in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryStamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl DirectoryStamp {
    /// Returns the stamp of a directory, or `None` if it is none; links are followed.
    pub fn of_path(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { device: found.dev(), inode: found.ino(), changed })
    }

    /// Returns whether any change from now on will have a later time.
    pub fn is_settled(&self) -> bool {
        is_settled(nanoseconds(self.changed), since_1970(SystemTime::now()))
    }
}
