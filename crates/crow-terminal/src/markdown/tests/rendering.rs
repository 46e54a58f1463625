//! Rendering of blocks.

use crow_console::Glyphs;

use super::{render_markdown, shown};
use crate::{
    markdown::MarkdownStream,
    styled_text::{Emphasis, StyledLine, StyledSpan, TextRole},
};

/// Returns the first span with this text.
fn span(markdown: &str, text: &str) -> StyledSpan {
    let lines = render_markdown(markdown, 80);
    let spans: Vec<_> = lines.iter().flat_map(StyledLine::spans).collect();
    let found = spans.iter().find(|span| span.text == text);
    (*found.unwrap_or_else(|| panic!("{text:?} in {spans:?}"))).clone()
}

#[test]
fn one_blank_line_is_between_blocks_and_none_around_them() {
    let text = "\n\n# a\nb\n\n\n\n- c\n***\n```\nd\n```\n> e\n\n\n";
    let rule = "─".repeat(20);
    assert_eq!(shown(text, 20), format!("a\n\nb\n\n• c\n\n{rule}\n\nd\n\n│ e"));
}

#[test]
fn headings_have_no_signs_and_show_their_level_by_emphasis() {
    for (markdown, emphasis) in [
        ("# one #", Emphasis::BOLD.with(Emphasis::UNDERLINE)),
        ("one\n===", Emphasis::BOLD.with(Emphasis::UNDERLINE)),
        ("## one", Emphasis::BOLD),
        ("#### one", Emphasis::BOLD.with(Emphasis::ITALIC)),
    ] {
        let span = span(markdown, "one");
        assert_eq!((span.look.role, span.look.emphasis), (TextRole::Heading, emphasis));
    }
}

#[test]
fn paragraphs_break_between_words() {
    assert_eq!(shown("one two three four\nfive", 10), "one two\nthree four\nfive");
}

#[test]
fn long_words_are_split_and_clusters_are_not() {
    assert_eq!(shown("aaaaaaaaaaaaa b", 10), "aaaaaaaaaa\naaa b");
    let families = "👩\u{200d}👩\u{200d}👧".repeat(6);
    assert_eq!(shown(&families, 10), format!("{}\n{0:.0}{}", &families[..90], &families[90..]));
}

#[test]
fn wide_characters_wrap_anywhere_but_not_before_a_full_stop() {
    assert_eq!(shown("漢字漢字漢字", 10), "漢字漢字漢\n字");
    assert_eq!(shown("漢字漢字漢。字", 10), "漢字漢字\n漢。字");
    assert_eq!(shown("漢字漢字「漢字", 10), "漢字漢字\n「漢字");
}

#[test]
fn hard_breaks_end_lines() {
    assert_eq!(shown("a  \nb\\\nc\nd", 20), "a\nb\nc d");
}

#[test]
fn emphasis_becomes_a_look() {
    let text = "**bold** *italic* ~~gone~~ ***both*** `code`";
    assert_eq!(span(text, "bold").look.emphasis, Emphasis::BOLD);
    assert_eq!(span(text, "italic").look.emphasis, Emphasis::ITALIC);
    assert_eq!(span(text, "gone").look.emphasis, Emphasis::STRIKETHROUGH);
    assert_eq!(span(text, "both").look.emphasis, Emphasis::BOLD.with(Emphasis::ITALIC));
    assert_eq!(span(text, "code").look.role, TextRole::Code);
}

#[test]
fn links_show_their_address_unless_it_is_their_text() {
    assert_eq!(shown("[text](http://x.y)", 40), "text (http://x.y)");
    assert_eq!(shown("<http://x.y> <a@b.c>", 40), "http://x.y a@b.c");
    let link = span("[text](http://x.y)", "text").look;
    assert_eq!((link.role, link.link.as_deref()), (TextRole::Link, Some("http://x.y")));
    assert_eq!(span("[text](http://x.y)", " (http://x.y)").look.role, TextRole::Dim);
    assert_eq!(span("<a@b.c>", "a@b.c").look.link.as_deref(), Some("mailto:a@b.c"));
    assert_eq!(shown("[trusted.com](http://evil.com)", 80), "trusted.com (http://evil.com)");
}

#[test]
fn references_are_resolved_also_before_their_definition() {
    assert_eq!(shown("[a] [b][A]\n\n[a]: /x 'title'\n", 40), "a (/x) b (/x)");
}

#[test]
fn images_show_their_text_and_address() {
    assert_eq!(shown("an ![old *map*](m.png)", 40), "an [image: old map](m.png)");
}

#[test]
fn lists_are_indented_by_the_width_of_their_markers() {
    let text = "9. nine\n10. ten, which is long\n    - inner, also long\n- bullet";
    let expected =
        "9. nine\n10. ten, which\n    is long\n    • inner,\n      also long\n\n• bullet";
    assert_eq!(shown(text, 16), expected);
}

