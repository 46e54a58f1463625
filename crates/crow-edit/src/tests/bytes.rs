//! Encodings and line ends: text that is not edited keeps its bytes.

use super::*;

#[track_caller]
fn check_bytes(file: &[u8], old: &str, new: &str, expected: &[u8]) {
    let applied =
        apply_edits(file, &[edit(old, new)]).unwrap_or_else(|error| panic!("refused: {error}"));
    assert_eq!(applied.content.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(to_bytes).collect()
}

#[test]
fn windows_line_ends_are_exact_and_stay() {
    check(MatchType::Exact, "a\r\nb\r\nc\r\n", "b\n", "B1\nB2\n", "a\r\nB1\r\nB2\r\nc\r\n");
    check(MatchType::Exact, "a\r\nb\r\nc\r\n", "a\r\nb", "a\r\nB\r\nX", "a\r\nB\r\nX\r\nc\r\n");
    check(MatchType::Exact, "a\nb\n", "a\r\nb", "a\r\nB", "a\nB\n");
}

#[test]
fn every_line_of_a_mixed_file_keeps_its_end() {
    check(MatchType::Exact, "a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\r\nB\nc\r\nd\n");
    check(MatchType::Exact, "a\r\nb\nc\r\nd\n", "b\nc\n", "b\nx\nc\n", "a\r\nb\nx\nc\r\nd\n");
    check(MatchType::Exact, "a\r\nb\nc\r\n", "a\nb\n", "b\n", "b\nc\r\n");
}

#[test]
fn a_line_put_in_place_of_another_takes_its_end() {
    check(MatchType::Exact, "a\nb\r\nc\n", "b", "x\ny", "a\nx\r\ny\r\nc\n");
}

#[test]
fn a_file_of_carriage_returns_keeps_them() {
    check(MatchType::Exact, "a\rb\rc", "b\nc", "B\nx\nc", "a\rB\rx\rc");
    check(MatchType::Exact, "a\rb\rc\r", "a\rb", "a\rB", "a\rB\rc\r");
}

#[test]
fn a_carriage_return_within_a_line_is_text() {
    check(MatchType::Exact, "10%\r20%\nb\n", "b", "c", "10%\r20%\nc\n");
    check(MatchType::Exact, "x\r\r\ny\r\n", "y", "z", "x\r\r\nz\r\n");
    check(MatchType::LineTrimmed, "x\r\r\ny\r\n", "x\ny\n", "x\nz\n", "x\r\r\nz\r\n");
}

#[test]
fn windows_line_ends_survive_a_loose_match() {
    check(
        MatchType::IndentationFlexible,
        "  a\r\n  b\r\n  c\r\n",
        "a\nb\n",
        "a\nx\nb\n",
        "  a\r\n  x\r\n  b\r\n  c\r\n",
    );
}

#[test]
fn a_missing_final_newline_stays_missing() {
    check(MatchType::Exact, "a\nb", "b", "c", "a\nc");
    check(MatchType::Exact, "a\r\nb", "b", "c\nd", "a\r\nc\r\nd");
    check(MatchType::LineTrimmed, "a\nb \nc ", "b\nc\n", "b\nd\n", "a\nb \nd ");
    check(MatchType::Exact, "a", "a", "a\n", "a\n");
}

#[test]
fn a_byte_order_mark_stays() {
    check_bytes(b"\xEF\xBB\xBFa\r\nb\r\n", "a\n", "A\n", b"\xEF\xBB\xBFA\r\nb\r\n");
    check_bytes(b"\xEF\xBB\xBFa\nb\n", "\u{feff}a\n", "\u{feff}A\n", b"\xEF\xBB\xBFA\nb\n");
}

#[test]
fn utf16_stays_utf16() {
    for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let file = utf16("a \u{1f600}\r\nb \u{e9}\r\nc\r\n", to_bytes);
        check_bytes(
            &file,
            "b \u{e9}\n",
            "B \u{1f680}\nX\n",
            &utf16("a \u{1f600}\r\nB \u{1f680}\r\nX\r\nc\r\n", to_bytes),
        );
        check_bytes(
            &file,
            "\u{1f600}",
            "\u{1f601}",
            &utf16("a \u{1f601}\r\nb \u{e9}\r\nc\r\n", to_bytes),
        );
        check_bytes(&file, "c\n", "", &utf16("a \u{1f600}\r\nb \u{e9}\r\n", to_bytes));
    }
}

