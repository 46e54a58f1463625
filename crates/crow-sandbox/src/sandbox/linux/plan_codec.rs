//! Binary encoding of a command plan: the keeper shares no memory with the program.
//!
//! Numbers are 64-bit little-endian, strings end with NUL, lists begin with their length. There are no
//! tags: the reader must read in the order in which the writer wrote.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
};

use rustix::fs::MemfdFlags;

/// Encoder of numbers and strings.
#[derive(Debug, Default)]
pub(super) struct PlanWriter(Vec<u8>);

impl PlanWriter {
    pub(super) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &CStr) {
        self.0.extend(text.to_bytes_with_nul());
    }

    /// Adds the number of items, then each item by `add`.
    pub(super) fn all<T>(
        &mut self,
        items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        mut add: impl FnMut(&mut Self, T),
    ) {
        let items = items.into_iter();
        self.number(items.len() as u64);
        items.for_each(|item| add(self, item));
    }

    pub(super) fn texts(&mut self, texts: &[CString]) {
        self.all(texts, |plan, text| plan.text(text));
    }

    /// Returns a reader of the written bytes.
    #[cfg(test)]
    pub(super) fn reader(&self) -> PlanReader<'_> {
        PlanReader::new(&self.0)
    }

    /// Writes the bytes to an anonymous file (memfd).
    pub(super) fn to_file(&self) -> io::Result<OwnedFd> {
        let mut file = File::from(rustix::fs::memfd_create(c"plan", MemfdFlags::CLOEXEC)?);
        file.write_all(&self.0)?;
        Ok(file.into())
    }
}

/// Decoder of a plan. Every method returns `None` at malformed data. Allocates nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanReader<'a>(&'a [u8]);

impl<'a> PlanReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(super) fn text(&mut self) -> Option<&'a CStr> {
        let text = CStr::from_bytes_until_nul(self.0).ok()?;
        self.0 = self.0.get(text.count_bytes() + 1..)?;
        Some(text)
    }

    /// Returns a list of strings, and skips behind it.
    pub(super) fn texts(&mut self) -> Option<PlanStrings<'a>> {
        let left = self.number()?;
        let texts = PlanStrings { reader: *self, left };
        for _ in 0..left {
            self.text()?;
        }
        Some(texts)
    }
}

/// Iterator over a list of strings.
#[derive(Debug, Clone)]
pub(super) struct PlanStrings<'a> {
    reader: PlanReader<'a>,
    left: u64,
}

impl<'a> Iterator for PlanStrings<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.reader.text()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_survive_encoding_and_decoding(number: u64, texts in prop::collection::vec("[^\0]{0,9}", 0..5), last: u64) {
            let texts: Vec<_> = texts.into_iter().map(|text| CString::new(text).unwrap()).collect();
            let mut plan = PlanWriter::default();
            plan.number(number);
            plan.texts(&texts);
            plan.number(last);
            let mut reader = plan.reader();
            prop_assert_eq!(reader.number(), Some(number));
            let read: Vec<CString> = reader.texts().unwrap().map(CStr::to_owned).collect();
            prop_assert_eq!(read, texts);
            prop_assert_eq!((reader.number(), reader.number()), (Some(last), None));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            let mut reader = PlanReader::new(&bytes);
            let _texts = reader.texts().map(|texts| texts.take(9).count());
            let _text = reader.text();
        }
    }
}
