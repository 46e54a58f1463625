//! Writes Markdown from the starts and ends of elements and the texts between them.
//!
//! Line breaks, spaces and list markers are pending state, written only when text follows: so there is no trailing
//! whitespace, and elements without text produce no output. Inline elements (links, code, emphasis) record the output
//! offset at which their text begins; at the end tag the opening marker is inserted there, unless the element was empty
//! or spans several lines.

use super::page_request::BODY_BYTES;

/// Marks the beginning and the end of preformatted text.
const FENCE: &str = "```";
/// Maximum depth of lists and quotes that is shown.
const DEPTH: usize = 12;
/// Maximum number of open elements within a line, and of tables within each other, that are noted.
const OPEN: usize = 32;
/// Maximum length of an address that is shown: longer ones are data, or follow readers.
const ADDRESS: usize = 300;
/// Maximum length of the text in bytes. A page that is not hostile has less text than HTML.
const TEXT: usize = 2 * BODY_BYTES;
/// Bytes of a cell from which it is laid out like a page, and not as a part of a line.
const LONG_CELL: usize = 120;
/// Maximum length of a text that is emphasised: longer ones are whole paragraphs.
const EMPHASIS: usize = 300;

/// Markdown output under construction, with the state of open lists, tables, quotes and inline elements.
#[derive(Debug, Default)]
pub(super) struct MarkdownWriter {
    output: String,
    /// Line ends to write before the next text.
    breaks: usize,
    /// True if a blank is to be written before the next text.
    has_blank: bool,
    /// Mark of a list item, a heading or a definition, to be written before the next text.
    mark: String,
    lists: Vec<OpenList>,
    /// Lists beyond the maximum depth.
    deeper_lists: usize,
    quotes: usize,
    preformatted: Option<PreformattedBlock>,
    /// Where the current line begins, after its indentation.
    line_begin: usize,
    inline: Vec<InlineElement>,
    tables: Vec<OpenTable>,
}

#[derive(Debug)]
struct OpenList {
    /// The number of the next item, in an ordered list.
    next: Option<u32>,
}

#[derive(Debug)]
struct PreformattedBlock {
    language: Option<String>,
    /// Blanks before its first word.
    held: String,
    /// Where the fence stands, once it was written.
    fence: Option<usize>,
    /// Where the last line that is not blank ends.
    end: usize,
}

