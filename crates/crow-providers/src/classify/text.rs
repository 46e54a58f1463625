//! Makes what servers say fit into one line.

/// Joins all lines and runs of blanks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts a text that is longer than an error should be.
pub(crate) fn shorten(text: &mut String) {
    const LONGEST: usize = 600;
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(at);
        text.push('…');
    }
}

/// Returns the title of a web page, or nothing if `body` is none.
pub(super) fn web_page(body: &str) -> Option<String> {
    let start = body.trim_start();
    let is_page = ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|mark| start.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark)));
    is_page.then(|| between(start, "<title>", "</title>").map(one_line).unwrap_or_default())
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    // ASCII case folding keeps all byte positions.
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
