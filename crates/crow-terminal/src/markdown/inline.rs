//! The text within a paragraph, a heading or a cell: emphasis, code, links and images.
//!
//! The structure of blocks is known before; pulldown-cmark only reads what is within one. So that it never takes the
//! text for another block, the text begins with a no-break space, which is white space to the rules of emphasis but no
//! indentation, and further lines are indented like code, which cannot interrupt a paragraph.

use std::{ops::Range, sync::Arc};

use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd,
};

use super::definitions::Definitions;
use crate::{
    safe_text::safe,
    styled_text::{Emphasis, TextLook, TextRole},
};

/// The beginning of a text that is given to the parser.
const GUARD: char = '\u{a0}';
/// Separator between the lines of a paragraph.
pub(super) const LINE_SEPARATOR: &str = "\n    ";

/// A piece of text within a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InlinePiece {
    Text(String, TextLook),
    LineBreak,
}

/// Where a long paragraph can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParagraphCut {
    pub(super) end: usize,
    /// Where the rest begins: the white space between both is left out.
    pub(super) rest: usize,
}

/// Returns the pieces of the lines of a paragraph.
pub(super) fn paragraph_pieces(
    text: &str,
    definitions: &Definitions,
    look: &TextLook,
) -> Vec<InlinePiece> {
    let text = guarded(text);
    let mut collector = InlineCollector::new(look.clone());
    let mut resolve = |link: BrokenLink<'_>| resolve(definitions, &link);
    let options = Options::ENABLE_STRIKETHROUGH;
    let parser = Parser::new_with_broken_link_callback(&text, options, Some(&mut resolve));
    for (event, range) in parser.into_offset_iter() {
        match event {
            // The indentation of lines would be part of the code.
            Event::Code(_) if text[range.clone()].contains(LINE_SEPARATOR) => {
                collector.take(Event::Code(code_of_lines(&text[range]).into()));
            }
            event => collector.take(event),
        }
    }
    without_guard(collector.pieces)
}

/// Returns the pieces of the cells of a row, at most `columns` of them; none if it is no row.
pub(super) fn row_pieces(
    row: &str,
    columns: usize,
    definitions: &Definitions,
    look: &TextLook,
) -> Vec<Vec<InlinePiece>> {
    let text = format!("{}\n{}\n{row}", "|h".repeat(columns), "|-".repeat(columns));
    let mut resolve = |link: BrokenLink<'_>| resolve(definitions, &link);
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let parser = Parser::new_with_broken_link_callback(&text, options, Some(&mut resolve));
    let mut cells = Vec::new();
    let mut cell = None;
    for event in parser.skip_while(|event| !matches!(event, Event::End(TagEnd::TableHead))) {
        match event {
            Event::Start(Tag::TableCell) => cell = Some(InlineCollector::new(look.clone())),
            Event::End(TagEnd::TableCell) => {
                cells.extend(cell.take().map(|cell| cell.pieces));
            }
            event => {
                if let Some(cell) = &mut cell {
                    cell.take(event);
                }
            }
        }
    }
    cells
}

/// Returns the last place where the rest of the paragraph cannot change what is before, whatever will follow.
///
/// Such a place is white space with no character before it that is still without its counterpart. If there is none and
/// `is_forced` is set, it is the last white space, or else the end.
pub(super) fn paragraph_cut(
    text: &str,
    definitions: &Definitions,
    is_forced: bool,
) -> Option<ParagraphCut> {
    let guarded = guarded(text);
    let mut resolve = |link: BrokenLink<'_>| resolve(definitions, &link);
    let options = Options::ENABLE_STRIKETHROUGH;
    let parser = Parser::new_with_broken_link_callback(&guarded, options, Some(&mut resolve));
    let (mut depth, mut last, mut is_certain) = (0_usize, None, true);
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {}
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(_) => {
                let source = &guarded[range.clone()];
                let certain = source.find(['*', '_', '~', '`', '[', '<']);
                is_certain &= certain.is_none();
                if depth == 0 && (is_certain || is_forced) {
                    last = last_space(source, range.start).or(last);
                } else if depth == 0 {
                    // Signpost: what precedes the first open delimiter of this text is still certain.
                    last = last_space(&source[..certain.unwrap_or(0)], range.start).or(last);
                }
                if !is_certain && !is_forced {
                    break;
                }
            }
            Event::SoftBreak if depth == 0 => last = Some(range),
            _ => {}
        }
    }
    let end = if is_forced { Some(guarded.len()..guarded.len()) } else { None };
    let cut = last.or(end)?;
    let start = cut.start - GUARD.len_utf8();
    // The spaces of the next line's indentation are left out too.
    let rest = cut.end - GUARD.len_utf8();
    let rest = text.len() - text[rest..].trim_start_matches(' ').len();
    (start > 0).then_some(ParagraphCut { end: start, rest })
}

