//! Programs that change the files that they are given, as far as it is known which.

use crow_core::tool::{Access, Depth, Touch, Word};

use super::{
    arguments::Argument,
    filters,
    line::Known,
    options::{Given, Options},
    scene::{Follow, Scene},
};

/// What a program does with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It changes all of them.
    All,
    /// It makes folders of that name.
    Making,
    /// It takes names away: a link is meant itself.
    Removal,
    /// It changes all but the first, which says how.
    AfterFirst,
    /// It copies all but the last to the last.
    Copy,
    /// It moves all but the last to the last.
    Move,
    /// It makes the last a name of the first.
    Link,
}

struct Writer {
    name: &'static str,
    change: Change,
    options: Options,
}

const fn writer(
    name: &'static str,
    change: Change,
    flags: &'static str,
    valued: &'static str,
    long: &'static str,
) -> Writer {
    Writer { name, change, options: Options { flags, valued, long } }
}

const WRITERS: [Writer; 15] = [
    writer(
        "rm",
        Change::Removal,
        "fiIrRdv",
        "",
        "--force --recursive --interactive --dir --verbose --one-file-system --preserve-root",
    ),
    writer("rmdir", Change::Removal, "pv", "", "--parents --verbose --ignore-fail-on-non-empty"),
    writer("unlink", Change::Removal, "", "", ""),
    writer("shred", Change::All, "fuvxz", "ns", "--force --remove --verbose --zero --iterations"),
    writer("mkdir", Change::Making, "pv", "m", "--parents --verbose --mode"),
    writer("touch", Change::All, "acmh", "dt", "--no-create --date --time"),
    writer("truncate", Change::All, "co", "s", "--size --no-create"),
    writer("mkfifo", Change::All, "", "m", ""),
    writer(
        "chmod",
        Change::AfterFirst,
        "Rvcf",
        "",
        "--recursive --verbose --changes --quiet --silent",
    ),
    writer(
        "chown",
        Change::AfterFirst,
        "Rvcfh",
        "",
        "--recursive --verbose --changes --quiet --silent --no-dereference",
    ),
    writer(
        "chgrp",
        Change::AfterFirst,
        "Rvcfh",
        "",
        "--recursive --verbose --changes --quiet --silent --no-dereference",
    ),
    writer(
        "cp",
        Change::Copy,
        "abdfilLnpPrRTuvx",
        "",
        "--archive --force --interactive --link --no-clobber --parents --preserve \
--no-preserve --recursive --symbolic-link --update --verbose --backup --reflink \
--no-target-directory",
    ),
    writer(
        "install",
        Change::Copy,
        "bcCdDpsv",
        "mog",
        "--mode --directory --preserve-timestamps --verbose",
    ),
    writer(
        "mv",
        Change::Move,
        "bfinTuv",
        "",
        "--force --interactive --no-clobber --update --verbose --backup --no-target-directory",
    ),
    writer(
        "ln",
        Change::Link,
        "bfinrsTvPL",
        "",
        "--symbolic --force --relative --verbose --no-dereference --interactive \
--no-target-directory",
    ),
];

/// Returns what a program changes, if it is one that changes files that it is given.
pub(super) fn change(
    name: &str,
    arguments: &[Argument],
    words: &[Word],
    scene: &Scene<'_>,
) -> Option<Known> {
    // A permission for a filter covers changes of files only if it says so.
    let positions = match name {
        "sed" => filters::positions(words, filters::is_in_place_option, false),
        "sort" => filters::positions(words, filters::is_output_option, true),
        _ => Vec::new(),
    };
    let known = match name {
        "sed" if filters::is_in_place(arguments) => filters::sed(arguments, scene),
        "sort" if filters::has_output(arguments) => filters::sort(arguments, scene),
        "dd" => filters::dd(arguments, scene),
        _ => {
            let writer = WRITERS.iter().find(|writer| writer.name == name)?;
            writer.options.read(arguments).and_then(|given| files(writer.change, &given, scene))
        }
    };
    let known = known.map_or_else(Known::hidden, Known::changes);
    Some(Known { unlisted: positions, ..known })
}

fn files(change: Change, given: &Given<'_>, scene: &Scene<'_>) -> Option<Vec<Touch>> {
    let names: Vec<&str> =
        given.operands.iter().map(|operand| operand.as_known()).collect::<Option<_>>()?;
    let is_recursive = given.has('r', "--recursive")
        || given.has('R', "--recursive")
        || given.has('a', "--archive");
    let depth = if is_recursive || change == Change::Move { Depth::Below } else { Depth::Itself };
    let follow =
        if matches!(change, Change::Removal | Change::Move) { Follow::No } else { Follow::Yes };
    let mut touches = Vec::new();
    let mut touch = |name: &str, access, follow| {
        touches.extend(scene.touch(name, access, depth, follow)?);
        Some(())
    };
    match change {
        Change::All | Change::Making | Change::Removal => {
            for name in names {
                touch(name, Access::Write, follow)?;
                // Folders on the way are made, too: also those that the path leaves again.
                if change == Change::Making && name.contains("..") {
                    let ends = name.match_indices('/').filter(|(at, _)| *at > 0);
                    for (at, _) in ends {
                        touch(name.get(..at)?, Access::Write, follow)?;
                    }
                }
            }
        }
        Change::AfterFirst => {
            for name in names.iter().skip(1) {
                touch(name, Access::Write, follow)?;
            }
        }
        Change::Copy | Change::Move | Change::Link => {
            let (target, sources) = names.split_last()?;
            let access = if change == Change::Move { Access::Write } else { Access::Read };
            // A copy that is a link is another name of the file.
            let is_linked = change == Change::Copy
                && (given.has('l', "--link") || given.has('s', "--symbolic-link"));
            for source in sources {
                if is_linked {
                    touches.extend(scene.touch(source, Access::Write, Depth::Within, follow)?);
                }
                if change == Change::Link {
                    linked(source, target, given, scene, &mut touches)?;
                } else {
                    touches.extend(scene.touch(source, access, depth, follow)?);
                }
                if change == Change::Move {
                    // What it holds, or leads to, can be read under the new name.
                    touches.extend(scene.touch(source, Access::Read, depth, follow)?);
                    touches.extend(scene.touch(source, Access::Read, depth, Follow::Yes)?);
                }
            }
            // A link in that place is taken away, or written through.
            let both = |name: &str| -> Option<Vec<Touch>> {
                let link = scene.touch(name, Access::Write, depth, Follow::No)?;
                let file = scene.touch(name, Access::Write, depth, Follow::Yes)?;
                Some(link.into_iter().chain(file).collect())
            };
            touches.extend(both(target)?);
            // Where the target is a folder by then, it is what lies in it.
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
    let mut distinct: Vec<Touch> = Vec::new();
    for touch in touches {
        if !distinct.contains(&touch) {
            distinct.push(touch);
        }
    }
    Some(distinct)
}

/// What a link leads to: a later command could read or change it, and what is below it, by the link's name. A symbolic one
/// is seen from its folder.
fn linked(
    source: &str,
    target: &str,
    given: &Given<'_>,
    scene: &Scene<'_>,
    touches: &mut Vec<Touch>,
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
        touches.extend(scene.touch(&name, Access::Write, Depth::Within, Follow::Yes)?);
        touches.extend(scene.touch(&name, Access::Read, Depth::Below, Follow::Yes)?);
    }
    Some(())
}
