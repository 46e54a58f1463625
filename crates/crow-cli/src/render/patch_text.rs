//! Formats a patch as a unified diff that `git apply` and `patch` read.
//!
//! For each file: an optional `#` line with its note, the `diff --git` header, mode lines, and then hunks, a binary
//! patch or `Binary files … differ`. Many details follow from how git parses patches; the comments name the reason.
//!
//! A binary patch holds two `literal` sections, the new content and the old one, so that it applies in both directions.
//! A section is the deflated content in lines of up to 52 bytes. Each line is a letter for its length and the bytes in
//! base 85, five letters for every four bytes, the last group padded with zeros.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    path::{Component, Path, PathBuf},
};

use crow_console::{ConsoleStyle, Paint, words::count};
use crow_core::tool::{FileChange, FileContents, FileDiff, Patch};
use crow_text::neutralise;
use flate2::{Compression, write::ZlibEncoder};
use sha1::{Digest as _, Sha1};

use crate::quoted_path::{escaped, quoted};

/// Recipient of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A person: control characters are neutralised, and lines are in colour if the style says so.
    Reader,
    /// A file or a program: the content is unchanged.
    Program,
}

/// Formats a patch in the format of git, with paths relative to `root`.
///
/// Notes that the format cannot express are lines that begin with `#`: of modes git stores only the executable bit. For
/// a program, files that are not text or too long to be compared are written as binary patches; one with unknown
/// content is left out and named. For a reader such files are only named.
fn format_patch(
    style: &ConsoleStyle,
    root: &Path,
    patch: &Patch,
    destination: Destination,
) -> String {
    let mut text = String::new();
    for file in &patch.files {
        write_file(root, file, destination, &mut text);
    }
    match destination {
        Destination::Program => text,
        Destination::Reader => painted(style, &text),
    }
}

/// Maximum number of ignored files that are named.
const NAMED: usize = 3;

/// Formats a patch without the files that git ignores. They are counted, and the first ones named, in a comment line
/// that `git apply` and `patch` skip.
pub(crate) fn format_patch_without(
    ignored: &BTreeSet<PathBuf>,
    style: &ConsoleStyle,
    root: &Path,
    mut patch: Patch,
    destination: Destination,
) -> String {
    patch.files.retain(|file| !ignored.contains(&file.path));
    let mut text = String::new();
    if !ignored.is_empty() {
        let names: Vec<String> =
            ignored.iter().take(NAMED).map(|path| quoted("", &relative_to(root, path))).collect();
        let more = match ignored.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let files = count(ignored.len() as u64, "file");
        let (names, note) = (names.join(", "), "changed, too; diff --ignored shows them");
        text = format!("# {files} that git ignores {note}: {names}{more}\n");
        if destination == Destination::Reader {
            text = painted(style, &text);
        }
    }
    format_patch(style, root, &patch, destination) + &text
}

