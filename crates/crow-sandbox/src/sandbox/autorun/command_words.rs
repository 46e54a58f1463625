//! Which files a command line may start: read generously, because nobody knows in advance how a shell will read it.
//!
//! The lines stand in settings that a program of the user's runs in a shell, or hands to a transport of git. Working out
//! what they start would take a shell, so every word that could be a path is one: as it is written, without its quotes at
//! any depth, between the signs that join words in lists, behind what the shell works out, and as the file of a Python
//! module. A word too many costs a look at a path that is not there; one too few is a program that a command may change.

use std::collections::BTreeSet;

/// Signs that end a word of a shell.
const ENDS: &str = "!;&|()<>=`";
/// Signs that join several words into one: lists, placeholders, transports.
const JOINTS: &str = ":,%{}[]@";
/// The most words of one line.
const MOST_WORDS: usize = 400;

/// Returns the words of a command line that may be files, relative to where it is started or absolute. `~/` stands for the
/// user's home.
pub(super) fn command_words(line: &str) -> BTreeSet<String> {
    // Where the home lies is known; what else a variable holds is not.
    let line = line.replace("${HOME}", "$HOME").replace("\"$HOME\"", "$HOME");
    let line = line.replace("$HOME/", "~/");
    let mut words = BTreeSet::new();
    without_quotes(&line, &mut words);
    // In quotes within quotes, signs are escaped once more.
    let unescaped = line.replace('\\', "");
    for text in [line.as_str(), unescaped.as_str()] {
        words.extend(pieces(text, "'\"", ENDS).map(str::to_owned));
        words.extend(pieces(text, "'\"", &format!("{ENDS}{JOINTS}")).map(str::to_owned));
        words.extend(behind_expansions(text));
    }
    // The value of an option of one letter: `-r./hook.js`.
    let values: Vec<String> = words.iter().filter_map(|word| option_value(word)).collect();
    words.extend(values);
    words.retain(|word| !word.is_empty() && !word.starts_with('-'));
    if words.iter().any(|word| is_python(word)) {
        let modules: Vec<String> = words.iter().flat_map(|word| module_files(word)).collect();
        words.extend(modules);
    }
    words.into_iter().take(MOST_WORDS).collect()
}

/// Splits a text at blanks and at these signs.
fn pieces<'a>(text: &'a str, quotes: &'a str, ends: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(move |c: char| c.is_whitespace() || quotes.contains(c) || ends.contains(c))
}

/// Adds the words of a line as a shell takes quotes away.
fn without_quotes(line: &str, words: &mut BTreeSet<String>) {
    let mut word = String::new();
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match (next, quote) {
            (next, Some(open)) if next == open => quote = None,
            ('\'' | '"', None) => quote = Some(next),
            ('\\', None | Some('"')) => word.extend(rest.next()),
            (next, None) if next.is_whitespace() || ENDS.contains(next) => {
                words.insert(std::mem::take(&mut word));
            }
            (next, _) => word.push(next),
        }
    }
    words.insert(word);
}

/// Returns what follows on a part that the shell works out, up to the end of the word: `tools/x.sh` of
/// `$(git rev-parse --show-toplevel)/tools/x.sh`. Mostly that part is the folder of the project, or of the repository.
fn behind_expansions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('/') {
        let (before, after) = (&text[..at], &text[at + 1..]);
        if !ends_with_expansion(before.trim_end_matches(['"', '\''])) {
            continue;
        }
        let is_end = |c: char| c.is_whitespace() || "'\"".contains(c) || ENDS.contains(c);
        let path = after.split(is_end).next().unwrap_or_default().trim_start_matches("../");
        found.push(path.to_owned());
        found.push(format!(".git/{path}"));
    }
    found
}

fn ends_with_expansion(text: &str) -> bool {
    let name = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%');
    text.ends_with([')', '}', '`']) || name.ends_with('$') || text.ends_with('%')
}

fn option_value(word: &str) -> Option<String> {
    let value = word.strip_prefix('-')?;
    let mut letters = value.chars();
    letters.next().filter(char::is_ascii_alphabetic)?;
    Some(letters.as_str().to_owned())
}

pub(super) fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    ["python", "pypy"].iter().any(|known| name.starts_with(known)) || ["py", "uv"].contains(&name)
}

/// Returns the files that Python would load for a word that is a module, with the packages that it lies in.
pub(super) fn module_files(word: &str) -> Vec<String> {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let parts: Vec<&str> = word.split('.').collect();
    if !parts.iter().all(|part| is_name(part)) {
        return Vec::new();
    }
    let path = parts.join("/");
    let packages =
        (1..=parts.len()).map(|count| format!("{}/__init__.py", parts[..count].join("/")));
    packages.chain([format!("{path}.py"), format!("{path}/__main__.py")]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_of_a_line_are_files_with_and_without_its_quotes() {
        for (line, expected) in [
            ("sh tools/a.sh %f", "tools/a.sh"),
            ("sh 'tools/a b.sh'", "tools/a b.sh"),
            ("sh \"tools/a b.sh\"", "tools/a b.sh"),
            ("sh tools/a\\ b.sh", "tools/a b.sh"),
            ("bash -c 'sh tools/a.sh \"$1\"' --", "tools/a.sh"),
            ("!f() { ./tools/st; }; f", "./tools/st"),
            ("A=tools/a.sh; sh $A", "tools/a.sh"),
            ("sh -c \"sh -c \\\"'tools/a.sh'\\\"\"", "tools/a.sh"),
            ("ext::tools/a.sh %S", "tools/a.sh"),
            ("ext::sh -c tools/a.sh% x", "tools/a.sh"),
            ("node -r./hook.js", "./hook.js"),
            ("node --require=./hook.js", "./hook.js"),
            ("\"$(git rev-parse --show-toplevel)/tools/a.sh\"", "tools/a.sh"),
            ("\"$(git rev-parse --show-toplevel)\"/tools/a.sh", "tools/a.sh"),
            ("sh -c '\"`pwd`/tools/a.sh\"'", "tools/a.sh"),
            ("sh -c \"\\\"$PWD/tools/a.sh\\\" x\"", "tools/a.sh"),
            ("${TOP}/tools/a.sh", "tools/a.sh"),
            ("$(git rev-parse --git-dir)/../tools/a.sh", "tools/a.sh"),
            ("$(git rev-parse --git-dir)/a.sh", ".git/a.sh"),
            ("\"${HOME}\"/p/a.sh", "~/p/a.sh"),
            ("python3 -m tools.y", "tools/y.py"),
            ("python3 -m tools.y", "tools/__init__.py"),
            ("python3 -m tools", "tools/__main__.py"),
            ("/usr/bin/python3.11 -c 'import a, tools.y; a.b()'", "tools/y.py"),
        ] {
            let words = command_words(line);
            assert!(words.contains(expected), "{line}: {words:?}");
        }
        assert!(!command_words("a --b").contains("--b"));
        assert!(!command_words("sh tools.y").contains("tools/y.py"));
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_reader(line in "[a-z/$(){}'\"`\\\\ %:.é-]{0,60}") {
            let _words = command_words(&line);
        }
    }
}
