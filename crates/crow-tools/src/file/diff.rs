//! Diffs between two contents of a file.

use std::path::Path;

use crow_core::tool::FileDiff;

use super::DecodedText;

/// Compares two contents of a file. For a binary one the diff has no lines.
pub(crate) fn file_diff(path: &Path, old: &[u8], new: &[u8]) -> FileDiff {
    match (DecodedText::decode(old), DecodedText::decode(new)) {
        (Some(old), Some(new)) => {
            FileDiff::of_text(path, old.content.as_ref(), new.content.as_ref())
        }
        _ => FileDiff::without_lines(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_content_has_no_hunks() {
        let difference = file_diff(Path::new("/p/a"), b"a\0", b"b");
        assert!(difference.truncated && difference.hunks.is_empty());
    }
}
