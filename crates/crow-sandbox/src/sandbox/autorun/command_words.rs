//! Extracts the words of a command line that may be files it starts. Errs on the side of too many words,
//! since the exact parsing by a shell cannot be known in advance.
//!
//! The lines come from settings that one of the user's programs runs in a shell or passes to a git
//! transport. An exact answer would need a shell, so every word that could be a path counts: as written,
//! without quotes at any nesting depth, between the characters that join words in lists, behind shell
//! expansions, and as the file of a Python module. A superfluous word costs one look at a path that does
//! not exist; a missing one is a program that a command may change.
//!
//! Each character is read a fixed number of times, whatever the text: it may come from a clone. [`BoundedWords`] bounds
//! what is kept, and tells that words were left out.

use std::{
    collections::{BTreeSet, HashSet, btree_set},
    ops::ControlFlow,
};

use crow_text::shell_spellings;

/// Maximum number of different words, and of different commands, of a command line or a script.
pub(super) const MOST_WORDS: usize = 20_000;
/// Maximum length of all different words together, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// The same with words that repeat: the parts of a text overlap.
const MOST_REPEATED_BYTES: usize = 32 << 20;
/// Maximum length of a word in bytes: no system accepts a longer path.
const LONGEST_WORD: usize = 4096;
/// Maximum number of letters of an option before its value: `-Bmtools.x`.
const MOST_LETTERS: usize = 4;

/// Words that may be files, up to a limit.
#[derive(Debug)]
pub(super) struct BoundedWords {
    words: BTreeSet<String>,
    bytes: usize,
    /// Number of bytes that may still be looked at.
    room: usize,
    is_cut: bool,
}

impl Default for BoundedWords {
    fn default() -> Self {
        Self::with_room(MOST_REPEATED_BYTES)
    }
}

impl BoundedWords {
    const fn with_room(room: usize) -> Self {
        Self { words: BTreeSet::new(), bytes: 0, room, is_cut: false }
    }

    /// Adds a word. Breaks if there is no room for it.
    pub(super) fn add(&mut self, word: &str) -> ControlFlow<()> {
        if word.is_empty() || word.len() > LONGEST_WORD {
            return ControlFlow::Continue(());
        }
        let room = self.room.checked_sub(word.len());
        self.room = room.unwrap_or_default();
        if room.is_some() && self.words.contains(word) {
            return ControlFlow::Continue(());
        }
        self.bytes += word.len();
        if room.is_none() || self.bytes > MOST_BYTES || self.words.len() >= MOST_WORDS {
            self.is_cut = true;
            return ControlFlow::Break(());
        }
        self.words.insert(word.to_owned());
        ControlFlow::Continue(())
    }

    /// Adds words up to the first one for which there is no room.
    pub(super) fn extend<W: AsRef<str>>(&mut self, words: impl IntoIterator<Item = W>) {
        let _is_cut = words.into_iter().try_for_each(|word| self.add(word.as_ref()));
    }

    /// Adds the words of another collection.
    pub(super) fn merge(&mut self, other: &Self) {
        self.extend(&other.words);
        self.is_cut |= other.is_cut;
    }

