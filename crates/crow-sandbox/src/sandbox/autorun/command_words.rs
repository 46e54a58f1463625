//! Extracts the words of a command line that may be files it starts. Errs on the side of too many words,
//! since the exact parsing by a shell cannot be known in advance.
//!
//! The lines come from settings that one of the user's programs runs in a shell or passes to a git
//! transport. An exact answer would need a shell, so every word that could be a path counts: as written,
//! without quotes at any nesting depth, between the characters that join words in lists, behind shell
//! expansions, and as the file of a Python module. A superfluous word costs one look at a path that does
//! not exist; a missing one is a program that a command may change.

use std::collections::BTreeSet;

/// Characters that end a word in a shell.
const WORD_ENDS: &str = "!;&|()<>=`";
/// Characters that join several words into one: in lists, placeholders, transports.
const JOINERS: &str = ":,%{}[]@";
/// Maximum number of words per line.
const MOST_WORDS: usize = 400;
/// Maximum number of words per script.
const MOST_SCRIPT_WORDS: usize = 20_000;
/// Maximum number of letters of an option before its value: `-Bmtools.x`.
const MOST_LETTERS: usize = 4;

/// Returns the words of a command line that may be files, absolute or relative to where it is started. `~/`
/// means the user's home.
pub(super) fn command_words(line: &str) -> BTreeSet<String> {
    words_of(line, MOST_WORDS)
}

/// The words of a whole script that may be files.
#[derive(Debug, Default)]
pub(super) struct ScriptWords {
    pub(super) all: BTreeSet<String>,
    /// Those in pipelines that run code: with an interpreter, a shell, or a tool that reads scripts.
    pub(super) run: BTreeSet<String>,
    /// True if the script has more words than are read.
    pub(super) is_cut: bool,
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
    // The rest of a script in another language, or of a here-document that an interpreter reads, is its code.
    let mut is_code = false;
    for (at, line) in joined.lines().enumerate() {
        let line = line.trim();
        let is_first = at == 0 && line.starts_with("#!");
        if line.starts_with('#') && !is_first {
            continue;
        }
        for pipeline in
            line.split(';').flat_map(|part| part.split("&&")).flat_map(|part| part.split("||"))
        {
            let found = words_of(pipeline, MOST_WORDS);
            let has = |programs: &[&str]| {
                found.iter().any(|word| programs.contains(&word.rsplit('/').next().unwrap_or(word)))
            };
            let is_checked = has(&CHECKERS);
            for value in code_options(pipeline, is_checked) {
                let words_of_value = words_of(value, MOST_WORDS);
                words.run.extend(words_of_value.iter().cloned());
                words.all.extend(words_of_value);
            }
            if is_checked {
                continue;
            }
            let is_shell = has(&["sh", "bash", "dash", "zsh", "ksh", "fish"]);
            let runs = has(&RUNNERS) || found.iter().any(|word| is_python(word));
            if runs && (is_first && !is_shell || pipeline.contains("<<")) {
                is_code = true;
            }
            if runs || is_code {
                words.run.extend(found.iter().cloned());
            }
            words.all.extend(found);
        }
        if words.all.len() > MOST_SCRIPT_WORDS {
            words.is_cut = true;
            break;
        }
    }
    add_modules(&mut words.run);
    words.all.extend(words.run.iter().cloned());
    words
}

/// Adds the files of modules if one of the words is Python.
fn add_modules(words: &mut BTreeSet<String>) {
    if words.iter().any(|word| is_python(word)) {
        let modules: Vec<String> = words.iter().flat_map(|word| module_files(word)).collect();
        words.extend(modules);
    }
}

