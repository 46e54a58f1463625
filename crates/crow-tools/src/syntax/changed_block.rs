//! The part of a file that is parsed first.
//!
//! Most changes are valid and small. Parsing the top-level items around a change alone takes a fraction of the time of
//! parsing the file, and an error that the change brings in is nearly always an error of this part as well.

/// Returns the top-level items of `new` from the one before the first difference to `old` to the one after the last.
pub(super) fn changed_block<'a>(old: &str, new: &'a str) -> &'a str {
    let (old, bytes) = (old.as_bytes(), new.as_bytes());
    let prefix = old.iter().zip(bytes).take_while(|(a, b)| a == b).count();
    let longest = old.len().min(bytes.len()) - prefix;
    let ends = old.iter().rev().zip(bytes.iter().rev());
    let suffix = ends.take(longest).take_while(|(a, b)| a == b).count();
    // The items before and after are included, because what joins them to the change may have been deleted.
    let start = item_starts(&new[..new.floor_char_boundary(prefix)]).last().unwrap_or(0);
    let tail = new.ceil_char_boundary(bytes.len() - suffix);
    let end = item_starts(&new[tail..]).next().map_or(new.len(), |at| tail + at);
    &new[start..end]
}

/// Returns the positions at which a top-level item begins: a line without indentation after an empty one.
fn item_starts(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices("\n\n").filter_map(|(at, _)| {
        let start = at + 2;
        let starts_item = |char: char| !char.is_whitespace() && !")}]".contains(char);
        text[start..].starts_with(starts_item).then_some(start)
    })
}
