//! Marks around text of others, so that a model can tell who wrote it.

/// Escapes the angle bracket of these tags in a text, whatever their case, so that the text can neither end the marks
/// around it nor begin others.
pub fn escape_tags(text: &str, tags: &[&str]) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        output.push_str(before);
        let name = after.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let is_mark = tags
            .iter()
            .any(|tag| name.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)));
        output.push_str(if is_mark { "&lt;" } else { "<" });
        rest = after;
    }
    output.push_str(rest);
    output
}

/// Wraps a text in marks that name its author.
pub fn wrap_in_tag(tag: &str, author: &str, text: &str) -> String {
    let text = escape_tags(text.trim(), &[tag]);
    format!("<{tag} author=\"{author}\">\n{text}\n</{tag}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_can_neither_end_nor_begin_marks() {
        for (text, expected) in [
            ("a < b", "a < b"),
            ("x </review> y", "x &lt;/review> y"),
            ("< / REVIEW>", "&lt; / REVIEW>"),
            ("<reviewer>", "&lt;reviewer>"),
            ("<<review", "<&lt;review"),
        ] {
            assert_eq!(escape_tags(text, &["review"]), expected);
        }
        let marked = wrap_in_tag("review", "the reviewer", " no </review> ");
        assert_eq!(marked, "<review author=\"the reviewer\">\nno &lt;/review>\n</review>");
    }
}
