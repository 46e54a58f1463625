//! Recognises the beginnings of blocks other than HTML and tables.

use super::cursor::{Cursor, is_blank, is_space};

/// The beginning of a list item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemMarker {
    /// The character that items of one list share.
    pub(super) delimiter: u8,
    /// The number of an ordered item.
    pub(super) number: Option<u64>,
    /// Bytes of the marker without the space after it.
    pub(super) length: usize,
}

/// Returns the marker of a list item at the beginning of `line`.
pub(super) fn item_marker(line: &str) -> Option<ItemMarker> {
    let bytes = line.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let delimiter = *bytes.get(digits)?;
    let number = match (digits, delimiter) {
        (0, b'-' | b'+' | b'*') => None,
        (1..=9, b'.' | b')') => Some(line[..digits].parse().ok()?),
        _ => return None,
    };
    let ends = bytes.get(digits + 1).is_none_or(|next| is_space(*next));
    ends.then_some(ItemMarker { delimiter, number, length: digits + 1 })
}

/// Consumes the box of a task, and returns whether it is done.
pub(super) fn task_box(cursor: &mut Cursor<'_>) -> Option<bool> {
    let ends = |after: &[u8]| after.first().is_none_or(|next| is_space(*next));
    let mut ahead = cursor.clone();
    ahead.skip_columns(3);
    let is_done = match ahead.rest().as_bytes() {
        [b'[', b'x' | b'X', b']', after @ ..] if ends(after) => true,
        [b'[', state, b']', after @ ..] if is_space(*state) && ends(after) => false,
        _ => return None,
    };
    ahead.skip_bytes(3);
    *cursor = ahead;
    Some(is_done)
}

/// Returns whether `line` is a thematic break.
pub(super) fn is_rule(line: &str) -> bool {
    let Some(first) = line.bytes().next().filter(|first| b"*-_".contains(first)) else {
        return false;
    };
    let mut count = 0;
    for byte in line.bytes() {
        match byte {
            _ if byte == first => count += 1,
            b' ' | b'\t' => {}
            _ => return false,
        }
    }
    count >= 3
}

/// Returns the level and the content of a heading that begins with number signs.
pub(super) fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &line[level..];
    let is_heading = (1..=6).contains(&level) && rest.bytes().next().is_none_or(is_space);
    is_heading.then(|| (level, without_closing_signs(rest.trim_matches([' ', '\t']))))
}

fn without_closing_signs(content: &str) -> &str {
    let before = content.trim_end_matches('#');
    let is_closing = before.is_empty() || before.ends_with([' ', '\t']);
    if is_closing { before.trim_end_matches([' ', '\t']) } else { content }
}

/// Returns the level of the heading that `line` underlines.
pub(super) fn underline(line: &str) -> Option<usize> {
    let line = line.trim_end_matches([' ', '\t']);
    let level = match line.bytes().next()? {
        b'=' => 1,
        b'-' => 2,
        _ => return None,
    };
    let first = line.as_bytes()[0];
    line.bytes().all(|byte| byte == first).then_some(level)
}

/// The line that opens or closes a block of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    character: u8,
    length: usize,
    /// Columns before it, which are removed from the lines of the code.
    pub(super) indent: usize,
}

impl Fence {
    /// Returns the fence at the beginning of `line` and the text after it.
    pub(super) fn opening(line: &str, indent: usize) -> Option<(Self, &str)> {
        let character = line.bytes().next().filter(|first| b"`~".contains(first))?;
        let length = line.bytes().take_while(|byte| *byte == character).count();
        let info = line[length..].trim_matches([' ', '\t']);
        let is_fence = length >= 3 && !(character == b'`' && info.contains('`'));
        is_fence.then_some((Self { character, length, indent }, info))
    }

    /// Returns whether `line` closes the block that this fence opened.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        let length = line.bytes().take_while(|byte| *byte == self.character).count();
        length >= self.length && is_blank(&line[length..])
    }
}

/// Returns the label of the footnote that `line` defines, and the bytes up to its text.
pub(super) fn footnote(line: &str) -> Option<(&str, usize)> {
    let rest = line.strip_prefix("[^")?;
    let length = rest.find([']', '['])?;
    let label = &rest[..length];
    let is_definition =
        !is_blank(label) && !label.ends_with('\\') && rest[length..].starts_with("]:");
    is_definition.then_some((label, 2 + length + 2))
}
