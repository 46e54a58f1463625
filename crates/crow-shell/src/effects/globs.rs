//! Expansion of glob patterns and braces: at least the words that the shell would produce.

use std::{fs, path::Path};

use super::command_context::LookupBudget;

/// The longest word in bytes that is expanded, as Linux limits paths.
const MAX_BYTES: usize = 4096;
/// The most brace lists in one word.
const MOST_BRACES: usize = 6;
/// The most words that one may expand to.
const MAX_WORDS: usize = 500;

/// Returns the words that a pattern expands to in a folder. They may include files that do not match: a bracket
/// expression is treated as `?`. Returns `None` if the text holds more than patterns and braces, or expands to too
/// much.
pub(super) fn expand(text: &str, folder: &Path, budget: &LookupBudget) -> Option<Vec<String>> {
    let is_deep = text.matches('{').count() > MOST_BRACES || text.len() > MAX_BYTES;
    if is_deep || text.contains(|char: char| "'\"\\$`()<>~!\n\t ".contains(char)) {
        return None;
    }
    let mut words = Vec::new();
    for word in braces(text)? {
        if word.contains(['*', '?', '[']) {
            let mut found = matches(&word, folder, budget)?;
            if found.is_empty() {
                found.push(word);
            }
            words.extend(found);
        } else {
            words.push(word);
        }
        if words.len() > MAX_WORDS {
            return None;
        }
    }
    Some(words)
}

/// Expands braces from the left. Returns `None` if they are nested or hold no list.
fn braces(text: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = text.split_once('{') else {
        return (!text.contains('}')).then(|| vec![text.to_owned()]);
    };
    let (list, tail) = rest.split_once('}')?;
    if list.contains('{') || before.contains('}') {
        return None;
    }
    let choices: Vec<String> = match list.split_once("..") {
        Some((low, high)) => numbers(low, high)?,
        None if list.contains(',') => list.split(',').map(str::to_owned).collect(),
        None => return None,
    };
    let ends = braces(tail)?;
    let mut words = Vec::new();
    for choice in &choices {
        words.extend(ends.iter().map(|end| format!("{before}{choice}{end}")));
        if words.len() > MAX_WORDS {
            return None;
        }
    }
    Some(words)
}

fn numbers(first: &str, last: &str) -> Option<Vec<String>> {
    if [first, last].iter().any(|number| number.len() > 1 && number.starts_with('0')) {
        return None;
    }
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last - first < 200).then(|| (first..=last).map(|it| it.to_string()).collect())
}

/// Expands a pattern component by component. Returns `None` if the lookup budget or the limit of words is exceeded.
fn matches(pattern: &str, folder: &Path, budget: &LookupBudget) -> Option<Vec<String>> {
    let is_absolute = pattern.starts_with('/');
    // The paths for the components so far; each component extends them.
    let mut found = vec![String::new()];
    let mut is_found = false;
    for (at, part) in pattern.split('/').enumerate() {
        let mut next = Vec::new();
        for start in &found {
            let glue = if at == 0 { "" } else { "/" };
            if part.contains(['*', '?', '[']) {
                let base = if is_absolute { Path::new("/") } else { folder };
                for name in names(&base.join(start.trim_start_matches('/')), part, budget)? {
                    next.push(format!("{start}{glue}{name}"));
                }
            } else {
                let name = format!("{start}{glue}{part}");
                let base = if is_absolute { Path::new("/") } else { folder };
                // After a component with a pattern, only existing names count.
                if !is_found
                    || fs::symlink_metadata(base.join(name.trim_start_matches('/'))).is_ok()
                {
                    next.push(name);
                }
            }
            if next.len() > MAX_WORDS {
                return None;
            }
        }
        is_found |= part.contains(['*', '?', '[']);
        found = next;
    }
    Some(found)
}

/// Returns the names in a folder that may match a pattern.
fn names(folder: &Path, pattern: &str, budget: &LookupBudget) -> Option<Vec<String>> {
    let pattern = simple(pattern)?;
    budget.take()?;
    let Ok(entries) = fs::read_dir(folder) else { return Some(Vec::new()) };
    // Bash before 5.2 and dash also match `.` and `..`.
    let dots = [".", ".."].map(str::to_owned).into_iter();
    let mut names: Vec<String> = dots
        .filter(|name| {
            let letters: Vec<char> = name.chars().collect();
            pattern.first() == Some(&'.') && is_match(&pattern, &letters)
        })
        .collect();
    for entry in entries.flatten() {
        budget.take()?;
        let name = entry.file_name().into_string().ok()?;
        let is_hidden = name.starts_with('.') && pattern.first() != Some(&'.');
        let letters: Vec<char> = name.chars().collect();
        if !is_hidden && is_match(&pattern, &letters) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Some(names)
}

/// Returns the pattern with each bracket expression replaced by `?`.
fn simple(pattern: &str) -> Option<Vec<char>> {
    let mut simple = Vec::new();
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        if char == '[' {
            let mut inner = 0;
            loop {
                match chars.next()? {
                    ']' if inner > 0 => break,
                    '[' => return None,
                    _ => inner += 1,
                }
            }
            simple.push('?');
        } else {
            simple.push(char);
        }
    }
    Some(simple)
}

/// Matches a pattern of `*`, `?` and literal characters, in time bounded by the product of the lengths.
pub(super) fn is_match(pattern: &[char], name: &[char]) -> bool {
    // `reached[n]` is true if the pattern so far matches the first `n` characters of the name.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for wanted in pattern {
        let mut next = vec![false; name.len() + 1];
        let mut seen = false;
        for (at, slot) in next.iter_mut().enumerate() {
            let here = reached[at];
            seen |= here;
            // Nothing precedes the first slot, which only a `*` reaches.
            let before = at.checked_sub(1);
            let from = before.is_some_and(|before| reached[before]);
            let letter = before.map(|before| &name[before]);
            *slot = match wanted {
                '*' => seen,
                '?' => from,
                wanted => from && letter == Some(wanted),
            };
        }
        reached = next;
    }
    reached[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_braces_turn_into_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.rs", "b.rs", "c.txt", ".hidden", "sub/d.rs", "sub/e.rs", "other/d.rs"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let words = |text: &str| {
            expand(text, folder.path(), &LookupBudget::new()).map(|words| words.join(" "))
        };
        for (text, wanted) in [
            ("*.rs", "a.rs b.rs"),
            ("*", "a.rs b.rs c.txt other sub"),
            (".h*", ".hidden"),
            (".*", ". .. .hidden"),
            ("*/d.rs", "other/d.rs sub/d.rs"),
            ("sub/[de].rs", "sub/d.rs sub/e.rs"),
            ("./?.rs", "./a.rs ./b.rs"),
            ("none*", "none*"),
            ("{a,b,x}.rs", "a.rs b.rs x.rs"),
            ("{1..3}/{x,y}", "1/x 1/y 2/x 2/y 3/x 3/y"),
            ("{a,c}.*", "a.rs c.txt"),
        ] {
            assert_eq!(words(text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["$x*", "'a'*", "{a,{b,c}}", "{a}", "~/*", "[a", "!(a)", "{1..100000}"] {
            assert_eq!(words(text), None, "{text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern: Vec<char> = "*a".repeat(200).chars().collect();
        let name = vec!['a'; 199];
        assert!(!is_match(&pattern, &name));
        assert!(is_match(&['*'], &name));
    }
}
