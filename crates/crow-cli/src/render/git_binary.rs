//! Contents in git's binary patches: whole, packed, in lines of letters.

use std::{fmt::Write as _, io::Write as _};

use flate2::{Compression, write::ZlibEncoder};
use sha1::{Digest as _, Sha1};

use crow_core::tool::FileContents;

/// The letters that stand for the digits of a number to the base 85.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// The most bytes of a line.
const LINE: usize = 52;
/// What stands for a file that is not there.
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// Writes the line that names both contents, and both of them, so that the patch can be applied in both directions.
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

/// Returns the name that git gives to a content.
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
            let mut four = [0; 4];
            for (to, from) in four.iter_mut().zip(group) {
                *to = *from;
            }
            out.extend(base_85(u32::from_be_bytes(four)));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    // Nothing but memory is written to.
    written.unwrap_or_default()
}

/// Returns the letter for the length of a line: `A` is 1, `a` is 27.
fn length_letter(length: usize) -> char {
    let length = u8::try_from(length).unwrap_or(0);
    char::from(if length <= 26 { b'A' + length.saturating_sub(1) } else { b'a' + length - 27 })
}

fn base_85(mut number: u32) -> [char; 5] {
    let mut letters = ['0'; 5];
    for letter in letters.iter_mut().rev() {
        let digit = usize::try_from(number % 85).unwrap_or(0);
        *letter = char::from(DIGITS.get(digit).copied().unwrap_or(b'0'));
        number /= 85;
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_named_and_written_as_git_does_it() {
        // `git hash-object` of "hello\n".
        assert_eq!(object_name(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!([1, 26, 27, 52].map(length_letter), ['A', 'Z', 'a', 'z']);
        assert_eq!(base_85(0).iter().collect::<String>(), "00000");
        assert_eq!(base_85(u32::MAX).iter().collect::<String>(), "|NsC0");
    }
}
