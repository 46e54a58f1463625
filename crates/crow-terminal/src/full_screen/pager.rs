//! The pager: a long text in sections.

use std::borrow::Cow;

use super::{
    plain_lines::PlainLines,
    scroll_view::{ScrollSource, ScrollView},
    text_search::SearchMarks,
    view::{FullScreenFrame, FullScreenView, ViewEffect},
};
use crate::{
    keys::Key,
    line_layout::{visible_title, wrapped_rows},
    markdown::render_markdown,
    screen_size::ScreenSize,
    shortcut_help::Shortcut,
    styled_text::{StyledLine, TextRole},
};

/// The content of a section of a pager.
#[derive(Debug)]
enum SectionBody {
    Text(PlainLines),
    Markdown { text: String, lines: Vec<StyledLine> },
    Lines(Vec<StyledLine>),
}

impl SectionBody {
    fn lay_out(&mut self, columns: usize) {
        match self {
            Self::Text(_) | Self::Lines(_) => {}
            Self::Markdown { text, lines } => *lines = render_markdown(text, columns),
        }
    }

    fn entry_count(&self) -> usize {
        match self {
            Self::Text(text) => text.entry_count(),
            Self::Markdown { lines, .. } | Self::Lines(lines) => lines.len(),
        }
    }

    fn line(&self, entry: usize) -> StyledLine {
        match self {
            Self::Text(text) => {
                let mut line = StyledLine::default();
                line.push(text.entry(entry), TextRole::Plain);
                line
            }
            Self::Markdown { lines, .. } | Self::Lines(lines) => lines[entry].clone(),
        }
    }

    fn text(&self, entry: usize) -> Cow<'_, str> {
        match self {
            Self::Text(text) => text.entry(entry),
            Self::Markdown { lines, .. } | Self::Lines(lines) => lines[entry].text().into(),
        }
    }

    /// Returns the number of entries up to this one, and including it, that go on with a line.
    fn continuations_until(&self, entry: usize) -> usize {
        match self {
            Self::Text(text) => text.continuations_until(entry),
            Self::Markdown { .. } | Self::Lines(_) => 0,
        }
    }
}

/// A section of the text of a [`Pager`], which `[` and `]` jump to.
#[derive(Debug)]
pub(crate) struct PagerSection {
    title: String,
    body: SectionBody,
}

impl PagerSection {
    /// Creates a section of plain text, which need not be harmless.
    #[must_use]
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::new(SectionBody::Text(PlainLines::new(text.into())))
    }

    /// Creates a section of Markdown, which is rendered for the width of the screen.
    #[must_use]
    pub(crate) fn markdown(text: impl Into<String>) -> Self {
        Self::new(SectionBody::Markdown { text: text.into(), lines: Vec::new() })
    }

    /// Creates a section of lines, which are wrapped where they are wider than the screen.
    #[must_use]
    pub(crate) fn lines(lines: Vec<StyledLine>) -> Self {
        Self::new(SectionBody::Lines(lines))
    }

    /// Adds a title, which the status row shows while the section is at the top of the screen. It is no part of the
    /// text.
    #[must_use]
    pub(crate) fn with_title(self, title: &str) -> Self {
        Self { title: visible_title(title), ..self }
    }

    fn new(body: SectionBody) -> Self {
        Self { title: String::new(), body }
    }
}

/// The sections of a pager. Entries are lines.
#[derive(Debug)]
struct SectionedText {
    sections: Vec<PagerSection>,
    /// The first entry of each section.
    starts: Vec<usize>,
    entry_count: usize,
    /// The number of entries before each section that go on with a line.
    continuations: Vec<usize>,
}

impl SectionedText {
    fn new(sections: Vec<PagerSection>) -> Self {
        let mut text =
            Self { sections, starts: Vec::new(), entry_count: 0, continuations: Vec::new() };
        text.index();
        text
    }

    fn index(&mut self) {
        self.starts.clear();
        self.continuations.clear();
        let (mut entries, mut continuations) = (0, 0);
        for section in &self.sections {
            self.starts.push(entries);
            self.continuations.push(continuations);
            entries += section.body.entry_count();
            continuations += section.body.continuations_until(usize::MAX);
        }
        self.entry_count = entries;
    }

    /// Returns the number of the section of an entry, and the entry within it.
    fn place(&self, entry: usize) -> (usize, usize) {
        // Empty sections begin with the same entry as the one after them.
        let section = self.starts.partition_point(|start| *start <= entry).saturating_sub(1);
        (section, entry - self.starts.get(section).copied().unwrap_or(0))
    }
}

impl ScrollSource for SectionedText {
    fn lay_out(&mut self, columns: usize, entry: usize) -> usize {
        let (section, within) = self.place(entry);
        let before = self.sections.get(section).map_or(0, |section| section.body.entry_count());
        for section in &mut self.sections {
            section.body.lay_out(columns);
        }
        self.index();
        let Some(now) = self.sections.get(section) else { return 0 };
        // The same share of the section is above the screen.
        let within = match before {
            0 => 0,
            before => within * now.body.entry_count() / before,
        };
        self.starts[section] + within
    }

    fn entry_count(&self) -> usize {
        self.entry_count
    }

    fn rows(&self, entry: usize, columns: usize, marks: &SearchMarks<'_>) -> Vec<StyledLine> {
        let (section, within) = self.place(entry);
        let line = self.sections[section].body.line(within);
        wrapped_rows(&marks.marked(line, 0), columns, 0)
    }

    fn texts(&self, entry: usize) -> Vec<Cow<'_, str>> {
        let (section, within) = self.place(entry);
        vec![self.sections[section].body.text(within)]
    }

    fn line_number(&self, entry: usize) -> usize {
        let (section, within) = self.place(entry);
        let continuations =
            self.continuations[section] + self.sections[section].body.continuations_until(within);
        entry + 1 - continuations
    }

    fn section_starts(&self) -> &[usize] {
        &self.starts
    }

    fn section_title(&self, section: usize) -> Cow<'_, str> {
        Cow::Borrowed(&self.sections[section].title)
    }

    fn empty_text(&self) -> &'static str {
        "The text is empty"
    }
}

/// A long text that takes the whole screen, to scroll and search in.
///
/// | keys | |
/// |---|---|
/// | ↑, k, ctrl-p; ↓, j, ctrl-n, enter | a row |
/// | ctrl-u; ctrl-d | half a page |
/// | page up, b, ctrl-b; page down, space, ctrl-f | a page |
/// | home, g; end, G | the beginning; the end |
/// | `[`; `]` | the section before; the next one |
/// | /; n; N | search; the next match; the one before |
/// | q, esc, ctrl-c | close |
#[derive(Debug)]
pub(crate) struct Pager {
    view: ScrollView<SectionedText>,
    hints: Vec<Shortcut>,
}

impl Pager {
    /// Creates a pager at the beginning of a text. The title is shown in the status row.
    #[must_use]
    pub(crate) fn new(title: &str, sections: Vec<PagerSection>) -> Self {
        let mut hints = vec![Shortcut::new("q", "close"), Shortcut::new("/", "search")];
        if sections.len() > 1 {
            hints.push(Shortcut::new("[ ]", "section"));
        }
        Self { view: ScrollView::new(title, SectionedText::new(sections)), hints }
    }
}

impl FullScreenView for Pager {
    fn on_key(&mut self, key: Key) -> ViewEffect {
        self.view.on_key(key)
    }

    fn on_paste(&mut self, text: &str) {
        self.view.on_paste(text);
    }

    fn frame(&mut self, size: ScreenSize) -> FullScreenFrame {
        self.view.frame(size, &self.hints)
    }
}
