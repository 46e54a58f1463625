//! File for output that is too long for memory.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_core::capability::OutputFile;

/// Maximum number of files with the same base name.
const SAME_NAME: u32 = 10_000;

/// File created on first use. One that cannot be written to its end is removed, so that it does not fill
/// the disk for nothing.
#[derive(Debug)]
pub(super) enum SpillFile {
    /// Nothing was written yet.
    Planned { path: PathBuf, cap: u64 },
    /// Has the stream from its beginning, up to `cap` bytes.
    Open(Spill),
    /// No file is wanted, or writing it failed.
    Absent,
}

#[derive(Debug)]
pub(super) struct Spill {
    output_file: OutputFile,
    file: File,
    cap: u64,
}

impl SpillFile {
    pub(super) fn new(path: Option<PathBuf>, cap: u64) -> Self {
        path.map_or(Self::Absent, |path| Self::Planned { path, cap })
    }

    /// Writes the next part of the stream; on the first call, `earlier` is written before it.
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
                && let Err(error) = std::fs::remove_file(&spill.output_file.path)
            {
                tracing::warn!(path = %spill.output_file.path.display(), %error, "a part of the output stays behind");
            }
        }
    }

    /// Returns the path and the number of bytes written and missing, if the file exists.
    pub(super) fn output_file(&self) -> Option<OutputFile> {
        match self {
            Self::Open(spill) => Some(spill.output_file.clone()),
            Self::Planned { .. } | Self::Absent => None,
        }
    }
}

impl Spill {
    fn create(path: &Path, cap: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let (path, file) = create_new(path)?;
        Ok(Self { output_file: OutputFile { path, bytes: 0, missing: 0 }, file, cap })
    }

    fn write_all(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for bytes in parts {
            let room = self.cap.saturating_sub(self.output_file.bytes);
            let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            self.file.write_all(&bytes[..fits])?;
            self.output_file.bytes += fits as u64;
            self.output_file.missing += (bytes.len() - fits) as u64;
        }
        Ok(())
    }
}

/// Creates a new file, with a number added to the name if that is taken. Files are named after calls, and
/// models give one id to several calls, so a job may still write an earlier file of the same name.
fn create_new(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut numbered = path.to_path_buf();
    for number in 2..=SAME_NAME {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&numbered) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (numbered, file)),
        }
        let mut name = path.file_stem().map(OsString::from).unwrap_or_default();
        name.push(format!("-{number}"));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        numbered.set_file_name(name);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
