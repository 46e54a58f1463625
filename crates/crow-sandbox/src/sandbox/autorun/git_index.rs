//! Parser for git's index, as far as it names other repositories (gitlinks) or a shared index.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Component, PathBuf},
};

/// Mode of an entry that names a commit of another repository.
const GITLINK: u32 = 0o160_000;
/// Size in bytes of an entry before its flags and name, with 20-byte hashes.
const FIXED: usize = 60;
/// The same with 32-byte hashes.
const FIXED_LONG: usize = 72;
const HEAD: usize = 12;
/// Size of a short hash in bytes.
const HASH: usize = 20;

/// Kind of index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum IndexPart {
    /// The `index` file itself.
    Whole,
    /// The shared index that a split index builds on.
    Shared,
}

/// Parsed parts of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitIndex {
    /// Paths of other repositories in the worktree. Paths that lead out of it, or into a `.git`, are left
    /// out: git rejects them as well.
    pub gitlinks: Vec<PathBuf>,
    /// Name of the shared index, in the same directory, if the index is split.
    pub shared: Option<String>,
    /// Other entries of a shared index: the split index may have made them repositories.
    names: Vec<PathBuf>,
    /// True if the split index turns an entry of the shared one into a repository.
    has_unnamed_gitlink: bool,
}

impl GitIndex {
    /// Parses an index. An invalid one gives no entries: git rejects it.
    pub(super) fn parse(bytes: &[u8], part: IndexPart) -> Self {
        // The hash size is in the settings, not in the index, so both sizes are tried.
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
                // Version 4 gives the number of bytes to drop from the previous name, then the rest of this
                // one.
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
            // Except in version 4, each entry is padded to a multiple of eight bytes.
            at = if version == 4 { end } else { at + (end - at).next_multiple_of(8) };
        }
        index.shared = shared_index(bytes, at, fixed - FIXED + HASH);
        Some(index)
    }

    fn add(&mut self, mode: u32, name: &[u8], part: IndexPart) {
        let is_gitlink = mode == GITLINK;
        if name.is_empty() {
            // In a split index an empty name refers to an entry of the shared one.
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

    /// Returns the paths of all possible repositories, with those of the shared index.
    pub(super) fn with_shared(self, shared: Self) -> Vec<PathBuf> {
        let mut all = self.gitlinks;
        all.extend(shared.gitlinks);
        if self.has_unnamed_gitlink {
            all.extend(shared.names);
        }
        all
    }
}

/// Finds the name of the shared index in the extensions behind the entries.
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

/// Decodes a variable-length number of version 4. Returns the value and its length in bytes.
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
                // Drops the whole previous name.
                entry[62] = last;
                last = u8::try_from(name.len()).unwrap();
            }
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn gitlinks_are_found_in_each_index_version() {
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
    fn an_unnamed_gitlink_may_be_any_entry_of_the_shared_index() {
        let mut split = GitIndex::default();
        split.add(GITLINK, b"", IndexPart::Whole);
        let mut shared = GitIndex::default();
        shared.add(0o100_644, b"file", IndexPart::Shared);
        assert_eq!(split.with_shared(shared), [PathBuf::from("file")]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(version in 2_u32..5, at in 0_usize..300, byte: u8, cut in 0_usize..300) {
            let mut bytes = index(version);
            if let Some(one) = bytes.get_mut(at) {
                *one = byte;
            }
            bytes.truncate(cut);
            let _index = GitIndex::parse(&bytes, IndexPart::Whole);
        }
    }
}
