//! The output of a process in the form in which a model reads it: as a terminal would finally show it, beginning and end
//! after a note on the bytes in between, and notes on what the sandbox did.

use std::{fmt::Write as _, iter::Peekable, path::Path, str::Chars};

use crow_core::{
    capability::{
        CapturedOutput, Containment, HostRefusal, OriginalState, ProcessEnd, ProcessOutcome,
        QuarantinedFile, RefusedHost,
    },
    tool::ToolContext,
};
use serde_json::{Map, Value, json};

use crate::paths::display_path;

/// Most bytes by which the ends of a gap are moved to fall between lines.
const LINE_SEARCH: usize = 2 * 1024;

/// Writes captured output as text.
pub(super) fn to_text(output: &CapturedOutput, scratch_name: impl Fn(&Path) -> String) -> String {
    if output.omitted() == 0 {
        let bytes = [output.head.as_slice(), output.tail.as_slice()].concat();
        return strip_escapes(&String::from_utf8_lossy(&bytes)).trim_end().to_owned();
    }
    let head = up_to_line_end(&output.head);
    let tail = from_line_start(&output.tail);
    let omitted = output.total.saturating_sub((head.len() + tail.len()) as u64);
    let location = match &output.spill {
        Some(file) if file.missing == 0 => {
            format!("; whole output in {}", scratch_name(&file.path))
        }
        Some(file) => {
            format!("; the first {} bytes are in {}", file.bytes, scratch_name(&file.path))
        }
        None => String::new(),
    };
    let (head, tail) = (
        strip_escapes(&String::from_utf8_lossy(head)),
        strip_escapes(&String::from_utf8_lossy(tail)),
    );
    // The remark comes first: whoever reads the beginning must know that it is not all.
    let remark = format!("[cut in the middle: {omitted} bytes omitted{location}]");
    let gap = format!("[… {omitted} bytes omitted …]");
    let parts = [&remark, head.trim_end(), &gap, tail.trim_end()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Cuts off an incomplete last line, or at least an incomplete last character.
fn up_to_line_end(head: &[u8]) -> &[u8] {
    let near = head.len().saturating_sub(LINE_SEARCH);
    let line_end = head.iter().rposition(|byte| *byte == b'\n').filter(|end| *end >= near);
    let end = line_end.map_or_else(|| character_boundary(head), |end| end + 1);
    &head[..end]
}

/// Cuts off an incomplete first line, or at least an incomplete first character.
fn from_line_start(tail: &[u8]) -> &[u8] {
    let line_end = tail.iter().take(LINE_SEARCH).position(|byte| *byte == b'\n');
    let continues = |byte: &&u8| **byte & 0xC0 == 0x80;
    let start = match line_end {
        Some(end) if end + 1 < tail.len() => end + 1,
        Some(_) | None => tail.iter().take(3).take_while(continues).count(),
    };
    &tail[start..]
}

/// Returns the end of the last complete character. Bytes that are no UTF-8 at all are not cut off.
fn character_boundary(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let start = bytes.iter().rposition(|byte| *byte & 0xC0 != 0x80).filter(|at| *at >= last);
    let Some(start) = start else { return bytes.len() };
    let needed = match bytes[start] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if bytes.len() - start < needed { start } else { bytes.len() }
}

/// Removes escape sequences and control characters. Of each line, only what was printed over it last remains.
fn strip_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut line = TerminalLine::default();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => {
                plain.push_str(&line.text);
                plain.push('\n');
                line = TerminalLine::default();
            }
            '\r' => line.is_restarted = true,
            '\u{8}' => {
                line.text.pop();
            }
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_control(&mut chars),
            '\t' => line.push(char),
            _ if char.is_control() => {}
            _ => line.push(char),
        }
    }
    plain.push_str(&line.text);
    plain
}

#[derive(Debug, Default)]
struct TerminalLine {
    text: String,
    /// True if the next character overwrites the line.
    is_restarted: bool,
}

impl TerminalLine {
    fn push(&mut self, char: char) {
        if std::mem::take(&mut self.is_restarted) {
            self.text.clear();
        }
        self.text.push(char);
    }
}

/// Skips the sequence after an escape character.
fn skip_sequence(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control(chars);
        }
        // Strings for the terminal: titles, links, pictures.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_string(chars);
        }
        // Character sets and the like: intermediate characters, then a final one.
        Some(' '..='/') => {
            while chars.next_if(|char| (' '..='/').contains(char)).is_some() {}
            chars.next_if(|char| ('0'..='~').contains(char));
        }
        Some('0'..='~') => {
            chars.next();
        }
        Some(_) | None => {}
    }
}

