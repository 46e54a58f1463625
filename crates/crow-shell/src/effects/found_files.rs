//! Commands that read the files that `find` found: `find src -name '*.rs' | xargs wc -l`, `find . -exec grep -n x {} +`;
//! or those that `git ls-files`, `git grep -l` and `grep -rl` list. The shell may pass the files on as well:
//! `wc -l $(git ls-files)`, `for f in $(find src); do head -1 "$f"; done`, `git ls-files | while read f; do …; done`.
//!
//! What such a command reads is known only when the line runs. But all of it lies below the folders in which `find` looks,
//! so those folders are walked as for a recursive search: where no file among those that `find` may pass on leads out of
//! the workspace, holds secrets, or has a name that `xargs` would take apart, the command reads below these folders and
//! nothing else. In every other case it stays unknown.

use std::{
    fs::FileType,
    path::{Path, PathBuf},
};

use crow_core::tool::{Access, CommandWord, PathTouch, SideEffects, SimpleCommand, TouchDepth};
use ignore::DirEntry;

use super::{
    arguments::{Argument, arguments},
    command_context::CommandContext,
    git_worktree, globs,
    line_effects::{CommandEffects, program_effects},
    secret_search::{add_secret_of_git, holds_secret, is_path_of, whole_walk},
};
use crate::parse::{FilePassing, FoundFiles, xargs_options};

/// Programs that print their arguments, or parts of them, and open none of them.
const PRINTING: [&str; 3] = ["basename", "dirname", "echo"];
/// Programs that show the names and attributes of files and read none of them.
const LISTING: [&str; 4] = ["du", "ls", "readlink", "stat"];
/// The most entries of folders that are looked at for one command.
const MOST_ENTRIES: usize = 200_000;

/// Returns what `xargs` itself does with options that change only how it splits its input and how often it starts its
/// command: nothing.
pub(super) fn xargs(arguments: &[Argument]) -> Option<CommandEffects> {
    let options = xargs_options(arguments.iter().map(Argument::as_known))?;
    // Without a command there is none that is judged by itself.
    options.has_command.then(|| CommandEffects::reads(Vec::new()))
}

/// Returns what a command reads whose files come from `find`, if it only reads and all of these files may be read.
pub(super) fn read_found(
    command: &SimpleCommand,
    found: &FoundFiles,
    finder: &SimpleCommand,
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    let search = FileSearch::parse(finder, found.passing, context)?;
    let effects_with = |folders: &[String]| {
        let replaced = with_folders(command, &found.word, folders)?;
        let [CommandWord::Literal(program), words @ ..] = replaced.words.as_slice() else {
            return None;
        };
        let effects = program_effects(program, &arguments(words, context), &replaced, context);
        (effects.extent == SideEffects::Reads).then_some((program.clone(), effects))
    };
    // 1) What the command would do with the folders of the search in place of the files, also if there are several: a
    // program that reads one file may write the second.
    let (program, mut effects) = effects_with(&search.folders)?;
    let twice = [search.folders.clone(), search.folders.clone()].concat();
    effects_with(&twice)?;
    if !search.is_read_by(&program, &effects, context) {
        return None;
    }
    // 2) Whether it may do so with everything that `find` may pass on. A command that searches folders also reads what
    // `find` leaves out.
    let use_of_files = if [&PRINTING[..], &LISTING[..]].concat().contains(&program.as_str()) {
        UseOfFiles::Lists
    } else if effects.touches.iter().any(|touch| touch.depth == TouchDepth::Below) {
        UseOfFiles::SearchesFolders
    } else {
        UseOfFiles::Reads
    };
    let secret = search.check_files(use_of_files, context)?;
    for touch in &mut effects.touches {
        touch.depth = TouchDepth::Below;
    }
    effects.touches.dedup();
    effects.touches.extend(secret);
    // 3) `xargs` starts its command once even if nothing was found: then it may read the working directory.
    if search.passing != FilePassing::Arguments {
        let (_, without_files) = effects_with(&[])?;
        effects.touches.extend(without_files.touches);
    }
    Some(effects)
}

