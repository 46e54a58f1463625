//! Text of others does no harm.

use std::time::{Duration, Instant};

use crow_console::Glyphs;
use proptest::prelude::*;

use super::{MarkdownStream, render_markdown, shown, streamed};
use crate::styled_text::StyledLine;

fn assert_harmless(lines: &[StyledLine], width: usize) {
    for line in lines {
        assert!(line.width() <= width.max(10), "{width}: {:?}", line.text());
        for span in line.spans() {
            let link = span.look.link.as_deref().unwrap_or_default();
            for character in span.text.chars().chain(link.chars()) {
                assert!(!character.is_control(), "{span:?}");
                assert!(!matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
                assert!(!matches!(character, '\u{200b}' | '\u{2060}' | '\u{feff}'), "{span:?}");
            }
        }
    }
}

#[test]
fn control_characters_become_visible_everywhere() {
    let evil = "\u{1b}c\u{202e}\u{200b}\u{9b}";
    let seen = "␛c\\u{202e}\\u{200b}\\u{9b}";
    let text = format!(
        "# {evil}\n\n{evil} `{evil}` [{evil}](<http://{evil}>)\n\n```{evil}\n{evil}\n```\n\n- {evil}\n\n\
         |{evil}|b|\n|-|-|\n|{evil}|c|\n\n<div>{evil}\n\n[^{evil}]: x\n\n![{evil}](x)\n"
    );
    assert_harmless(&render_markdown(&text, 200), 200);
    let shown = shown(&text, 200);
    assert_eq!(shown.matches(seen).count(), 13, "{shown}");
}

/// Returns a thousand lines, each deeper than the one before.
fn nested(indent: &str, line: &str) -> String {
    (0..1000).flat_map(|depth| [indent.repeat(depth), line.to_owned()]).collect()
}

#[test]
fn deep_nesting_is_bounded() {
    for text in [
        ">".repeat(10_000),
        "> ".repeat(10_000) + "x",
        "- ".repeat(10_000) + "x",
        "1. ".repeat(10_000) + "x",
        "*".repeat(10_000),
        "[".repeat(10_000) + "x",
        "![".repeat(10_000),
        "`".repeat(10_000),
        "*a ".repeat(10_000),
        "<".repeat(10_000),
        "[a](".repeat(10_000),
        "|".repeat(10_000) + "\n" + &"|-".repeat(10_000) + "\n",
        "a|".repeat(2_000) + "\n" + &"-|".repeat(2_000) + "\n" + &"b|".repeat(2_000),
        nested("  ", "- x\n"),
        nested("> ", "x\n"),
        "\u{301}".repeat(100_000),
        "ᄀ".repeat(10_000),
        " ".repeat(100_000),
        "\n".repeat(100_000),
        "&".repeat(100_000),
        "\\".repeat(100_000),
        "[a]: /x\n".repeat(10_000),
        "```\n".to_owned() + &"\t".repeat(100_000),
    ] {
        let start = Instant::now();
        assert_harmless(&render_markdown(&text, 30), 30);
        let piece = &text[..text.floor_char_boundary(20)];
        assert!(start.elapsed() < Duration::from_secs(10), "{piece:?} {:?}", start.elapsed());
    }
}

#[test]
fn deeper_quotes_than_sixteen_are_text() {
    assert_eq!(shown(&(">".repeat(18) + "x"), 80), "│ ".repeat(16) + ">>x");
}

#[test]
fn markers_without_room_become_text() {
    assert_eq!(shown("1234567. a\n         > b\n", 10), "1234567. a\nb");
    assert_eq!(shown("- - - - x\n", 10), "• • • • x");
}

proptest! {
    #[test]
    fn any_text_is_harmless(text in any::<String>(), width in 0_usize..50) {
        assert_harmless(&render_markdown(&text, width), width);
        assert_harmless(&streamed(&text, width), width);
    }

    #[test]
    fn any_bytes_with_marks_are_harmless(
        text in "([a-z|`*_>#\\[\\]()!<~\\-+1. \t\n\\\\&;:\"]|\\PC|\u{1b}|\u{301}|\u{200d}|\u{fe0f}|ᄀ|क|्){0,200}",
        width in 0_usize..50,
        cut in 0_usize..200,
    ) {
        assert_harmless(&render_markdown(&text, width), width);
        let cut = text.floor_char_boundary(cut);
        let mut stream = MarkdownStream::new(width, Glyphs::Unicode);
        assert_harmless(&stream.push(&text[..cut]), width);
        assert_harmless(&stream.tail(5), width);
        stream.set_width(width / 2);
        let lines = stream.push(&text[cut..]);
        assert_harmless(&lines, width / 2);
        assert_harmless(&stream.tail(5), width / 2);
        assert_harmless(&stream.finish(), width / 2);
    }
}