/// Returns the range of the last single space within `source` that has text on both sides.
fn last_space(source: &str, offset: usize) -> Option<Range<usize>> {
    let bytes = source.as_bytes();
    let is_single = |index: &usize| {
        bytes[*index] == b' ' && bytes[index - 1] != b' ' && bytes[index + 1] != b' '
    };
    let found = (1..bytes.len().saturating_sub(1)).rev().find(is_single)?;
    Some(offset + found..offset + found + 1)
}

/// Returns the text of code within backticks that stands on several lines.
fn code_of_lines(source: &str) -> String {
    let code = source.trim_matches('`').replace(LINE_SEPARATOR, " ");
    match code.strip_prefix(' ').and_then(|rest| rest.strip_suffix(' ')) {
        Some(inner) if code.contains(|character| character != ' ') => inner.to_owned(),
        _ => code,
    }
}

/// Returns the text after a fence with its escapes resolved.
pub(super) fn unescaped_info(info: &str) -> String {
    let block = format!("~~~ {info}\n");
    match Parser::new(&block).next() {
        Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info)))) => info.into_string(),
        _ => info.to_owned(),
    }
}

fn guarded(text: &str) -> String {
    format!("{GUARD}{}", text.trim_end_matches([' ', '\t']))
}

fn without_guard(mut pieces: Vec<InlinePiece>) -> Vec<InlinePiece> {
    if let Some(InlinePiece::Text(text, _)) = pieces.first_mut()
        && text.starts_with(GUARD)
    {
        text.remove(0);
    }
    pieces
}

fn resolve<'a>(
    definitions: &Definitions,
    link: &BrokenLink<'_>,
) -> Option<(CowStr<'a>, CowStr<'a>)> {
    let address = definitions.address(&link.reference)?;
    Some((CowStr::from(address.to_owned()), CowStr::Borrowed("")))
}

/// A link or an image whose text is being collected.
#[derive(Debug)]
struct OpenLink {
    address: Arc<str>,
    text: String,
    is_image: bool,
    outer: TextLook,
}

/// Turns the events within a block into pieces.
#[derive(Debug)]
pub(super) struct InlineCollector {
    look: TextLook,
    /// The emphasis outside each open one.
    outer: Vec<Emphasis>,
    links: Vec<OpenLink>,
    pub(super) pieces: Vec<InlinePiece>,
}

impl InlineCollector {
    pub(super) fn new(look: TextLook) -> Self {
        Self { look, outer: Vec::new(), links: Vec::new(), pieces: Vec::new() }
    }

    pub(super) fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                let outer = self.look.clone();
                self.look.role = TextRole::Code;
                self.text(&text);
                self.look = outer;
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.pieces.push(InlinePiece::LineBreak),
            Event::Start(Tag::Emphasis) => self.emphasise(Emphasis::ITALIC),
            Event::Start(Tag::Strong) => self.emphasise(Emphasis::BOLD),
            Event::Start(Tag::Strikethrough) => self.emphasise(Emphasis::STRIKETHROUGH),
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {
                self.look.emphasis = self.outer.pop().unwrap_or_default();
            }
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                let is_mail = link_type == LinkType::Email && !dest_url.starts_with("mailto:");
                let scheme = if is_mail { "mailto:" } else { "" };
                self.open_link(&format!("{scheme}{dest_url}"), false);
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.open_link(&dest_url, true);
                self.text("[image: ");
            }
            Event::End(TagEnd::Link | TagEnd::Image) => self.close_link(),
            // The rest are blocks and extensions that are switched off.
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let text = safe(text).replace(LINE_SEPARATOR, " ").replace(['\n', '\t'], " ");
        for link in &mut self.links {
            link.text.push_str(&text);
        }
        match self.pieces.last_mut() {
            Some(InlinePiece::Text(last, look)) if *look == self.look => last.push_str(&text),
            _ => self.pieces.push(InlinePiece::Text(text, self.look.clone())),
        }
    }

    fn emphasise(&mut self, emphasis: Emphasis) {
        self.outer.push(self.look.emphasis);
        self.look.emphasis = self.look.emphasis.with(emphasis);
    }

    fn open_link(&mut self, address: &str, is_image: bool) {
        let address: Arc<str> = safe(address).replace(['\n', '\t'], " ").into();
        let outer = self.look.clone();
        self.look.role = TextRole::Link;
        if !address.is_empty() {
            self.look.link = Some(Arc::clone(&address));
        }
        self.links.push(OpenLink { address, text: String::new(), is_image, outer });
    }

    fn close_link(&mut self) {
        if self.links.last().is_some_and(|link| link.is_image) {
            self.text("]");
        }
        let Some(link) = self.links.pop() else { return };
        // Emphasis within the link ended before it.
        self.look = link.outer;
        let text = link.text.as_str();
        let is_shown = text == &*link.address || link.address.strip_prefix("mailto:") == Some(text);
        if link.address.is_empty() || is_shown {
            return;
        }
        let look = std::mem::replace(&mut self.look, TextRole::Dim.into());
        if !link.is_image {
            self.text(" ");
        }
        self.text(&format!("({})", link.address));
        self.look = look;
    }
}