/// Returns the command with the folders of the search as its files.
fn with_folders(command: &SimpleCommand, word: &str, folders: &[String]) -> Option<SimpleCommand> {
    let is_files =
        |known: &CommandWord| matches!(known, CommandWord::Computed(text) if text == word);
    let at = command.words.iter().position(is_files)?;
    let folders = folders.iter().cloned().map(CommandWord::Literal);
    let mut replaced = command.clone();
    replaced.words.splice(at..=at, folders);
    Some(replaced)
}

/// A search of `find`, as far as it decides on the files that are passed on.
#[derive(Debug)]
struct FileSearch {
    /// The folders that are searched, as they are written.
    folders: Vec<String>,
    /// For each way to the action that passes files on: the tests that come before it, all of which hold.
    branches: Vec<Vec<FileTest>>,
    passing: FilePassing,
    lister: FileLister,
}

/// The program that lists the files.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileLister {
    /// `find`, whose names begin with the folders of the search.
    Find,
    /// `grep -rl`, which lists no folders, and names without a folder before them if it is given none.
    Grep,
    /// `git`, whose names are relative to the working directory. Unusual ones are quoted.
    Git {
        /// Patterns of which one matches the files.
        pathspecs: Vec<String>,
        /// True if ignored files may be listed.
        takes_ignored: bool,
    },
}

/// A test of `find` that is understood. Others leave nothing out here.
#[derive(Debug, Clone)]
enum FileTest {
    Name {
        pattern: NamePattern,
        is_negated: bool,
    },
    /// At least one of these patterns matches the name.
    AnyName(Vec<NamePattern>),
    /// The type is one of these letters.
    Type {
        letters: String,
        is_negated: bool,
    },
}

#[derive(Debug, Clone)]
struct NamePattern {
    letters: Vec<char>,
    ignores_case: bool,
}

/// The printing actions of a search.
#[derive(Debug, Default)]
struct PrintActions {
    lines: bool,
    terminated: bool,
}

