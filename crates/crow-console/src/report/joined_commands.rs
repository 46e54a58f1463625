//! Splits a shell command line at `&&`.
//!
//! A report lists calls that failed and did not succeed later. An agent often repeats a failed command inside a longer
//! line (`cd web && npm test`): if that line succeeds, each of its parts did, so the earlier failure of `npm test` is
//! resolved.

use std::mem;

/// Returns the commands of a line `a && b && c`, all of which succeeded if the line did. Returns no commands for a line
/// in which a part can fail without failing the line: `a; b`, `a || b`, `a &`, several lines. Here-documents are not
/// parsed and also give none.
pub(super) fn joined_commands(line: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut quote, mut before) = (0_usize, None, ' ');
    // A scanner that tracks quotes and the depth of parentheses and braces: only operators at depth 0 outside quotes
    // count.
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        part.push(char);
        match (quote, char) {
            (Some('"') | None, '\\') => part.extend(chars.next()),
            (Some(open), _) if open == char => quote = None,
            (None, '\'' | '"' | '`') => quote = Some(char),
            (None, '(' | '{') => depth += 1,
            (None, ')' | '}') => depth = depth.saturating_sub(1),
            // A here-document.
            (None, '<') if next == Some('<') => return Vec::new(),
            (None, '&') if next == Some('&') && depth == 0 => {
                part.pop();
                chars.next();
                parts.push(mem::take(&mut part));
            }
            // In `2>&1` and `&>file` the `&` belongs to a redirection.
            (None, '&') if next == Some('>') || matches!(before, '>' | '<') => {}
            (None, '|') if next == Some('|') && depth == 0 => return Vec::new(),
            (None, '&' | ';' | '\n') if depth == 0 => return Vec::new(),
            (Some(_) | None, _) => {}
        }
        before = char;
    }
    parts.push(part);
    parts.into_iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_only_if_no_part_can_fail_unnoticed() {
        for (line, parts) in [
            ("make test", vec!["make test"]),
            ("cd web && npm test && echo ok", vec!["cd web", "npm test", "echo ok"]),
            (
                "sh check.sh && { cat a; echo; } | sh b.sh",
                vec!["sh check.sh", "{ cat a; echo; } | sh b.sh"],
            ),
            ("echo 'a && b' && make 2>&1", vec!["echo 'a && b'", "make 2>&1"]),
            ("echo \"\\\" && \" && make", vec!["echo \"\\\" && \"", "make"]),
            ("make test; true", vec![]),
            ("make test || true", vec![]),
            ("make test && make install || true", vec![]),
            ("make test &", vec![]),
            ("make test\ntrue", vec![]),
            ("cat <<END && make", vec![]),
        ] {
            assert_eq!(joined_commands(line), parts, "{line}");
        }
    }
}
