//! Uses of programs that only list or print something, although the program can do more: `tar tf`, `unzip -l`, `ps aux`,
//! `printenv PATH`, `python3 -m json.tool`.
//!
//! Not listed are `env`, which prints every variable that the user gives to commands, and `less`, which starts the
//! program in `LESSOPEN`.

use std::{fs, path::Path};

use crow_core::tool::{Access, PathTouch, SideEffects, TouchDepth};

use super::{
    arguments::Argument,
    command_context::{CommandContext, FollowLinks},
    line_effects::CommandEffects,
    version_queries,
};

/// Parts of the names of variables that may contain a secret.
const SECRET_PARTS: [&str; 14] = [
    "AUTH", "CONN", "COOKIE", "CRED", "DSN", "KEY", "LOGIN", "PASS", "PAT_", "SECRET", "SIG",
    "TOKEN", "URI", "URL",
];
/// Columns of `ps` that show no variables of a process.
const COLUMNS: [&str; 26] = [
    "%cpu", "%mem", "args", "cmd", "comm", "command", "etime", "etimes", "group", "lstart", "ni",
    "nlwp", "pcpu", "pgid", "pid", "pmem", "ppid", "pri", "rss", "sid", "start", "stat", "time",
    "tty", "user", "vsz",
];

/// Returns what a program reads if it only lists or prints something.
pub(super) fn listing(
    name: &str,
    arguments: &[Argument],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    let words: Vec<&str> = arguments.iter().map(Argument::as_known).collect::<Option<_>>()?;
    match name {
        "printenv" => prints_harmless(&words).then(|| CommandEffects::reads(Vec::new())),
        // Outside of a sandbox it shows the arguments of the user's other programs.
        "ps" => lists_processes(&words).then(|| sandboxed(Vec::new())),
        "python" | "python3" => json_tool(name, &words, context),
        "tar" => archives_of_tar(&words).and_then(|archives| read_archives(&archives, context)),
        "unzip" => archives_of_unzip(&words).and_then(|archives| read_archives(&archives, context)),
        _ => None,
    }
}

/// Returns effects of a program that may start others, which a sandbox must confine.
fn sandboxed(touches: Vec<PathTouch>) -> CommandEffects {
    CommandEffects { extent: SideEffects::SandboxedReads, ..CommandEffects::reads(touches) }
}

/// Returns the effects of listing archives. The program for their compression is started.
fn read_archives(archives: &[String], context: &CommandContext<'_>) -> Option<CommandEffects> {
    let mut touches = Vec::new();
    for archive in archives {
        touches.extend(context.touch(
            archive,
            Access::Read,
            TouchDepth::Itself,
            FollowLinks::Yes,
        )?);
    }
    Some(sandboxed(touches))
}

/// Returns whether `printenv` prints single variables that contain no secret, by their names.
fn prints_harmless(words: &[&str]) -> bool {
    let names: Vec<_> = words.iter().filter(|word| !matches!(**word, "-0" | "--null")).collect();
    let is_harmless = |name: &&&str| {
        let upper = name.to_ascii_uppercase();
        !name.starts_with('-') && !SECRET_PARTS.iter().any(|part| upper.contains(part))
    };
    !names.is_empty() && names.iter().all(is_harmless)
}

/// Returns whether `ps` lists processes without their environment, which the letter `e` without a dash adds.
fn lists_processes(words: &[&str]) -> bool {
    let are_columns =
        |list: &str| list.split(',').all(|column| COLUMNS.contains(&column.trim_end_matches('=')));
    let is_number = |word: &str| {
        !word.is_empty() && word.chars().all(|char| char.is_ascii_digit() || char == ',')
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_understood = match word.strip_prefix('-') {
            Some("-forest" | "-no-headers" | "-headers") => true,
            Some(sort) if sort.starts_with("-sort=") => {
                let keys = sort.trim_start_matches("-sort=").split(',');
                keys.map(|key| key.trim_start_matches(['-', '+'])).all(are_columns)
            }
            Some("p" | "-pid" | "-ppid") => words.next().is_some_and(|value| is_number(value)),
            Some(letters) if letters.ends_with('o') => {
                letters.chars().all(|char| "AeFflowax".contains(char))
                    && words.next().is_some_and(|list| are_columns(list))
            }
            Some(letters) => {
                !letters.is_empty() && letters.chars().all(|it| "AaefFlLHTuwx".contains(it))
            }
            None => is_number(word) || word.chars().all(|char| "afHjlruwx".contains(char)),
        };
        if !is_understood {
            return false;
        }
    }
    true
}