impl FileSearch {
    /// Reads the words of a program that lists files. Returns `None` if it may list others, or in another form.
    fn parse(
        finder: &SimpleCommand,
        passing: FilePassing,
        context: &CommandContext<'_>,
    ) -> Option<Self> {
        let known = arguments(finder.words.get(1..)?, context);
        let words: Vec<&str> = known.iter().map(Argument::as_known).collect::<Option<_>>()?;
        match finder.words.first()?.as_literal()? {
            "find" => Self::of_find(words, passing),
            "grep" => Self::of_grep(&words, passing),
            // Variables may name another repository or index.
            "git" if finder.assignments.is_empty() => {
                let stays =
                    |folder: &PathBuf| git_worktree::stays_in_workspace(folder, context.workspace);
                if !context.folders?.iter().all(stays) {
                    return None;
                }
                match words.split_first()? {
                    (&"ls-files", rest) => Self::of_git_files(rest, passing),
                    (&"grep", rest) => Self::of_git_grep(rest, passing),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Reads the words of `grep` that list the names of files below folders: `-rl`.
    fn of_grep(words: &[&str], passing: FilePassing) -> Option<Self> {
        const FLAGS: &str = "rlinIwxEFsZ";
        let (mut flags, mut operands) = (String::new(), Vec::new());
        let mut tests = vec![FileTest::Type { letters: "f".to_owned(), is_negated: false }];
        let mut has_pattern = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "-e" => {
                    words.next()?;
                    has_pattern = true;
                }
                "--recursive" => flags.push('r'),
                "--files-with-matches" => flags.push('l'),
                "--ignore-case" => {}
                "--" => operands.extend(words.by_ref()),
                // A dash alone is the standard input.
                "-" => return None,
                word if word.starts_with("--") => {
                    let pattern = word.strip_prefix("--include=")?;
                    let pattern = NamePattern::parse(pattern, false, false)?;
                    tests.push(FileTest::Name { pattern, is_negated: false });
                }
                word => match word.strip_prefix('-') {
                    Some(letters) if letters.chars().all(|flag| FLAGS.contains(flag)) => {
                        flags.push_str(letters);
                    }
                    Some(_) => return None,
                    None => operands.push(word),
                },
            }
        }
        let is_terminated = flags.contains('Z');
        let is_fitting = match passing {
            FilePassing::Arguments => false,
            FilePassing::Words | FilePassing::Lines | FilePassing::Shell => !is_terminated,
            FilePassing::NulTerminated => is_terminated,
        };
        // With two patterns of names, `--include` means one of them.
        let lists = flags.contains('r') && flags.contains('l') && is_fitting && tests.len() < 3;
        if !has_pattern && !operands.is_empty() {
            operands.remove(0);
        }
        if operands.is_empty() {
            operands.push(".");
        }
        let folders = operands.into_iter().map(str::to_owned).collect();
        lists.then(|| Self { folders, branches: vec![tests], passing, lister: FileLister::Grep })
    }

    /// Reads the words of `git ls-files`.
    fn of_git_files(words: &[&str], passing: FilePassing) -> Option<Self> {
        const PLAIN: [&str; 8] = [
            "-c",
            "--cached",
            "-m",
            "--modified",
            "-o",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ];
        let (mut pathspecs, mut is_terminated) = (Vec::new(), false);
        let (mut lists_others, mut leaves_out_ignored) = (false, false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            lists_others |= matches!(*word, "-o" | "--others");
            leaves_out_ignored |= *word == "--exclude-standard";
            match *word {
                "-z" => is_terminated = true,
                word if PLAIN.contains(&word) => {}
                "--" => pathspecs.extend(words.by_ref().map(|word| (*word).to_owned())),
                word if word.starts_with('-') => return None,
                word => pathspecs.push(word.to_owned()),
            }
        }
        let takes_ignored = lists_others && !leaves_out_ignored;
        Self::of_git(pathspecs, takes_ignored, is_terminated, passing)
    }

    /// Reads the words of `git grep -l`.
    fn of_git_grep(words: &[&str], passing: FilePassing) -> Option<Self> {
        const FLAGS: &str = "linIwEFPz";
        let (mut flags, mut operands, mut pathspecs) = (String::new(), 0, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "-e" => {
                    words.next()?;
                    operands += 1;
                }
                "--" => pathspecs.extend(words.by_ref().map(|word| (*word).to_owned())),
                "--files-with-matches" | "--name-only" => flags.push('l'),
                word if word.starts_with("--") => return None,
                word => match word.strip_prefix('-') {
                    Some(letters) if letters.chars().all(|flag| FLAGS.contains(flag)) => {
                        flags.push_str(letters);
                    }
                    Some(_) => return None,
                    None => operands += 1,
                },
            }
        }
        // A second operand may be a revision, and then names are printed in another form.
        let lists = flags.contains('l') && operands == 1;
        let is_terminated = flags.contains('z');
        lists.then(|| Self::of_git(pathspecs, false, is_terminated, passing)).flatten()
    }

    fn of_git(
        pathspecs: Vec<String>,
        takes_ignored: bool,
        is_terminated: bool,
        passing: FilePassing,
    ) -> Option<Self> {
        let is_inside = |spec: &String| {
            !spec.starts_with(['/', ':', '~']) && spec.split('/').all(|part| part != "..")
        };
        // Without `-z` names are quoted; with it they are not.
        let is_fitting = match passing {
            FilePassing::Arguments => false,
            FilePassing::Words | FilePassing::Lines | FilePassing::Shell => !is_terminated,
            FilePassing::NulTerminated => is_terminated,
        };
        (is_fitting && pathspecs.iter().all(is_inside)).then(|| Self {
            folders: vec![".".to_owned()],
            branches: vec![Vec::new()],
            passing,
            lister: FileLister::Git { pathspecs, takes_ignored },
        })
    }

    /// Reads the words of `find` in its own order: what follows an action leaves nothing out for that action, and `-o`
    /// begins anew.
    fn of_find(words: Vec<&str>, passing: FilePassing) -> Option<Self> {
        let mut words = words.into_iter().peekable();
        let mut folders = Vec::new();
        while let Some(word) = words.next_if(|word| !word.starts_with(['-', '(', ')', '!', ','])) {
            folders.push(word.to_owned());
        }
        if folders.is_empty() {
            folders.push(".".to_owned());
        }
        let mut printing = PrintActions::default();
        let (mut branches, mut unprinted) = (Vec::new(), Vec::new());
        let mut tests: Vec<FileTest> = Vec::new();
        let mut has_extended_regex = false;
        while let Some(word) = words.next() {
            let is_negated = matches!(word, "-not" | "!");
            let word = if is_negated { words.next()? } else { word };
            match word {
                "-name" | "-iname" => {
                    let pattern = NamePattern::parse(words.next()?, word == "-iname", is_negated);
                    tests.extend(pattern.map(|pattern| FileTest::Name { pattern, is_negated }));
                }
                "-type" => {
                    tests.push(FileTest::Type { letters: words.next()?.to_owned(), is_negated });
                }
                "(" => {
                    let group: Vec<&str> = words.by_ref().take_while(|word| *word != ")").collect();
                    let any = any_name(&group)?;
                    tests.extend(any.filter(|_| !is_negated));
                }
                "-regextype" => has_extended_regex = words.next()? == "posix-extended",
                "-regex" if !is_negated => {
                    let names = suffix_patterns(words.next()?, has_extended_regex);
                    tests.extend(names.map(FileTest::AnyName));
                }
                "-path" | "-ipath" | "-wholename" | "-iwholename" | "-regex" | "-iregex"
                | "-maxdepth" | "-mindepth" | "-size" | "-mtime" | "-mmin" | "-newer"
                | "-newermt" | "-user" | "-group" | "-perm" => drop(words.next()?),
                "-a" | "-and" | "-prune" | "-xdev" | "-mount" | "-empty" | "-readable"
                | "-writable" | "-executable" | "-true" => {}
                "-o" | "-or" | "," if !is_negated => unprinted.push(std::mem::take(&mut tests)),
                "-print" | "-print0" if !is_negated => {
                    printing.lines |= word == "-print";
                    printing.terminated |= word == "-print0";
                    if passing != FilePassing::Arguments {
                        branches.push(tests.clone());
                    }
                }
                "-exec" if !is_negated && passing == FilePassing::Arguments => {
                    words.find(|word| matches!(*word, ";" | "+"))?;
                    branches.push(tests.clone());
                }
                // It may follow links, print in another form, or start something whose output is passed on.
                _ => return None,
            }
        }
        unprinted.push(tests);
        let prints = printing.lines || printing.terminated;
        if passing != FilePassing::Arguments && !prints {
            printing.lines = true;
            branches = unprinted;
        }
        let is_fitting = match passing {
            FilePassing::Arguments => true,
            FilePassing::Words | FilePassing::Lines | FilePassing::Shell => !printing.terminated,
            FilePassing::NulTerminated => !printing.lines,
        };
        is_fitting.then_some(Self { folders, branches, passing, lister: FileLister::Find })
    }

    /// Returns true if a command takes what is in place of the files for files: as a script or a pattern, the name of a file
    /// would decide what the command does.
    fn is_read_by(
        &self,
        program: &str,
        effects: &CommandEffects,
        context: &CommandContext<'_>,
    ) -> bool {
        let reads = |folder: &String| {
            let path = context.resolve_single(folder);
            effects.touches.iter().any(|touch| Some(&touch.path) == path.as_ref())
        };
        PRINTING.contains(&program) || self.folders.iter().all(reads)
    }

    /// Checks all files that may be passed on. Returns the first that may hold secrets, if there is one; None if one of
    /// them keeps the command from being known.
    fn check_files(
        &self,
        use_of_files: UseOfFiles,
        context: &CommandContext<'_>,
    ) -> Option<Vec<PathTouch>> {
        let [here] = context.folders? else { return None };
        // The list may contain submodules, which are folders.
        if self.lister != FileLister::Find && use_of_files == UseOfFiles::SearchesFolders {
            return None;
        }
        let mut entries = 0;
        for folder in &self.folders {
            for entry in whole_walk(&here.join(folder)).build() {
                entries += 1;
                if entries > MOST_ENTRIES {
                    return None;
                }
                // What cannot be read is not passed on either.
                let Ok(entry) = entry else { continue };
                let kind = entry.file_type()?;
                let printed = entry.path().strip_prefix(here).unwrap_or(entry.path());
                if !self.lister.may_list(&entry, printed) {
                    continue;
                }
                if use_of_files != UseOfFiles::SearchesFolders && !self.may_pass(entry.path(), kind)
                {
                    continue;
                }
                if !self.passing.keeps_whole(printed) || !self.keeps_plain(folder, printed) {
                    return None;
                }
                let mut path = entry.path().to_owned();
                if kind.is_symlink() {
                    // It is judged by the file that it leads to. A folder behind it is not searched here.
                    path = crow_fs::canonicalize(&path).ok()?;
                    let is_folder = crow_fs::metadata(&path).ok()?.is_directory();
                    if is_folder || !context.leads_inside(entry.path()) {
                        return None;
                    }
                }
                let reads = use_of_files != UseOfFiles::Lists
                    && !kind.is_dir()
                    && !matches!(self.lister, FileLister::Git { .. });
                if reads && (holds_secret(&path) || holds_secret(entry.path())) {
                    let touch = PathTouch { access: Access::Read, path, depth: TouchDepth::Itself };
                    return Some(vec![touch]);
                }
            }
        }
        let FileLister::Git { pathspecs, takes_ignored } = &self.lister else {
            return Some(Vec::new());
        };
        if use_of_files == UseOfFiles::Lists {
            return Some(Vec::new());
        }
        // Which files git lists is judged as for `git grep`: ignored ones are left out.
        let mut touches =
            vec![PathTouch { access: Access::Read, path: here.clone(), depth: TouchDepth::Below }];
        let mut words = vec!["--"];
        if *takes_ignored {
            words.insert(0, "--no-exclude-standard");
        }
        words.extend(pathspecs.iter().map(String::as_str));
        add_secret_of_git(&words, &mut touches)?;
        Some(touches.split_off(1))
    }

    /// Returns true if a name is printed as it is, and no program takes it for an option.
    fn keeps_plain(&self, folder: &str, printed: &Path) -> bool {
        let is_option = |text: &str| text.starts_with(['-', '+']);
        match &self.lister {
            FileLister::Find => true,
            FileLister::Grep => {
                folder != "." || printed.to_str().is_some_and(|text| !is_option(text))
            }
            FileLister::Git { .. } => printed.to_str().is_some_and(|text| {
                let is_plain = |char: char| {
                    char.is_ascii_graphic() && !matches!(char, '"' | '\\') || char == ' '
                };
                !is_option(text) && text.chars().all(is_plain)
            }),
        }
    }

    fn may_pass(&self, path: &Path, kind: FileType) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        self.branches.iter().any(|tests| tests.iter().all(|test| test.may_hold(name, kind)))
    }
}

