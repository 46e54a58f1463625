//! The quotes, lists and footnotes that a line is in: what stands in front of it, and where blank lines go.
//!
//! Between two blocks goes one blank line; between those of a list only if it is loose. Whether it is can turn out late,
//! so a list counts as loose from the first blank line between its blocks on: what is before it does not change.

use unicode_width::UnicodeWidthStr as _;

use super::{glyphs::MarkdownGlyphs, wrapper::LineWrapper};
use crate::styled_text::{StyledLine, TextLook, TextRole};

/// Smallest width that is laid out for; a narrower terminal gets lines for this one.
const SMALLEST_WIDTH: usize = 10;

/// Marker in front of the first line of a list item or footnote.
#[derive(Debug, Clone)]
pub(super) struct PrefixMarker {
    text: String,
    columns: usize,
    is_written: bool,
}

impl PrefixMarker {
    pub(super) fn new(text: String) -> Self {
        Self { columns: text.width(), text, is_written: false }
    }
}

/// A block that holds other blocks.
#[derive(Debug, Clone)]
pub(super) enum Container {
    Quote,
    List {
        /// The character that its markers share.
        delimiter: u8,
        next_number: u64,
        is_loose: bool,
    },
    Item {
        /// Columns by which its lines are indented in the source.
        indent: usize,
        marker: PrefixMarker,
    },
    Footnote {
        marker: PrefixMarker,
    },
}

#[derive(Debug, Clone)]
struct OpenContainer {
    container: Container,
    /// True once a block has begun within it.
    has_blocks: bool,
    /// True once a line has been written within it.
    has_lines: bool,
}

/// Puts lines into the containers that are open, and holds the lines that are final.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    width: usize,
    pub(super) glyphs: MarkdownGlyphs,
    /// Number of lines at the end that are of interest, if not all are.
    pub(super) most_lines: usize,
    containers: Vec<OpenContainer>,
    has_lines: bool,
    /// A blank line is due before the next line, within this many containers.
    gap: Option<usize>,
    lines: Vec<StyledLine>,
}

impl Layout {
    pub(super) fn new(width: usize, glyphs: MarkdownGlyphs) -> Self {
        Self {
            width: width.max(SMALLEST_WIDTH),
            glyphs,
            most_lines: usize::MAX,
            containers: Vec::new(),
            has_lines: false,
            gap: None,
            lines: Vec::new(),
        }
    }

    pub(super) fn set_width(&mut self, width: usize) {
        self.width = width.max(SMALLEST_WIDTH);
    }

    pub(super) fn depth(&self) -> usize {
        self.containers.len()
    }

    pub(super) fn container(&self, index: usize) -> &Container {
        &self.containers[index].container
    }

    pub(super) fn container_mut(&mut self, index: usize) -> &mut Container {
        &mut self.containers[index].container
    }

    /// Returns whether no block has begun within the container.
    pub(super) fn is_empty(&self, index: usize) -> bool {
        !self.containers[index].has_blocks
    }

    /// Returns the look of text that has none of its own.
    pub(super) fn text_look(&self) -> TextLook {
        let is_quoted = |open: &OpenContainer| matches!(open.container, Container::Quote);
        let is_quoted = self.containers.iter().any(is_quoted);
        if is_quoted { TextRole::Quote.into() } else { TextLook::default() }
    }

    /// Returns the columns that a line has.
    pub(super) fn room(&self) -> usize {
        self.width - self.indented().1
    }

    /// Prepares for a block within the innermost container.
    pub(super) fn begin_block(&mut self, follows_blank_line: bool) {
        let depth = self.depth();
        let Some(parent) = self.containers.last_mut() else {
            if self.has_lines {
                self.gap = Some(0);
            }
            return;
        };
        parent.has_blocks = true;
        let has_lines = parent.has_lines;
        let list = match parent.container {
            Container::Quote | Container::Footnote { .. } => None,
            Container::List { .. } => Some(depth - 1),
            // An item is always within a list.
            Container::Item { .. } => Some(depth - 2),
        };
        let list = list.map(|index| self.container_mut(index));
        let takes_gap = if let Some(Container::List { is_loose, .. }) = list {
            *is_loose |= follows_blank_line;
            *is_loose
        } else {
            true
        };
        if has_lines && takes_gap {
            self.gap = Some(self.gap.map_or(depth, |gap| gap.min(depth)));
        }
    }

