//! Filters that change files with certain options or operands: `sed -i`, `sort -o`, `tee`, `dd`.

use crow_core::tool::{Access, CommandWord, PathTouch, Redirect, TouchDepth};

use super::{
    arguments::Argument,
    command_context::{CommandContext, FollowLinks},
    options::ProgramOptions,
    readers::scripts_of,
    scripts::Language,
};

const SED: ProgramOptions = ProgramOptions {
    flags: "nErsuz",
    valued: "e",
    long: "--quiet --silent --regexp-extended --expression --null-data --separate --posix",
};

const SORT: ProgramOptions = ProgramOptions {
    flags: "bdfghiMnRrVcCmsuz",
    valued: "kto",
    long: "--output --reverse --numeric-sort --unique --key --field-separator --stable",
};

/// Returns whether `sed` changes its input files.
pub(super) fn is_in_place(arguments: &[Argument]) -> bool {
    arguments.iter().filter_map(Argument::as_known).any(|text| in_place_suffix(text).is_some())
}

/// Returns the positions in a command of the options that make a filter change files, and with `takes_next` of the
/// words after them, which may be their values.
pub(super) fn option_positions(
    words: &[CommandWord],
    is_option: fn(&str) -> bool,
    takes_next: bool,
) -> Vec<usize> {
    let of = |word: &CommandWord| word.as_literal().is_some_and(is_option);
    let options: Vec<usize> =
        (1..words.len()).filter(|at| words.get(*at).is_some_and(of)).collect();
    let last = words.len().saturating_sub(1);
    let next = options.iter().filter(|_| takes_next).map(|at| (at + 1).min(last));
    let next: Vec<usize> = next.collect();
    options.into_iter().chain(next).collect()
}

pub(super) fn is_in_place_option(text: &str) -> bool {
    in_place_suffix(text).is_some()
}

/// Returns whether an option of `sort` may be the one for an output file.
pub(super) fn is_output_option(text: &str) -> bool {
    text.starts_with("--o")
        || text.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains('o'))
}

/// Returns the suffix for backup files of an `-i` option; `None` if it is another option.
fn in_place_suffix(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix("--in-place") {
        return Some(rest.trim_start_matches('='));
    }
    let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
    letters.trim_start_matches(|letter| SED.flags.contains(letter)).strip_prefix('i')
}

pub(super) fn sed(arguments: &[Argument], context: &CommandContext<'_>) -> Option<Vec<PathTouch>> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '~' | '_');
    let mut rest = Vec::new();
    for argument in arguments {
        match argument.as_known().and_then(in_place_suffix) {
            Some(suffix) if suffix.chars().all(is_plain) => {}
            Some(_) => return None,
            None => rest.push(argument.clone()),
        }
    }
    let given = SED.read(&rest)?;
    let mut names: Vec<&str> =
        given.operands.iter().map(|it| it.as_known()).collect::<Option<_>>()?;
    // Without `-e`, the first operand is the script.
    let mut scripts = scripts_of(&given)?;
    if scripts.is_empty() && !names.is_empty() {
        scripts.push(names.remove(0));
    }
    if !scripts.into_iter().all(|script| Language::Sed.only_reads(script)) {
        return None;
    }
    let mut touches: Vec<PathTouch> = Vec::new();
    for name in names {
        // Depending on the build and options, it replaces a link with a file or follows it.
        for follow in [FollowLinks::Yes, FollowLinks::No] {
            for touch in context.touch(name, Access::Write, TouchDepth::Itself, follow)? {
                if !touches.contains(&touch) {
                    touches.push(touch);
                }
            }
        }
    }
    Some(touches)
}

/// Returns the files that `tee` writes, as redirections.
pub(super) fn tee(arguments: &[Argument], context: &CommandContext<'_>) -> Option<Vec<Redirect>> {
    const OPTIONS: ProgramOptions =
        ProgramOptions { flags: "ai", valued: "", long: "--append --ignore-interrupts" };
    let given = OPTIONS.read(arguments)?;
    let files = given.operands.iter().map(|operand| {
        let name = operand.as_known()?;
        let target = CommandWord::Literal(name.to_owned());
        let redirect = Redirect { access: Access::Write, target, path: None };
        let path = if redirect.is_device() { None } else { Some(context.resolve_single(name)?) };
        Some(Redirect { path, ..redirect })
    });
    files.collect()
}

/// Returns whether `sort` has an option for an output file.
pub(super) fn has_output(arguments: &[Argument]) -> bool {
    SORT.read(arguments).is_some_and(|given| given.has('o', "--output"))
}

pub(super) fn sort(arguments: &[Argument], context: &CommandContext<'_>) -> Option<Vec<PathTouch>> {
    let given = SORT.read(arguments)?;
    let short = given.values.iter().filter(|(letter, _)| *letter == 'o').map(|(_, value)| *value);
    let long: Vec<&str> = given
        .long
        .iter()
        .filter(|it| it.starts_with("--output"))
        .map(|it| it.strip_prefix("--output="))
        .collect::<Option<_>>()?;
    let written = short
        .chain(long)
        .map(|name| context.touch(name, Access::Write, TouchDepth::Itself, FollowLinks::Yes));
    let read = given.operands.iter().map(|it| match it {
        Argument::Pipe => Some(Vec::new()),
        Argument::Known(name) => {
            context.touch(name, Access::Read, TouchDepth::Itself, FollowLinks::Yes)
        }
        Argument::Unknown => None,
    });
    Some(written.chain(read).collect::<Option<Vec<_>>>()?.concat())
}

pub(super) fn dd(arguments: &[Argument], context: &CommandContext<'_>) -> Option<Vec<PathTouch>> {
    let mut touches = Vec::new();
    for argument in arguments {
        let (key, value) = argument.as_known()?.split_once('=')?;
        let access = match key {
            "of" => Access::Write,
            "if" => Access::Read,
            _ => continue,
        };
        touches.extend(context.touch(value, access, TouchDepth::Itself, FollowLinks::Yes)?);
    }
    Some(touches)
}