impl FileLister {
    /// Returns false if an entry of a walk is surely not listed, nor anything below it if it is a link.
    fn may_list(&self, entry: &DirEntry, printed: &Path) -> bool {
        let Self::Git { pathspecs, .. } = self else { return true };
        // Git lists nothing of a repository's own folder.
        if printed.components().any(|part| part.as_os_str() == ".git") {
            return false;
        }
        // Its index may still name files below a folder that was replaced by a link.
        let is_folder_link = || entry.path_is_symlink() && entry.path().is_dir();
        pathspecs.is_empty()
            || pathspecs.iter().any(|spec| is_path_of(spec, printed))
            || is_folder_link()
    }
}

/// What a command does with the files that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UseOfFiles {
    /// It shows names and attributes.
    Lists,
    /// It reads them.
    Reads,
    /// It reads them and everything below those that are folders.
    SearchesFolders,
}

impl FileTest {
    /// Returns false if the test surely leaves a file out. `name` is `None` for a name that is not UTF-8.
    fn may_hold(&self, name: Option<&str>, kind: FileType) -> bool {
        match self {
            Self::Name { pattern, is_negated } => {
                name.is_none_or(|name| pattern.matches(name) != *is_negated)
            }
            Self::AnyName(patterns) => {
                name.is_none_or(|name| patterns.iter().any(|pattern| pattern.matches(name)))
            }
            Self::Type { letters, is_negated } => {
                let is_listed = letters.split(',').any(|letter| match letter {
                    "f" => kind.is_file(),
                    "d" => kind.is_dir(),
                    "l" => kind.is_symlink(),
                    _ => !kind.is_file() && !kind.is_dir() && !kind.is_symlink(),
                });
                is_listed != *is_negated
            }
        }
    }
}

