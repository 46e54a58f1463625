//! Programs that change the files named by their operands, as far as those are known.

use crow_core::tool::{Access, CommandWord, PathTouch, TouchDepth};

use super::{
    arguments::Argument,
    command_context::{CommandContext, FollowLinks},
    filters,
    line_effects::CommandEffects,
    options::{ParsedOptions, ProgramOptions},
};

/// The effect of a program on its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperandEffect {
    /// It changes all of them.
    All,
    /// It creates folders with these names.
    Making,
    /// It removes names; a link itself is meant.
    Removal,
    /// It changes all but the first, which is the mode or owner.
    AfterFirst,
    /// It copies all but the last to the last.
    Copy,
    /// It moves all but the last to the last.
    Move,
    /// It makes the last one a link to the first.
    Link,
}

struct WriterProgram {
    name: &'static str,
    change: OperandEffect,
    options: ProgramOptions,
}

const fn writer(
    name: &'static str,
    change: OperandEffect,
    flags: &'static str,
    valued: &'static str,
    long: &'static str,
) -> WriterProgram {
    WriterProgram { name, change, options: ProgramOptions { flags, valued, long } }
}

const WRITERS: [WriterProgram; 17] = [
    writer(
        "rm",
        OperandEffect::Removal,
        "fiIrRdv",
        "",
        "--force --recursive --interactive --dir --verbose --one-file-system --preserve-root",
    ),
    writer(
        "rmdir",
        OperandEffect::Removal,
        "pv",
        "",
        "--parents --verbose --ignore-fail-on-non-empty",
    ),
    writer("unlink", OperandEffect::Removal, "", "", ""),
    writer(
        "shred",
        OperandEffect::All,
        "fuvxz",
        "ns",
        "--force --remove --verbose --zero --iterations",
    ),
    // With one operand they only read it.
    writer(
        "uniq",
        OperandEffect::Copy,
        "cdDiuz",
        "fw",
        "--count --repeated --unique --ignore-case",
    ),
    writer("xxd", OperandEffect::Copy, "beipu", "cg", ""),
    writer("mkdir", OperandEffect::Making, "pv", "m", "--parents --verbose --mode"),
    writer("touch", OperandEffect::All, "acmh", "dt", "--no-create --date --time"),
    writer("truncate", OperandEffect::All, "co", "s", "--size --no-create"),
    writer("mkfifo", OperandEffect::All, "", "m", ""),
    writer(
        "chmod",
        OperandEffect::AfterFirst,
        "Rvcf",
        "",
        "--recursive --verbose --changes --quiet --silent",
    ),
    writer(
        "chown",
        OperandEffect::AfterFirst,
        "Rvcfh",
        "",
        "--recursive --verbose --changes --quiet --silent --no-dereference",
    ),
    writer(
        "chgrp",
        OperandEffect::AfterFirst,
        "Rvcfh",
        "",
        "--recursive --verbose --changes --quiet --silent --no-dereference",
    ),
    writer(
        "cp",
        OperandEffect::Copy,
        "abdfilLnpPrRTuvx",
        "",
        "--archive --force --interactive --link --no-clobber --parents --preserve \
--no-preserve --recursive --symbolic-link --update --verbose --backup --reflink \
--no-target-directory",
    ),
    writer(
        "install",
        OperandEffect::Copy,
        "bcCdDpsv",
        "mog",
        "--mode --directory --preserve-timestamps --verbose",
    ),
    writer(
        "mv",
        OperandEffect::Move,
        "bfinTuv",
        "",
        "--force --interactive --no-clobber --update --verbose --backup --no-target-directory",
    ),
    writer(
        "ln",
        OperandEffect::Link,
        "bfinrsTvPL",
        "",
        "--symbolic --force --relative --verbose --no-dereference --interactive \
--no-target-directory",
    ),
];

/// Returns the effects of a program that changes its operands; `None` for other programs.
pub(super) fn change(
    name: &str,
    arguments: &[Argument],
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    // A permission for a filter covers changes of files only if it names the option.
    let positions = match name {
        "sed" => filters::option_positions(words, filters::is_in_place_option, false),
        "sort" => filters::option_positions(words, filters::is_output_option, true),
        "uniq" | "xxd" => vec![words.len().saturating_sub(1)],
        _ => Vec::new(),
    };
    let known = match name {
        "sed" if filters::is_in_place(arguments) => filters::sed(arguments, context),
        "sort" if filters::has_output(arguments) => filters::sort(arguments, context),
        "dd" => filters::dd(arguments, context),
        _ => {
            let writer = WRITERS.iter().find(|writer| writer.name == name)?;
            writer.options.read(arguments).and_then(|given| files(writer.change, &given, context))
        }
    };
    let known = known.map_or_else(CommandEffects::hidden, CommandEffects::changes);
    Some(CommandEffects { unlisted: positions, ..known })
}

