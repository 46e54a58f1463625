//! Commands that start other commands: finds the started ones.
//!
//! [`unwrap`] strips transparent wrappers (`env`, `nice`, `time` …) from the front of a command, one per iteration;
//! they stay in its `wrappers`. A command that starts others but is something itself (`sudo`, `xargs`, `find -exec`,
//! `bash -c`) is added and then read by [`nested`]. Options before a started command must all be known, since an
//! unknown one may take a value and shift its beginning.

use crow_core::tool::{CommandWord, SimpleCommand};

use super::{
    bash_only::needs_bash,
    builtins::{git, printf, set, sets_variables, test, wait},
    line::{FilePassing, ParsedLine, UnclearReason, VariableContent},
    shell_options::{ShellScript, check_sourced_file, shell_script},
    variables::{VariableEffect, variable_effect},
    wrapper_table::{
        ENV, OPAQUE, RESERVED, SSH, STARTERS, SUDO, TRANSPARENT, WrapperOptions, XARGS,
    },
};

/// The most wrappers around one command.
const MAX_WRAPPERS: usize = 16;

/// Adds a command to the line, with the commands that it starts.
pub(super) fn unwrap(
    command: SimpleCommand,
    reading: &mut ParsedLine,
) -> Result<(), UnclearReason> {
    let mut command = command;
    for _ in 0..MAX_WRAPPERS {
        // 1) Programs that end the search: the project's own files, and those that cannot be understood.
        let Some(CommandWord::Literal(program)) = command.words.first() else {
            return reading.push(command);
        };
        let name = name_of(program).to_owned();
        let is_own = is_own_file(program);
        if is_own && !program.starts_with('/') && !STARTERS.contains(&name.as_str()) {
            return reading.push(command);
        }
        if OPAQUE.contains(&name.as_str()) || name.starts_with("ld-linux") {
            return Err(UnclearReason(format!("{name} is not supported")));
        }
        if is_own && !STARTERS.contains(&name.as_str()) {
            return reading.push(command);
        }
        // 2) Find the end of a transparent wrapper's own words.
        let inner = if name == "env" {
            Some(env(&command)?)
        } else if let Some(wrapper) = TRANSPARENT.iter().find(|wrapper| wrapper.name == name) {
            if name == "command" && is_query(&command) {
                return reading.push(command);
            }
            let at = skip_options(&command.words, &wrapper.options)? + wrapper.operands;
            let at = known_up_to(&command.words, at)?;
            // The text after `time` is grammar again.
            if name == "time" && command.words.get(at).is_some_and(is_grammar) {
                return Err("this use of time is not supported".into());
            }
            Some((at, Vec::new()))
        } else {
            None
        };
        // 3) Continue with the started command.
        match inner {
            Some((at, assignments)) if at < command.words.len() => {
                if is_own {
                    reading.push(command.clone())?;
                }
                let rest = command.words.split_off(at);
                command.wrappers.extend(std::mem::replace(&mut command.words, rest));
                command.assignments.extend(assignments);
            }
            Some(_) => return reading.push(command),
            None => return nested(&name, command, reading),
        }
    }
    Err("commands nested too deep".into())
}

/// Returns the last component of a program's path.
fn name_of(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns whether a program is given by a path outside of the system's program folders.
fn is_own_file(program: &str) -> bool {
    program.contains('/')
        && !["/bin/", "/usr/bin/"]
            .iter()
            .any(|folder| program.strip_prefix(folder).is_some_and(|name| !name.contains('/')))
}

/// Returns whether a command is `command -v x`, which looks a program up and starts none.
fn is_query(command: &SimpleCommand) -> bool {
    matches!(command.words.get(1).and_then(CommandWord::as_literal), Some("-v" | "-V"))
}

/// Returns whether a word is grammar where a command begins, and not a program.
pub(super) fn is_grammar(word: &CommandWord) -> bool {
    let (CommandWord::Literal(text) | CommandWord::Computed(text)) = word;
    let is_assignment = text.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|char: char| char.is_alphabetic() || char == '_')
    });
    RESERVED.contains(&text.as_str()) || is_assignment
}

/// Returns `at`, or the number of words if there are fewer, if all words before it are literal. Others may become several
/// words or none, which would shift the started command.
fn known_up_to(words: &[CommandWord], at: usize) -> Result<usize, UnclearReason> {
    if words.iter().take(at).all(|word| word.as_literal().is_some()) {
        Ok(at.min(words.len()))
    } else {
        Err("options that are not literal".into())
    }
}

