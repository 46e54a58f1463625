//! Unknown programs: words that lead out of the workspace, and operands that start another program.

use crow_core::tool::{Access, CommandWord, PathTouch, SideEffects, TouchDepth};

use super::{
    arguments::Argument,
    changers,
    command_context::{CommandContext, FollowLinks},
    line_effects::CommandEffects,
    secret_search,
};

/// Programs whose operands may be text that looks like a path.
const TEXTS: [&str; 6] = ["awk", "gawk", "mawk", "jq", "sed", "perl"];

/// Programs that read a folder operand recursively, to pack, copy or rename it. The contents can then be read in
/// another place. `compileall`, `tarfile`, `zipapp` and `zipfile` are modules of Python.
const CARRIERS: [&str; 50] = [
    "7z",
    "7za",
    "7zr",
    "7zz",
    "asar",
    "borg",
    "bsdtar",
    "buildah",
    "compileall",
    "dar",
    "ditto",
    "docker",
    "dpkg-deb",
    "duplicity",
    "exch",
    "genisoimage",
    "gensquashfs",
    "gpg-zip",
    "gpgtar",
    "gtar",
    "hdiutil",
    "jar",
    "kopia",
    "lha",
    "lrztar",
    "makeself",
    "mkfs.erofs",
    "mkisofs",
    "mksquashfs",
    "mmv",
    "nerdctl",
    "podman",
    "prename",
    "rar",
    "rename",
    "rename.ul",
    "restic",
    "rsync",
    "scp",
    "source",
    "star",
    "tar",
    "tarfile",
    "tarsnap",
    "unison",
    "xorriso",
    "zip",
    "zipapp",
    "zipfile",
    "zpaq",
];

/// Programs that read folder operands recursively with `-r` or `--recursive`.
const RECURSIVE_CARRIERS: [&str; 14] = [
    "bzip3",
    "ccrypt",
    "compress",
    "detox",
    "gunzip",
    "gzip",
    "lz4",
    "lz4c",
    "pigz",
    "pzstd",
    "uncompress",
    "unpigz",
    "zstd",
    "zstdmt",
];

/// Programs that pack the project, as pairs of the program and its first word.
const PROJECT_PACKERS: [(&str, &[&str]); 7] = [
    ("bun", &["pack", "pm", "publish"]),
    ("cargo", &["package", "publish"]),
    ("npm", &["pack", "publish"]),
    ("pnpm", &["deploy", "pack", "publish"]),
    ("poetry", &["build", "publish"]),
    ("uv", &["build", "publish"]),
    ("yarn", &["npm", "pack", "publish"]),
];

/// Programs that read a folder recursively to send it.
const SENDERS: [&str; 6] = ["aws", "gcloud", "gsutil", "kubectl", "oc", "rclone"];

/// Programs that make or change files where their words say. `venv` is a module of Python.
const MAKERS: [&str; 25] = [
    "7z",
    "7za",
    "7zr",
    "7zz",
    "ar",
    "csplit",
    "gcsplit",
    "gsplit",
    "javac",
    "logsave",
    "lualatex",
    "mkfs",
    "mknod",
    "mkswap",
    "mktemp",
    "pdflatex",
    "screen",
    "script",
    "split",
    "sqlite3",
    "tempfile",
    "venv",
    "virtualenv",
    "wget",
    "xelatex",
];
/// The same of programs by a word that tells what they do.
const MAKING_WORDS: [(&str, &[&str]); 4] = [
    ("cargo", &["new", "init"]),
    ("node", &["--cpu-prof-dir", "--heap-prof-dir", "--diagnostic-dir", "--report-dir"]),
    ("npm", &["init"]),
    ("uv", &["venv", "init"]),
];

/// Returns true if a program makes files where its words say.
fn makes_files(program: &str, words: &[&str]) -> bool {
    let has_word = |known: &[&str]| {
        words.iter().any(|word| {
            let name = word.split_once('=').map_or(*word, |(name, _)| name);
            known.contains(&name)
        })
    };
    MAKERS.contains(&program)
        || MAKING_WORDS.iter().any(|(name, known)| *name == program && has_word(known))
}

