//! Writes file contents as binary patches of git.
//!
//! Such a patch holds two `literal` sections, the new content and the old one, so that it applies in both directions. A
//! section is the deflated content in lines of up to 52 bytes. Each line is a letter for its length and the bytes in
//! base 85, five letters for every four bytes, the last group padded with zeros.

use std::{fmt::Write as _, io::Write as _};

use flate2::{Compression, write::ZlibEncoder};
use sha1::{Digest as _, Sha1};

use crow_core::tool::FileContents;

/// Digits of base 85, as git defines them.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Maximum number of bytes per line.
const LINE: usize = 52;
/// Object name of a file that does not exist.
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// Writes the `index` line with both object names, and both contents.
pub(super) fn write(contents: &FileContents, is_created: bool, is_deleted: bool, out: &mut String) {
    let FileContents { before, after } = contents;
    let name = |bytes: &[u8], is_absent: bool| {
        if is_absent { NOTHING.to_owned() } else { object_name(bytes) }
    };
    let (old, new) = (name(before, is_created), name(after, is_deleted));
    // Writing to a string cannot fail.
    let _ = writeln!(out, "index {old}..{new}\nGIT binary patch");
    literal(after, out);
    literal(before, out);
}

/// Returns the object name of a content: the SHA-1 hash of a git blob.
fn object_name(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    let mut name = String::with_capacity(NOTHING.len());
    for byte in hash.finalize() {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn literal(bytes: &[u8], out: &mut String) {
    let _ = writeln!(out, "literal {}", bytes.len());
    for line in packed(bytes).chunks(LINE) {
        out.push(length_letter(line.len()));
        for group in line.chunks(4) {
            let mut word = [0; 4];
            for (to, from) in word.iter_mut().zip(group) {
                *to = *from;
            }
            out.extend(base_85(u32::from_be_bytes(word)));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let result = encoder.write_all(bytes).and_then(|()| encoder.finish());
    result.expect("invariant: writing to memory does not fail")
}

/// Returns the letter for the length of a line: `A` to `Z` are 1 to 26, `a` to `z` are 27 to 52.
fn length_letter(length: usize) -> char {
    let length = u8::try_from(length).expect("invariant: a line has at most 52 bytes");
    char::from(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 })
}

fn base_85(mut number: u32) -> [char; 5] {
    let mut letters = ['0'; 5];
    for letter in letters.iter_mut().rev() {
        *letter = char::from(DIGITS[(number % 85) as usize]);
        number /= 85;
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_and_encoding_match_those_of_git() {
        // `git hash-object` of "hello\n".
        assert_eq!(object_name(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!([1, 26, 27, 52].map(length_letter), ['A', 'Z', 'a', 'z']);
        assert_eq!(base_85(0).iter().collect::<String>(), "00000");
        assert_eq!(base_85(u32::MAX).iter().collect::<String>(), "|NsC0");
    }
}
