//! How faults are told: what serde says in words for people, and the word that was meant.

/// Says that a word is unknown, which one it is most like, and which ones there are.
pub fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("unknown {what} \"{given}\"; none is known");
    }
    let list = known.join(", ");
    match nearest(given, known.iter().copied()) {
        Some(near) => {
            format!("unknown {what} \"{given}\", did you mean \"{near}\"? known are {list}")
        }
        None => format!("unknown {what} \"{given}\"; known are {list}"),
    }
}

/// Returns the known word that is most like the given one, if any is much like it.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LEAST: f64 = 0.8;
    /// Of a short word: two letters that are exchanged make it much unlike itself.
    const ONE_SLIP: f64 = 0.8;
    const SHORTEST: usize = 3;
    let likeness = |word: &str| {
        let is_slip = given.len() >= SHORTEST && strsim::osa_distance(given, word) == 1;
        strsim::jaro_winkler(given, word).max(if is_slip { ONE_SLIP } else { 0.0 })
    };
    known
        .map(|word| (likeness(word), word))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, word)| word)
}

/// Says what serde says in words that do not speak of Rust; an unknown key or word gets the known one that it is most like.
pub fn plain(message: &str) -> String {
    for (start, what) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        // serde says: unknown field `given`, expected one of `known`, `known`
        if let Some(rest) = message.strip_prefix(start) {
            let mut quoted = rest.split('`').skip(1).step_by(2);
            let given = quoted.next().unwrap_or_default();
            let known: Vec<&str> = quoted.collect();
            return unknown(what, given, &known);
        }
    }
    if let Some(rest) = message.strip_prefix("missing field `") {
        return format!("the key \"{}\" is missing", rest.trim_end_matches('`'));
    }
    let mut message = message.to_owned();
    for (rust, word) in [
        ("expected u64", "expected a positive whole number"),
        ("expected u32", "expected a positive whole number"),
        ("expected usize", "expected a positive whole number"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected f32", "expected a number"),
        ("invalid type: map", "invalid type: table"),
        ("invalid type: sequence", "invalid type: list"),
        ("expected a map", "expected a table"),
        ("expected a sequence", "expected a list"),
        ("expected a boolean", "expected true or false"),
    ] {
        if let Some(at) = message.find(rust) {
            message.replace_range(at..at + rust.len(), word);
        }
    }
    let Some((start, name)) = message.split_once("expected struct ") else { return message };
    let rest = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    format!("{start}expected a table{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_says_is_told_in_plain_words() {
        for (message, expected) in [
            (
                "unknown field `nmae`, expected one of `name`, `role`",
                "unknown key \"nmae\", did you mean \"name\"? known are name, role",
            ),
            (
                "unknown variant `xyz`, expected `all` or `any`",
                "unknown value \"xyz\"; known are all, any",
            ),
            ("missing field `primary`", "the key \"primary\" is missing"),
            (
                "invalid type: string \"8\", expected u64",
                "invalid type: string \"8\", expected a positive whole number",
            ),
            (
                "invalid type: integer `1`, expected struct RawAgent",
                "invalid type: integer `1`, expected a table",
            ),
            ("invalid type: map, expected a sequence", "invalid type: table, expected a list"),
            ("duplicate key", "duplicate key"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }

    #[test]
    fn where_nothing_is_known_that_is_said() {
        assert_eq!(unknown("server", "x", &[]), "unknown server \"x\"; none is known");
    }
}