impl NamePattern {
    /// Returns `None` for a pattern that is left to `find`: one with brackets or backslashes, and one of which it is not
    /// certain what it leaves out.
    fn parse(pattern: &str, ignores_case: bool, is_negated: bool) -> Option<Self> {
        let is_certain = !is_negated || !ignores_case || pattern.is_ascii();
        (!pattern.contains(['[', '\\']) && is_certain)
            .then(|| Self { letters: pattern.chars().collect(), ignores_case })
    }

    fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        if !self.ignores_case {
            return globs::is_match(&self.letters, &name);
        }
        let lower = |letters: &[char]| -> Vec<char> {
            letters.iter().flat_map(|letter| letter.to_lowercase()).collect()
        };
        globs::is_match(&lower(&self.letters), &lower(&name))
    }
}

/// Returns the names that a regular expression for whole paths matches, if it only decides on their ends: `.*\.rs`,
/// `.*\.\(rs\|js\)`, and with `is_extended` `.*\.(rs|js)`.
fn suffix_patterns(regex: &str, is_extended: bool) -> Option<Vec<NamePattern>> {
    let end = regex.strip_prefix(".*\\.")?;
    let (open, close, or) = if is_extended { ("(", ")", "|") } else { ("\\(", "\\)", "\\|") };
    let group = end.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let ends: Vec<&str> = group.map_or_else(|| vec![end], |group| group.split(or).collect());
    let is_plain =
        |end: &&str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_alphanumeric());
    ends.iter()
        .all(is_plain)
        .then(|| ends.iter().map(|end| format!("*.{end}")))?
        .map(|pattern| NamePattern::parse(&pattern, false, false))
        .collect()
}

