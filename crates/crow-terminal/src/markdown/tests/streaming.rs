//! A stream gives the same lines however its text is cut.

use crow_console::Glyphs;
use proptest::prelude::*;

use super::{examples, render_markdown, streamed, texts};
use crate::markdown::MarkdownStream;

/// Asserts that pieces of `size` characters give the same lines, and that the open part completes them at any time.
fn assert_stream(name: &str, text: &str, width: usize, size: usize) {
    let expected = streamed(text, width);
    let characters: Vec<char> = text.chars().collect();
    let mut stream = MarkdownStream::new(width, Glyphs::Unicode);
    let mut lines = Vec::new();
    let mut so_far = String::new();
    for piece in characters.chunks(size) {
        let piece: String = piece.iter().collect();
        so_far.push_str(&piece);
        lines.append(&mut stream.push(&piece));
        let mut complete = lines.clone();
        complete.append(&mut stream.tail(usize::MAX));
        assert_eq!(texts(&complete), texts(&streamed(&so_far, width)), "{name}: {so_far:?}");
        let last = stream.tail(2);
        assert_eq!(last, complete[complete.len().saturating_sub(last.len())..], "{name}");
    }
    lines.append(&mut stream.finish());
    assert_eq!(lines, expected, "{name}: {text:?}");
}

/// Returns whether a label is used before its definition, by the lines that differ.
fn has_late_definition(text: &str) -> bool {
    text.contains("]:")
}

/// Cuts every example into pieces of this size.
fn assert_cuts(width: usize, size: usize) {
    for example in examples::all() {
        assert_stream(&example.name, &example.text, width, size);
    }
}

#[test]
fn every_example_cut_at_every_byte_gives_the_same_lines() {
    assert_cuts(80, 1);
}

#[test]
fn every_example_cut_at_every_second_byte_gives_the_same_lines() {
    assert_cuts(20, 2);
}

#[test]
fn every_example_cut_at_every_third_byte_gives_the_same_lines() {
    assert_cuts(10, 3);
}

#[test]
fn every_example_cut_at_every_seventh_byte_gives_the_same_lines() {
    assert_cuts(33, 7);
}

#[test]
fn a_whole_text_equals_its_stream_unless_definitions_come_late() {
    for example in examples::all() {
        let (whole, stream) = (render_markdown(&example.text, 40), streamed(&example.text, 40));
        if whole != stream {
            assert!(has_late_definition(&example.text), "{example:?}");
        }
    }
}

#[test]
fn lines_of_code_are_final_when_they_are_complete() {
    let mut stream = MarkdownStream::new(40, Glyphs::Unicode);
    assert_eq!(texts(&stream.push("```rust\nlet a = 1;\nlet b")), ["rust", "let a = 1;"]);
    assert_eq!(texts(&stream.tail(9)), ["let b"]);
    assert_eq!(texts(&stream.push(" = 2;\n")), ["let b = 2;"]);
    assert_eq!(stream.finish(), []);
}

#[test]
fn items_are_final_when_the_next_one_begins() {
    let mut stream = MarkdownStream::new(40, Glyphs::Unicode);
    assert_eq!(texts(&stream.push("- one\n- two\n")), ["• one"]);
    assert_eq!(texts(&stream.push("  - three\n")), ["• two"]);
    assert_eq!(texts(&stream.tail(9)), ["  • three"]);
}

#[test]
fn a_list_that_turns_loose_is_loose_from_there_on() {
    let text = "- one\n- two\n\n- three\n- four\n";
    assert_eq!(texts(&render_markdown(text, 40)), ["• one", "• two", "", "• three", "", "• four"]);
}

#[test]
fn a_long_paragraph_is_written_before_its_end() {
    let mut stream = MarkdownStream::new(40, Glyphs::Unicode);
    let lines: usize = (0..1000).map(|_| stream.push("some words of a paragraph ").len()).sum();
    assert!(lines > 400, "{lines}");
    assert!(stream.tail(usize::MAX).len() < 250);
}

#[test]
fn emphasis_across_the_length_of_a_cut_stays_whole() {
    let text =
        format!("start **{}** end *a* {}", "bold ".repeat(1200).trim(), "plain ".repeat(3000));
    let lines = streamed(&text, 60);
    let literal = lines.iter().filter(|line| line.text().contains('*')).count();
    assert_eq!(literal, 0);
    assert_stream("long emphasis", &text, 60, 997);
}

#[test]
fn rows_of_a_long_table_are_written_before_its_end() {
    let mut stream = MarkdownStream::new(40, Glyphs::Unicode);
    stream.push("| a | b |\n|---|---|\n");
    let lines: Vec<usize> =
        (0..300).map(|row| stream.push(&format!("| {row} | x |\n")).len()).collect();
    assert_eq!(lines[..199].iter().sum::<usize>(), 0);
    assert_eq!(lines[199], 203);
    assert_eq!(lines[200..], [1; 100]);
    assert_eq!(stream.finish().len(), 1);
}

#[test]
fn a_new_width_holds_for_the_lines_after_it() {
    let mut stream = MarkdownStream::new(80, Glyphs::Unicode);
    let mut lines = stream.push(&"word ".repeat(2000));
    stream.set_width(20);
    let narrow = stream.push(&"word ".repeat(2000));
    assert!(lines.drain(..).any(|line| line.width() > 60));
    assert!(narrow.iter().chain(&stream.finish()).all(|line| line.width() <= 20));
}

fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z ]{1,12}",
        2 => Just("\n".to_owned()),
        2 => Just("\n\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
        8 => prop::sample::select(vec![
            "- ", "* ", "1. ", "2) ", "> ", "# ", "### ", "```\n", "```rust\n", "~~~", "    ", "\t", "|", "|-|-|\n",
            "| a | b |\n", "**", "*", "_", "`", "``", "[", "](", ")", "![", "]: /x\n", "[^1]: ", "[^1]", "<div>\n", "<b>",
            "</div>", "<!--", "-->", "---\n", "===\n", "\\", "&amp;", "- [ ] ", "- [x] ", "漢字", "  \n", "~~", "<http://x>",
            "\u{1b}[31m", "e\u{301}", "👩\u{200d}💻", "\u{202e}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn cuts_do_not_change_the_lines(text in markdown(), width in 0_usize..90, size in 1_usize..9) {
        assert_stream("generated", &text, width, size);
    }

    #[test]
    fn cuts_of_long_lines_do_not_change_the_lines(text in markdown(), size in 50_usize..3000) {
        let line = text.replace(['\n', '\r'], " ");
        let long = line.repeat(9000 / line.len().max(1)) + "\nend";
        let expected = streamed(&long, 50);
        let characters: Vec<char> = long.chars().collect();
        let mut stream = MarkdownStream::new(50, Glyphs::Unicode);
        let mut lines = Vec::new();
        for piece in characters.chunks(size) {
            lines.append(&mut stream.push(&piece.iter().collect::<String>()));
        }
        lines.append(&mut stream.finish());
        prop_assert_eq!(lines, expected);
    }
}
