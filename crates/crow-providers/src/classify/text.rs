//! Shortening of server texts to one line.

/// Replaces line ends and runs of white space with one space each.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts a text to the 600 characters that an error may have.
pub(crate) fn shorten(text: &mut String) {
    const LONGEST: usize = 600;
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(at);
        text.push('…');
    }
}

/// Returns the title of a web page, empty if it has none; none if `body` is not a web page.
pub(super) fn web_page(body: &str) -> Option<String> {
    let start = body.trim_start();
    let is_page = ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|mark| start.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark)));
    is_page.then(|| between(start, "<title>", "</title>").map(one_line).unwrap_or_default())
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    // ASCII case folding preserves byte positions.
    let folded = text.to_ascii_lowercase();
    let begin = folded.find(from)? + from.len();
    let length = folded.get(begin..)?.find(to)?;
    text.get(begin..begin + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_web_page_is_found() {
        for (body, expected) in [
            ("<!DOCTYPE html><HTML><Title>502 Bad\n Gateway</TITLE>", Some("502 Bad Gateway")),
            ("  <html><body>hi", Some("")),
            ("{\"error\": \"<html>\"}", None),
            ("", None),
        ] {
            assert_eq!(web_page(body).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut text = "é".repeat(5000);
        shorten(&mut text);
        assert_eq!(text.chars().count(), 601);
    }
}