fn write_file(root: &Path, file: &FileDiff, destination: Destination, out: &mut String) {
    let path = relative_to(root, &file.path);
    let (old, new) = (quoted("a/", &path), quoted("b/", &path));
    // Writing to a string cannot fail.
    let _ = match file.note.as_str() {
        "" => Ok(()),
        note => writeln!(out, "# {}: {}", quoted("", &path), escaped(note.as_bytes(), "")),
    };
    // 1) Files that have nothing for git.
    let modes = modes(file);
    let is_hidden = file.truncated && file.hunks.is_empty();
    let contents = file.contents.as_ref().filter(|_| destination == Destination::Program);
    if is_hidden && contents.is_none() && destination == Destination::Program {
        // A file that cannot be applied would make git reject the whole patch.
        let _ = writeln!(out, "# {}: left out, its content is not known", quoted("", &path));
        return;
    }
    if file.change == FileChange::Modified && modes.is_none() && file.hunks.is_empty() && !is_hidden
    {
        // Git rejects a header without a change behind it.
        return;
    }
    // 2) Header and modes.
    let _ = writeln!(out, "diff --git {old} {new}");
    let _ = match (file.change, modes) {
        (FileChange::Created, _) => writeln!(out, "new file mode {}", mode(&file.note)),
        (FileChange::Deleted, _) => match mode(&file.note) {
            PLAIN => writeln!(out, "deleted file mode {PLAIN}"),
            // Without the second line `git apply -R` up to 2.47 restores a plain file, even from git's own diffs.
            mode => writeln!(out, "deleted file mode {mode}\nnew mode {mode}"),
        },
        (FileChange::Modified, Some((from, to))) => {
            writeln!(out, "old mode {from}\nnew mode {to}")
        }
        (FileChange::Modified, None) => Ok(()),
    };
    // 3) Content: binary patch, or hunks.
    if let Some(contents) = contents {
        let (is_created, is_deleted) =
            (file.change == FileChange::Created, file.change == FileChange::Deleted);
        return write_binary(contents, is_created, is_deleted, out);
    }
    // Names with blanks end in a tab, so that no reader takes their last part for a timestamp.
    let has_blank = path.as_os_str().as_encoded_bytes().contains(&b' ');
    let end = if has_blank && !is_hidden { "\t" } else { "" };
    let side = |name: String, without: FileChange| {
        if file.change == without { "/dev/null".to_owned() } else { name + end }
    };
    let (old, new) = (side(old, FileChange::Created), side(new, FileChange::Deleted));
    if is_hidden {
        let _ = writeln!(out, "Binary files {old} and {new} differ");
    } else if !file.hunks.is_empty() {
        let _ = writeln!(out, "--- {old}\n+++ {new}");
        out.push_str(&file.hunks);
        if !file.hunks.ends_with('\n') {
            out.push('\n');
        }
    }
}

/// Returns a path relative to `root`. One outside of it begins with `..`, which patch programs refuse to follow.
fn relative_to(root: &Path, path: &Path) -> PathBuf {
    let both = root.components().zip(path.components());
    let shared = both.take_while(|(one, other)| one == other).count();
    let up = root.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// Mode of a file that is not executable.
const PLAIN: &str = "100644";
/// Mode of a symlink. Git stores it as a file that contains the name of the target.
const LINK: &str = "120000";

/// Returns true if the file is or was a symlink, according to its note.
fn is_link(note: &str) -> bool {
    note.starts_with("link to ") || note.starts_with("was a link to ")
}

/// Returns the git mode of a created or deleted file, parsed from its note.
fn mode(note: &str) -> &'static str {
    if is_link(note) {
        return LINK;
    }
    let octal = note.split(", ").find_map(|part| part.strip_prefix("mode "));
    octal.and_then(git_mode).unwrap_or(PLAIN)
}

/// Returns the old and new git mode of a modified file, parsed from its note; `None` if git does not distinguish them.
/// For symlinks both are written although they are equal: without them `patch` treats links as files. (Git itself would
/// write the mode at the end of the `index` line, after the hashes of the content.)
fn modes(file: &FileDiff) -> Option<(&'static str, &'static str)> {
    if is_link(&file.note) {
        return (!file.hunks.is_empty()).then_some((LINK, LINK));
    }
    let change = file.note.split(", ").find_map(|part| part.strip_prefix("mode "))?;
    let (old, new) = change.split_once(" -> ")?;
    Some((git_mode(old)?, git_mode(new)?)).filter(|(old, new)| old != new)
}

/// Maps an octal mode to that of git, which stores only the executable bit.
fn git_mode(octal: &str) -> Option<&'static str> {
    let bits = u32::from_str_radix(octal, 8).ok()?;
    Some(if bits & 0o100 == 0 { PLAIN } else { "100755" })
}

fn painted(style: &ConsoleStyle, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        Paint::write(paint_of(line), style, &neutralise(line), &mut out);
        out.push('\n');
    }
    out
}

fn paint_of(line: &str) -> Paint {
    match line {
        _ if line.starts_with("--- ") || line.starts_with("+++ ") => Paint::Bold,
        _ if line.starts_with("diff --git ") => Paint::Bold,
        _ if line.starts_with("@@ ") => Paint::Cyan,
        _ if line.starts_with('+') => Paint::Green,
        _ if line.starts_with('-') => Paint::Red,
        _ if line.starts_with('#') => Paint::Dim,
        _ => Paint::Plain,
    }
}

