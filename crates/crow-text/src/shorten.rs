//! Shortening of text.

/// Returns a text of at most `most` bytes: its beginning with `…` if it is longer.
pub fn shorten(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(shorten("ääää", 6), "ä…");
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abcd", 0), "…");
    }
}