/// Returns the files that a program with this operand effect reads and changes.
fn files(
    change: OperandEffect,
    given: &ParsedOptions<'_>,
    context: &CommandContext<'_>,
) -> Option<Vec<PathTouch>> {
    let names: Vec<&str> =
        given.operands.iter().map(|operand| operand.as_known()).collect::<Option<_>>()?;
    let is_recursive = given.has('r', "--recursive")
        || given.has('R', "--recursive")
        || given.has('a', "--archive");
    let depth = if is_recursive || change == OperandEffect::Move {
        TouchDepth::Below
    } else {
        TouchDepth::Itself
    };
    let follow = if matches!(change, OperandEffect::Removal | OperandEffect::Move) {
        FollowLinks::No
    } else {
        FollowLinks::Yes
    };
    let mut touches = Vec::new();
    let mut touch = |name: &str, access, follow| {
        touches.extend(context.touch(name, access, depth, follow)?);
        Some(())
    };
    match change {
        OperandEffect::All | OperandEffect::Making | OperandEffect::Removal => {
            for name in names {
                touch(name, Access::Write, follow)?;
                // Missing parent folders are created too, also those that a later `..` leaves again.
                if change == OperandEffect::Making && name.contains("..") {
                    let ends = name.match_indices('/').filter(|(at, _)| *at > 0);
                    for (at, _) in ends {
                        touch(name.get(..at)?, Access::Write, follow)?;
                    }
                }
            }
        }
        OperandEffect::AfterFirst => {
            for name in names.iter().skip(1) {
                touch(name, Access::Write, follow)?;
            }
        }
        OperandEffect::Copy | OperandEffect::Move | OperandEffect::Link => {
            let (target, sources) = names.split_last()?;
            let access = if change == OperandEffect::Move { Access::Write } else { Access::Read };
            // A copy by link is another name of the same file.
            let is_linked = change == OperandEffect::Copy
                && (given.has('l', "--link") || given.has('s', "--symbolic-link"));
            for source in sources {
                if is_linked {
                    touches.extend(context.touch(
                        source,
                        Access::Write,
                        TouchDepth::Within,
                        follow,
                    )?);
                }
                if change == OperandEffect::Link {
                    linked(source, target, given, context, &mut touches)?;
                } else {
                    touches.extend(context.touch(source, access, depth, follow)?);
                }
                if change == OperandEffect::Move {
                    // Its content or target can then be read under the new name.
                    touches.extend(context.touch(source, Access::Read, depth, follow)?);
                    touches.extend(context.touch(source, Access::Read, depth, FollowLinks::Yes)?);
                }
            }
            // A link at the target is replaced, or written through.
            let both = |name: &str| -> Option<Vec<PathTouch>> {
                let link = context.touch(name, Access::Write, depth, FollowLinks::No)?;
                let file = context.touch(name, Access::Write, depth, FollowLinks::Yes)?;
                Some(link.into_iter().chain(file).collect())
            };
            touches.extend(both(target)?);
            // If the target is a folder by then, the result is an entry in it.
            for source in sources {
                let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                let inner = format!("{}/{name}", target.trim_end_matches('/'));
                let is_name = !matches!(name, "" | "." | "..") && !target.is_empty();
                if is_name {
                    touches.extend(both(&inner)?);
                }
            }
        }
    }
    let mut distinct: Vec<PathTouch> = Vec::new();
    for touch in touches {
        if !distinct.contains(&touch) {
            distinct.push(touch);
        }
    }
    Some(distinct)
}

/// Adds what a link leads to: a later command could read or change it, and anything below it, through the link. The
/// target of a symbolic link is relative to the link's folder.
fn linked(
    source: &str,
    target: &str,
    given: &ParsedOptions<'_>,
    context: &CommandContext<'_>,
    touches: &mut Vec<PathTouch>,
) -> Option<()> {
    let is_relative = given.has('s', "--symbolic") && !source.starts_with('/');
    let names = if is_relative {
        let beside = match target.trim_end_matches('/').rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{source}"),
            None => source.to_owned(),
        };
        vec![beside, format!("{target}/{source}")]
    } else {
        vec![source.to_owned()]
    };
    for name in names {
        touches.extend(context.touch(
            &name,
            Access::Write,
            TouchDepth::Within,
            FollowLinks::Yes,
        )?);
        touches.extend(context.touch(&name, Access::Read, TouchDepth::Below, FollowLinks::Yes)?);
    }
    Some(())
}