fn words_of(line: &str, most: usize) -> BTreeSet<String> {
    // Only the value of `HOME` is known; other variables are handled by `behind_expansions`.
    let line = line.replace("${HOME}", "$HOME").replace("\"$HOME\"", "$HOME");
    let line = line.replace("$HOME/", "~/");
    // Other names of the working directory.
    let line = line.replace("~+/", "./").replace("/proc/self/cwd/", "./");
    let mut words = BTreeSet::new();
    without_quotes(&line, &mut words);
    // In nested quotes, characters are escaped once more.
    let unescaped = line.replace('\\', "");
    for text in [line.as_str(), unescaped.as_str()] {
        words.extend(pieces(text, "'\"", WORD_ENDS).map(str::to_owned));
        words.extend(pieces(text, "'\"", &format!("{WORD_ENDS}{JOINERS}")).map(str::to_owned));
        words.extend(behind_expansions(text));
    }
    // Value of a one-letter option: `-r./hook.js`.
    let values: Vec<String> = words.iter().flat_map(|word| option_values(word)).collect();
    words.extend(values);
    // Relative to a directory that the line changes to, or to that of the script: `./run`, `../../tools/run`.
    let inner: Vec<String> = words.iter().filter_map(|word| without_dots(word)).collect();
    words.extend(inner);
    words.retain(|word| !word.is_empty() && !word.starts_with('-'));
    add_modules(&mut words);
    words.into_iter().take(most).collect()
}

/// Splits a text at whitespace and at the given characters.
fn pieces<'a>(text: &'a str, quotes: &'a str, ends: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(move |c: char| c.is_whitespace() || quotes.contains(c) || ends.contains(c))
}

/// Adds the words of a line after removing quotes and escapes as a shell does.
fn without_quotes(line: &str, words: &mut BTreeSet<String>) {
    let mut word = String::new();
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match (next, quote) {
            (next, Some(open)) if next == open => quote = None,
            ('\'' | '"', None) => quote = Some(next),
            ('\\', None | Some('"')) => word.extend(rest.next()),
            (next, None) if next.is_whitespace() || WORD_ENDS.contains(next) => {
                words.insert(std::mem::take(&mut word));
            }
            (next, _) => word.push(next),
        }
    }
    words.insert(word);
}

/// Returns the paths that follow a shell expansion, up to the end of the word: `tools/x.sh` of `$(git
/// rev-parse --show-toplevel)/tools/x.sh`. The expansion usually yields the folder of the project or of the
/// repository.
fn behind_expansions(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in text.match_indices('/') {
        let (before, after) = (&text[..at], &text[at + 1..]);
        if !ends_with_expansion(before.trim_end_matches(['"', '\''])) {
            continue;
        }
        let is_end = |c: char| c.is_whitespace() || "'\"".contains(c) || WORD_ENDS.contains(c);
        let word = after.split(is_end).next().unwrap_or_default().trim_start_matches("../");
        // In a list, as in `PATH=$PWD/tools:$PATH`, it ends at the colon.
        let first = word.split(':').next().unwrap_or_default();
        for path in [word, first] {
            paths.push(path.to_owned());
            paths.push(format!(".git/{path}"));
        }
    }
    paths
}

fn ends_with_expansion(text: &str) -> bool {
    let name = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%');
    text.ends_with([')', '}', '`']) || name.ends_with('$') || text.ends_with('%')
}

/// Returns the possible values of one-letter options that are joined with them: `x.mk` of `-sfx.mk`.
fn option_values(word: &str) -> Vec<String> {
    let Some(options) = word.strip_prefix('-') else { return Vec::new() };
    let letters = options.chars().take(MOST_LETTERS).take_while(char::is_ascii_alphabetic).count();
    // The letters are ASCII.
    (1..=letters).map(|count| options[count..].to_owned()).collect()
}

/// Returns a path without `./`, `../` and slashes of an expansion at its beginning, if it has any.
fn without_dots(word: &str) -> Option<String> {
    let mut rest = word;
    if rest.starts_with("/../") {
        rest = &rest[1..];
    }
    while let Some(inner) = rest.strip_prefix("../").or_else(|| rest.strip_prefix("./")) {
        rest = inner.trim_start_matches('/');
    }
    (rest.len() < word.len() && !rest.is_empty()).then(|| rest.to_owned())
}

pub(super) fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    ["python", "pypy"].iter().any(|known| name.starts_with(known)) || ["py", "uv"].contains(&name)
}

/// Returns the files that Python would load if the word is a module, including the `__init__.py` of its
/// packages.
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