/// Returns the archives that tar lists; `None` if it may do more. Options start programs (`-I`, `--to-command`,
/// `--checkpoint-action`, `-F`), and so does an archive with a colon in its name, which is on another host.
fn archives_of_tar(words: &[&str]) -> Option<Vec<String>> {
    let (mut archives, mut lists) = (Vec::new(), false);
    let mut words = words.iter().enumerate();
    while let Some((at, word)) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            match long {
                "list" => lists = true,
                "bzip2" | "full-time" | "gunzip" | "gzip" | "numeric-owner" | "verbose" | "xz"
                | "zstd" => {}
                "file" => archives.push((*words.next()?.1).to_owned()),
                long => archives.push(long.strip_prefix("file=")?.to_owned()),
            }
            continue;
        }
        // The letters may come first without a dash. Other words are names in the archive.
        let letters = word.strip_prefix('-').or_else(|| (at == 0).then_some(word));
        let Some(letters) = letters else { continue };
        for (index, letter) in letters.char_indices() {
            match letter {
                't' => lists = true,
                'v' | 'z' | 'j' | 'J' => {}
                'f' => {
                    let rest = &letters[index + 1..];
                    // Without a dash, the values follow the letters.
                    let is_joined = word.starts_with('-') && !rest.is_empty();
                    let value = if is_joined { rest } else { *words.next()?.1 };
                    archives.push(value.to_owned());
                    if is_joined {
                        break;
                    }
                }
                _ => return None,
            }
        }
    }
    let is_local = |archive: &String| !archive.contains(':') && !archive.starts_with('-');
    let reads_input = |archive: &String| archive == "-";
    let is_fine = lists
        && !archives.is_empty()
        && archives.iter().all(|archive| reads_input(archive) || is_local(archive));
    archives.retain(|archive| archive != "-");
    is_fine.then_some(archives)
}

/// Returns the archives that unzip lists; `None` if it may do more, or may open others: it expands patterns itself, and
/// adds a suffix.
fn archives_of_unzip(words: &[&str]) -> Option<Vec<String>> {
    let (options, operands) =
        words.split_at(words.iter().take_while(|word| word.starts_with('-')).count());
    let letters: String = options.iter().flat_map(|word| word.chars().skip(1)).collect();
    let lists =
        letters.contains(['l', 'v']) && letters.chars().all(|letter| "lqv".contains(letter));
    let archive = operands.first()?;
    let is_plain = !archive.contains(['*', '?', '[', '\\'])
        && !operands.iter().any(|word| word.starts_with('-'));
    let names = ["", ".zip", ".ZIP"].map(|suffix| format!("{archive}{suffix}"));
    (lists && is_plain).then(|| names.to_vec())
}

/// Returns the effects of `python3 -m json.tool` with at most one file: the second one would be written. Python finds
/// modules in the working directory first, so that must contain none.
fn json_tool(name: &str, words: &[&str], context: &CommandContext<'_>) -> Option<CommandEffects> {
    const FLAGS: [&str; 6] =
        ["--compact", "--json-lines", "--no-ensure-ascii", "--no-indent", "--sort-keys", "--tab"];
    let ["-m", "json.tool", rest @ ..] = words else { return None };
    let mut files = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--indent" => drop(rest.next()?.parse::<u8>().ok()?),
            word if FLAGS.contains(&word) => {}
            word if word.starts_with('-') => return None,
            word => files.push(word.to_owned()),
        }
    }
    let has_modules = context.folders?.iter().any(|folder| has_modules(folder, context));
    if files.len() > 1 || has_modules || !version_queries::is_same_everywhere(name, context)? {
        return None;
    }
    read_archives(&files, context)
}

