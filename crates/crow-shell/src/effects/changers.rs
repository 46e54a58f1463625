//! Files that programs change although only some of their words are understood: editors, formatters, packers, git.
//!
//! A permission for such a program covers its changes in the project, but no file that starts programs; and a rule
//! against changes of a file applies to it. The tables here only add accesses to a command, never remove them.

use crow_core::tool::{Access, PathTouch, TouchDepth};

use super::{
    command_context::{CommandContext, FollowLinks},
    git_objects,
    options::option_name,
};

/// Programs that change the files named by their operands.
const ALWAYS: [&str; 40] = [
    "autopep8",
    "black",
    "bunzip2",
    "bzip2",
    "chattr",
    "dos2unix",
    "ed",
    "emacs",
    "ex",
    "fallocate",
    "gunzip",
    "gzip",
    "isort",
    "link",
    "lz4",
    "lzma",
    "nano",
    "nvim",
    "objcopy",
    "patch",
    "prename",
    "rename",
    "rustfmt",
    "setfacl",
    "setfattr",
    "shuf",
    "sponge",
    "sqlite3",
    "strip",
    "unix2dos",
    "unlzma",
    "unxz",
    "unzip",
    "unzstd",
    "vi",
    "vim",
    "xz",
    "yapf",
    "zip",
    "zstd",
];

/// Programs that change their operands with one of these options or words.
const WITH: [(&str, &[&str]); 13] = [
    ("awk", &["inplace", "-i"]),
    ("clang-format", &["-i"]),
    ("eslint", &["--fix"]),
    ("gawk", &["inplace", "-i"]),
    ("gofmt", &["-w"]),
    ("goimports", &["-w"]),
    ("prettier", &["--write", "-w"]),
    ("rubocop", &["--autocorrect", "--autocorrect-all", "-A", "-a"]),
    ("ruff", &["--fix", "format"]),
    ("shfmt", &["-w"]),
    ("stylelint", &["--fix"]),
    ("swiftformat", &[]),
    ("yq", &["--inplace", "-i"]),
];

/// Options, of any program, whose value is an output file.
const OUTPUTS: [&str; 7] =
    ["--out", "--out-file", "--outfile", "--output", "--output-file", "-o", "-out"];

/// Suffixes of packed files.
const PACKED: [&str; 6] = [".bz2", ".gz", ".lz4", ".lzma", ".xz", ".zst"];

/// Subcommands of git that change the files that their operands name.
const NAMED_BY_GIT: [&str; 12] = [
    "apply",
    "archive",
    "bundle",
    "checkout",
    "checkout-index",
    "clean",
    "merge-file",
    "mv",
    "restore",
    "rm",
    "stash",
    "switch",
];
/// Subcommands of git that change files of the work tree without naming them.
const CHANGED_BY_GIT: [&str; 17] = [
    "am",
    "apply",
    "bisect",
    "checkout",
    "checkout-index",
    "cherry-pick",
    "clean",
    "merge",
    "pull",
    "read-tree",
    "rebase",
    "restore",
    "revert",
    "sparse-checkout",
    "stash",
    "submodule",
    "switch",
];
/// Subcommands of git that create folders that they name.
const MADE_BY_GIT: [&str; 4] = ["clone", "init", "submodule", "worktree"];
/// Subcommands of git that make files in the current folder, or where an option says.
const MAKING_FOR_GIT: [&str; 9] = [
    "bugreport",
    "clone",
    "commit-graph",
    "diagnose",
    "format-patch",
    "index-pack",
    "init",
    "multi-pack-index",
    "worktree",
];
/// Options that say where.
const OUTPUTS_OF_GIT: [&str; 5] =
    ["--object-dir", "--output", "--output-directory", "--separate-git-dir", "-o"];