    pub(super) fn iter(&self) -> btree_set::Iter<'_, String> {
        self.words.iter()
    }

    pub(super) fn contains(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Notes that the text has more words than are looked at.
    pub(super) const fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns true if words were left out: the text may name any file.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl<'a> IntoIterator for &'a BoundedWords {
    type Item = &'a String;
    type IntoIter = btree_set::Iter<'a, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns the words of a command line that may be files, absolute or relative to where it is started. `~/`
/// means the user's home.
pub(super) fn command_words(line: &str) -> BoundedWords {
    words_of(line, MOST_REPEATED_BYTES)
}

/// The words of a whole script that may be files.
#[derive(Debug, Default)]
pub(super) struct ScriptWords {
    pub(super) all: BoundedWords,
    /// Those in pipelines that run code: with an interpreter, a shell, or a tool that reads scripts.
    pub(super) run: BoundedWords,
}

/// Programs that run the code of a file among their arguments.
const RUNNERS: [&str; 29] = [
    ".",
    "awk",
    "bash",
    "bun",
    "dash",
    "deno",
    "eval",
    "fish",
    "gawk",
    "gmake",
    "ksh",
    "lua",
    "make",
    "mawk",
    "node",
    "nvim",
    "perl",
    "php",
    "ruby",
    "sed",
    "sh",
    "source",
    "source_env",
    "ts-node",
    "tsx",
    "uv",
    "vi",
    "vim",
    "zsh",
];
/// Programs whose arguments are data to them: checkers, formatters, tests, and programs that print.
const CHECKERS: [&str; 32] = [
    "biome",
    "black",
    "clang-format",
    "compileall",
    "diff",
    "echo",
    "egrep",
    "eslint",
    "fgrep",
    "flake8",
    "golangci-lint",
    "grep",
    "hadolint",
    "isort",
    "jest",
    "markdownlint",
    "mocha",
    "mypy",
    "prettier",
    "printf",
    "py_compile",
    "pylint",
    "pytest",
    "rg",
    "rubocop",
    "ruff",
    "shellcheck",
    "shfmt",
    "stylelint",
    "tsc",
    "unittest",
    "vitest",
];

/// Options of checkers whose values are code that they load.
const CHECKER_OPTIONS: [&str; 4] = ["-c", "-f", "-p", "-r"];
/// The same of all programs.
const CODE_OPTIONS: [&str; 10] = [
    "--config",
    "--custom-formatter",
    "--format",
    "--formatter",
    "--load-plugins",
    "--parser",
    "--plugin",
    "--require",
    "--resolver",
    "--rulesdir",
];

/// Returns the values of the options in a command that name code.
fn code_options(command: &str, is_of_checker: bool) -> impl Iterator<Item = &str> {
    let mut words = command.split_whitespace();
    std::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            let (option, value) =
                word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
            if CODE_OPTIONS.contains(&option) || is_of_checker && CHECKER_OPTIONS.contains(&option)
            {
                return value.or_else(|| words.next());
            }
        }
    })
}

/// Returns the words of a whole script that may be files, without those of comments and of checkers.
pub(super) fn script_words(text: &str) -> ScriptWords {
    // A backslash at the end continues a line. Each line is read by itself: an apostrophe in one opens no quotes.
    let joined = text.replace("\\\n", "");
    let mut words = ScriptWords::default();
    let mut room = MOST_REPEATED_BYTES;
    let mut known = HashSet::new();
    // The rest of a script in another language, or of a here-document that an interpreter reads, is its code.
    let mut is_code = false;
    for (at, line) in joined.lines().enumerate() {
        let line = line.trim();
        let is_first = at == 0 && line.starts_with("#!");
        if line.is_empty() || line.starts_with('#') && !is_first {
            continue;
        }
        for pipeline in
            line.split(';').flat_map(|part| part.split("&&")).flat_map(|part| part.split("||"))
        {
            if !known.insert(pipeline) {
                continue;
            }
            let found = words_of(pipeline, room);
            room = found.room;
            let has = |programs: &[&str]| {
                found.iter().any(|word| programs.contains(&word.rsplit('/').next().unwrap_or(word)))
            };
            let is_checked = has(&CHECKERS);
            for value in code_options(pipeline, is_checked) {
                let code = words_of(value, room);
                room = code.room;
                words.run.merge(&code);
                words.all.merge(&code);
            }
            if is_checked {
                continue;
            }
            let is_shell = has(&["sh", "bash", "dash", "zsh", "ksh", "fish"]);
            let runs = has(&RUNNERS) || found.iter().any(|word| is_python(word));
            if !is_code && runs && (is_first && !is_shell || pipeline.contains("<<")) {
                is_code = true;
                // Lines that were passed over or ran nothing count from here on.
                known.clear();
            }
            if runs || is_code {
                words.run.merge(&found);
            }
            words.all.merge(&found);
            if words.all.is_cut() {
                return words;
            }
        }
    }
    add_modules(&mut words.run);
    words.all.merge(&words.run);
    words
}