/// Returns the effects of a program without rules of its own: it may read the files that its words name, and do
/// anything else.
pub(super) fn unknown_program_effects(
    name: &str,
    arguments: &[Argument],
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> CommandEffects {
    let likely_words = words.iter().filter_map(likely_path).map(Argument::Known);
    let arguments = &arguments.iter().cloned().chain(likely_words).collect::<Vec<_>>();
    if starts_another(name, arguments) {
        return CommandEffects::hidden();
    }
    // It may also touch files that are not found below.
    let mut is_hidden = may_follow_link_outside(name, arguments, context);
    let is_grep = matches!(name, "egrep" | "fgrep" | "grep");
    if is_hidden && !is_grep {
        return CommandEffects::hidden();
    }
    let words: Vec<&str> = arguments.iter().filter_map(Argument::as_known).collect();
    let (program, program_words) = changers::started_program(name, &words);
    let is_carrier = carries_folders(program, program_words);
    let takes_all = is_carrier || SENDERS.contains(&name);
    let depth = if takes_all || searches_folders(name, arguments) {
        TouchDepth::Below
    } else {
        TouchDepth::Itself
    };
    // 1) Paths in the words, also relative to folders that options name.
    let mut touches: Vec<PathTouch> = Vec::new();
    let folders = folders_of(arguments);
    let takes_unnamed = is_carrier && arguments.contains(&Argument::Unknown)
        || takes_list_of_names(program, program_words)
        || packs_project(program, program_words);
    if takes_unnamed {
        let here = context.touch(".", Access::Read, TouchDepth::Below, FollowLinks::Yes);
        touches.extend(here.unwrap_or_default());
    }
    for text in arguments.iter().filter_map(Argument::as_known) {
        for part in parts_of(text) {
            let below = folders.iter().filter(|_| !part.starts_with('/'));
            let moved = below.map(|folder| format!("{folder}/{part}"));
            let moved =
                moved.filter_map(|it| context.touch(&it, Access::Read, depth, FollowLinks::Yes));
            touches.extend(moved.flatten().filter(|touch| touch.path.exists()));
            let named = context.touch(part, Access::Read, depth, FollowLinks::Yes);
            let may_lead_out = leads_out(part) && !TEXTS.contains(&name);
            let is_meant = |touch: &PathTouch| {
                let is_outside = !context.workspace.contains(&touch.path);
                // A file in an existing folder may exist by the time the line runs.
                let is_in_folder = part.contains('/')
                    && !part.starts_with('/')
                    && touch.path.parent().is_some_and(std::path::Path::is_dir);
                is_outside && may_lead_out || touch.path.exists() || is_in_folder
            };
            let Some(named) = named else {
                is_hidden |= may_lead_out;
                continue;
            };
            for touch in named.into_iter().filter(is_meant) {
                if !touches.contains(&touch) {
                    touches.push(touch);
                }
            }
        }
    }
    // 2) Paths in commands of the program's own language.
    for name in named_in_commands(name, arguments) {
        let named = context.touch(name, Access::Read, TouchDepth::Itself, FollowLinks::Yes);
        let written = context.touch(name, Access::Write, TouchDepth::Itself, FollowLinks::Yes);
        for touch in named.into_iter().chain(written).flatten() {
            if touch.path.exists() && !touches.contains(&touch) {
                touches.push(touch);
            }
        }
    }
    // 3) A search without operands reads the current folder.
    if touches.is_empty() && searches_folders(name, arguments) {
        let here = context.touch(".", Access::Read, TouchDepth::Below, FollowLinks::Yes);
        touches.extend(here.unwrap_or_default());
    }
    if is_grep && searches_folders(name, arguments) {
        secret_search::add_secret_below(&mut touches);
    }
    // 4) Files that the program is known to change.
    if changers::add_changes(name, &words, context, &mut touches).is_none() {
        return CommandEffects::hidden();
    }
    let may_change_read = makes_files(program, program_words);
    let extent = if is_hidden { SideEffects::Hidden } else { SideEffects::Anything };
    CommandEffects { extent, may_change_read, ..CommandEffects::changes(touches) }
}

/// Returns the text of a word that is known only when the line runs, if it names the working folder or the home of the user and
/// nothing else is unknown in it: `$PWD/a.txt`, `file://$(pwd)/a.txt`, `~/a.txt`, `/proc/self/cwd/a.txt`.
fn likely_path(word: &CommandWord) -> Option<String> {
    let text = match word {
        CommandWord::Computed(text) => text,
        CommandWord::Literal(text) => {
            return text.strip_prefix("/proc/self/cwd/").map(|path| format!("./{path}"));
        }
    };
    let mut text = text.replace(['"', '\''], "");
    for here in ["${PWD}", "$PWD", "$(pwd)", "`pwd`", "~+"] {
        text = text.replace(here, ".");
    }
    if text.contains('~') || text.contains("HOME") {
        let home = std::env::home_dir()?;
        let home = home.to_str()?;
        text = text.replace("${HOME}", home).replace("$HOME", home);
        if let Some(below) = text.strip_prefix('~').filter(|below| below.starts_with('/')) {
            text = format!("{home}{below}");
        }
    }
    (!text.contains(['$', '`', '\\'])).then_some(text)
}

/// Returns the pieces of command texts for a program with a language of its own: `vim -c 'r file'`, `sqlite3 x '.read
/// file'`.
fn named_in_commands<'a>(name: &str, arguments: &'a [Argument]) -> Vec<&'a str> {
    const PROGRAMS: [&str; 13] = [
        "ed", "ex", "gdb", "gnuplot", "m4", "mariadb", "mysql", "nvim", "psql", "sed", "sqlite3",
        "vi", "vim",
    ];
    if !PROGRAMS.contains(&name) {
        return Vec::new();
    }
    let texts = arguments.iter().filter_map(Argument::as_known).filter(|text| text.contains(' '));
    let ends = |char: char| char.is_whitespace() || "'\"();,|".contains(char);
    texts.flat_map(|text| text.split(ends)).filter(|piece| !piece.is_empty()).collect()
}

