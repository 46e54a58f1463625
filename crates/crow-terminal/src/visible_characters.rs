//! Forms in which characters are shown.
//!
//! Text of other sources may have characters that a terminal obeys or does not show. They stay in the text, and the
//! view shows a visible form instead. What a terminal shows well within a cluster is left as it is: combining marks
//! after a base, and the joiners and selectors of emoji.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Maximum number of characters of a cluster that are shown.
const MOST_CHARACTERS: usize = 32;
/// Form of a tab.
const TAB: &str = "    ";

/// Form of a character on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CharacterForm {
    /// The character itself.
    Plain,
    /// A text that stands for it.
    Replaced(String),
}

/// Returns the form of a character on its own.
pub(crate) fn safe(character: char) -> CharacterForm {
    match character {
        '\0'..='\u{1f}' => {
            let picture = char::from_u32(0x2400 + u32::from(character));
            CharacterForm::Replaced(String::from(picture.unwrap_or(char::REPLACEMENT_CHARACTER)))
        }
        '\u{7f}' => CharacterForm::Replaced("\u{2421}".to_owned()),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            escaped(character)
        }
        _ if character.width().unwrap_or(0) == 0 => escaped(character),
        _ => CharacterForm::Plain,
    }
}

fn escaped(character: char) -> CharacterForm {
    CharacterForm::Replaced(format!("<U+{:04X}>", u32::from(character)))
}

/// How a cluster is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterForm<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) is_replaced: bool,
}

/// Returns the form of a grapheme cluster.
pub(crate) fn cluster_form(cluster: &str) -> ClusterForm<'_> {
    if cluster == "\t" {
        return ClusterForm { text: Cow::Borrowed(TAB), is_replaced: false };
    }
    let mut characters = cluster.char_indices().peekable();
    // The form, from the first character that is replaced on.
    let mut text: Option<String> = None;
    let (mut has_base, mut count) = (false, 0);
    while let Some((start, character)) = characters.next() {
        count += 1;
        if count > MOST_CHARACTERS {
            text.get_or_insert_with(|| cluster[..start].to_owned()).push('…');
            break;
        }
        let next = characters.peek().map(|(_, next)| *next);
        let form = if has_base && is_part_of_cluster(character, next) {
            CharacterForm::Plain
        } else {
            safe(character)
        };
        match form {
            CharacterForm::Replaced(form) => {
                text.get_or_insert_with(|| cluster[..start].to_owned()).push_str(&form);
            }
            CharacterForm::Plain => {
                has_base = true;
                if let Some(text) = &mut text {
                    text.push(character);
                }
            }
        }
    }
    match text {
        Some(text) => ClusterForm { text: Cow::Owned(text), is_replaced: true },
        None => ClusterForm { text: Cow::Borrowed(cluster), is_replaced: false },
    }
}

/// Returns true for a character without width that changes the look of the character before it.
fn is_part_of_cluster(character: char, next: Option<char>) -> bool {
    match character {
        // A joiner shows only between two characters.
        '\u{200c}' | '\u{200d}' => next.is_some_and(|next| next.width().unwrap_or(0) > 0),
        // Control characters, marks of directions, and tags, which carry text that is not seen.
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}

/// Returns the number of columns of a cluster's form.
pub(crate) fn cluster_width(cluster: &str) -> usize {
    match cluster.as_bytes() {
        [b' '..=b'~'] => 1,
        _ => cluster_form(cluster).text.width(),
    }
}