/// Adds the files of modules if one of the words is Python.
fn add_modules(words: &mut BoundedWords) {
    if words.iter().any(|word| is_python(word)) {
        let names: Vec<String> = words.iter().filter(|word| is_module(word)).cloned().collect();
        for name in names {
            words.extend(module_files(&name));
            if words.is_cut() {
                return;
            }
        }
    }
}

fn words_of(line: &str, room: usize) -> BoundedWords {
    // Only the value of `HOME` is known; other variables are handled by `add_behind_expansions`.
    let line = line.replace("${HOME}", "$HOME").replace("\"$HOME\"", "$HOME");
    let line = line.replace("$HOME/", "~/");
    // Other names of the working directory.
    let line = line.replace("~+/", "./").replace("/proc/self/cwd/", "./");
    let mut words = BoundedWords::with_room(room);
    let mut texts = shell_spellings(&line);
    texts.push(line);
    for text in &texts {
        add_without_quotes(text, &mut words);
    }
    // In nested quotes, characters are escaped once more.
    let unescaped: Vec<_> = texts.iter().map(|text| text.replace('\\', "")).collect();
    texts.extend(unescaped);
    texts.sort_unstable();
    texts.dedup();
    for text in &texts {
        words.extend(text.split(|char| is_end(char) || is_quote(char)));
        words.extend(text.split(|char| is_end(char) || is_quote(char) || is_joiner(char)));
        add_behind_expansions(text, &mut words);
    }
    // Value of a one-letter option: `-r./hook.js`.
    let values: Vec<String> =
        words.iter().flat_map(|word| option_values(word)).map(str::to_owned).collect();
    words.extend(values);
    // Relative to a directory that the line changes to, or to that of the script: `./run`, `../../tools/run`.
    let inner: Vec<String> =
        words.iter().filter_map(|word| without_dots(word)).map(str::to_owned).collect();
    words.extend(inner);
    words.words.retain(|word| !word.starts_with('-'));
    add_modules(&mut words);
    words
}

/// Returns true for characters that end a word in a shell.
const fn is_end(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, '!' | ';' | '&' | '|' | '(' | ')' | '<' | '>' | '=' | '`')
}

const fn is_quote(char: char) -> bool {
    matches!(char, '\'' | '"')
}

/// Returns true for characters that join several words into one: in lists, placeholders, transports.
const fn is_joiner(char: char) -> bool {
    matches!(char, ':' | ',' | '%' | '{' | '}' | '[' | ']' | '@')
}

/// Adds the words of a line after removing quotes and escapes as a shell does.
fn add_without_quotes(line: &str, words: &mut BoundedWords) {
    let mut word = String::new();
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match (next, quote) {
            (next, Some(open)) if next == open => quote = None,
            ('\'' | '"', None) => quote = Some(next),
            ('\\', None | Some('"')) => word.extend(rest.next()),
            (next, None) if is_end(next) => {
                if words.add(&word).is_break() {
                    return;
                }
                word.clear();
            }
            (next, _) => word.push(next),
        }
    }
    words.extend([word]);
}

/// Adds the paths that follow a shell expansion, up to the end of the word: `tools/x.sh` of `$(git
/// rev-parse --show-toplevel)/tools/x.sh`. The expansion usually yields the folder of the project or of the
/// repository.
fn add_behind_expansions(text: &str, words: &mut BoundedWords) {
    let next = |from: usize, is_wanted: fn(char) -> bool| {
        text[from..].find(is_wanted).map_or(text.len(), |found| from + found)
    };
    // Slashes of one word have the same end, which is looked for once.
    let (mut end, mut colon) = (0, 0);
    for (at, _) in text.match_indices('/') {
        let start = at + 1;
        if !ends_with_expansion(text[..at].trim_end_matches(is_quote)) {
            continue;
        }
        if end < start {
            end = next(start, |char| is_end(char) || is_quote(char));
        }
        if colon < start {
            colon = next(start, |char| char == ':');
        }
        // In a list, as in `PATH=$PWD/tools:$PATH`, it ends at the colon.
        for end in BTreeSet::from([end, end.min(colon)]) {
            if end - start <= LONGEST_WORD {
                let path = text[start..end].trim_start_matches("../");
                words.extend([path, &format!(".git/{path}")]);
            }
        }
        if words.is_cut() {
            return;
        }
    }
}

