//! Paths in little memory: each entry is its name, the set of characters in it, and the number of its directory.

use super::character_set::CharacterSet;

/// The directory that the paths are relative to.
pub(super) const ROOT: u32 = 0;

/// Paths relative to a root. A directory comes before what is in it, and its name ends with a slash.
#[derive(Debug, Default)]
pub(super) struct PathTable {
    /// The names of the entries, one after the other.
    names: String,
    /// Where the name of each entry ends.
    ends: Vec<u32>,
    /// The directory that each entry is in.
    parents: Vec<u32>,
    /// The characters of each name.
    characters: Vec<CharacterSet>,
    /// The entry of each directory except the root: that of directory 1 is the first.
    directories: Vec<u32>,
}

impl PathTable {
    /// Appends a file. Returns false if the table is full.
    #[must_use]
    pub(super) fn push_file(&mut self, parent: u32, name: &str) -> bool {
        self.push(parent, name, "").is_some()
    }

    /// Appends a directory, and returns its number. `None` if the table is full.
    pub(super) fn push_directory(&mut self, parent: u32, name: &str) -> Option<u32> {
        let entry = self.push(parent, name, "/")?;
        self.directories.push(entry);
        u32::try_from(self.directories.len()).ok()
    }

    fn push(&mut self, parent: u32, name: &str, ending: &str) -> Option<u32> {
        let entry = u32::try_from(self.len()).ok()?;
        let end = u32::try_from(self.names.len() + name.len() + ending.len()).ok()?;
        self.names.push_str(name);
        self.names.push_str(ending);
        self.ends.push(end);
        self.parents.push(parent);
        self.characters.push(CharacterSet::of(name).with(CharacterSet::of(ending)));
        Some(entry)
    }

    /// Frees memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.parents.shrink_to_fit();
        self.characters.shrink_to_fit();
        self.directories.shrink_to_fit();
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the columns of the table. Going through them is faster than through entries.
    pub(super) fn columns(&self) -> TableColumns<'_> {
        TableColumns {
            names: &self.names,
            ends: &self.ends,
            parents: &self.parents,
            characters: &self.characters,
        }
    }

    /// Returns the name of an entry, which ends with a slash if it is a directory.
    pub(super) fn name(&self, entry: u32) -> &str {
        self.columns().name(index(entry))
    }

    /// Returns the characters of the name of an entry.
    pub(super) fn characters(&self, entry: u32) -> CharacterSet {
        self.characters[index(entry)]
    }

    /// Returns the number of the directory that an entry is in.
    pub(super) fn parent(&self, entry: u32) -> u32 {
        self.parents[index(entry)]
    }

    /// Returns the entries of the directories, of which that of directory 1 is the first.
    pub(super) fn directories(&self) -> &[u32] {
        &self.directories
    }

    /// Returns the path of an entry.
    pub(super) fn path(&self, entry: u32) -> String {
        let mut names = vec![self.name(entry)];
        let mut directory = self.parent(entry);
        while directory != ROOT {
            let entry = self.directories[index(directory) - 1];
            names.push(self.name(entry));
            directory = self.parent(entry);
        }
        names.iter().rev().copied().collect()
    }

    /// Returns the number of bytes in use.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let numbers = self.ends.capacity() + self.parents.capacity() + self.directories.capacity();
        let sets = self.characters.capacity() * size_of::<CharacterSet>();
        self.names.capacity() + numbers * size_of::<u32>() + sets
    }
}

/// The columns of a table, with a row for each entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableColumns<'a> {
    names: &'a str,
    ends: &'a [u32],
    pub(super) parents: &'a [u32],
    pub(super) characters: &'a [CharacterSet],
}

impl<'a> TableColumns<'a> {
    /// Returns the name of an entry.
    pub(super) fn name(&self, entry: usize) -> &'a str {
        let start = if entry == 0 { 0 } else { self.ends[entry - 1] };
        &self.names[index(start)..index(self.ends[entry])]
    }
}

/// Returns a number of the table as an index.
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).expect("invariant: addresses have 32 bits at least")
}

/// Returns the index of an entry as its number.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("invariant: an entry has a number of 32 bits, or it was not added")
}