/// Adds the files that a program changes to the touches of its words. Returns `None` if they are unknown.
pub(super) fn add_changes(
    name: &str,
    words: &[&str],
    context: &CommandContext<'_>,
    touches: &mut Vec<PathTouch>,
) -> Option<()> {
    let (program, words) = started_program(name, words);
    let operands = || words.iter().copied().filter(|word| !word.starts_with('-'));
    let mut changed: Vec<(String, Access, TouchDepth)> = Vec::new();
    let mut change = |name: &str, depth| changed.push((name.to_owned(), Access::Write, depth));
    // 1) Output options and operands.
    if program != "git" {
        values_of(words, &OUTPUTS).for_each(|value| change(value, TouchDepth::Itself));
    }
    if changes_operands(program, words) {
        operands().for_each(|word| change(word, TouchDepth::Within));
        // `gunzip a.gz` makes `a`.
        let packed = operands()
            .filter_map(|word| PACKED.iter().find_map(|ending| word.strip_suffix(ending)));
        packed.for_each(|word| change(word, TouchDepth::Itself));
        let is_formatter = WITH.iter().any(|(name, _)| *name == program);
        let is_there = |word| context.resolve_single(word).is_some_and(|path| path.exists());
        if is_formatter && !operands().any(is_there) {
            change(".", TouchDepth::Within);
        }
    }
    if is_copier(program, words) {
        operands().next_back().into_iter().for_each(|word| change(word, TouchDepth::Within));
    }
    // 2) Programs with rules of their own.
    match program {
        "7z" | "7za" | "7zz" | "ar" | "jar" | "unrar" if unpacks(words) => {
            change(".", TouchDepth::Within);
            operands().skip(2).for_each(|word| change(word, TouchDepth::Within));
        }
        "unzip" => change(values_of(words, &["-d"]).last().unwrap_or("."), TouchDepth::Within),
        "tar" | "bsdtar" | "gtar" => tar(words, &mut change),
        "wget" if !has(words, 'O', "--output-document") => {
            for address in operands() {
                change(downloaded(address)?, TouchDepth::Itself);
            }
        }
        "git" => {
            git(words, context, &mut changed);
            touches.extend(committed_files(words, context)?);
        }
        // The patch itself says which files it changes, and can rename them.
        "patch" => {
            change(".", TouchDepth::Within);
            changed.push((".".to_owned(), Access::Read, TouchDepth::Below));
        }
        _ => {}
    }
    // 3) Resolve the names.
    for (name, access, depth) in changed.into_iter().filter(|(name, ..)| is_name(name)) {
        for touch in context.touch(&name, access, depth, FollowLinks::Yes)? {
            if !touches.contains(&touch) {
                touches.push(touch);
            }
        }
    }
    Some(())
}

/// Returns the program that a runner starts, with its words, as in `npx prettier --write a.ts`.
pub(super) fn started_program<'a>(name: &'a str, words: &'a [&'a str]) -> (&'a str, &'a [&'a str]) {
    let skipped = match (name, words.first().copied()) {
        ("npx" | "bunx" | "uvx", Some(_)) => 0,
        ("poetry" | "uv" | "pipenv" | "pdm" | "rye" | "hatch", Some("run"))
        | ("bundle" | "pnpm" | "yarn", Some("exec"))
        | ("python" | "python3", Some("-m")) => 1,
        _ => return (name, words),
    };
    match words.get(skipped..).and_then(<[&str]>::split_first) {
        Some((program, rest)) => (program.rsplit('/').next().unwrap_or(program), rest),
        None => (name, words),
    }
}

/// Returns whether a program copies from other places to the target that its last word names.
fn is_copier(program: &str, words: &[&str]) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| words.contains(name));
    match program {
        "gsutil" | "rclone" | "rsync" | "scp" => true,
        "docker" | "kubectl" | "oc" | "podman" => has(&["cp"]),
        "aws" | "gcloud" => has(&["cp", "mv", "rsync", "sync"]),
        _ => false,
    }
}

/// Returns whether a packer extracts an archive, by its first word: `x`, `-x`, `xf`, `e`.
fn unpacks(words: &[&str]) -> bool {
    words.first().is_some_and(|word| word.trim_start_matches('-').starts_with(['x', 'e']))
}

fn changes_operands(program: &str, words: &[&str]) -> bool {
    let is_listed = ALWAYS.binary_search(&program).is_ok();
    let has_word = || {
        WITH.iter().any(|(name, options)| {
            *name == program && options.iter().any(|option| words.contains(option))
        })
    };
    // `-pi`, `-i.bak`
    let edits_in_place = || matches!(program, "perl" | "ruby") && has(words, 'i', "--in-place");
    is_listed || has_word() || edits_in_place()
}

/// Returns whether an option is among the words, also in a cluster of letters.
fn has(words: &[&str], letter: char, long: &str) -> bool {
    words.iter().any(|word| {
        word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains(letter))
            || option_name(word) == long
    })
}

/// Returns the values of options, from the same word or the next one.
fn values_of<'a>(words: &'a [&'a str], options: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    words.iter().enumerate().filter_map(move |(at, word)| {
        if options.contains(word) {
            return words.get(at + 1).copied();
        }
        options.iter().find_map(|option| {
            let rest = word.strip_prefix(option)?;
            let is_long = option.starts_with("--");
            rest.strip_prefix('=').or_else(|| (!is_long && *option != "-out").then_some(rest))
        })
    })
}