/// Returns the index of the first word after the options.
fn skip_options(words: &[CommandWord], options: &WrapperOptions) -> Result<usize, UnclearReason> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        // A computed word may become an option or not.
        let word = word.as_literal().ok_or("options that are not literal")?;
        if word == "--" {
            return known_up_to(words, at + 1);
        }
        if let Some(long) = word.strip_prefix("--") {
            let name = format!("--{}", long.split_once('=').map_or(long, |(name, _)| name));
            if !options.long.contains(&name.as_str()) || needs_next(&name, word) {
                return Err(UnclearReason(format!("the option {name} is not supported")));
            }
            at += 1;
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return known_up_to(words, at);
        };
        at += 1;
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            if options.valued.contains(letter) {
                at += usize::from(letters.as_str().is_empty());
                break;
            }
            if !options.flags.contains(letter) {
                return Err(UnclearReason(format!("the option -{letter} is not supported")));
            }
        }
    }
    known_up_to(words, at)
}

/// Returns whether the value of a long option may be the next word.
fn needs_next(name: &str, word: &str) -> bool {
    const VALUED: [&str; 16] = [
        "--adjustment",
        "--class",
        "--classdata",
        "--kill-after",
        "--signal",
        "--input",
        "--output",
        "--error",
        "--unset",
        "--user",
        "--group",
        "--max-args",
        "--max-procs",
        "--max-chars",
        "--delimiter",
        "--arg-file",
    ];
    VALUED.contains(&name) && !word.contains('=')
}

/// Reads `env [options] [NAME=value …] command`. Returns the index of the command, and the names.
fn env(command: &SimpleCommand) -> Result<(usize, Vec<String>), UnclearReason> {
    let mut at = skip_options(&command.words, &ENV)?;
    // The same as `-i`; other options may follow.
    if command.words.get(at).and_then(CommandWord::as_literal) == Some("-") {
        at += 1;
        let is_option = |word: &str| word.starts_with('-');
        if command.words.get(at).and_then(CommandWord::as_literal).is_some_and(is_option) {
            return Err("unsupported options of env".into());
        }
    }
    let mut assignments = Vec::new();
    while let Some(word) = command.words.get(at) {
        let text = word.as_literal().ok_or("options that are not literal")?;
        let Some((name, _)) = text.split_once('=') else { break };
        if variable_effect(name) == VariableEffect::NoName {
            return Err("a variable without a valid name".into());
        }
        assignments.push(name.to_owned());
        at += 1;
    }
    Ok((at, assignments))
}

/// Adds a command, and reads the commands that it starts.
fn nested(
    name: &str,
    command: SimpleCommand,
    reading: &mut ParsedLine,
) -> Result<(), UnclearReason> {
    let words = command.words.clone();
    for assigned in &command.assignments {
        if starts_lines(name) {
            reading.export(assigned)?;
        }
    }
    let outer = command.clone();
    reading.push(command)?;
    match name {
        "sudo" | "doas" => {
            let at = skip_options(&words, &SUDO)?;
            inner(&outer, words[at..].to_vec(), reading)
        }
        "xargs" => xargs(&outer, &words, reading),
        "find" => find(&outer, &words, reading),
        "fd" | "fdfind" => fd(&outer, &words, reading),
        "ssh" => {
            let at = known_up_to(&words, skip_options(&words, &SSH)? + 1)?;
            line(&words[at..], reading)
        }
        "sh" | "bash" | "dash" | "ksh" | "ash" => shell(name, &words, reading),
        "source" | "." => check_sourced_file(&words[1..]),
        "eval" => line(&words[1..], reading),
        "trap" => {
            reading.repeat();
            trap(&words, reading)
        }
        "git" => git(&words),
        "set" => set(&words),
        "read" | "mapfile" | "readarray" | "getopts" => {
            for name in words.iter().filter_map(CommandWord::as_literal) {
                reading.bind(name, None, VariableContent::Anything);
            }
            sets_variables(&words)
        }
        "printf" => printf(&words),
        "wait" => wait(&words),
        "test" => without_numbers(&words[1..]),
        "[" => {
            let end = words.len().saturating_sub(1);
            // The shell refuses a lone `[`.
            without_numbers(words.get(1..end).unwrap_or_default())
        }
        _ => Ok(()),
    }
}

/// Checks a test that is a command. Its offset in the line is unknown, so numeric variables are refused.
fn without_numbers(words: &[CommandWord]) -> Result<(), UnclearReason> {
    if test(words)?.is_empty() { Ok(()) } else { Err("an unsupported test".into()) }
}

