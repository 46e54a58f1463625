//! The entry points: Markdown that arrives in pieces, and whole texts.
//!
//! The idea: the text is read line by line, as `CommonMark` itself is defined. What is open after a line is known and
//! small, so that a line is handed out as soon as no further text can change it: a line of code when it is complete, a
//! paragraph when it ends, a table when it ends, all of them earlier if they grow long, by rules that count bytes or rows
//! and never look at the time. Hence the lines do not depend on how the text was cut into pieces, and a whole text is one
//! piece.
//!
//! One thing looks at the time: the roles of highlighted code are found on another thread, and lines of code wait for them
//! a little. If they are late, the block has one role, and the same lines.
//!
//! Two things are only known after the lines that they would change: definitions of links, and blank lines in a list. A
//! whole text knows the definitions from the start, a stream from where they are. Both treat a list as loose from its
//! first blank line on.

use crow_console::Glyphs;

use super::{
    blocks::Blocks, definitions::Definitions, glyphs::MarkdownGlyphs, layout::Layout,
    line_splitter::LineSplitter,
};
use crate::styled_text::StyledLine;

/// Renders Markdown that arrives in pieces: lines are handed out once, when they can no longer change.
#[derive(Debug, Clone)]
pub(crate) struct MarkdownStream {
    splitter: LineSplitter,
    blocks: Blocks,
    /// The last answer about the open part, with how many lines were asked for.
    tail: Option<(usize, Vec<StyledLine>)>,
}

impl MarkdownStream {
    /// Creates a stream of lines of at most `width` columns; fewer than 10 count as 10. Bullets and borders are drawn with
    /// `glyphs`.
    #[must_use]
    pub(crate) fn new(width: usize, glyphs: Glyphs) -> Self {
        Self::with_definitions(width, glyphs, Definitions::default())
    }

    fn with_definitions(width: usize, glyphs: Glyphs, definitions: Definitions) -> Self {
        let blocks = Blocks::new(Layout::new(width, MarkdownGlyphs(glyphs)), definitions);
        Self { splitter: LineSplitter::default(), blocks, tail: None }
    }

    /// Adds text, and returns the lines that are final now.
    pub(crate) fn push(&mut self, text: &str) -> Vec<StyledLine> {
        self.tail = None;
        let blocks = &mut self.blocks;
        self.splitter.push(text, |part| blocks.push(part));
        blocks.write_highlighted();
        blocks.layout.take_lines()
    }

    /// Returns the lines of the part that may still change, as they would look if the text ended here; at most the last
    /// `most`.
    pub(crate) fn tail(&mut self, most: usize) -> Vec<StyledLine> {
        if let Some((asked, lines)) = &self.tail
            && *asked == most
        {
            return lines.clone();
        }
        let most_lines = std::mem::replace(&mut self.blocks.layout.most_lines, most);
        let mut lines = self.ended().layout.take_lines();
        self.blocks.layout.most_lines = most_lines;
        lines.drain(..lines.len().saturating_sub(most));
        self.tail = Some((most, lines.clone()));
        lines
    }

    /// Ends the text, and returns the remaining lines.
    #[must_use]
    pub(crate) fn finish(self) -> Vec<StyledLine> {
        self.into_ended().layout.take_lines()
    }

    /// Sets the width for lines that are handed out from now on.
    pub(crate) fn set_width(&mut self, width: usize) {
        self.tail = None;
        self.blocks.set_width(width);
    }

    fn into_ended(self) -> Blocks {
        let mut blocks = self.blocks;
        blocks.finish(self.splitter.remainder());
        blocks
    }

    /// Returns the blocks as they would be if the text ended here. What is cloned for it is small.
    fn ended(&self) -> Blocks {
        let mut blocks = self.blocks.clone();
        blocks.finish(self.splitter.remainder());
        blocks
    }
}

/// Renders a whole text.
#[must_use]
pub(crate) fn render_markdown(text: &str, width: usize) -> Vec<StyledLine> {
    let mut stream = MarkdownStream::new(width, Glyphs::Unicode);
    let mut lines = stream.push(text);
    let mut blocks = stream.into_ended();
    if !blocks.definitions.is_empty() {
        // Signpost: definitions may come after their uses, so the text is read again with all of them.
        stream = MarkdownStream::with_definitions(width, Glyphs::Unicode, blocks.definitions);
        lines = stream.push(text);
        blocks = stream.into_ended();
    }
    lines.append(&mut blocks.layout.take_lines());
    lines
}