/// Reports the archive that tar creates, or the folder and members that it extracts to.
fn tar(words: &[&str], change: &mut impl FnMut(&str, TouchDepth)) {
    let first = words.first().copied().unwrap_or_default();
    let letters = first.strip_prefix('-').unwrap_or(first);
    let is_old = !first.starts_with('-');
    let valued = |letter: char| "fbCTXIHVKLNFg".contains(letter);
    let does = |mode: &[char], long: &[&str]| {
        let clusters = words.iter().filter(|word| word.starts_with('-') && !word.starts_with("--"));
        is_old && letters.contains(mode)
            || clusters.into_iter().any(|cluster| {
                // The rest of a cluster after a letter with a value is that value.
                cluster.split(valued).next().is_some_and(|letters| letters.contains(mode))
            })
            || words.iter().any(|word| long.contains(word))
    };
    // Pairs of an option letter and its value: in the old style the values follow the cluster, otherwise they are in
    // the same word or the next.
    let mut named: Vec<(char, &str)> = Vec::new();
    if is_old {
        let rest = words.iter().skip(1).copied();
        named.extend(letters.chars().filter(|letter| valued(*letter)).zip(rest));
    }
    for (at, word) in words.iter().enumerate().filter(|(_, word)| !word.starts_with("--")) {
        let Some(letters) = word.strip_prefix('-') else { continue };
        if let Some((index, letter)) = letters.char_indices().find(|(_, letter)| valued(*letter)) {
            let rest = &letters[index + letter.len_utf8()..];
            let next = words.get(at + 1).copied().unwrap_or_default();
            named.push((letter, if rest.is_empty() { next } else { rest }));
        }
    }
    named.extend(values_of(words, &["--file"]).map(|value| ('f', value)));
    named.extend(values_of(words, &["--directory"]).map(|value| ('C', value)));
    let arguments = |wanted: char| {
        named.iter().filter(move |(letter, _)| *letter == wanted).map(|(_, value)| *value)
    };
    if does(
        &['c', 'r', 'u', 'A'],
        &["--append", "--catenate", "--concatenate", "--create", "--update"],
    ) {
        arguments('f').for_each(|archive| change(archive, TouchDepth::Itself));
    }
    if does(&['x'], &["--extract", "--get"]) {
        let here = ["."].into_iter().filter(|_| arguments('C').next().is_none());
        arguments('C').chain(here).for_each(|folder| change(folder, TouchDepth::Within));
        let is_value = |word: &str| named.iter().any(|(_, value)| *value == word);
        let members = words.iter().copied().skip(usize::from(is_old));
        let members = members.filter(|word| !word.starts_with('-') && !is_value(word));
        members.for_each(|member| change(member, TouchDepth::Within));
    }
}

/// Returns the name under which wget saves a download; `None` if the address has escapes.
fn downloaded(address: &str) -> Option<&str> {
    let path = address.split_once("://").map_or(address, |(_, rest)| rest);
    let path = path.split('#').next().unwrap_or(path);
    let (_, last) = path.rsplit_once('/').unwrap_or((path, ""));
    let name = if last.is_empty() { "index.html" } else { last };
    (!name.contains('%')).then_some(name)
}

fn git(
    words: &[&str],
    context: &CommandContext<'_>,
    changed: &mut Vec<(String, Access, TouchDepth)>,
) {
    // Skip global options; `-C` changes the folder of relative names.
    let mut rest = words;
    let mut folder = ".";
    while let [option, more @ ..] = rest
        && option.starts_with('-')
    {
        (folder, rest) = match (*option, more) {
            ("-C", [named, more @ ..]) => (*named, more),
            ("-c", [_, more @ ..]) => (folder, more),
            _ => (folder, more),
        };
    }
    let Some((command, rest)) = rest.split_first() else { return };
    let from_folder = |name: &str| {
        if folder == "." || name.starts_with('/') {
            name.to_owned()
        } else {
            format!("{folder}/{name}")
        }
    };
    let is_new = rest
        .iter()
        .any(|word| matches!(*word, "-b" | "-B" | "-c" | "--create" | "list" | "show" | "-h"));
    let is_hard = *command == "reset"
        && ["--hard", "--keep", "--merge"].iter().any(|option| rest.contains(option));
    if CHANGED_BY_GIT.contains(command) && !is_new || is_hard {
        // The whole repository, from its root.
        changed.push((".".to_owned(), Access::Write, TouchDepth::Within));
        changed.push((folder.to_owned(), Access::Write, TouchDepth::Within));
    }
    let operands = rest.iter().copied().filter(|word| !word.starts_with('-'));
    let is_local = |word: &&str| !word.contains("://") && !word.contains(':');
    if NAMED_BY_GIT.contains(command) {
        let values = values_of(rest, &["-o", "--output"]);
        let named = operands.clone().chain(values).filter(is_local);
        changed.extend(named.map(|word| (from_folder(word), Access::Write, TouchDepth::Within)));
    }
    if MADE_BY_GIT.contains(command) {
        let made = operands.clone().filter(is_local);
        changed.extend(made.map(|word| (from_folder(word), Access::Write, TouchDepth::Itself)));
    }
    if MAKING_FOR_GIT.contains(command) {
        let outputs = values_of(rest, &OUTPUTS_OF_GIT).map(from_folder);
        // Without `-C` these are the root's own files, which a rule for a folder below does not concern.
        let here = (folder != ".").then(|| folder.to_owned());
        changed.extend(outputs.chain(here).map(|name| (name, Access::Write, TouchDepth::Itself)));
    }
    let is_folder =
        |word: &str| context.resolve_single(&from_folder(word)).is_some_and(|path| path.is_dir());
    if git_objects::exposes_any(command, rest, is_folder) {
        changed.push((".".to_owned(), Access::Read, TouchDepth::Below));
        changed.push((folder.to_owned(), Access::Read, TouchDepth::Below));
    }
    // Everything in a folder that is moved can be read in the new place.
    if *command == "mv" {
        let sources = operands.clone().zip(operands.skip(1)).map(|(source, _)| from_folder(source));
        changed.extend(sources.map(|source| (source, Access::Read, TouchDepth::Below)));
    }
}

