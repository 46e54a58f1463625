//! The captured bytes of a process as text: beginning and end, with a note on the bytes in between.

use std::path::Path;

use crow_core::capability::CapturedOutput;

use super::terminal::strip_escapes;

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
    let gap = format!("[… {omitted} bytes omitted{location} …]");
    let parts = [head.trim_end(), &gap, tail.trim_end()];
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

#[cfg(test)]
mod tests {
    use crow_core::capability::OutputFile;

    use super::*;

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
            "one\n[… 91 bytes omitted; the first 50 bytes are in /s/c1.log …]\nfour"
        );
        assert_eq!(text_with(b"one\n", b"four\n", 100, 100), "one\n[… 91 bytes omitted …]\nfour");
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
            "one\n[… 91 bytes omitted; whole output in /s/c1.log …]\nfour"
        );
    }

    #[test]
    fn a_gap_in_one_long_line_cuts_no_character() {
        assert_eq!(
            text("aä".as_bytes().get(..2).unwrap(), "ä漢b".as_bytes().get(1..).unwrap(), 50),
            "a\n[… 45 bytes omitted; whole output in /s/c1.log …]\n漢b"
        );
    }
}