#[test]
fn broken_utf16_is_refused() {
    assert_eq!(apply_edits(b"\xFF\xFEa\0b", &[edit("a", "b")]), Err(EditError::BrokenUtf16));
    assert_eq!(apply_edits(b"\xFF\xFE\x00\xD8a\0", &[edit("a", "b")]), Err(EditError::BrokenUtf16));
}

#[test]
fn binary_files_are_refused() {
    assert_eq!(apply_edits(b"a\0b", &[edit("a", "b")]), Err(EditError::Binary));
    assert_eq!(apply_edits(b"\xFF\xFE\0\0a\0\0\0", &[edit("a", "b")]), Err(EditError::Binary));
}

#[test]
fn a_nul_far_inside_is_text() {
    let mut file = vec![b'\n'; 9000];
    file.extend(b"a\0b\nc\n");
    let applied = apply_edits(&file, &[edit("c", "d")]).unwrap();
    assert!(applied.content.ends_with(b"a\0b\nd\n"));
}

#[test]
fn ascii_edits_of_a_latin1_file_keep_all_other_bytes() {
    check_bytes(b"caf\xE9\nprice = 1\n", "price = 1", "price = 2", b"caf\xE9\nprice = 2\n");
    check_bytes(b"caf\xE9 one\nb\n", "caf\u{e9} one\n", "caf\u{e9} two\n", b"caf\xE9 two\nb\n");
    check_bytes(b"  caf\xE9\n  b\n", "caf\u{e9}\nb\n", "caf\u{e9}\nc\n", b"  caf\xE9\n  c\n");
}

#[test]
fn characters_that_a_latin1_file_has_not_shown_are_not_written() {
    let error = apply_edits(b"caf\xE9\nb\n", &[edit("b", "\u{e8}")]).unwrap_err();
    assert!(matches!(error, EditError::NotUtf8 { line: 1, .. }), "{error}");
    let error = apply_edits(b"x\ncaf\xE9\n", &[edit("x", "\u{4e2d}")]).unwrap_err();
    assert!(matches!(error, EditError::NotUtf8 { line: 2, .. }), "{error}");
}

#[test]
fn the_second_byte_of_a_double_byte_character_is_not_edited() {
    // Shift JIS: 0x83 0x5C is one character, although 0x5C is a backslash.
    let error = apply_edits(b"x = \x83\x5C;\n", &[edit("\\;", "!;")]).unwrap_err();
    assert!(matches!(error, EditError::NotUtf8 { .. }), "{error}");
    check_bytes(b"x = \x83\x5C;\ny = 1\n", "y = 1", "y = 2", b"x = \x83\x5C;\ny = 2\n");
}

#[test]
fn broken_places_of_a_utf8_file_keep_their_bytes() {
    let file = b"\xC3\xA9 ok\nbad \xFF\xFE byte\nend\n";
    check_bytes(file, "end", "END", b"\xC3\xA9 ok\nbad \xFF\xFE byte\nEND\n");
    check_bytes(file, "byte\nend", "byte\nEND", b"\xC3\xA9 ok\nbad \xFF\xFE byte\nEND\n");
    check_bytes(file, "\u{e9} ok", "\u{e9} fine", b"\xC3\xA9 fine\nbad \xFF\xFE byte\nend\n");
    check_bytes(
        file,
        "bad \u{fffd}\u{fffd} byte\nend\n",
        "bad \u{fffd}\u{fffd} byte\nEND\n",
        b"\xC3\xA9 ok\nbad \xFF\xFE byte\nEND\n",
    );
}

#[test]
fn the_replacement_character_is_never_written_for_a_broken_place() {
    let file = b"\xC3\xA9\nbad \xFF byte\n";
    let error = apply_edits(file, &[edit("bad \u{fffd} byte", "good \u{fffd} byte")]).unwrap_err();
    assert!(matches!(error, EditError::NotUtf8 { line: 2, .. }), "{error}");
}

#[test]
fn a_real_replacement_character_is_text() {
    check(
        MatchType::Exact,
        "a = '\u{fffd}'\n",
        "a = '\u{fffd}'",
        "b = '\u{fffd}'",
        "b = '\u{fffd}'\n",
    );
}

#[test]
fn unicode_line_separators_are_no_line_ends() {
    check(MatchType::Exact, "a\u{2028}b\u{85}c\n", "b", "B", "a\u{2028}B\u{85}c\n");
}