fn ends_with_expansion(text: &str) -> bool {
    let name = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%');
    text.ends_with([')', '}', '`']) || name.ends_with('$') || text.ends_with('%')
}

/// Returns the possible values of one-letter options that are joined with them: `x.mk` of `-sfx.mk`.
fn option_values(word: &str) -> impl Iterator<Item = &str> {
    let options = word.strip_prefix('-').unwrap_or_default();
    let letters = options.chars().take(MOST_LETTERS).take_while(char::is_ascii_alphabetic).count();
    // The letters are ASCII.
    (1..=letters).map(|count| &options[count..])
}

/// Returns a path without `./`, `../` and slashes of an expansion at its beginning, if it has any.
fn without_dots(word: &str) -> Option<&str> {
    let mut rest = word;
    if rest.starts_with("/../") {
        rest = &rest[1..];
    }
    while let Some(inner) = rest.strip_prefix("../").or_else(|| rest.strip_prefix("./")) {
        rest = inner.trim_start_matches('/');
    }
    (rest.len() < word.len() && !rest.is_empty()).then_some(rest)
}

pub(super) fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    ["python", "pypy"].iter().any(|known| name.starts_with(known)) || ["py", "uv"].contains(&name)
}

/// Returns true if a word may name a Python module.
fn is_module(word: &str) -> bool {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    word.split('.').all(is_name)
}

/// Returns the files that Python would load if the word is a module, including the `__init__.py` of its
/// packages.
pub(super) fn module_files(word: &str) -> impl Iterator<Item = String> {
    let path = if is_module(word) { word.replace('.', "/") } else { String::new() };
    let ends: Vec<usize> = path
        .match_indices('/')
        .map(|(at, _)| at)
        .chain([path.len()])
        .filter(|at| *at > 0)
        .collect();
    // Created one by one: a word of many parts names many long paths.
    ends.into_iter().flat_map(move |end| {
        let package = &path[..end];
        let module = (end == path.len())
            .then(|| [format!("{package}.py"), format!("{package}/__main__.py")]);
        module.into_iter().flatten().chain([format!("{package}/__init__.py")]).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_are_found_among_the_words_of_a_line() {
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
            ("python3 -Bmtools.y", "tools/y.py"),
            ("perl -wItools -Mx", "tools"),
            ("make -sftools/x.mk", "tools/x.mk"),
            ("env -C tools ./run", "run"),
            ("PATH=\"$PWD/tools:$PATH\" run", "tools"),
            ("require(\"../../tools/x\")", "tools/x"),
            ("require(__dirname + \"/../../tools/x\")", "tools/x"),
            ("~+/tools/run", "tools/run"),
            ("exec \"${CHECK:-tools/a.sh}\"", "tools/a.sh"),
            ("[ -x ${CHECK-tools/a.sh} ]", "tools/a.sh"),
            ("x=${Y:+tools/a.sh}; $x", "tools/a.sh"),
            ("sh -c 'exec tools/${X:-a.sh}'", "tools/a.sh"),
            ("\"${D:-$PWD}/tools/a.sh\"", "tools/a.sh"),
            ("$'\\x74ools/a.sh'", "tools/a.sh"),
            ("bash -c \"$'tools\\x2fa.sh'\"", "tools/a.sh"),
            ("sh to\\\nols/a.sh", "tools/a.sh"),
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
        fn no_line_makes_the_parser_panic(line in "[a-z/$(){}'\"`\\\\ %:.é-]{0,60}") {
            let _words = command_words(&line);
        }
    }
}