/// Returns whether a program packs, copies or renames folders that its words name.
fn carries_folders(program: &str, words: &[&str]) -> bool {
    let is_recursive = |word: &&str| {
        word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains(['r', 'R']))
            || word.starts_with("--rec")
    };
    CARRIERS.contains(&program)
        || RECURSIVE_CARRIERS.contains(&program) && words.iter().any(is_recursive)
}

/// Returns whether a program that packs files reads the names of some from a file or its input: `tar -T list`,
/// `zip -@`, `7z a x @list`.
fn takes_list_of_names(program: &str, words: &[&str]) -> bool {
    let has_letter = |letter: char| {
        words.iter().enumerate().any(|(at, word)| {
            let letters = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
            // The letters of tar may come first, without a dash.
            letters.or_else(|| (at == 0).then_some(word)).is_some_and(|it| it.contains(letter))
        })
    };
    let has_option =
        |names: &[&str]| words.iter().any(|word| names.iter().any(|name| word.starts_with(name)));
    match program {
        "bsdtar" | "gtar" | "star" | "tar" => has_letter('T') || has_option(&["--files"]),
        "7z" | "7za" | "7zr" | "7zz" | "jar" | "lha" | "rar" | "zip" => {
            has_letter('@') || has_option(&["@"])
        }
        "rclone" | "rsync" => has_option(&["--files-from", "--include-from"]),
        "xz" | "zstd" | "zstdmt" => has_option(&["--file"]),
        _ => false,
    }
}

/// Returns whether a program packs the project in which it runs.
fn packs_project(program: &str, words: &[&str]) -> bool {
    let first = words.iter().find(|word| !word.starts_with('-'));
    PROJECT_PACKERS.iter().any(|(name, subcommands)| {
        *name == program && first.is_some_and(|first| subcommands.contains(first))
    })
}

