//! The files that reading programs touch.

use crow_core::tool::{Access, CommandWord, PathTouch, TouchDepth};

use super::{
    arguments::Argument,
    command_context::{CommandContext, FollowLinks},
    line_effects::CommandEffects,
    listings,
    options::ParsedOptions,
    reader_table::{INERT, Operands, READERS},
    scripts::Language,
    secret_search::add_secret,
};

/// Returns what a program reads, or `None` if it may do more.
pub(super) fn read(
    name: &str,
    arguments: &[Argument],
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    if INERT.contains(&name) {
        return Some(CommandEffects::reads(Vec::new()));
    }
    if let Some(is_read) = by_words(name, arguments, words) {
        return is_read.then(|| CommandEffects::reads(Vec::new()));
    }
    if let "printenv" | "ps" | "python" | "python3" | "tar" | "unzip" = name {
        return listings::listing(name, arguments, context);
    }
    // `strings` reads options from a file that is named like this.
    if name == "strings"
        && arguments.iter().filter_map(Argument::as_known).any(|it| it.starts_with('@'))
    {
        return None;
    }
    let reader = READERS.iter().find(|reader| reader.name == name)?;
    let given = reader.options.read(arguments)?;
    let mut touches = files(reader.operands, &given, context)?;
    add_secret(name, &given, &mut touches, context)?;
    Some(CommandEffects::reads(touches))
}

/// Returns whether a program reads the files that its operands name.
pub(super) fn is_reader(name: &str) -> bool {
    matches!(name, "find" | "date" | "hostname") || READERS.iter().any(|reader| reader.name == name)
}

/// Returns whether a jq filter among the arguments reads the environment or other files.
pub(super) fn has_wider_filter(name: &str, arguments: &[Argument]) -> bool {
    let mut texts = arguments.iter().filter_map(Argument::as_known);
    name == "jq" && texts.any(|text| !Language::Jq.only_reads(text))
}

/// Judges programs by single words. Returns `None` for all others.
fn by_words(name: &str, arguments: &[Argument], words: &[CommandWord]) -> Option<bool> {
    let texts: Option<Vec<&str>> = arguments.iter().map(Argument::as_known).collect();
    let first = texts.as_ref().and_then(|texts| texts.first().copied());
    Some(match name {
        // Words that may name a variable or evaluate an index were refused when the line was parsed.
        "test" | "[" | "printf" => {
            let hides = |word: &CommandWord| {
                word.as_literal().is_some_and(|word| word.contains("$(") || word.contains('`'))
            };
            !words.iter().any(hides) && first.is_none_or(|first| !first.starts_with("-v"))
        }
        "wait" | "hostname" => arguments.is_empty(),
        "command" => matches!(first, Some("-v" | "-V")),
        "date" => texts.is_some_and(|texts| {
            let mut texts = texts.into_iter();
            let mut is_read = true;
            while let Some(text) = texts.next() {
                is_read &= match text {
                    "-d" | "--date" => texts.next().is_some(),
                    "-u" | "-R" | "-I" | "--utc" => true,
                    text => ["+", "--date=", "--iso-8601", "--rfc-3339="]
                        .iter()
                        .any(|it| text.starts_with(it)),
                };
            }
            is_read
        }),
        _ => return None,
    })
}

/// Returns the files that operands name; `None` if they are unknown, or a script may do more than read.
fn files(
    operands: Operands,
    given: &ParsedOptions<'_>,
    context: &CommandContext<'_>,
) -> Option<Vec<PathTouch>> {
    let is_recursive = given.is_recursive();
    // Recursive programs touch everything below their operands.
    let depth = match operands {
        Operands::Trees | Operands::PatternTrees => TouchDepth::Below,
        Operands::Pattern | Operands::Compared if is_recursive => TouchDepth::Below,
        Operands::Files
        | Operands::OneFile
        | Operands::Listed
        | Operands::Pattern
        | Operands::Compared
        | Operands::Script(_) => TouchDepth::Itself,
    };
    // Skip the pattern or script before the file names.
    let mut names = given.operands.as_slice();
    match operands {
        Operands::OneFile if names.len() > 1 => return None,
        Operands::Pattern | Operands::PatternTrees => {
            let lists = ["--files", "--type-list"].iter().any(|it| given.long.contains(it));
            if !given.has('e', "--regexp") && !lists {
                names = names.get(1..).unwrap_or_default();
            }
        }
        Operands::Script(language) => {
            let is_safe = |script: &str| language.only_reads(script);
            let scripts = scripts_of(given)?;
            if scripts.is_empty() {
                let (script, rest) = names.split_first()?;
                if !is_safe(script.as_known()?) {
                    return None;
                }
                names = rest;
            } else if !scripts.into_iter().all(is_safe) {
                return None;
            }
        }
        Operands::Files
        | Operands::OneFile
        | Operands::Listed
        | Operands::Trees
        | Operands::Compared => {}
    }
    let takes_here =
        matches!(operands, Operands::Listed | Operands::Trees | Operands::PatternTrees)
            || operands == Operands::Pattern && is_recursive;
    if names.is_empty() && takes_here {
        return context.touch(".", Access::Read, depth, FollowLinks::Yes);
    }
    let mut touches = Vec::new();
    for name in names {
        match name {
            Argument::Pipe => {}
            Argument::Unknown => return None,
            Argument::Known(name) if name == "-" => {}
            Argument::Known(name) => {
                touches.extend(context.touch(name, Access::Read, depth, FollowLinks::Yes)?);
            }
        }
    }
    // Two folders are compared file by file, also without `-r`.
    let is_folder = |touch: &PathTouch| {
        crow_fs::metadata(&touch.path).is_ok_and(|metadata| metadata.is_directory())
    };
    if operands == Operands::Compared && touches.iter().any(is_folder) {
        for touch in &mut touches {
            touch.depth = TouchDepth::Below;
        }
    }
    // Where links are followed, none may lead out of the workspace.
    let follows =
        |touch: &PathTouch| operands == Operands::Compared && touch.depth == TouchDepth::Below;
    let stays = |touch: &PathTouch| !follows(touch) || context.holds_all_below(&touch.path);
    touches.iter().all(stays).then_some(touches)
}

/// Returns the scripts that options give: `-e` of sed. In the other programs `-e` has no script as its value. Returns
/// `None` if `--expression` has its script in the next word, which was parsed as a file name.
pub(super) fn scripts_of<'a>(given: &ParsedOptions<'a>) -> Option<Vec<&'a str>> {
    if given.long.contains(&"--expression") {
        return None;
    }
    let short = given.values.iter().filter(|(letter, _)| *letter == 'e').map(|(_, value)| *value);
    let long = given.long.iter().filter_map(|it| it.strip_prefix("--expression="));
    Some(short.chain(long).collect())
}