    /// Opens a container within the innermost one.
    pub(super) fn open(&mut self, container: Container) {
        self.containers.push(OpenContainer { container, has_blocks: false, has_lines: false });
    }

    /// Closes the containers within the first `depth`. An item without content still shows its marker.
    pub(super) fn close_to(&mut self, depth: usize) {
        while self.depth() > depth {
            if let Some(OpenContainer {
                container: Container::Item { marker, .. } | Container::Footnote { marker },
                ..
            }) = self.containers.last()
                && !marker.is_written
            {
                self.write(StyledLine::default());
            }
            self.containers.pop();
        }
        if self.gap.is_some_and(|gap| gap > depth) {
            self.gap = None;
        }
    }

    /// Writes a line of the innermost container.
    pub(super) fn write(&mut self, content: StyledLine) {
        let hidden = self.take_hidden_markers();
        if !hidden.is_empty() {
            let mut wrapper = LineWrapper::new(self.room());
            wrapper.push(&hidden, &TextRole::Marker.into());
            wrapper.finish();
            self.write_all(wrapper.take_lines());
        }
        if let Some(depth) = self.gap.take() {
            let blank = self.prefix(depth, false);
            self.lines.push(blank.without_trailing_spaces());
        }
        let mut line = self.prefix(self.depth(), true);
        for open in &mut self.containers {
            open.has_lines = true;
        }
        self.has_lines = true;
        if line.spans().is_empty() {
            line = content;
        } else if content.spans().is_empty() {
            line = line.without_trailing_spaces();
        } else {
            line.append(&content);
        }
        self.lines.push(line);
    }

    /// Writes several lines.
    pub(super) fn write_all(&mut self, lines: Vec<StyledLine>) {
        for line in lines {
            self.write(line);
        }
    }

    /// Returns the markers that there is no room for in front of lines; they become text.
    pub(super) fn take_hidden_markers(&mut self) -> String {
        let (indented, _) = self.indented();
        let mut hidden = String::new();
        for open in &mut self.containers[indented..] {
            if let Container::Item { marker, .. } | Container::Footnote { marker } =
                &mut open.container
                && !marker.is_written
            {
                marker.is_written = true;
                hidden.push_str(&marker.text);
            }
        }
        hidden
    }

    /// Returns the lines that are final since the last call.
    pub(super) fn take_lines(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.lines)
    }

    /// Returns how many of the outer containers there is room for, and their columns.
    fn indented(&self) -> (usize, usize) {
        let mut columns = 0;
        for (index, open) in self.containers.iter().enumerate() {
            let more = match &open.container {
                Container::Quote => 2,
                Container::List { .. } => 0,
                Container::Item { marker, .. } | Container::Footnote { marker } => marker.columns,
            };
            if columns + more > self.width * 2 / 3 {
                return (index, columns);
            }
            columns += more;
        }
        (self.depth(), columns)
    }

    /// Returns what stands in front of a line within the first `depth` containers.
    fn prefix(&mut self, depth: usize, takes_markers: bool) -> StyledLine {
        let depth = depth.min(self.indented().0);
        let mut prefix = StyledLine::default();
        for open in &mut self.containers[..depth] {
            match &mut open.container {
                Container::Quote => prefix.push(self.glyphs.quote(), TextRole::Quote),
                Container::List { .. } => {}
                Container::Item { marker, .. } | Container::Footnote { marker } => {
                    if takes_markers && !marker.is_written {
                        marker.is_written = true;
                        prefix.push(&marker.text, TextRole::Marker);
                    } else {
                        prefix.push(" ".repeat(marker.columns), TextRole::Plain);
                    }
                }
            }
        }
        prefix
    }
}