/// Skips the parameters and the final character of a control sequence. A line end terminates an incomplete one.
fn skip_control(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|char| (' '..='?').contains(char)).is_some() {}
    chars.next_if(|char| ('@'..='~').contains(char));
}

/// Skips to the end of a string: BEL or ESC `\`. A line end terminates an incomplete one.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(char) = chars.next_if(|char| *char != '\n') {
        match char {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// Messages of commands that the sandbox may have blocked.
const SIGNS: [&str; 9] = [
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Device or resource busy",
    "getaddrinfo",
    "dns error",
];
const HINT: &str = "\n[if the sandbox caused this: commands can change only files of the project and of /tmp, not those \
     that start programs (.git/hooks, .git/config, settings of editors, agents and CI) or are hidden (keys, Crow's own), \
     and reach no network but their own loopback; tell the user what you need]";
/// Text on how protected files can be changed.
const ASKED: &str = "write_file may change it if the user allows the call";
/// Most refused hosts that are named.
const MOST_HOSTS: usize = 5;

/// Adds what the model and readers of the result must know of the sandbox. Returns an error if the command made or
/// changed a protected file.
pub(super) fn append_sandbox_notes(
    outcome: &ProcessOutcome,
    output: &mut String,
    extra: &mut Map<String, Value>,
    ctx: &ToolContext,
) -> Option<String> {
    if !outcome.containment.has_any_layer() {
        return None;
    }
    extra.insert(Containment::EXTRA_KEY.to_owned(), json!(outcome.containment));
    let has_failed = outcome.end != ProcessEnd::Exited(0);
    if has_failed && SIGNS.iter().any(|sign| output.contains(sign)) {
        output.push_str(HINT);
    }
    if has_failed && let Some(module) = missing_module(output).map(str::to_owned) {
        // Writing to a string cannot fail.
        let _ = write!(
            output,
            "\n[{module} was not found. If it is a library, use what is installed, such as the standard library]"
        );
    }
    append_refusals(&outcome.refused_hosts, &outcome.quarantined, output, ctx);
    // A file that was found while other commands ran may be theirs, or the user's.
    let first = outcome.quarantined.iter().find(|aside| aside.running_commands.len() <= 1)?;
    let did = match first.original {
        OriginalState::Absent => "made",
        OriginalState::Restored | OriginalState::Disarmed | OriginalState::Lost => "changed",
    };
    Some(format!("it {did} {}, which is protected", display_path(&first.path, ctx)))
}

/// Returns the module that a Python or Node program or `pip` could not find.
fn missing_module(output: &str) -> Option<&str> {
    const SIGNS: [(&str, char); 3] = [
        ("ModuleNotFoundError: No module named '", '\''),
        ("Error: Cannot find module '", '\''),
        ("No matching distribution found for ", '\n'),
    ];
    let (rest, end) =
        SIGNS.iter().find_map(|(sign, end)| Some((output.split_once(sign)?.1, *end)))?;
    let name = rest.split(end).next()?.trim();
    // A path is a file of the project.
    let is_name = !name.is_empty() && name.len() < 80 && !name.starts_with(['.', '/']);
    is_name.then_some(name)
}

/// Adds the hosts that were out of reach, and the files that were moved away.
pub(super) fn append_refusals(
    refused_hosts: &[RefusedHost],
    put_aside: &[QuarantinedFile],
    output: &mut String,
    ctx: &ToolContext,
) {
    for host in refused_hosts.iter().take(MOST_HOSTS) {
        output.push_str(&host_note(host));
    }
    for aside in put_aside {
        output.push_str(&file_note(aside, ctx));
    }
}

fn file_note(aside: &QuarantinedFile, ctx: &ToolContext) -> String {
    let QuarantinedFile { path, moved_to: kept, original, running_commands: during } = aside;
    let mut path = display_path(path, ctx);
    if during.len() > 1 {
        let lines: Vec<String> = during.iter().map(|line| format!("`{line}`")).collect();
        path = format!("{path} appeared or was changed while these ran: {}. It", lines.join(", "));
    }
    match (original, kept) {
        (OriginalState::Absent, Some(kept)) => format!(
            "\n[{path} can start programs, so the sandbox moved it away, to {}; {ASKED}]",
            kept.display()
        ),
        (OriginalState::Absent, None) => format!(
            "\n[{path} can start programs and should not be there; it could not be moved away]"
        ),
        (OriginalState::Restored, kept) => {
            let kept = kept.as_ref();
            let kept = kept.map(|kept| format!("; the changed version is in {}", kept.display()));
            format!(
                "\n[{path} can start programs, so the sandbox put it back as it was{}; {ASKED}]",
                kept.unwrap_or_default()
            )
        }
        (OriginalState::Disarmed, kept) => {
            let kept = kept.as_ref();
            let kept = kept.map(|kept| format!("; the version with them is in {}", kept.display()));
            format!(
                "\n[{path} named programs to start later, so the sandbox took these out{}; {ASKED}]",
                kept.unwrap_or_default()
            )
        }
        (OriginalState::Lost, _) => {
            format!("\n[{path} can start programs and was changed; it could not be put back]")
        }
    }
}

fn host_note(refused: &RefusedHost) -> String {
    let pattern = refused.pattern();
    match refused.reason {
        HostRefusal::NotAllowed => {
            format!(
                "\n[the sandbox blocked the connection to {refused}; the user can allow it with --allow-host {pattern}]"
            )
        }
        HostRefusal::NotPublic => {
            format!(
                "\n[the sandbox blocked the connection to {refused}: the name resolves to a local address]"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use crow_core::capability::OutputFile;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_module_that_is_not_installed_is_named() {
        for (output, expected) in [
            (
                "Traceback\nModuleNotFoundError: No module named 'pandas'\n[exit code 1]",
                Some("pandas"),
            ),
            ("ERROR: No matching distribution found for numpy>=2\n", Some("numpy>=2")),
            ("Error: Cannot find module 'express'\n", Some("express")),
            ("Error: Cannot find module './lib/a.js'\n", None),
            ("Error: Cannot find module '/w/a.js'\n", None),
            ("all is well", None),
        ] {
            assert_eq!(missing_module(output), expected, "{output}");
        }
    }

    fn text(head: &[u8], tail: &[u8], total: u64) -> String {
        text_with(head, tail, total, 0)
    }

    fn text_with(head: &[u8], tail: &[u8], total: u64, missing: u64) -> String {
        let bytes = total - missing;
        let spill = (bytes > 0).then(|| OutputFile { path: "/s/c1.log".into(), bytes, missing });
        let output = CapturedOutput { head: head.into(), tail: tail.into(), total, spill };
        to_text(&output, |path| path.display().to_string())
    }

    #[test]
    fn a_log_that_has_only_the_beginning_is_reported_as_such() {
        assert_eq!(
            text_with(b"one\n", b"four\n", 100, 50),
            "[cut in the middle: 91 bytes omitted; the first 50 bytes are in /s/c1.log]\none\n[… 91 bytes omitted …]\nfour"
        );
        assert_eq!(
            text_with(b"one\n", b"four\n", 100, 100),
            "[cut in the middle: 91 bytes omitted]\none\n[… 91 bytes omitted …]\nfour"
        );
    }

    #[test]
    fn whole_output_is_shown_as_it_is() {
        assert_eq!(text(b"a\nb\n", b"", 4), "a\nb");
        assert_eq!(text(b"caf\xff", b"", 4), "caf\u{fffd}");
        assert_eq!(text(b"\xc3", b"\xa4x", 3), "äx");
        assert_eq!(text(b"", b"", 0), "");
    }

    #[test]
    fn a_gap_falls_between_lines_and_counts_what_is_not_shown() {
        assert_eq!(
            text(b"one\ntw", b"ee\nfour\n", 100),
            "[cut in the middle: 91 bytes omitted; whole output in /s/c1.log]\none\n[… 91 bytes omitted …]\nfour"
        );
    }

    #[test]
    fn a_gap_in_one_long_line_cuts_no_character() {
        assert_eq!(
            text("aä".as_bytes().get(..2).unwrap(), "ä漢b".as_bytes().get(1..).unwrap(), 50),
            "[cut in the middle: 45 bytes omitted; whole output in /s/c1.log]\na\n[… 45 bytes omitted …]\n漢b"
        );
    }

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        for (printed, shown) in [
            ("plain ä 漢\ttext\n", "plain ä 漢\ttext\n"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("\u{1b}(Ba\u{1b}=b\u{1b}Pq#0\u{1b}\\c", "abc"),
            ("a\u{9b}2Kb", "ab"),
            ("\u{1b}[31", ""),
            ("\u{1b}]0;never closed\nb", "\nb"),
            ("\u{7}a\0b\u{7f}", "ab"),
        ] {
            assert_eq!(strip_escapes(printed), shown, "{printed:?}");
        }
    }

    #[test]
    fn progress_is_folded_into_its_last_state() {
        for (printed, shown) in [
            ("10%\r20%\r100%\ndone\n", "100%\ndone\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("kept\r", "kept"),
            ("abc\u{8}\u{8}x", "ax"),
            ("\r\r\rx", "x"),
        ] {
            assert_eq!(strip_escapes(printed), shown, "{printed:?}");
        }
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            let plain = strip_escapes(&text);
            prop_assert!(!plain.contains(|char: char| char.is_control() && char != '\n' && char != '\t'));
            prop_assert_eq!(plain.matches('\n').count(), text.matches('\n').count());
        }
    }
}
