//! The structure of blocks is the same as pulldown-cmark finds in a whole document.
//!
//! The events of the whole document are put through the same layout. Blank lines, borders and padding are not compared:
//! whether a list is loose is only known at its end, and tables are drawn as plain rows here.

use crow_console::Glyphs;
use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{examples, render_markdown, streamed, texts};
use crate::{
    markdown::{
        code::{CodeBlock, html_lines},
        glyphs::MarkdownGlyphs,
        inline::{InlineCollector, InlinePiece},
        layout::{Container, Layout, PrefixMarker},
        paragraph::{text_wrapper, wrap_pieces},
    },
    styled_text::{StyledLine, TextLook, TextRole},
};

/// Examples that differ, and why.
const KNOWN: [(&str, &str); 6] = [
    ("regression 124", "a shortcut reference directly before a footnote is text"),
    ("footnotes 16", "a shortcut reference directly before a footnote is text"),
    ("table 15", "a backslash at the end of a header is text, as on GitHub, and no hard break"),
    ("regression 210", "the box of a task is on a line of its own in the reference"),
    ("footnotes 19", "the marker stands before the upper border, which is not compared"),
    ("heading_attrs 40", "form feeds and vertical tabs at the end of a heading are white space"),
];

/// Lays out the events of a whole document.
struct Reference {
    layout: Layout,
    inline: Option<InlineCollector>,
    /// The text of the block of code or HTML that is open.
    verbatim: Option<String>,
    info: String,
    row: StyledLine,
}

impl Reference {
    fn lines(text: &str, width: usize) -> Vec<String> {
        let mut reference = Self {
            layout: Layout::new(width, MarkdownGlyphs(Glyphs::Unicode)),
            inline: None,
            verbatim: None,
            info: String::new(),
            row: StyledLine::default(),
        };
        let options = Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TABLES
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_FOOTNOTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(tag) => reference.start(tag, &text[range]),
                Event::End(tag) => reference.end(tag),
                Event::Text(text) | Event::Html(text) if reference.verbatim.is_some() => {
                    reference.verbatim.as_mut().unwrap().push_str(&text);
                }
                event => reference.leaf(event),
            }
        }
        reference.flush();
        texts(&reference.layout.take_lines())
    }

    fn start(&mut self, tag: Tag<'_>, source: &str) {
        match tag {
            Tag::Paragraph | Tag::Heading { .. } => {
                self.begin();
                self.inline();
            }
            Tag::TableHead | Tag::TableRow => {}
            Tag::TableCell => self.inline = Some(InlineCollector::new(TextLook::default())),
            Tag::BlockQuote(_) => {
                self.begin();
                self.layout.open(Container::Quote);
            }
            Tag::List(number) => {
                self.begin();
                let next_number = number.unwrap_or_default();
                self.layout.open(Container::List { delimiter: b'-', next_number, is_loose: false });
            }
            Tag::Item => self.start_item(source),
            Tag::FootnoteDefinition(label) => {
                self.begin();
                let marker = PrefixMarker::new(format!("[^{label}]: "));
                self.layout.open(Container::Footnote { marker });
            }
            Tag::CodeBlock(kind) => {
                self.begin();
                self.info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.verbatim = Some(String::new());
            }
            Tag::HtmlBlock => {
                self.begin();
                self.verbatim = Some(String::new());
            }
            Tag::Table(_) => self.begin(),
            tag => self.inline().take(Event::Start(tag)),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Heading(_) => self.flush(),
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item | TagEnd::FootnoteDefinition => {
                self.flush();
                self.layout.close_to(self.layout.depth() - 1);
            }
            TagEnd::CodeBlock => {
                let mut code = CodeBlock::new(&self.info, &mut self.layout);
                for line in self.verbatim.take().unwrap().lines() {
                    code.write_line(line, &mut self.layout);
                }
                code.finish(&mut self.layout);
            }
            TagEnd::HtmlBlock => {
                for line in self.verbatim.take().unwrap().lines() {
                    let lines = html_lines(line, &self.layout);
                    self.layout.write_all(lines);
                }
            }
            TagEnd::TableCell => {
                for piece in self.inline.take().unwrap().pieces {
                    if let InlinePiece::Text(text, look) = piece {
                        self.row.push(text, look);
                    }
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                let row = std::mem::take(&mut self.row);
                self.layout.write(row);
            }
            TagEnd::Table => {}
            tag => self.inline().take(Event::End(tag)),
        }
    }

    fn leaf(&mut self, event: Event<'_>) {
        match event {
            Event::Rule => {
                self.begin();
                let mut line = StyledLine::default();
                line.push("─".repeat(self.layout.room()), TextRole::Marker);
                self.layout.write(line);
            }
            Event::TaskListMarker(is_done) => {
                let task = MarkdownGlyphs(Glyphs::Unicode).task(is_done).into();
                self.inline().take(Event::Text(task));
            }
            Event::FootnoteReference(label) => {
                self.inline().take(Event::Text(format!("[^{label}]").into()));
            }
            event => self.inline().take(event),
        }
    }

    fn start_item(&mut self, source: &str) {
        self.begin();
        let list = self.layout.depth() - 1;
        let Container::List { next_number, .. } = self.layout.container_mut(list) else {
            unreachable!("an item is in a list")
        };
        let indented = source.trim_start_matches(['>', ' ', '\t', '\n']);
        let marker = match indented.trim_start_matches(|digit: char| digit.is_ascii_digit()) {
            rest if rest.starts_with('.') => format!("{next_number}. "),
            rest if rest.starts_with(')') => format!("{next_number}) "),
            _ => "• ".to_owned(),
        };
        *next_number += 1;
        self.layout.open(Container::Item { indent: 2, marker: PrefixMarker::new(marker) });
    }

    fn begin(&mut self) {
        self.flush();
        self.layout.begin_block(false);
    }

    /// Returns the inline text that is open. That of a tight list begins without a paragraph.
    fn inline(&mut self) -> &mut InlineCollector {
        let look = self.layout.text_look();
        self.inline.get_or_insert_with(|| InlineCollector::new(look))
    }

    fn flush(&mut self) {
        if let Some(inline) = self.inline.take() {
            let lines = wrap_pieces(text_wrapper(&mut self.layout), &inline.pieces);
            self.layout.write_all(lines);
        }
    }
}

