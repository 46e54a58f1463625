use proptest::prelude::*;

use super::key_names::key;
use crate::{
    input_decoder::InputDecoder,
    keys::{InputEvent, Key, KeyCode},
};

fn keys(names: &str) -> Vec<InputEvent> {
    names.split_whitespace().map(|name| InputEvent::Key(key(name))).collect()
}

fn reply(bytes: &[u8]) -> Vec<InputEvent> {
    vec![InputEvent::Reply(bytes.to_vec())]
}

fn paste(text: &str) -> Vec<InputEvent> {
    vec![InputEvent::Paste(text.to_owned())]
}

fn decoded(bytes: &[u8]) -> Vec<InputEvent> {
    InputDecoder::default().push(bytes)
}

fn decoded_in_parts(bytes: &[u8], length: usize) -> Vec<InputEvent> {
    let mut decoder = InputDecoder::default();
    bytes.chunks(length).flat_map(|part| decoder.push(part)).collect()
}

#[test]
fn bytes_outside_sequences_are_keys() {
    let table: [(&[u8], &str); 16] = [
        (b"aZ9~ ", "a Z 9 ~ <space>"),
        ("é漢🙂".as_bytes(), "é 漢 🙂"),
        (b"\r\n\t", "<enter> C-j <tab>"),
        (b"\x7f\x08", "<backspace> C-h"),
        (b"\x00\x01\x1a", "<C-space> C-a C-z"),
        (b"\x1c\x1d\x1e\x1f", "C-\\ C-] C-^ C-_"),
        (b"\x1ba\x1bB\x1b\x7f\x1b\r", "A-a A-B <A-backspace> <A-enter>"),
        (b"\x1b\x01\x1b_\x1b-", "<C-A-a> A-_ A--"),
        (b"\x1b\xc3\xa9", "A-é"),
        (b"\x1b\x1ba", "<escape> A-a"),
        (b"\x1b\x1b\x1b[A", "<escape> <A-up>"),
        (b"\xffa", "\u{fffd} a"),
        (b"\xe6\xbcb", "\u{fffd} b"),
        (b"\xe6\xbc\x1b[A", "\u{fffd} <up>"),
        (b"\xc3\xc3\xa9\x80", "\u{fffd} é \u{fffd}"),
        (b"\xed\xa0\x80", "\u{fffd} \u{fffd} \u{fffd}"),
    ];
    for (bytes, expected) in table {
        assert_eq!(decoded(bytes), keys(expected), "{bytes:?}");
    }
}

