//! The characters that Markdown is drawn with.

use crow_console::Glyphs;

/// The characters that draw bullets, borders and boxes in a character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkdownGlyphs(pub(super) Glyphs);

/// The characters of a horizontal border: line, left end, crossing and right end.
pub(super) type BorderGlyphs = [&'static str; 4];

impl MarkdownGlyphs {
    fn pick<T>(self, unicode: T, ascii: T) -> T {
        match self.0 {
            Glyphs::Unicode => unicode,
            Glyphs::Ascii => ascii,
        }
    }

    pub(super) fn bullet(self) -> &'static str {
        self.pick("• ", "- ")
    }

    pub(super) fn task(self, is_done: bool) -> &'static str {
        if is_done { self.pick("☑ ", "[x] ") } else { self.pick("☐ ", "[ ] ") }
    }

    pub(super) fn quote(self) -> &'static str {
        self.pick("│ ", "| ")
    }

    pub(super) fn rule(self) -> &'static str {
        self.pick("─", "-")
    }

    pub(super) fn column_border(self) -> &'static str {
        self.pick("│", "|")
    }

    pub(super) fn top_border(self) -> BorderGlyphs {
        self.pick(["─", "┌", "┬", "┐"], ["-", "+", "+", "+"])
    }

    pub(super) fn inner_border(self) -> BorderGlyphs {
        self.pick(["─", "├", "┼", "┤"], ["-", "+", "+", "+"])
    }

    pub(super) fn bottom_border(self) -> BorderGlyphs {
        self.pick(["─", "└", "┴", "┘"], ["-", "+", "+", "+"])
    }
}