/// Returns whether a program searches its folder operands recursively.
fn searches_folders(name: &str, arguments: &[Argument]) -> bool {
    let mut words = arguments.iter().filter_map(Argument::as_known);
    match name {
        "ack" | "ag" | "fd" | "rg" | "rgrep" => true,
        "egrep" | "fgrep" | "grep" | "ugrep" | "zgrep" => words.any(|word| {
            word.strip_prefix('-')
                .is_some_and(|it| !it.starts_with('-') && it.contains(['r', 'R', 'd']))
                || ["--recursive", "--dereference-recursive", "--directories"]
                    .iter()
                    .any(|option| word.starts_with(option))
        }),
        _ => false,
    }
}

/// Returns whether a program follows links, and one of them may lead out of the workspace.
pub(super) fn may_follow_link_outside(
    name: &str,
    arguments: &[Argument],
    context: &CommandContext<'_>,
) -> bool {
    let words = || arguments.iter().filter_map(Argument::as_known);
    let has = |letter: char, long: &str| {
        words().any(|word| {
            word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains(letter))
                || word == long
        })
    };
    let follows = match name {
        "grep" | "egrep" | "fgrep" => has('R', "--dereference-recursive"),
        "rg" | "fd" | "find" => has('L', "--follow") || words().any(|word| word == "-follow"),
        "cp" | "du" | "ls" | "rsync" => has('L', "--dereference") || has('L', "--copy-links"),
        "tar" | "bsdtar" => has('h', "--dereference"),
        "tree" => has('l', "--follow"),
        "zip" => !has('y', "--symlinks"),
        _ => false,
    };
    let folders = words().filter(|word| !word.starts_with('-')).chain(["."]);
    let paths = folders
        .filter_map(|it| context.touch(it, Access::Read, TouchDepth::Below, FollowLinks::Yes));
    follows && !paths.flatten().all(|touch| context.holds_all_below(&touch.path))
}

/// Returns whether an operand makes a program start another one: a transport of git, a variable of make.
fn starts_another(name: &str, arguments: &[Argument]) -> bool {
    let mut words = arguments.iter().filter_map(Argument::as_known);
    match name {
        "git" => words.any(|word| word.contains("::")),
        // They read file names from their input.
        "cpio" | "pax" => true,
        "make" | "gmake" => words.any(sets_program),
        _ => false,
    }
}

/// Returns whether a word sets a variable of make that names a program: `make CC=evil`, `make SHELL=evil`.
fn sets_program(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        ["SHELL", "MAKE", "MAKEFLAGS", "CC", "CXX", "LD", "AR", "AS", "CPP"]
            .contains(&name.trim_end_matches([':', '+', '?', '!']))
            || name.starts_with(".SHELL")
    })
}

/// Returns the pieces of a word that may be paths: the word itself, the value of an option, the text attached to a
/// letter, after `@`, after the scheme of an address, and in a revision of git.
fn parts_of(text: &str) -> impl Iterator<Item = &str> {
    let (before, address) = text.split_once(':').unwrap_or((text, text));
    let is_file = ["file", "fileb"].iter().any(|scheme| before.eq_ignore_ascii_case(scheme));
    let of_file = is_file.then(|| address.strip_prefix("//").unwrap_or(address));
    let in_text = file_addresses(text);
    let in_revision = text.rsplit_once(':').map(|(_, path)| path);
    let sent = text.rsplit_once('@').map(|(_, path)| path.split(';').next().unwrap_or(path));
    // Values may be nested: `-o=go-template-file=x`.
    let values = [text.split_once('='), text.rsplit_once('=')].into_iter().flatten();
    let values = values.map(|(_, value)| {
        let schemes = ["file://", "fileb://"];
        schemes.iter().find_map(|scheme| value.strip_prefix(scheme)).unwrap_or(value)
    });
    let attached = text.strip_prefix('-').and_then(|rest| {
        let at = rest.char_indices().nth(1).map(|(at, _)| at)?;
        rest.get(at..).filter(|_| !rest.starts_with('-'))
    });
    let is_address = text.contains("://");
    let is_path = move |part: &&str| {
        let is_address = is_address && part.starts_with("//");
        !(part.contains(['\n', ' ']) || part.contains("://") || is_address)
    };
    // `-v folder:/there`, `type=bind,src=folder,dst=/there`
    let inside = text.split([',', ':']).map(|piece| piece.split_once('=').map_or(piece, |it| it.1));
    let inside = inside.filter(|piece| !piece.starts_with('/') && piece.len() < text.len());
    let of_address = [of_file, in_revision.filter(|_| !is_file), sent];
    [Some(text), attached]
        .into_iter()
        .chain(of_address)
        .flatten()
        .chain(in_text)
        .chain(values)
        .chain(inside)
        .filter(is_path)
}

