//! The characters that Markdown is drawn with.

/// A choice of characters that draw bullets, borders and boxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MarkdownGlyphs {
    #[default]
    Unicode,
    /// For terminals and fonts that lack the others.
    Ascii,
}

/// The characters of a horizontal border: line, left end, crossing and right end.
pub(super) type BorderGlyphs = [&'static str; 4];

impl MarkdownGlyphs {
    fn pick<T>(self, unicode: T, ascii: T) -> T {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
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