/// Returns whether a folder may contain a module that Python would load instead of its own.
fn has_modules(folder: &Path, context: &CommandContext<'_>) -> bool {
    const SUFFIXES: [&str; 4] = [".py", ".pyc", ".pyd", ".so"];
    let Ok(entries) = fs::read_dir(folder) else { return true };
    entries.flatten().any(|entry| {
        let is_package = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let mut names = entries.map(|entry| entry.file_name());
            names.any(|name| name.to_string_lossy().starts_with("__init__."))
        };
        let name = entry.file_name();
        let is_module = SUFFIXES.iter().any(|suffix| name.to_string_lossy().ends_with(suffix));
        // A name with a dot or a dash is no package.
        let may_be_package = !name.to_string_lossy().contains(['.', '-']);
        context.budget.take().is_none() || is_module || may_be_package && is_package(&entry.path())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&str> {
        line.split(' ').collect()
    }

    #[test]
    fn tar_only_lists_archives_with_the_options_for_that() {
        for (line, archives) in [
            ("tf a.tar", Some(vec!["a.tar"])),
            ("-tvzf a.tgz src/main.rs", Some(vec!["a.tgz"])),
            ("-tfa.tar", Some(vec!["a.tar"])),
            ("--list --file=a.tar", Some(vec!["a.tar"])),
            ("--list --verbose --file a.tar", Some(vec!["a.tar"])),
            ("tf -", Some(vec![])),
            ("xf a.tar", None),
            ("f a.tar", None),
            ("t", None),
            ("tf host:a.tar", None),
            ("tf a.tar -I ./x", None),
            ("tIf ./x a.tar", None),
            ("tf a.tar --to-command=x", None),
            ("tf a.tar --checkpoint-action=exec=x", None),
            ("tf a.tar --use-compress-program x", None),
            ("tf a.tar --use=x", None),
            ("-tFx -f a.tar", None),
            ("tf a.tar --index-file=x", None),
            ("tf a.tar -g x", None),
            ("tf a.tar -T x", None),
        ] {
            let archives = archives.map(|it| it.into_iter().map(str::to_owned).collect());
            assert_eq!(archives_of_tar(&words(line)), archives, "{line}");
        }
    }

    #[test]
    fn unzip_only_lists_with_the_options_for_that() {
        for line in ["-l a.zip", "-lv a.zip", "-v a.zip src/a", "-ql a"] {
            assert!(archives_of_unzip(&words(line)).is_some(), "{line}");
        }
        for line in
            ["a.zip", "-p a.zip", "-l *.zip", "-lo a.zip", "-l", "-l a.zip -d x", "-d -l a.zip"]
        {
            assert_eq!(archives_of_unzip(&words(line)), None, "{line}");
        }
    }

    #[test]
    fn processes_are_listed_without_their_variables() {
        for line in [
            "aux",
            "axf",
            "-ef",
            "-e",
            "-eo pid,cmd",
            "auxww",
            "-p 12",
            "aux --sort=-%cpu",
            "-o pid=",
            "-eo pid,ppid --no-headers",
            "--forest -e",
        ] {
            assert!(lists_processes(&words(line)), "{line}");
        }
        for line in ["e", "axe", "auxe", "-E", "-eo environ", "o environ", "-o", "ax -o pid,env"] {
            assert!(!lists_processes(&words(line)), "{line}");
        }
        assert!(lists_processes(&[]));
    }

    #[test]
    fn variables_with_names_like_secrets_are_not_printed() {
        for line in ["PATH", "-0 HOME LANG", "CARGO_HOME PWD"] {
            assert!(prints_harmless(&words(line)), "{line}");
        }
        for line in ["GITHUB_TOKEN", "PATH API_KEY", "DATABASE_URL", "--help", "-0", "pgpassword"] {
            assert!(!prints_harmless(&words(line)), "{line}");
        }
        assert!(!prints_harmless(&[]));
    }
}
