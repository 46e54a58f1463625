//! Who is changing files of the project right now, in any process, so that a change can be told to have one author.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use uuid::Uuid;

use super::{SnapshotStoreError, counter::Counter, error::at, objects::private_folder};

const ACTIVITIES: &str = "activities";
const BEGUN: &str = "begun";

/// The activities of a store.
#[derive(Debug)]
pub(super) struct Activities {
    folder: PathBuf,
    begun: PathBuf,
}

/// Something that changes files, from [`begin`](super::SnapshotStore::begin) until it is dropped.
#[derive(Debug)]
pub struct Activity {
    path: PathBuf,
    /// Held as long as it lasts; the kernel lets it go when the process is killed.
    _lock: File,
    begun: Counter,
    /// How many had begun with this one.
    number: u64,
    /// Whether another was under way when it began.
    overlaps: bool,
}

impl Activities {
    pub(super) fn open(store: &Path) -> Result<Self, SnapshotStoreError> {
        let (folder, begun) = (store.join(ACTIVITIES), store.join(BEGUN));
        private_folder(&folder).map_err(at(&folder))?;
        Ok(Self { folder, begun })
    }

    pub(super) fn begin(&self) -> Result<Activity, SnapshotStoreError> {
        let begun = Counter::at(self.begun.clone());
        let path = self.folder.join(Uuid::now_v7().to_string());
        // One after the other: nobody sees a file that is made and not yet locked.
        let (number, (lock, overlaps)) = begun.next(|| {
            let overlaps = self.any_under_way()?;
            let mut options = OpenOptions::new();
            let lock = options.write(true).create_new(true).mode(0o600).open(&path)?;
            lock.lock()?;
            Ok((lock, overlaps))
        })?;
        Ok(Activity { path, _lock: lock, begun, number, overlaps })
    }

    /// Looks for activities under way and clears away what killed ones left.
    fn any_under_way(&self) -> io::Result<bool> {
        let mut any = false;
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match File::open(&path).map(|file| (file.try_lock(), file)) {
                Ok((Ok(()), _lock)) => remove(&path),
                Ok((Err(_), _)) => any = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(any)
    }
}

impl Activity {
    /// Returns whether another activity of this store was under way at any moment since this one began, in whatever
    /// thread or process. Once it is so it stays so.
    #[must_use]
    pub fn overlapped(&self) -> bool {
        // Not knowing is as good as yes.
        self.overlaps || !self.begun.read().is_ok_and(|begun| begun == self.number)
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "the mark of an activity stays until the next");
    }
}