/// Returns lines without what is not compared.
fn compared(lines: &[String]) -> Vec<String> {
    let ignored = ['│', '|', '┌', '├', '└', ' ', '─', '┬', '┼', '┴', '┐', '┤', '┘', '•'];
    lines.iter().map(|line| line.replace(ignored, "")).filter(|line| !line.is_empty()).collect()
}

/// Returns both renderings of a text.
fn both(text: &str) -> (Vec<String>, Vec<String>) {
    let ours = texts(&render_markdown(text, 1000));
    (compared(&ours), compared(&Reference::lines(text, 1000)))
}

#[test]
fn blocks_of_the_specification_are_those_of_the_whole_document() {
    let examples = examples::specification();
    assert_eq!(examples.len(), 652);
    for example in examples {
        let (ours, reference) = both(&example.text);
        assert_eq!(ours, reference, "{example:?}");
    }
}

#[test]
fn blocks_of_other_examples_are_those_of_the_whole_document_with_known_exceptions() {
    for example in examples::all() {
        let (ours, reference) = both(&example.text);
        let is_known = KNOWN.iter().any(|(name, _)| *name == example.name);
        assert_eq!(ours != reference, is_known, "{example:?}\n{ours:?}\n{reference:?}");
    }
}

/// Returns texts without tabs, which pulldown-cmark does not count as white space everywhere.
fn blocks() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    let pieces = vec![
        "a", "b c", "\n", "\n", "\n\n", "\n", " ", "  ", "   ", "    ", "- ", "* ", "1. ", "2) ", "> ", ">", "# ", "```",
        "~~~", "---", "===", "<div>", "<x>", "-", "[a]: /x", "[a]", "*a*", "`b`",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..16).prop_map(|pieces| pieces.concat())
}

/// Returns texts with tables. Around lists and deep indentation, pulldown-cmark deviates from GitHub.
fn tables() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    let pieces = vec![
        "a", "b c", "\n", "\n", "\n", "\n\n", " ", "> ", "# ", "```", "|", "|", "a|b\n", "-|-\n", "|-\n", "|-|-|\n",
        "|:-|-:|", "\\|", "<x>", "<div>", "`|`", "[^1]", "*a*",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..20).prop_map(|pieces| pieces.concat())
}

/// Returns paragraphs that are long enough to be cut, but not to be cut within open markup.
fn long_paragraphs() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    let pieces = vec![
        "word ", "two words ", "long", "\nnext ", "  \nhard ", " ", "*", "*", "**", "**", "_", " *a b* ", " **a b** ", "`", "`", " ``c`d`` ",
        "[", "](x)", " [a *b* c](y) ", "![", "<", "<b c='d'>", "<http://x.y>", "~~", "\\", "\\*", "&amp;", "漢字", "e\u{301}", "a@b",
    ];
    let sentence = prop::collection::vec(prop::sample::select(pieces), 1..40);
    let filler = (0_usize..60).prop_map(|count| vec!["filling words, "; count]);
    prop::collection::vec((sentence, filler), 4..12)
        .prop_map(|parts| parts.into_iter().flat_map(|(a, b)| [a.concat(), b.concat()]).collect())
        .prop_map(|text: String| format!("a {text}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn cut_paragraphs_are_those_of_the_whole_document(text in long_paragraphs()) {
        let whole = Reference::lines(&text, 60);
        prop_assert_eq!(texts(&streamed(&text, 60)), whole, "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn generated_blocks_are_those_of_the_whole_document(text in blocks()) {
        let (ours, reference) = both(&text);
        prop_assert_eq!(ours, reference, "{}", text);
    }

    #[test]
    fn generated_tables_are_those_of_the_whole_document(text in tables()) {
        let (ours, reference) = both(&text);
        prop_assert_eq!(ours.concat(), reference.concat(), "{}", text);
    }
}