/// Returns the test of a group of names that are joined by `-o`. The outer `None` stands for a group that may hold
/// actions, the inner one for tests that leave nothing out here.
#[expect(clippy::option_option, reason = "a group that is unknown differs from one without a test")]
fn any_name(group: &[&str]) -> Option<Option<FileTest>> {
    const HARMLESS: [&str; 9] =
        ["-name", "-iname", "-path", "-ipath", "-o", "-or", "-type", "-not", "!"];
    let mut patterns = Vec::new();
    let mut is_understood = true;
    let mut words = group.iter();
    while let Some(word) = words.next() {
        match *word {
            "-name" | "-iname" => match NamePattern::parse(words.next()?, *word == "-iname", false)
            {
                Some(pattern) => patterns.push(pattern),
                None => is_understood = false,
            },
            "-o" | "-or" => {}
            word if HARMLESS.contains(&word) => is_understood = false,
            word if word.starts_with('-') || matches!(word, "(" | ",") => return None,
            _ => {}
        }
    }
    // `-name a -name b` without `-o` holds for fewer files.
    Some((is_understood && !patterns.is_empty()).then_some(FileTest::AnyName(patterns)))
}

impl FilePassing {
    /// Returns true if a command gets a path as one argument, as it is.
    fn keeps_whole(self, path: &Path) -> bool {
        let is_split = |letter: char| match self {
            Self::Arguments | Self::NulTerminated => false,
            Self::Lines => letter == '\n',
            Self::Words => letter.is_whitespace() || matches!(letter, '\'' | '"' | '\\'),
            // Parentheses are part of a pattern if the shell has extended ones.
            Self::Shell => letter.is_whitespace() || "*?[\\(".contains(letter),
        };
        matches!(self, Self::Arguments | Self::NulTerminated)
            || path.to_str().is_some_and(|path| !path.contains(is_split))
    }
}