/// Returns the files that git records without their being named: all except ignored ones.
fn committed_files(words: &[&str], context: &CommandContext<'_>) -> Option<Vec<PathTouch>> {
    let command = words.iter().position(|word| matches!(*word, "add" | "commit" | "stage"));
    let Some((command, rest)) = command.and_then(|at| words.get(at..)?.split_first()) else {
        return Some(Vec::new());
    };
    let takes_all = match *command {
        "commit" => has(rest, 'a', "--all"),
        _ => has(rest, 'A', "--all") || has(rest, 'u', "--update"),
    };
    let is_pattern =
        |word: &str| matches!(word, "." | "./" | ":/") || word.contains(['*', '?', '[']);
    let takes_tree = *command != "commit" && rest.iter().any(|word| is_pattern(word));
    if !takes_all && !takes_tree {
        return Some(Vec::new());
    }
    let mut touches = Vec::new();
    for here in context.touch(".", Access::Read, TouchDepth::Below, FollowLinks::Yes)? {
        let root = context.workspace.roots().iter().find(|root| here.path.starts_with(root));
        let root = root.unwrap_or(&here.path);
        if !root.ancestors().all(crow_fs::has_readable_ignore_files) {
            return None;
        }
        let mut walk = ignore::WalkBuilder::new(root);
        walk.hidden(false).git_global(false).require_git(false).max_depth(Some(1));
        walk.filter_entry(|entry| entry.file_name() != ".git");
        for entry in walk.build().flatten().filter(|entry| entry.depth() > 0) {
            context.budget.take()?;
            let path = entry.into_path();
            touches.push(PathTouch { access: Access::Read, path, depth: TouchDepth::Below });
        }
    }
    Some(touches)
}

/// Returns whether a word can be a file name.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word != "-" && !word.contains(['\n', ' ']) && !word.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_hold_nothing_twice() {
        for list in [&ALWAYS[..], &NAMED_BY_GIT, &CHANGED_BY_GIT, &MADE_BY_GIT] {
            assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        }
        assert!(WITH.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn the_files_of_tar_are_found_in_every_style() {
        for (line, wanted) in [
            ("xf a.tar", vec!["."]),
            ("xfC a.tar out", vec!["out"]),
            ("-xzf a.tar -C out", vec!["out"]),
            ("-xzfa.tar --directory=out", vec!["out"]),
            ("--extract --file a.tar --directory out", vec!["out"]),
            ("czf a.tgz src", vec!["a.tgz"]),
            ("-czfa.tgz src", vec!["a.tgz"]),
            ("tf a.tar", vec![]),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let mut found = Vec::new();
            tar(&words, &mut |name: &str, _| found.push(name.to_owned()));
            assert_eq!(found, wanted, "{line}");
        }
    }

    #[test]
    fn a_download_is_saved_under_the_last_name_of_its_address() {
        assert_eq!(downloaded("https://example.org/a/.envrc"), Some(".envrc"));
        assert_eq!(downloaded("https://example.org/x?a=b#c"), Some("x?a=b"));
        assert_eq!(downloaded("https://example.org"), Some("index.html"));
        assert_eq!(downloaded("https://example.org/%2eenvrc"), None);
    }
}