#[derive(Debug)]
struct InlineElement {
    kind: InlineKind,
    /// Where its text begins in the output; none before there is any.
    begin: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum InlineKind {
    Link(Option<String>),
    Code,
    Strong,
}

impl InlineKind {
    fn of(name: &str) -> Option<Self> {
        match name {
            "a" => Some(Self::Link(None)),
            "code" | "kbd" | "samp" | "tt" => Some(Self::Code),
            "b" | "strong" => Some(Self::Strong),
            _ => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

#[derive(Debug, Default)]
struct OpenTable {
    /// Rows that have ended.
    rows: usize,
    /// Cells of the current row, and those of headings among them.
    cells: usize,
    headings: usize,
    /// Where the text of the row and of the cell begins.
    row_begin: usize,
    cell_begin: usize,
}

impl MarkdownWriter {
    /// Starts an element that has no method of its own here.
    pub(super) fn start(&mut self, name: &str) {
        if self.preformatted.is_some() {
            self.end_preformatted_line(name);
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.end_lines(2);
                // Beside the mark of an item that it begins.
                self.mark.push_str(&"#".repeat(level));
                self.mark.push(' ');
            }
            "li" => {
                self.end_lines(1);
                self.mark = match self.lists.last_mut() {
                    Some(OpenList { next: Some(number) }) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    Some(OpenList { next: None }) | None => "- ".to_owned(),
                };
            }
            "dd" => {
                self.end_lines(1);
                ": ".clone_into(&mut self.mark);
            }
            "blockquote" => {
                self.end_lines(2);
                self.quotes += 1;
            }
            "table" => {
                self.end_lines(2);
                if self.tables.len() < OPEN {
                    self.tables.push(OpenTable::default());
                }
            }
            "tr" => {
                self.end_row();
                self.end_lines(1);
                let begin = self.output.len();
                if let Some(table) = self.tables.last_mut() {
                    table.row_begin = begin;
                }
            }
            "td" | "th" => self.start_cell(name == "th"),
            "sup" => self.mark.push('^'),
            "sub" => self.mark.push('_'),
            "b" | "strong" => self.start_inline(InlineKind::Strong),
            _ => self.end_lines(lines_around(name)),
        }
    }

    fn start_cell(&mut self, is_heading: bool) {
        self.mark.clear();
        let Some(table) = self.tables.last_mut() else { return self.end_lines(1) };
        table.cells += 1;
        table.headings += usize::from(is_heading);
        let (is_first, has_text) = (table.cells == 1, self.output.len() > table.row_begin);
        if !is_first && has_text {
            (self.breaks, self.has_blank) = (0, false);
            // Nothing follows a fence on its line.
            if self.output.ends_with(FENCE) {
                self.breaks = 1;
            }
            self.flush();
            self.output.push_str(" |");
        } else if !is_first {
            self.breaks = self.breaks.max(1);
            self.flush();
            self.output.push('|');
        }
        self.has_blank = !is_first;
        let begin = self.output.len();
        if let Some(table) = self.tables.last_mut() {
            table.cell_begin = begin;
        }
    }

    /// Starts a link to this address.
    pub(super) fn start_link(&mut self, address: Option<String>) {
        // A link ends where the next one begins.
        self.end_inline(&InlineKind::Link(None));
        // An address in the middle of code is in the way.
        let is_in_code = self.inline.iter().any(|element| element.kind == InlineKind::Code);
        let address = address.filter(|_| !is_in_code);
        self.start_inline(InlineKind::Link(address.filter(|address| address.len() <= ADDRESS)));
    }

    /// Starts code. In preformatted text it only tells the language.
    pub(super) fn start_code(&mut self, language: Option<&str>) {
        match &mut self.preformatted {
            Some(preformatted) => {
                preformatted.language =
                    preformatted.language.take().or_else(|| language.map(str::to_owned));
            }
            None => self.start_inline(InlineKind::Code),
        }
    }

    /// Starts preformatted text.
    pub(super) fn start_preformatted(&mut self, language: Option<&str>) {
        if self.preformatted.is_none() {
            self.end_lines(2);
            let language = language.map(str::to_owned);
            self.preformatted =
                Some(PreformattedBlock { language, held: String::new(), fence: None, end: 0 });
        }
    }

    /// Starts a list whose items begin with this number, or have none.
    pub(super) fn start_list(&mut self, first: Option<u32>) {
        if self.preformatted.is_some() {
            return self.end_preformatted_line("ul");
        }
        let is_inner = !self.lists.is_empty();
        self.end_lines(if is_inner { 1 } else { 2 });
        if self.lists.len() < DEPTH {
            self.lists.push(OpenList { next: first });
        } else {
            self.deeper_lists += 1;
        }
    }

    /// Ends an element. An end without a start does no harm.
    pub(super) fn end(&mut self, name: &str) {
        if self.preformatted.is_some() && name != "pre" {
            self.end_preformatted_line(name);
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.mark.clear();
                self.end_lines(2);
            }
            "ul" | "ol" | "menu" => {
                self.mark.clear();
                if self.deeper_lists > 0 {
                    self.deeper_lists -= 1;
                } else {
                    self.lists.pop();
                }
                self.end_lines(if self.lists.is_empty() { 2 } else { 1 });
            }
            "li" | "dd" | "dl" => {
                self.mark.clear();
                self.end_lines(lines_around(name));
            }
            "sup" | "sub" => {
                // Of an element without text nothing is left.
                if self.mark.ends_with(['^', '_']) {
                    self.mark.pop();
                }
            }
            "blockquote" => {
                self.end_lines(2);
                self.quotes = self.quotes.saturating_sub(1);
            }
            "pre" => self.end_preformatted(),
            "tr" => self.end_row(),
            "table" => {
                self.end_row();
                self.tables.pop();
                self.end_lines(2);
            }
            "td" | "th" => {}
            _ => match InlineKind::of(name) {
                Some(kind) => self.end_inline(&kind),
                None => self.end_lines(lines_around(name)),
            },
        }
    }

    /// Adds a text. Outside of preformatted text, blanks and line ends count as one blank.
    pub(super) fn text(&mut self, text: &str) {
        if self.output.len() >= TEXT {
            return;
        }
        if self.preformatted.is_some() {
            self.preformatted_text(text);
            return;
        }
        let has_blank_before = text.starts_with(|c: char| c.is_ascii_whitespace());
        self.has_blank |= has_blank_before;
        for word in text.split_ascii_whitespace() {
            self.flush();
            self.output.push_str(word);
            self.has_blank = true;
        }
        // The last word is followed by a blank only if the text says so.
        let is_only_blank = text.bytes().all(|byte| byte.is_ascii_whitespace());
        if !is_only_blank {
            self.has_blank = text.ends_with(|c: char| c.is_ascii_whitespace());
        }
    }

    /// Returns the text.
    pub(super) fn finish(mut self) -> String {
        self.end_preformatted();
        let end = self.output.trim_end().len();
        self.output.truncate(end);
        self.output
    }

    fn preformatted_text(&mut self, text: &str) {
        let Some(block) = &mut self.preformatted else { return };
        let mut text = std::borrow::Cow::Borrowed(text);
        if block.fence.is_none() {
            if text.trim().is_empty() {
                let room = ADDRESS.saturating_sub(block.held.len());
                block.held.extend(text.chars().take(room));
                return;
            }
            // A line end right after the start tag is not part of the text.
            let held = std::mem::take(&mut block.held);
            let whole = format!("{held}{text}");
            text = whole.trim_start_matches(['\r', '\n']).to_owned().into();
            let language = block.language.take().unwrap_or_default();
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '_' | '#');
            let language: String = language.chars().filter(|c| is_word(*c)).take(20).collect();
            // A fence stands at the beginning of a line.
            if self.output.len() > self.line_begin {
                self.breaks = self.breaks.max(1);
            }
            self.flush();
            let fence = self.output.len();
            self.output.push_str(FENCE);
            self.output.push_str(&language);
            let end = self.output.len();
            if let Some(block) = &mut self.preformatted {
                (block.fence, block.end) = (Some(fence), end);
            }
            self.start_line();
        }
        for (index, line) in text.split('\n').enumerate() {
            if self.output.len() >= TEXT {
                return;
            }
            if index > 0 {
                self.start_line();
            }
            self.output.push_str(line.trim_end_matches('\r'));
            if let Some(block) = self.preformatted.as_mut().filter(|_| !line.trim().is_empty()) {
                block.end = self.output.len();
            }
        }
    }