fn starts_lines(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "dash" | "ksh" | "ash" | "eval" | "trap" | "source" | ".")
}

/// Adds a command that another one starts, with the outer command's variables.
fn inner(
    outer: &SimpleCommand,
    words: Vec<CommandWord>,
    reading: &mut ParsedLine,
) -> Result<(), UnclearReason> {
    if words.is_empty() {
        return Ok(());
    }
    let command =
        SimpleCommand { words, assignments: outer.assignments.clone(), ..SimpleCommand::default() };
    let is_assignment =
        matches!(command.words.first(), Some(CommandWord::Literal(word)) if word.contains('='));
    if is_assignment {
        return Err("variables set before a command that a wrapper starts".into());
    }
    // Its own wrappers are stripped, too. Each step removes words, so the length of the line bounds the depth.
    reading.read_nested(|reading| unwrap(command, reading))
}

/// Adds the command of xargs. The words from its input come last, or replace a mark.
fn xargs(
    outer: &SimpleCommand,
    words: &[CommandWord],
    reading: &mut ParsedLine,
) -> Result<(), UnclearReason> {
    let source = reading.take_piped_finder();
    let at = skip_options(words, &XARGS)?;
    let (options, rest) = words.split_at(at);
    if rest.is_empty() {
        return Ok(());
    }
    let options: Vec<&str> = options.iter().filter_map(CommandWord::as_literal).collect();
    let mark =
        options.iter().enumerate().find_map(|(at, option)| match option.strip_prefix("-I") {
            Some("") => options.get(at + 1).copied(),
            Some(mark) => Some(mark),
            None => {
                option.strip_prefix("--replace").map(|mark| mark.strip_prefix('=').unwrap_or("{}"))
            }
        });
    // In a cluster of options the mark is easily missed.
    let is_cluster =
        |option: &&str| !option.starts_with("--") && option.len() > 2 && option.contains('I');
    if mark.is_none() && options.iter().any(is_cluster) {
        return Err("unsupported options of xargs".into());
    }
    let mut words: Vec<CommandWord> = rest.iter().map(|word| replaced(word, mark)).collect();
    if mark.is_none() {
        words.push(CommandWord::Computed("{}".to_owned()));
    }
    let index = reading.command_count();
    inner(outer, words, reading)?;
    let known = xargs_options(options.iter().skip(1).copied().map(Some));
    if let (Some(source), Some(XargsOptions { passing, has_command: false })) = (source, known) {
        // Filters take lines, and a name may have several.
        if !source.is_filtered || passing != FilePassing::NulTerminated {
            reading.pass_found_files(index, source.index, passing);
        }
    }
    Ok(())
}

/// The options of xargs, if they change only how it splits its input and how often it starts its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct XargsOptions {
    pub passing: FilePassing,
    /// True if a command follows the options.
    pub has_command: bool,
}

/// Reads the words of xargs up to its command; a word that is only known when the line runs is `None`. Returns `None`
/// if an option is not among those that are understood, or a word in their place is unknown.
pub(crate) fn xargs_options<'a>(
    mut words: impl Iterator<Item = Option<&'a str>>,
) -> Option<XargsOptions> {
    const VALUED: [&str; 4] = ["-n", "-L", "-P", "-I"];
    let mut passing = FilePassing::Words;
    while let Some(word) = words.next() {
        match word? {
            "-0" | "--null" => passing = FilePassing::NulTerminated,
            "-d" if matches!(words.next()??, "\n" | "\\n") => passing = FilePassing::Lines,
            "-d\\n" | "--delimiter=\\n" => passing = FilePassing::Lines,
            "-r" | "--no-run-if-empty" | "-t" | "--verbose" | "-x" | "--" => {}
            option if VALUED.contains(&option) => drop(words.next()?),
            option if VALUED.iter().any(|known| option.starts_with(known)) => {}
            option if option.starts_with('-') => return None,
            _ => return Some(XargsOptions { passing, has_command: true }),
        }
    }
    Some(XargsOptions { passing, has_command: false })
}

/// Returns a word as computed if it contains the mark.
fn replaced(word: &CommandWord, mark: Option<&str>) -> CommandWord {
    match word {
        CommandWord::Literal(text) if mark.is_some_and(|mark| text.contains(mark)) => {
            // Written as `{}`, which is not taken for a glob pattern or brace list.
            CommandWord::Computed(text.replace(mark.unwrap_or("{}"), "{}"))
        }
        CommandWord::Literal(_) | CommandWord::Computed(_) => word.clone(),
    }
}

