//! `find`: the paths that it visits, and whether it only reads.

use crow_core::tool::{Access, CommandWord, PathTouch, TouchDepth};

use super::{
    arguments::Argument,
    command_context::{CommandContext, FollowLinks},
    filters,
    line_effects::CommandEffects,
};

/// Tests and actions without a value.
const PLAIN: [&str; 25] = [
    "-print",
    "-print0",
    "-ls",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-noleaf",
    "-daystart",
    "-prune",
    "-quit",
    "-empty",
    "-readable",
    "-writable",
    "-executable",
    "-true",
    "-false",
    "-nogroup",
    "-nouser",
    "-a",
    "-o",
    "-and",
    "-or",
    "-not",
    "-ignore_readdir_race",
];
/// Tests and actions with a value.
const VALUED: [&str; 38] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-newermt",
    "-newerct",
    "-perm",
    "-maxdepth",
    "-mindepth",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-lname",
    "-ilname",
    "-printf",
    "-regextype",
    "-samefile",
    "-fstype",
    "-used",
];

/// Returns the effects of `find`. With `-delete` it changes the files it finds; a command that it starts is judged
/// separately.
pub(super) fn find(
    arguments: &[Argument],
    given: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    let words: Vec<&str> = arguments.iter().map(Argument::as_known).collect::<Option<_>>()?;
    let words = words.iter().copied().skip_while(|word| matches!(*word, "-H" | "-P"));
    let words: Vec<&str> = words.collect();
    // It follows links; the general rules for unknown programs apply.
    if words.first() == Some(&"-L") {
        return None;
    }
    // The starting points come before the expression.
    let is_expression = |word: &&str| word.starts_with(['-', '(', ')', '!', ',']);
    let end = words.iter().position(is_expression).unwrap_or(words.len());
    let (starts, expression) = words.split_at_checked(end)?;
    let access = if expression.contains(&"-delete") { Access::Write } else { Access::Read };
    let starts = if starts.is_empty() { &["."][..] } else { starts };
    let mut touches: Vec<PathTouch> = Vec::new();
    for start in starts {
        touches.extend(context.touch(start, access, TouchDepth::Below, FollowLinks::Yes)?);
    }
    let mut only_looks = access == Access::Read;
    let mut expression = expression.iter();
    while let Some(word) = expression.next() {
        match *word {
            "(" | ")" | "!" | "," | "-delete" => {}
            word if PLAIN.contains(&word) => {}
            "-newer" | "-anewer" | "-cnewer" | "-samefile" => {
                let name = expression.next()?;
                touches.extend(context.touch(
                    name,
                    Access::Read,
                    TouchDepth::Itself,
                    FollowLinks::Yes,
                )?);
            }
            word if VALUED.contains(&word) => drop(expression.next()?),
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                only_looks = false;
                let name = expression.next()?;
                touches.extend(context.touch(
                    name,
                    Access::Write,
                    TouchDepth::Itself,
                    FollowLinks::Yes,
                )?);
            }
            // The started command is judged separately; skip to its end.
            "-exec" => drop(expression.find(|word| matches!(**word, ";" | "+"))?),
            "-execdir" | "-ok" | "-okdir" => {
                only_looks = false;
                expression.find(|word| matches!(**word, ";" | "+"))?;
            }
            _ => return Some(CommandEffects::hidden()),
        }
    }
    let known =
        if only_looks { CommandEffects::reads(touches) } else { CommandEffects::changes(touches) };
    // A permission for `find` covers only reading: options that write or delete must be named in it.
    let changes =
        |text: &str| matches!(text, "-delete" | "-fprint" | "-fprint0" | "-fls" | "-fprintf");
    Some(CommandEffects { unlisted: filters::option_positions(given, changes, false), ..known })
}
