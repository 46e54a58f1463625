//! Repositories inside of a repository: git enters those that its index names, and does what their settings say.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The longest index that is read.
const INDEX: u64 = 256 * 1024 * 1024;
/// How many repositories are named at most.
const NAMED: usize = 4096;
/// What the mode of an entry is that names a commit of another repository.
const GITLINK: u32 = 0o160_000;
/// The length of an entry before its flags and its name.
const FIXED: usize = 60;
const HEAD: usize = 12;

/// The repositories that an index names, read again when it changes.
#[derive(Debug, Default)]
pub(super) struct NestedRepositories(Mutex<Vec<Known>>);

#[derive(Debug, Clone)]
struct Known {
    index: PathBuf,
    stamp: Stamp,
    names: Vec<PathBuf>,
}

/// Tells an index from one that was written later.
type Stamp = (u64, u64, i64, i64);

impl NestedRepositories {
    /// Returns the `.git` folders that git enters from the worktree `root` whose repository is in `git`.
    pub(super) fn of(&self, root: &Path, git: &Path) -> Vec<PathBuf> {
        let names = self.names(&git.join("index")).unwrap_or_default();
        let folders = names.iter().map(|name| root.join(name).join(".git"));
        folders
            .filter(|folder| fs::symlink_metadata(folder).is_ok_and(|data| data.is_dir()))
            .collect()
    }

    fn names(&self, index: &Path) -> io::Result<Vec<PathBuf>> {
        let metadata = fs::metadata(index)?;
        let stamp = (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| known.index == index && known.stamp == stamp)
        {
            return Ok(known.names.clone());
        }
        if metadata.len() > INDEX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let names = gitlinks(&fs::read(index)?).unwrap_or_default();
        known.retain(|known| known.index != index);
        known.push(Known { index: index.to_owned(), stamp, names: names.clone() });
        Ok(names)
    }
}

/// Finds the entries of an index that name other repositories.
fn gitlinks(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    let number = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(four.try_into().ok()?))
    };
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    // A repository with longer hashes has longer entries; one of them cannot be told from the index alone.
    let mut at = HEAD;
    let (mut name, mut found) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mode = number(at + 24)?;
        let flags = bytes.get(at + FIXED)?;
        let is_extended = version >= 3 && flags & 0x40 != 0;
        let start = at + FIXED + 2 + if is_extended { 2 } else { 0 };
        let start = if version == 4 {
            let (dropped, length) = varint(bytes.get(start..)?)?;
            name.truncate(name.len().checked_sub(dropped)?);
            start + length
        } else {
            name.clear();
            start
        };
        let rest = bytes.get(start..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(rest.get(..length)?);
        if mode == GITLINK && found.len() < NAMED {
            found.push(PathBuf::from(String::from_utf8_lossy(&name).into_owned()));
        }
        let end = start + length + 1;
        // But in the fourth version each entry is padded to a multiple of eight.
        at = if version == 4 { end } else { at + (end - at).next_multiple_of(8) };
    }
    Some(found)
}

/// Reads a number as the fourth version writes them.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
        value += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(mode: u32, name: &str, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; 62];
        bytes[24..28].copy_from_slice(&mode.to_be_bytes());
        if version == 4 {
            bytes.push(0);
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            return bytes;
        }
        bytes.extend_from_slice(name.as_bytes());
        let padded = (bytes.len() + 1).next_multiple_of(8);
        bytes.resize(padded, 0);
        bytes
    }

    fn index(version: u32) -> Vec<u8> {
        let names =
            [(0o100_644, "a"), (GITLINK, "some/module"), (0o100_755, "x y"), (GITLINK, "z")];
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(4_u32.to_be_bytes());
        let mut last = 0;
        for (mode, name) in names {
            let mut entry = entry(mode, name, version);
            if version == 4 {
                // All of the name before it is dropped.
                entry[62] = last;
                last = u8::try_from(name.len()).unwrap();
            }
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn repositories_that_an_index_names_are_found_in_each_version() {
        for version in [2, 3, 4] {
            let expected = [PathBuf::from("some/module"), PathBuf::from("z")];
            assert_eq!(gitlinks(&index(version)).unwrap(), expected, "{version}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reading(version in 2_u32..5, at in 0_usize..300, byte: u8, cut in 0_usize..300) {
            let mut bytes = index(version);
            if let Some(one) = bytes.get_mut(at) {
                *one = byte;
            }
            bytes.truncate(cut);
            let _found = gitlinks(&bytes);
        }
    }
}