#[test]
fn ordered_items_are_counted_from_the_first_number() {
    assert_eq!(shown("3) a\n3) b\n7) c", 20), "3) a\n4) b\n5) c");
}

#[test]
fn an_item_without_text_shows_its_marker() {
    assert_eq!(shown("- a\n-\n- c", 20), "• a\n•\n• c");
}

#[test]
fn tasks_show_boxes() {
    assert_eq!(shown("- [ ] open\n- [x] done\n1. [X] number", 20), "☐ open\n☑ done\n\n1. ☑ number");
}

#[test]
fn items_of_loose_lists_are_apart() {
    assert_eq!(shown("- a\n\n  b\n- c\n  - d\n", 20), "• a\n\n  b\n\n• c\n\n  • d");
}

#[test]
fn quotes_have_a_bar_before_each_line() {
    let text = "> one two three\n>\n> > inner\n> - item";
    assert_eq!(shown(text, 12), "│ one two\n│ three\n│\n│ │ inner\n│\n│ • item");
}

#[test]
fn code_is_plain_text_below_its_language() {
    let text = "```rust,ignore\nfn a() {\n\tb\n\n}\n```\n\n    indented\n\n      more";
    assert_eq!(shown(text, 30), "rust\nfn a() {\n    b\n\n}\n\nindented\n\n  more");
    assert_eq!(span(text, "rust").look.role, TextRole::Dim);
    assert_eq!(span("```\nx\n```", "x").look.role, TextRole::Code);
}

#[test]
fn long_lines_of_code_are_cut_at_the_width() {
    assert_eq!(shown("```\naaa bbb ccc ddd\n```", 10), "aaa bbb cc\nc ddd");
}

#[test]
fn tables_have_borders_and_aligned_columns() {
    let text = "| left | centre | right |\n|:--|:-:|--:|\n| a | b | c |\n| `d` | \\| | [e](f) |";
    let expected = "\
┌──────┬────────┬───────┐
│ left │ centre │ right │
├──────┼────────┼───────┤
│ a    │   b    │     c │
│ d    │   |    │ e (f) │
└──────┴────────┴───────┘";
    assert_eq!(shown(text, 40), expected);
    assert_eq!(span(text, "left").look.emphasis, Emphasis::BOLD);
    assert_eq!(span(text, "│").look.role, TextRole::Marker);
}

#[test]
fn cells_of_wide_tables_are_wrapped() {
    let text = "| a | text |\n|-|-|\n| 1 | some words here |\n| 2 | x |";
    let expected = "\
┌───┬────────────┐
│ a │ text       │
├───┼────────────┤
│ 1 │ some words │
│   │ here       │
├───┼────────────┤
│ 2 │ x          │
└───┴────────────┘";
    assert_eq!(shown(text, 18), expected);
}

#[test]
fn tables_without_room_become_records() {
    let text = "| name | value | note |\n|-|-|-|\n| first one | second | third |\n| x | | y |";
    let expected = "name: first one\nvalue: second\nnote: third\n\nname: x\nnote: y";
    assert_eq!(shown(text, 22), expected);
}

#[test]
fn footnotes_hang_from_their_label() {
    assert_eq!(
        shown("a[^1]\n\n[^1]: long note\n    goes on", 16),
        "a[^1]\n\n[^1]: long note\n      goes on"
    );
}

#[test]
fn html_is_shown_as_text() {
    assert_eq!(
        shown("a <b>c</b>\n\n<div>\n  <p>x</p>\n</div>", 20),
        "a <b>c</b>\n\n<div>\n  <p>x</p>\n</div>"
    );
}

#[test]
fn other_glyphs_serve_terminals_without_unicode() {
    let text = "- [x] a\n- b\n\n> c\n\n|d|\n|-|\n\n---";
    let mut stream = MarkdownStream::new(10, Glyphs::Ascii);
    let mut lines = stream.push(text);
    lines.append(&mut stream.finish());
    let shown: Vec<String> = lines.iter().map(StyledLine::text).collect();
    let expected =
        ["[x] a", "- b", "", "| c", "", "+---+", "| d |", "+---+", "+---+", "", "----------"];
    assert_eq!(shown, expected);
}

#[test]
fn code_of_a_known_language_has_roles() {
    let text = "```rust\nfn main() { let x: String = \"s\"; } // c\n```";
    for (part, role) in [
        ("fn", TextRole::Keyword),
        ("main", TextRole::Function),
        ("let", TextRole::Keyword),
        ("\"s\"", TextRole::StringLiteral),
        ("// c", TextRole::Comment),
    ] {
        assert_eq!(span(text, part).look.role, role, "{part}");
    }
    let text = "```diff\n-old\n+new\n```";
    assert_eq!(span(text, "-old").look.role, TextRole::Removed);
    assert_eq!(span(text, "+new").look.role, TextRole::Added);
}

#[test]
fn roles_go_on_over_the_lines_of_a_comment() {
    let text = "```c\n/* one\ntwo */ int x;\n```";
    assert_eq!(span(text, "two */").look.role, TextRole::Comment);
}
