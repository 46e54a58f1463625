//! Binary encoding of numbers and byte strings for the files of the store.

/// Encodes values into a buffer.
#[derive(Debug, Default)]
pub(super) struct ByteWriter(Vec<u8>);

impl ByteWriter {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Writes a variable-length number: seven bits per byte, lowest first.
    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    pub(super) fn time(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn hash(&mut self, hash: &super::ObjectHash) {
        self.0.extend(hash.0);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes what [`ByteWriter`] wrote; each method returns `None` if the input is cut or damaged.
#[derive(Debug)]
pub(super) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        self.number().and_then(|number| usize::try_from(number).ok())
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        self.number().and_then(|number| u32::try_from(number).ok())
    }

    pub(super) fn time(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn hash(&mut self) -> Option<super::ObjectHash> {
        self.array().map(super::ObjectHash)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_values_are_read_back(number: u64, time: i64, bytes: Vec<u8>) {
            let mut writer = ByteWriter::default();
            writer.number(number);
            writer.time(time);
            writer.bytes(&bytes);
            let written = writer.into_bytes();
            let mut reader = ByteReader::new(&written);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.time(), Some(time));
            prop_assert_eq!(reader.bytes(), Some(bytes.as_slice()));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn truncated_input_is_not_read() {
        assert_eq!(ByteReader::new(&[5, 1, 2]).bytes(), None);
        assert_eq!(ByteReader::new(&[0x80]).number(), None);
        assert_eq!(ByteReader::new(&[0; 7]).time(), None);
    }
}
