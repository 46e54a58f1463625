//! The repositories that git enters from another one: those that its index names, or the index that this one builds on.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Component, PathBuf},
};

/// The mode of an entry that names a commit of another repository.
const GITLINK: u32 = 0o160_000;
/// The length of an entry before its flags and its name, with hashes of 20 bytes.
const FIXED: usize = 60;
/// The same with hashes of 32 bytes.
const FIXED_LONG: usize = 72;
const HEAD: usize = 12;
/// The length of a hash, if it is short.
const HASH: usize = 20;

/// Which file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum IndexPart {
    /// `index`.
    Whole,
    /// What a split index builds on.
    Shared,
}

/// What is read of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitIndex {
    /// Where the repositories lie in the worktree. Names that would lead out of it, or into a `.git`, are left out: git
    /// refuses them as well.
    pub gitlinks: Vec<PathBuf>,
    /// The name of the file that holds the other entries, beside this one, if the index is split.
    pub shared: Option<String>,
    /// The other entries of a shared index: they may have become repositories since.
    names: Vec<PathBuf>,
    /// Whether an entry of a shared index became a repository.
    has_unnamed_gitlink: bool,
}

impl GitIndex {
    /// Reads the bytes of an index. What cannot be read names nothing: git refuses it.
    pub(super) fn parse(bytes: &[u8], part: IndexPart) -> Self {
        // Whether hashes are long stands in the settings, not in the index, so both ways are tried.
        let mut index = Self::parse_with(bytes, FIXED, part).unwrap_or_default();
        if let Some(long) = Self::parse_with(bytes, FIXED_LONG, part) {
            index.gitlinks.extend(long.gitlinks);
            index.names.extend(long.names);
            index.has_unnamed_gitlink |= long.has_unnamed_gitlink;
            index.shared = index.shared.or(long.shared);
        }
        index
    }

    fn parse_with(bytes: &[u8], fixed: usize, part: IndexPart) -> Option<Self> {
        let number = |at: usize| {
            let four = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_be_bytes(four.try_into().ok()?))
        };
        if bytes.get(..4)? != b"DIRC" {
            return None;
        }
        let (version, count) = (number(4)?, number(8)?);
        let mut index = Self::default();
        let (mut at, mut name) = (HEAD, Vec::new());
        for _ in 0..count {
            let mode = number(at + 24)?;
            let flags = bytes.get(at + fixed)?;
            let is_extended = version >= 3 && flags & 0x40 != 0;
            let start = at + fixed + 2 + if is_extended { 2 } else { 0 };
            let start = if version == 4 {
                // The name begins with a part of the name before.
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
            index.add(mode, &name, part);
            let end = start + length + 1;
            // But in the fourth version each entry is padded to a multiple of eight.
            at = if version == 4 { end } else { at + (end - at).next_multiple_of(8) };
        }
        index.shared = shared_index(bytes, at, fixed - FIXED + HASH);
        Some(index)
    }

    fn add(&mut self, mode: u32, name: &[u8], part: IndexPart) {
        let is_gitlink = mode == GITLINK;
        if name.is_empty() {
            // In a split index: it stands for an entry of the shared one.
            self.has_unnamed_gitlink |= is_gitlink;
            return;
        }
        if !is_gitlink && part == IndexPart::Whole {
            return;
        }
        let path = PathBuf::from(OsString::from_vec(name.to_vec()));
        let is_inside = path.components().all(
            |part| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git")),
        );
        match is_gitlink {
            true if is_inside => self.gitlinks.push(path),
            false if is_inside => self.names.push(path),
            true | false => {}
        }
    }

    /// Returns where repositories may lie, with what the shared index names.
    pub(super) fn with_shared(self, shared: Self) -> Vec<PathBuf> {
        let mut all = self.gitlinks;
        all.extend(shared.gitlinks);
        if self.has_unnamed_gitlink {
            all.extend(shared.names);
        }
        all
    }
}

/// Finds the name of the shared index among the extensions behind the entries.
fn shared_index(bytes: &[u8], mut at: usize, hash: usize) -> Option<String> {
    loop {
        let name = bytes.get(at..at.checked_add(4)?)?;
        let size = bytes.get(at + 4..at.checked_add(8)?)?;
        let size = usize::try_from(u32::from_be_bytes(size.try_into().ok()?)).ok()?;
        let content = bytes.get(at + 8..(at + 8).checked_add(size)?)?;
        if name == b"link" {
            let hex: Vec<_> =
                content.get(..hash)?.iter().map(|byte| format!("{byte:02x}")).collect();
            return Some(format!("sharedindex.{}", hex.concat()));
        }
        at += 8 + size;
    }
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
            assert_eq!(
                GitIndex::parse(&index(version), IndexPart::Whole).gitlinks,
                expected,
                "{version}"
            );
        }
    }

    #[test]
    fn names_that_lead_out_of_the_worktree_are_left_out() {
        let mut index = GitIndex::default();
        for name in ["/abs", "../up", "a/../../b", "a/.git/b", ".GIT", "fine/sub"] {
            index.add(GITLINK, name.as_bytes(), IndexPart::Whole);
        }
        assert_eq!(index.gitlinks, [PathBuf::from("fine/sub")]);
    }

    #[test]
    fn the_shared_index_of_a_split_one_is_found() {
        let mut bytes = index(2);
        for (name, content) in [(b"TREE", vec![1, 2, 3]), (b"link", vec![0xab; 20])] {
            bytes.extend(name);
            bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
            bytes.extend(content);
        }
        bytes.extend([0; 20]);
        let expected = format!("sharedindex.{}", "ab".repeat(20));
        assert_eq!(GitIndex::parse(&bytes, IndexPart::Whole).shared.unwrap(), expected);
    }

    #[test]
    fn an_unnamed_gitlink_stands_for_any_entry_of_the_shared_index() {
        let mut split = GitIndex::default();
        split.add(GITLINK, b"", IndexPart::Whole);
        let mut shared = GitIndex::default();
        shared.add(0o100_644, b"file", IndexPart::Shared);
        assert_eq!(split.with_shared(shared), [PathBuf::from("file")]);
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reading(version in 2_u32..5, at in 0_usize..300, byte: u8, cut in 0_usize..300) {
            let mut bytes = index(version);
            if let Some(one) = bytes.get_mut(at) {
                *one = byte;
            }
            bytes.truncate(cut);
            let _index = GitIndex::parse(&bytes, IndexPart::Whole);
        }
    }
}
