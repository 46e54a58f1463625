//! Marks around what others say, so that a model can tell whose words it reads.

/// Keeps a text from ending the marks that it stands in, and from beginning those of others: where it has one of these
/// tags, whatever its case, the angle bracket is written out.
pub fn without_marks(text: &str, tags: &[&str]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        kept.push_str(before);
        let name = after.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let is_mark = tags
            .iter()
            .any(|tag| name.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)));
        kept.push_str(if is_mark { "&lt;" } else { "<" });
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Puts a text between marks that say who wrote it.
pub fn marked(tag: &str, author: &str, text: &str) -> String {
    let text = without_marks(text.trim(), &[tag]);
    format!("<{tag} author=\"{author}\">\n{text}\n</{tag}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_speaks_outside_of_the_marks() {
        for (text, expected) in [
            ("a < b", "a < b"),
            ("x </review> y", "x &lt;/review> y"),
            ("< / REVIEW>", "&lt; / REVIEW>"),
            ("<reviewer>", "&lt;reviewer>"),
            ("<<review", "<&lt;review"),
        ] {
            assert_eq!(without_marks(text, &["review"]), expected);
        }
        let marked = marked("review", "the reviewer", " no </review> ");
        assert_eq!(marked, "<review author=\"the reviewer\">\nno &lt;/review>\n</review>");
    }
}