/// Returns the paths of addresses of files in a text: `git+file:///folder`, `name @ file:///folder`.
fn file_addresses(text: &str) -> impl Iterator<Item = &str> {
    const SCHEME: &str = "file:";
    let starts = text.char_indices().filter_map(|(at, _)| {
        let scheme = text.get(at..at + SCHEME.len())?;
        let is_whole = !text[..at].ends_with(|char: char| char.is_alphanumeric());
        (scheme.eq_ignore_ascii_case(SCHEME) && is_whole).then_some(at + SCHEME.len())
    });
    starts.filter_map(|start| {
        let address = text[start..].split([' ', '#', ';']).next()?;
        let path = match address.strip_prefix("//") {
            // An address may name the host.
            Some(rest) => rest.get(rest.find('/')?..)?,
            None => address,
        };
        // More slashes are as one.
        let rest = path.trim_start_matches('/');
        path.get((path.len() - rest.len()).saturating_sub(1)..).filter(|path| !path.is_empty())
    })
}

/// Returns the folders that options name as working directories: `-C folder`.
fn folders_of(arguments: &[Argument]) -> Vec<&str> {
    const OPTIONS: [&str; 4] = ["-C", "--cwd", "--directory", "--prefix"];
    let words = || arguments.iter().map(|argument| argument.as_known().unwrap_or_default());
    let next = words().zip(words().skip(1));
    let next = next.filter(|(word, _)| OPTIONS.contains(word)).map(|(_, folder)| folder);
    let same = words().filter_map(|word| {
        let (option, folder) = word.split_once('=')?;
        OPTIONS.contains(&option).then_some(folder)
    });
    next.chain(same).filter(|folder| !folder.is_empty()).collect()
}

/// Returns whether a word is written as a path that may lead out: an absolute one, or one with `..`.
fn leads_out(part: &str) -> bool {
    part.starts_with('/') || part.split('/').any(|name| name == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_found_in_the_names_of_packages() {
        for (text, wanted) in [
            ("file:///etc/x", &["/etc/x"][..]),
            ("git+file:///etc/x", &["/etc/x"]),
            ("GIT+FILE:///etc/x#egg=x", &["/etc/x"]),
            ("x @ file:///etc/x", &["/etc/x"]),
            ("x @ git+file:////etc/x ; y", &["/etc/x"]),
            ("file://localhost/etc/x", &["/etc/x"]),
            ("x@file:../x", &["../x"]),
            ("profile:/etc/x", &[]),
            ("file://", &[]),
            ("éfile:/x ü", &[]),
        ] {
            assert_eq!(file_addresses(text).collect::<Vec<_>>(), wanted, "{text}");
        }
    }

    #[test]
    fn the_lists_are_sorted_and_hold_nothing_twice() {
        for list in [&CARRIERS[..], &RECURSIVE_CARRIERS] {
            assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        }
        assert!(PROJECT_PACKERS.is_sorted_by(|one, next| one.0 < next.0));
    }
}