/// Digits of base 85, as git defines them.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Maximum number of bytes per line.
const LINE: usize = 52;
/// Object name of a file that does not exist.
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// Writes a binary patch: the `index` line with both object names, and both contents.
fn write_binary(contents: &FileContents, is_created: bool, is_deleted: bool, out: &mut String) {
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
    use crow_text::is_unseen;

    use super::*;

    fn file(path: &str, change: FileChange, note: &str) -> FileDiff {
        FileDiff { change, note: note.into(), ..FileDiff::without_lines(path) }
    }

    fn text(path: &str, change: FileChange, old: &str, new: &str, note: &str) -> FileDiff {
        FileDiff { change, note: note.into(), ..FileDiff::of_text(Path::new(path), old, new) }
    }

    fn patch() -> Patch {
        use FileChange::{Created, Deleted, Modified};
        let files = vec![
            text("/p/a \"b\"\n\u{1b}[2J\u{202e}é", Modified, "a\n", "b\u{1b}[2J\n", ""),
            text("/p/run.sh", Modified, "", "", "mode 644 -> 755"),
            text("/p/secret", Modified, "a\n", "b\n", "mode 644 -> 600"),
            text("/p/empty", Deleted, "", "", ""),
            text("/p/tool", Deleted, "#!/bin/sh\n", "", "mode 755"),
            file("/p/picture", Modified, "binary, 3 -> 5 bytes"),
            text("/p/link", Modified, "a", "b, mode 755", "was a link to a, link to b, mode 755"),
            text("/p/odd\nlink", Created, "", "a\nb", "link to a\nb"),
            file("/p/nameless link", Modified, "was a link to a, link to \u{fffd}"),
            text("/p/new link", Created, "", "a", "link to a"),
            file("/p/new picture", Created, "binary, 3 bytes"),
            text("/p/private", Modified, "a\n", "a\n", "mode 644 -> 600"),
            text("/p/emptied", Modified, "a\n", "", ""),
            text("/elsewhere/x", Created, "", "x", ""),
        ];
        Patch { files }
    }

    #[test]
    fn a_program_gets_what_git_writes() {
        let style = ConsoleStyle { colour: true, ..ConsoleStyle::plain(80) };
        insta::assert_snapshot!(format_patch(
            &style,
            Path::new("/p"),
            &patch(),
            Destination::Program
        ));
    }

    #[test]
    fn a_reader_gets_colours_and_nothing_that_acts() {
        let style = ConsoleStyle { colour: true, ..ConsoleStyle::plain(80) };
        let text = format_patch(&style, Path::new("/p"), &patch(), Destination::Reader);
        let plain = ConsoleStyle::plain(80);
        let bare = format_patch(&plain, Path::new("/p"), &patch(), Destination::Reader);
        assert!(!bare.chars().any(|c| is_unseen(c) || (c.is_control() && c != '\n' && c != '\t')));
        insta::assert_snapshot!(crow_testkit::sample::with_readable_escapes(&text));
    }

    #[test]
    fn only_changes_of_the_executable_bit_become_git_modes() {
        let table = [
            ("mode 644 -> 755", Some(("100644", "100755"))),
            ("binary, 3 -> 5 bytes, mode 755 -> 644", Some(("100755", "100644"))),
            ("mode 644 -> 600", None),
            ("mode x -> y", None),
            ("", None),
        ];
        for (note, expected) in table {
            assert_eq!(modes(&file("/p/x", FileChange::Modified, note)), expected, "{note}");
        }
    }

    #[test]
    fn object_names_and_encoding_match_those_of_git() {
        // `git hash-object` of "hello\n".
        assert_eq!(object_name(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!([1, 26, 27, 52].map(length_letter), ['A', 'Z', 'a', 'z']);
        assert_eq!(base_85(0).iter().collect::<String>(), "00000");
        assert_eq!(base_85(u32::MAX).iter().collect::<String>(), "|NsC0");
    }
}
