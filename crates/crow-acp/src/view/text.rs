//! Text of others as it can be shown: without control characters, within bounds.

/// The longest title.
const TITLE_CHARS: usize = 300;

/// Removes what a terminal would obey and nobody can read: control characters but line feeds and tabs, and escape
/// sequences with all that belongs to them.
pub(super) fn plain(text: &str) -> String {
    if !text.contains(|char: char| char.is_control() && !matches!(char, '\n' | '\t')) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' | '\t' => shown.push(char),
            '\u{1b}' => match chars
                .next_if(|next| matches!(next, '[' | ']' | 'P' | '_' | '^' | 'X'))
            {
                Some('[') => while chars.next().is_some_and(|next| !('@'..='~').contains(&next)) {},
                Some(_) => skip_string(&mut chars),
                None => {
                    chars.next();
                }
            },
            _ if char.is_control() => {}
            _ => shown.push(char),
        }
    }
    shown
}

/// Skips the string of a sequence up to its end. One without an end takes its line at most.
fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(next) = chars.next_if(|next| *next != '\n') {
        match next {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// Makes one line of it: its first one that says something, with a mark if there are more.
pub(super) fn title(text: &str) -> String {
    let text = plain(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().replace('\t', " ");
    let mut shown: String = first.chars().take(TITLE_CHARS).collect();
    if shown.len() < first.len() || lines.next().is_some() {
        shown.push_str(" …");
    }
    shown
}

/// Returns the beginning of a text, at most so many bytes long.
pub(super) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// Returns the end of a text, at most so many bytes long.
pub(super) fn tail(text: &str, most: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(most))..).unwrap_or(text)
}

/// Returns the text, or its beginning and its end with a line between them that says how much is left out.
pub(super) fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (first, last) = (head(text, most / 2), tail(text, most / 2));
    let left_out = text.len() - first.len() - last.len();
    format!("{first}\n[{left_out} bytes left out]\n{last}")
}

/// Keeps the end of a text that grows.
pub(super) fn keep_tail(text: &mut String, most: usize) {
    if text.len() > most {
        let kept = tail(text, most / 2).to_owned();
        *text = kept;
    }
}