/// Adds the commands of `-exec` and the like, up to `;` or `+`.
fn find(
    outer: &SimpleCommand,
    words: &[CommandWord],
    reading: &mut ParsedLine,
) -> Result<(), UnclearReason> {
    let finder = reading.command_count().saturating_sub(1);
    let starts = |word: &CommandWord| {
        matches!(word.as_literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir"))
    };
    let ends = |word: &CommandWord| matches!(word.as_literal(), Some(";" | "+"));
    let mut rest = words;
    while let Some(at) = rest.iter().position(starts) {
        let is_elsewhere = rest[at].as_literal().is_some_and(|word| word.ends_with("dir"));
        rest = &rest[at + 1..];
        let end = rest.iter().position(ends).ok_or("a command of find without an end")?;
        let command = &rest[..end];
        let is_relative = |program: &str| program.contains('/') && !program.starts_with('/');
        if is_elsewhere
            && command.first().and_then(CommandWord::as_literal).is_some_and(is_relative)
        {
            return Err("a program in an unknown folder".into());
        }
        let index = reading.command_count();
        inner(outer, command.iter().map(|word| replaced(word, Some("{}"))).collect(), reading)?;
        if !is_elsewhere {
            reading.pass_found_files(index, finder, FilePassing::Arguments);
        }
        rest = &rest[end..];
    }
    Ok(())
}

/// Adds the command of `fd -x command`, up to a `;` or the end. The file names come last, or replace marks.
fn fd(
    outer: &SimpleCommand,
    words: &[CommandWord],
    reading: &mut ParsedLine,
) -> Result<(), UnclearReason> {
    const MARKS: [&str; 5] = ["{}", "{/}", "{//}", "{.}", "{/.}"];
    let starts = |word: &CommandWord| {
        word.as_literal().is_some_and(|word| {
            let is_cluster = word.starts_with('-') && !word.starts_with("--");
            is_cluster && word.ends_with(['x', 'X']) || matches!(word, "--exec" | "--exec-batch")
        })
    };
    let attached =
        |word: &CommandWord| word.as_literal().is_some_and(|word| word.starts_with("--exec"));
    let Some(at) = words.iter().position(starts) else {
        // `--exec=command`, and abbreviated options.
        return if words.iter().any(attached) {
            Err("unsupported options of fd".into())
        } else {
            Ok(())
        };
    };
    let is_end = |word: &&CommandWord| word.as_literal() == Some(";");
    let command = words.iter().skip(at + 1).take_while(|word| !is_end(word));
    let mut inner_words: Vec<CommandWord> = command
        .map(|word| MARKS.iter().fold(word.clone(), |word, mark| replaced(&word, Some(mark))))
        .collect();
    if inner_words.iter().all(|word| word.as_literal().is_some()) {
        inner_words.push(CommandWord::Computed("{}".to_owned()));
    }
    inner(outer, inner_words, reading)
}

/// Reads the line that words form when joined.
fn line(words: &[CommandWord], reading: &mut ParsedLine) -> Result<(), UnclearReason> {
    let words: Option<Vec<&str>> = words.iter().map(CommandWord::as_literal).collect();
    let Some(words) = words else {
        return Err("a shell line that is built at run time".into());
    };
    reading.read(&words.join(" "))
}

fn shell(name: &str, words: &[CommandWord], reading: &mut ParsedLine) -> Result<(), UnclearReason> {
    match shell_script(&words[1..])? {
        ShellScript::Line(CommandWord::Literal(text)) if name != "bash" && needs_bash(text) => {
            Err("shells other than bash may parse its line differently".into())
        }
        ShellScript::Line(text) => line(std::slice::from_ref(text), reading),
        ShellScript::File | ShellScript::Nothing => Ok(()),
    }
}

fn trap(words: &[CommandWord], reading: &mut ParsedLine) -> Result<(), UnclearReason> {
    let rest = &words[1..];
    let rest = rest.strip_prefix(&[CommandWord::Literal("--".to_owned())][..]).unwrap_or(rest);
    match rest.first() {
        None => Ok(()),
        Some(CommandWord::Literal(text)) if matches!(text.as_str(), "" | "-" | "-p" | "-l") => {
            Ok(())
        }
        Some(text) => line(std::slice::from_ref(text), reading),
    }
}