    /// Ends the line of a preformatted text before or after an element that stands on lines of its own.
    fn end_preformatted_line(&mut self, name: &str) {
        let has_begun = self.preformatted.as_ref().is_some_and(|block| block.fence.is_some());
        let is_empty = self.output.len() == self.line_begin;
        let ends = matches!(name, "li" | "tr" | "ul" | "ol" | "br") || lines_around(name) > 0;
        if has_begun && ends && (!is_empty || name == "br") && self.output.len() < TEXT {
            self.start_line();
        }
    }

    fn end_preformatted(&mut self) {
        if let Some(PreformattedBlock { fence: Some(fence), end, .. }) = self.preformatted.take() {
            // Without blank lines at the end.
            self.output.truncate(end);
            // The fence is longer than any in the text.
            let text = &self.output[fence + FENCE.len()..];
            let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let more = "`".repeat((longest + 1).saturating_sub(FENCE.len()).min(ADDRESS));
            self.output.insert_str(fence, &more);
            self.start_line();
            self.output.push_str(&more);
            self.output.push_str(FENCE);
        }
        self.end_lines(2);
    }

    /// Notes that at least so many line ends come before the next text.
    fn end_lines(&mut self, lines: usize) {
        if lines == 0 || self.preformatted.is_some() {
            return;
        }
        // A row is one line, as long as its cells are short.
        let lines = match self.tables.last() {
            Some(table) if table.cells > 0 => {
                let length = self.output.len().saturating_sub(table.cell_begin);
                if length < LONG_CELL && !self.output.ends_with(FENCE) {
                    self.has_blank |= length > 0;
                    return;
                }
                1
            }
            Some(_) => 1,
            None => lines,
        };
        // The text of an item begins beside its mark.
        if self.mark.is_empty() || self.breaks == 0 {
            self.breaks = self.breaks.max(lines);
        }
        self.has_blank = false;
    }

