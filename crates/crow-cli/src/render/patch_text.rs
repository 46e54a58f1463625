//! A change of files as a unified diff, which `git apply` and `patch` read.

use std::{
    fmt::Write as _,
    path::{Component, Path, PathBuf},
};

use crow_core::tool::{FileChange, FileDiff, Patch};

use super::{ConsoleStyle, is_unseen, neutral::neutralise, paint::Paint};

/// Where a diff goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Somebody reads it: harmless and, as the style wants, in colour.
    Reader,
    /// A file or a program: as the files are.
    Program,
}

/// Writes a patch with paths relative to `root`.
///
/// What lines cannot say stands in lines that begin with `#`. Where lines are missing (of binary files, links, and files
/// too long to be shown), what is written is refused by `git apply` as a whole, as git's own diffs are.
pub(crate) fn unified(
    style: &ConsoleStyle,
    root: &Path,
    patch: &Patch,
    destination: Destination,
) -> String {
    let mut text = String::new();
    for file in &patch.files {
        write_file(root, file, &mut text);
    }
    match destination {
        Destination::Program => text,
        Destination::Reader => painted(style, &text),
    }
}

fn write_file(root: &Path, file: &FileDiff, out: &mut String) {
    let path = seen_from(root, &file.path);
    let name = path.to_string_lossy();
    let (old, new) = (quoted("a/", &path), quoted("b/", &path));
    // Writing to a string cannot fail.
    let _ = match file.note.as_str() {
        "" => Ok(()),
        note => writeln!(out, "# {}: {}", neutralise(&name), neutralise(note)),
    };
    let _ = writeln!(out, "diff --git {old} {new}");
    let link = link(file);
    let mode = match link {
        Some(_) => "120000",
        None => mode(&file.note).unwrap_or("100644"),
    };
    let _ = match (file.change, modes(&file.note)) {
        (FileChange::Created, _) => writeln!(out, "new file mode {mode}"),
        (FileChange::Deleted, _) => writeln!(out, "deleted file mode {mode}"),
        (FileChange::Modified, Some((from, to))) => {
            writeln!(out, "old mode {from}\nnew mode {to}")
        }
        (FileChange::Modified, None) => Ok(()),
    };
    let hunks = link.as_deref().unwrap_or(&file.hunks);
    if hunks.is_empty() {
        if file.truncated || (file.change == FileChange::Modified && modes(&file.note).is_none()) {
            let _ = writeln!(out, "Binary files {old} and {new} differ");
        }
        return;
    }
    let null = || "/dev/null".to_owned();
    // Names with blanks end in a tab, so that no reader takes what follows for a time.
    let end = if name.contains(char::is_whitespace) { "\t" } else { "" };
    let (old, new) = (old + end, new + end);
    let old = if file.change == FileChange::Created { null() } else { old };
    let new = if file.change == FileChange::Deleted { null() } else { new };
    let _ = writeln!(out, "--- {old}\n+++ {new}");
    out.push_str(hunks);
    if !hunks.ends_with('\n') {
        out.push('\n');
    }
}

/// Names a path as seen from the folder. One outside of it begins with `..`, which no program follows.
fn seen_from(root: &Path, path: &Path) -> PathBuf {
    if let Ok(below) = path.strip_prefix(root) {
        return below.to_path_buf();
    }
    let up = root.components().skip(1).map(|_| Component::ParentDir);
    up.chain(path.components().skip(1)).collect()
}

/// Returns the hunks of a link that is new or no more: to git it is a file that holds the name of its target.
fn link(file: &FileDiff) -> Option<String> {
    let (target, range, sign) = match file.change {
        FileChange::Created => (file.note.strip_prefix("link to ")?, "-0,0 +1", '+'),
        FileChange::Deleted => (file.note.strip_prefix("was a link to ")?, "-1 +0,0", '-'),
        FileChange::Modified => return None,
    };
    let is_known = !target.contains(['\n', char::REPLACEMENT_CHARACTER]);
    is_known.then(|| format!("@@ {range} @@\n{sign}{target}\n\\ No newline at end of file\n"))
}

/// Reads what a note says of the mode of a file that is new or no more.
fn mode(note: &str) -> Option<&'static str> {
    note.split(", ").find_map(|part| part.strip_prefix("mode ")).and_then(git_mode)
}

/// Reads what a note says of how the mode changed, if git can tell the one from the other.
fn modes(note: &str) -> Option<(&'static str, &'static str)> {
    let said = note.split(", ").find_map(|part| part.strip_prefix("mode "))?;
    let (old, new) = said.split_once(" -> ")?;
    Some((git_mode(old)?, git_mode(new)?)).filter(|(old, new)| old != new)
}

/// Git knows only whether a file can be run.
fn git_mode(octal: &str) -> Option<&'static str> {
    let bits = u32::from_str_radix(octal, 8).ok()?;
    Some(if bits & 0o100 == 0 { "100644" } else { "100755" })
}

/// Writes a name as git does: in quotes with escapes where it holds what is not plain text.
fn quoted(prefix: &str, path: &Path) -> String {
    let is_plain = |c: char| c != '"' && c != '\\' && !c.is_control() && !is_unseen(c);
    if let Some(name) = path.to_str().filter(|name| name.chars().all(is_plain)) {
        return format!("{prefix}{name}");
    }
    let mut text = format!("\"{prefix}");
    // Writing to a string cannot fail.
    let escape = |bytes: &[u8], text: &mut String| {
        for byte in bytes {
            let _ = write!(text, "\\{byte:03o}");
        }
    };
    let mut buffer = [0; 4];
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => text.extend(['\\', character]),
                character if is_plain(character) => text.push(character),
                character => escape(character.encode_utf8(&mut buffer).as_bytes(), &mut text),
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text.push('"');
    text
}

fn painted(style: &ConsoleStyle, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        Paint::write(look(line), style, &neutralise(line), &mut out);
        out.push('\n');
    }
    out
}

fn look(line: &str) -> Paint {
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

#[cfg(test)]
mod tests {
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
            file("/p/link", Modified, "was a link to a, link to b"),
            file("/p/new link", Created, "link to a"),
            text("/elsewhere/x", Created, "", "x", ""),
        ];
        Patch { files }
    }

    #[test]
    fn a_program_gets_what_git_writes() {
        let style = ConsoleStyle { colour: true, ..ConsoleStyle::plain(80) };
        insta::assert_snapshot!(unified(&style, Path::new("/p"), &patch(), Destination::Program));
    }

    #[test]
    fn a_reader_gets_colours_and_nothing_that_acts() {
        let style = ConsoleStyle { colour: true, ..ConsoleStyle::plain(80) };
        let text = unified(&style, Path::new("/p"), &patch(), Destination::Reader);
        let plain = ConsoleStyle::plain(80);
        let bare = unified(&plain, Path::new("/p"), &patch(), Destination::Reader);
        assert!(!bare.chars().any(|c| is_unseen(c) || (c.is_control() && c != '\n' && c != '\t')));
        insta::assert_snapshot!(crate::render::sample::tagged(&text));
    }

    #[test]
    fn git_is_told_of_modes_that_it_knows() {
        let table = [
            ("mode 644 -> 755", Some(("100644", "100755"))),
            ("binary, 3 -> 5 bytes, mode 755 -> 644", Some(("100755", "100644"))),
            ("mode 644 -> 600", None),
            ("mode x -> y", None),
            ("", None),
        ];
        for (note, expected) in table {
            assert_eq!(modes(note), expected, "{note}");
        }
    }
}