#[test]
fn sequences_of_all_terminals_are_keys() {
    let table: [(&[u8], &str); 33] = [
        (b"\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F", "<up> <down> <right> <left> <home> <end>"),
        (b"\x1bOA\x1bOB\x1bOC\x1bOD\x1bOH\x1bOF", "<up> <down> <right> <left> <home> <end>"),
        (b"\x1b[1~\x1b[4~\x1b[7~\x1b[8~\x1b[3~", "<home> <end> <home> <end> <delete>"),
        (b"\x1b[1;5C\x1b[1;3D\x1b[1;2A", "<C-right> <A-left> <S-up>"),
        (b"\x1b[5C\x1bO5D", "<C-right> <C-left>"),
        (b"\x1b[3;5~\x1b[3^\x1b[3$\x1b[3@", "<C-delete> <C-delete> <S-delete> <C-S-delete>"),
        (b"\x1b[a\x1bOa\x1bOd", "<S-up> <C-up> <C-left>"),
        (b"\x1b\x1b[A\x1b\x1bOC", "<A-up> <A-right>"),
        (b"\x1bOM\x1bOj\x1bOk\x1bOp\x1bOy\x1bOX", "<enter> * + 0 9 ="),
        (b"\x1b[27;2;13~\x1b[27;5;97~\x1b[27;6;65~", "<S-enter> C-a <C-S-a>"),
        (b"\x1b[27;2;9~\x1b[27;3;120~", "<S-tab> A-x"),
        (b"\x1b[97u\x1b[97;5u\x1b[97;3u", "a C-a A-a"),
        (b"\x1b[97;2u\x1b[97:65;2u\x1b[49:33;2u", "A A !"),
        (b"\x1b[97;6u", "<C-S-a>"),
        (
            b"\x1b[13u\x1b[13;2u\x1b[9;1u\x1b[127u\x1b[27u",
            "<enter> <S-enter> <tab> <backspace> <escape>",
        ),
        (b"\x1b[1089::99;5u", "C-c"),
        (b"\x1b[97;5:1u\x1b[97;5:2u\x1b[97;5:3u", "C-a C-a"),
        (b"\x1b[1;1:1A\x1b[1;1:2A\x1b[1;1:3A", "<up> <up>"),
        (b"\x1b[3;1:3~", ""),
        (b"\x1b[97;65u\x1b[97;129u", "a a"),
        (b"\x1b[97;2;65u\x1b[0;;233u", "A é"),
        (b"\x1b[57399u\x1b[57408u\x1b[57414u\x1b[57417u", "0 9 <enter> <left>"),
        (b"\x1b[57409u\x1b[57410u\x1b[57413u", ". / +"),
        (b"\x1b[45;5u\x1b[95;5u", "C-- C-_"),
        (b"\x1b[57419u\x1b[57423u\x1b[57424u\x1b[57426u", "<up> <home> <end> <delete>"),
        (b"\x1b[200~\x1b[201~x\x1b[201~y", "x y"),
        (b"\x1b[<0;10;20M\x1b[<0;10;20m\x1b[<64;1;1Mx", "x"),
        (b"\x1b[M !!x\x1b[M\xff\x1b\x1by", "x y"),
        (b"\x1b[32;10;20Mx", "x"),
        (b"\x1b]x", "A-] x"),
        (b"\x1bPa", "A-P a"),
        (b"\x1b_a", "A-_ a"),
        (b"\x1b^\x1bX", "A-^ A-X"),
    ];
    for (bytes, expected) in table {
        let events = decoded(bytes);
        let expected: Vec<_> = if expected == "<S-tab> A-x" {
            vec![InputEvent::Key(Key::plain(KeyCode::BackTab)), InputEvent::Key(Key::alt('x'))]
        } else {
            keys(expected)
        };
        let events: Vec<_> =
            events.into_iter().filter(|event| *event != InputEvent::Paste(String::new())).collect();
        assert_eq!(events, expected, "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn function_and_page_keys_are_known() {
    let table: [(&[u8], KeyCode); 20] = [
        (b"\x1bOP", KeyCode::Function(1)),
        (b"\x1bOS", KeyCode::Function(4)),
        (b"\x1b[P", KeyCode::Function(1)),
        (b"\x1b[R", KeyCode::Function(3)),
        (b"\x1b[[A", KeyCode::Function(1)),
        (b"\x1b[[E", KeyCode::Function(5)),
        (b"\x1b[11~", KeyCode::Function(1)),
        (b"\x1b[15~", KeyCode::Function(5)),
        (b"\x1b[17~", KeyCode::Function(6)),
        (b"\x1b[21~", KeyCode::Function(10)),
        (b"\x1b[23~", KeyCode::Function(11)),
        (b"\x1b[24~", KeyCode::Function(12)),
        (b"\x1b[26~", KeyCode::Function(14)),
        (b"\x1b[29~", KeyCode::Function(16)),
        (b"\x1b[34~", KeyCode::Function(20)),
        (b"\x1b[57376u", KeyCode::Function(13)),
        (b"\x1b[2~", KeyCode::Insert),
        (b"\x1b[5~", KeyCode::PageUp),
        (b"\x1b[6~", KeyCode::PageDown),
        (b"\x1b[Z", KeyCode::BackTab),
    ];
    for (bytes, code) in table {
        assert_eq!(decoded(bytes), [InputEvent::Key(Key::plain(code))], "{bytes:?}");
    }
}

#[test]
fn answers_and_focus_are_never_text() {
    let table: [(&[u8], Vec<InputEvent>); 16] = [
        (b"\x1b[?62;22c", reply(b"\x1b[?62;22c")),
        (b"\x1b[>41;354;0c", reply(b"\x1b[>41;354;0c")),
        (b"\x1b[12;40R", reply(b"\x1b[12;40R")),
        (b"\x1b[0n", reply(b"\x1b[0n")),
        (b"\x1b[?2026;2$y", reply(b"\x1b[?2026;2$y")),
        (b"\x1b[4;1$y", reply(b"\x1b[4;1$y")),
        (b"\x1b[?1u", reply(b"\x1b[?1u")),
        (b"\x1b[8;24;80t", reply(b"\x1b[8;24;80t")),
        (b"\x1b]11;rgb:0/0/0\x07", reply(b"\x1b]11;rgb:0/0/0\x07")),
        (b"\x1b]11;rgb:0/0/0\x1b\\", reply(b"\x1b]11;rgb:0/0/0\x1b\\")),
        (b"\x1bP>|kitty(0.36)\x1b\\", reply(b"\x1bP>|kitty(0.36)\x1b\\")),
        (b"\x1bP1+r544e\x1b\\", reply(b"\x1bP1+r544e\x1b\\")),
        (b"\x1b_Gi=1;OK\x1b\\", reply(b"\x1b_Gi=1;OK\x1b\\")),
        (b"\x1b[I\x1b[O", vec![InputEvent::FocusGained, InputEvent::FocusLost]),
        (b"\x1b[97;9u", vec![InputEvent::Unknown]),
        (b"\x1b[99~\x1b[57441;2u", vec![InputEvent::Unknown, InputEvent::Unknown]),
    ];
    for (bytes, expected) in table {
        let mut with_key = expected.clone();
        with_key.extend(keys("x"));
        let bytes = [bytes, b"x"].concat();
        assert_eq!(decoded(&bytes), with_key, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn an_answer_or_a_sequence_without_an_end_is_given_up_at_a_control_character() {
    let table: [(&[u8], &str); 6] = [
        (b"\x1b]11;rgb\rx", "<enter> x"),
        (b"\x1b]11;rgb\x03", "C-c"),
        (b"\x1b]11;rgb\x1b[Ax", "<up> x"),
        (b"\x1b[1;\rx", "<enter> x"),
        (b"\x1b[1;\x1b[A", "<up>"),
        (b"\x1b[1;\xc3\xa9", "é"),
    ];
    for (bytes, expected) in table {
        let mut with_unknown = vec![InputEvent::Unknown];
        with_unknown.extend(keys(expected));
        assert_eq!(decoded(bytes), with_unknown, "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn an_endless_sequence_is_unknown_and_takes_no_more_memory() {
    let mut bytes = b"\x1b[".to_vec();
    bytes.extend(std::iter::repeat_n(b'1', 1_000_000));
    bytes.extend(b"Ax");
    let mut expected = vec![InputEvent::Unknown];
    expected.extend(keys("x"));
    assert_eq!(decoded(&bytes), expected);
}

#[test]
fn the_content_of_a_paste_is_never_interpreted() {
    let table: [(&[u8], &str); 5] = [
        (b"one\r\ttwo\n", "one\r\ttwo\n"),
        (b"\x03\x1b[A\x1b[200~\x7f", "\x03\x1b[A\x1b[200~\x7f"),
        ("漢字\u{202e}".as_bytes(), "漢字\u{202e}"),
        (b"a\xffb~\x1b[201", "a\u{fffd}b~\x1b[201"),
        (b"\x1b\x1b", "\x1b\x1b"),
    ];
    for (content, expected) in table {
        let bytes = [b"\x1b[200~", content, b"\x1b[201~x"].concat();
        let mut events = paste(expected);
        events.extend(keys("x"));
        assert_eq!(decoded(&bytes), events, "{content:?}");
        assert_eq!(decoded_in_parts(&bytes, 1), events, "{content:?}");
    }
}

#[test]
fn a_paste_that_is_too_long_arrives_in_parts() {
    let text = "漢字~".repeat(20);
    let bytes = [b"\x1b[200~", text.as_bytes(), b"\x1b[201~"].concat();
    for length in [1, 2, 7, 1000] {
        let mut decoder = InputDecoder::with_longest_paste(32);
        let events: Vec<_> = bytes.chunks(length).flat_map(|part| decoder.push(part)).collect();
        assert!(events.len() >= 4);
        let texts = events.into_iter().map(|event| {
            let InputEvent::Paste(text) = event else { panic!("{event:?}") };
            text
        });
        assert_eq!(texts.collect::<String>(), text);
    }
}

#[test]
fn a_flush_decides_what_may_be_a_key() {
    let table: [(&[u8], &str); 9] = [
        (b"\x1b", "<escape>"),
        (b"\x1b\x1b", "<escape> <escape>"),
        (b"\x1b[", "A-["),
        (b"\x1bO", "A-O"),
        (b"\x1b]", "A-]"),
        (b"\x1bP", "A-P"),
        (b"\x1b_", "A-_"),
        (b"\x1b\x1b[", "<escape> A-["),
        (b"\x1b]11;x\x1b", "<escape>"),
    ];
    for (bytes, expected) in table {
        let mut decoder = InputDecoder::default();
        assert_eq!(decoder.push(bytes), []);
        assert!(decoder.needs_flush());
        assert_eq!(decoder.flush(), keys(expected), "{bytes:?}");
        assert!(!decoder.needs_flush());
        assert_eq!(decoder.push(b"x"), keys("x"));
    }
}

#[test]
fn a_flush_does_not_cut_longer_sequences() {
    let table: [(&[u8], &[u8], Vec<InputEvent>); 5] = [
        (b"\x1b[1;5", b"C", keys("<C-right>")),
        (b"\xe6\xbc", b"\xa2", keys("漢")),
        (b"\x1b]11;rgb", b":0\x07", reply(b"\x1b]11;rgb:0\x07")),
        (b"\x1b[200~ab", b"c\x1b[201~", paste("abc")),
        (b"\x1b[M ", b"!!x", keys("x")),
    ];
    for (first, second, expected) in table {
        let mut decoder = InputDecoder::default();
        assert_eq!(decoder.push(first), []);
        assert_eq!(decoder.flush(), []);
        assert_eq!(decoder.push(second), expected, "{first:?}");
    }
}

/// Bytes that are likely to form sequences.
fn input_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        Just(b"\x1b".to_vec()),
        Just(b"\x1b[".to_vec()),
        Just(b"\x1bO".to_vec()),
        Just(b"\x1b]1".to_vec()),
        Just(b"\x1bP>".to_vec()),
        Just(b"\x1b[200~".to_vec()),
        Just(b"\x1b[201~".to_vec()),
        "[0-9;:?<>$~uAMR]{1,6}".prop_map(String::into_bytes),
        ".{1,3}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn events_do_not_depend_on_how_the_input_is_cut(
        bytes in input_bytes(),
        lengths in prop::collection::vec(1_usize..8, 1..40),
        longest in 8_usize..40,
    ) {
        let mut whole = InputDecoder::with_longest_paste(longest);
        let mut parts = InputDecoder::with_longest_paste(longest);
        let expected = whole.push(&bytes);
        let (mut events, mut rest) = (Vec::new(), bytes.as_slice());
        for length in lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at((*length).min(rest.len()));
            events.extend(parts.push(part));
            rest = after;
        }
        prop_assert_eq!(events, expected);
        prop_assert_eq!(parts.flush(), whole.flush());
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_like_elsewhere(
        bytes in prop::collection::vec(prop_oneof![0x80_u8..=0xff, b'a'..=b'c'], 0..20),
    ) {
        let bytes = [bytes, b"x".to_vec()].concat();
        let keys: Vec<_> =
            String::from_utf8_lossy(&bytes).chars().map(|key| InputEvent::Key(Key::char(key))).collect();
        prop_assert_eq!(decoded(&bytes), keys);
    }
}
