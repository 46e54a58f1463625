//! The file that takes the whole of an output that is too long for memory.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// A file that is made only when it is needed. One that cannot be written to its end is removed, so that it does not
/// fill the disk for nothing.
#[derive(Debug)]
pub(super) enum SpillFile {
    /// Nothing was written yet.
    Planned { path: PathBuf, cap: u64 },
    /// It holds the stream from its beginning, up to its cap.
    Open(Spill),
    /// There is none.
    Absent,
}

#[derive(Debug)]
pub(super) struct Spill {
    path: PathBuf,
    file: File,
    room: u64,
}

impl SpillFile {
    pub(super) fn new(path: Option<PathBuf>, cap: u64) -> Self {
        path.map_or(Self::Absent, |path| Self::Planned { path, cap })
    }

    /// Writes the next part of the stream; before the first one what came `earlier`.
    pub(super) fn write<const N: usize>(&mut self, earlier: [&[u8]; N], next: [&[u8]; 2]) {
        let written = match self {
            Self::Absent => return,
            Self::Open(spill) => spill.write_all(&next),
            Self::Planned { path, cap } => Spill::create(path, *cap).and_then(|mut spill| {
                let written = spill.write_all(&earlier).and_then(|()| spill.write_all(&next));
                *self = Self::Open(spill);
                written
            }),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the whole output cannot be kept");
            if let Self::Open(spill) = std::mem::replace(self, Self::Absent)
                && let Err(error) = std::fs::remove_file(&spill.path)
            {
                tracing::warn!(path = %spill.path.display(), %error, "a part of the output stays behind");
            }
        }
    }

    /// Returns where the stream is, if it was written.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Open(spill) => Some(&spill.path),
            Self::Planned { .. } | Self::Absent => None,
        }
    }
}

impl Spill {
    fn create(path: &Path, cap: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Self { path: path.to_path_buf(), file, room: cap })
    }

    fn write_all(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for bytes in parts {
            let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
            self.file.write_all(bytes.get(..fits).unwrap_or_default())?;
            self.room -= fits as u64;
        }
        Ok(())
    }
}
