//! Text that the grammar does not analyse further, and the space between leaves.

/// Returns whether a piece of text that the grammar takes as plain text starts no command.
pub(super) fn is_inert(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek();
        match char {
            '\\' => drop(chars.next()),
            '`' => return false,
            '$' if matches!(next, Some('(' | '{' | '[' | '\'' | '"')) => return false,
            '<' | '>' if next == Some(&'(') => return false,
            _ => {}
        }
    }
    true
}

/// Returns whether a quoted piece inside `${…}` means the same whether its quotes count there or not.
pub(super) fn is_plain_in_expansion(text: &str) -> bool {
    let plain = |char: char| char.is_alphanumeric() || " .,/:+-_'".contains(char);
    text.chars().all(plain)
}

/// Returns whether the gap between two leaves is only space to the shell. `before` is the text up to the gap, `after`
/// the text from its end.
pub(super) fn is_space(before: &str, gap: &str, after: &str) -> bool {
    let is_blank = |char: char| matches!(char, ' ' | '\t' | '\n');
    let mut last = before.chars().next_back();
    let mut chars = gap.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\\' {
            // Without space around it, a line continuation joins two words.
            let continues = chars.next() == Some('\n');
            let next = chars.peek().copied().or_else(|| after.chars().next());
            if !continues || !(last.is_none_or(is_blank) || next.is_none_or(is_blank)) {
                return false;
            }
        } else if !is_blank(char) {
            return false;
        }
        last = Some(char);
    }
    true
}

/// Returns whether the space between two parts of a command contains the end of a line.
pub(super) fn ends_line(gap: &str) -> bool {
    gap.replace("\\\n", "").contains('\n')
}

/// Returns whether a `#` after this text would begin a comment.
pub(super) fn may_comment_follow(before: &str) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        None => true,
        Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')') => back.next() != Some('\\'),
        Some(_) => false,
    }
}

/// The delimiter of a here-document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delimiter {
    /// The line that ends it.
    pub line: String,
    /// True if the text is taken literally.
    pub is_quoted: bool,
}

/// Parses the word after `<<`; `None` if it is not plain.
pub(super) fn delimiter(start: &str) -> Option<Delimiter> {
    let quoted =
        ["'", "\""].iter().find_map(|quote| start.strip_prefix(quote)?.strip_suffix(quote));
    let escaped = start.strip_prefix('\\');
    let line = quoted.or(escaped).unwrap_or(start);
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-.!".contains(char);
    let is_quoted = quoted.or(escaped).is_some();
    (!line.is_empty() && line.chars().all(is_plain))
        .then(|| Delimiter { line: line.to_owned(), is_quoted })
}

impl Delimiter {
    /// Returns whether the shell would end the here-document at `end`, after `body` and not before. With `<<-` it
    /// strips tabs from the beginning of each line.
    pub(super) fn ends(&self, body: &str, end: &str, after: &str, takes_tabs: bool) -> bool {
        let bare = |text| if takes_tabs { str::trim_start_matches(text, '\t') } else { text };
        let (lines, indent) = body.rsplit_once('\n').unwrap_or(("", body));
        bare(indent).is_empty()
            && end.trim_end_matches('\n') == self.line
            && (after.is_empty() || after.starts_with('\n') || end.ends_with('\n'))
            && !lines.split('\n').any(|line| bare(line) == self.line)
            && (self.is_quoted || !body.contains("\\\n"))
    }
}