    /// Writes what comes before a text.
    fn flush(&mut self) {
        let mark = std::mem::take(&mut self.mark);
        // The mark of an item hangs in the indentation of its text.
        let is_item = mark.starts_with("- ") || mark.starts_with(|c: char| c.is_ascii_digit());
        let depth = self.lists.len().saturating_sub(usize::from(is_item));
        if self.output.is_empty() {
            self.start_line_at(depth);
        } else if self.breaks > 0 {
            for _ in 1..self.breaks {
                self.output.push('\n');
                self.output.push_str("> ".repeat(self.quotes.min(DEPTH)).trim_end());
            }
            self.output.push('\n');
            self.start_line_at(depth);
        } else if self.has_blank {
            self.output.push(' ');
        }
        (self.breaks, self.has_blank) = (0, false);
        self.output.push_str(&mark);
        let begin = self.output.len();
        for element in self.inline.iter_mut().filter(|element| element.begin.is_none()) {
            element.begin = Some(begin);
        }
    }

    fn start_line(&mut self) {
        self.output.push('\n');
        self.start_line_at(self.lists.len());
    }

    fn start_line_at(&mut self, depth: usize) {
        self.output.push_str(&"> ".repeat(self.quotes.min(DEPTH)));
        self.output.push_str(&"  ".repeat(depth));
        self.line_begin = self.output.len();
    }

    fn end_row(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let OpenTable { rows, cells, headings, .. } = *table;
        *table = OpenTable { rows: rows + usize::from(cells > 0), ..OpenTable::default() };
        if cells == 0 {
            return;
        }
        self.end_lines(1);
        if rows == 0 && headings == cells && cells > 1 {
            self.flush();
            self.output.push_str(&vec!["---"; cells.min(OPEN)].join(" | "));
            self.end_lines(1);
        }
    }

    fn start_inline(&mut self, kind: InlineKind) {
        if self.inline.len() < OPEN && self.preformatted.is_none() {
            self.inline.push(InlineElement { kind, begin: None });
        }
    }

    fn end_inline(&mut self, kind: &InlineKind) {
        let Some(index) = self.inline.iter().rposition(|element| element.kind.is_same(kind)) else {
            return;
        };
        let InlineElement { kind, begin } = self.inline.remove(index);
        let Some(begin) = begin else { return };
        if self.output.ends_with(FENCE) && matches!(kind, InlineKind::Link(Some(_))) {
            // Nothing follows a fence on its line.
            self.start_line();
        }
        let text = &self.output[begin..];
        let is_line = !text.contains('\n');
        let (before, after) = match kind {
            InlineKind::Link(Some(address)) if text == address => return,
            InlineKind::Link(Some(address)) if is_line => ("[", format!("]({address})")),
            InlineKind::Link(Some(address)) => ("", format!(" ({address})")),
            InlineKind::Code if is_line && text.contains('`') => ("`` ", " ``".to_owned()),
            InlineKind::Code if is_line => ("`", "`".to_owned()),
            InlineKind::Strong if is_line && text.len() <= EMPHASIS => ("**", "**".to_owned()),
            InlineKind::Link(None) | InlineKind::Code | InlineKind::Strong => return,
        };
        self.output.insert_str(begin, before);
        self.output.push_str(&after);
        // Elements that began inside of this one and have not ended.
        for open in self.inline.iter_mut().skip(index) {
            open.begin = open.begin.map(|inner| inner + before.len());
        }
    }
}

/// Returns the line ends before and after an element.
fn lines_around(name: &str) -> usize {
    match name {
        "p" | "hr" | "dl" | "figure" | "details" | "section" | "article" => 2,
        "br" | "div" | "dt" | "dd" | "li" | "header" | "footer" | "main" | "nav" | "aside"
        | "address" | "figcaption" | "summary" | "caption" | "form" | "fieldset" | "legend"
        | "option" | "body" | "hgroup" | "thead" | "tbody" | "tfoot" | "center" => 1,
        _ => 0,
    }
}
