//! Programs of which little is known: the words that lead out of the workspace, and operands that start another program.

use crow_core::tool::{Access, Depth, Touch};

use super::{
    arguments::Argument,
    line::Known,
    scene::{Follow, Scene},
};

/// Programs of which all words after the options are names of others, or text.
const TEXTS: [&str; 6] = ["awk", "gawk", "mawk", "jq", "sed", "perl"];

/// Programs that read all that lies below a folder that they are given.
const CARRIERS: [&str; 8] = ["7z", "bsdtar", "gtar", "rsync", "scp", "source", "tar", "zip"];

/// What is known of any command: the files that its words name.
pub(super) fn unknown(name: &str, arguments: &[Argument], scene: &Scene<'_>) -> Known {
    if starts_another(name, arguments) || follows_out(name, arguments, scene) {
        return Known::hidden();
    }
    let depth = if CARRIERS.contains(&name) { Depth::Below } else { Depth::Itself };
    let mut touches: Vec<Touch> = Vec::new();
    for text in arguments.iter().filter_map(Argument::as_known) {
        for part in parts_of(text) {
            let named = scene.touch(part, Access::Read, depth, Follow::Yes);
            let may_lead_out = leads_out(part) && !TEXTS.contains(&name);
            let is_meant = |touch: &Touch| {
                let is_outside = !scene.workspace.contains(&touch.path);
                is_outside && may_lead_out || touch.path.exists()
            };
            let Some(named) = named else {
                if may_lead_out {
                    return Known::hidden();
                }
                continue;
            };
            for touch in named.into_iter().filter(is_meant) {
                if !touches.contains(&touch) {
                    touches.push(touch);
                }
            }
        }
    }
    if name == "git" && puts_back(arguments) {
        let changed = touches.clone().into_iter();
        touches.extend(changed.map(|touch| Touch { access: Access::Write, ..touch }));
    }
    Known::changes(touches)
}

/// Whether a command of git changes the files of the work tree that it names.
fn puts_back(arguments: &[Argument]) -> bool {
    const COMMANDS: [&str; 8] =
        ["apply", "checkout", "checkout-index", "clean", "mv", "restore", "rm", "stash"];
    let mut words = arguments.iter().filter_map(Argument::as_known);
    words.find(|word| !word.starts_with('-')).is_some_and(|word| COMMANDS.contains(&word))
}

/// Whether a program goes over links on its way, and one of them may lead out of the workspace.
pub(super) fn follows_out(name: &str, arguments: &[Argument], scene: &Scene<'_>) -> bool {
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
    let paths = folders.filter_map(|it| scene.touch(it, Access::Read, Depth::Below, Follow::Yes));
    follows && !paths.flatten().all(|touch| scene.holds_all_below(&touch.path))
}

/// Whether an operand makes a program start another one: a transport of git, a variable of make.
fn starts_another(name: &str, arguments: &[Argument]) -> bool {
    let mut words = arguments.iter().filter_map(Argument::as_known);
    match name {
        "git" => words.any(|word| word.contains("::")),
        "make" | "gmake" => words.any(sets_program),
        _ => false,
    }
}

/// `make CC=evil`, `make SHELL=evil`: a variable that commands begin with. Upper-case names that say how to build only
/// are not told apart from it.
fn sets_program(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        ["SHELL", "MAKE", "MAKEFLAGS", "CC", "CXX", "LD", "AR", "AS", "CPP"]
            .contains(&name.trim_end_matches([':', '+', '?', '!']))
            || name.starts_with(".SHELL")
    })
}

/// The pieces of a word that may be paths: itself, the value of an option, what is attached to a letter, what stands
/// behind `@` or behind the scheme of an address, and in a revision of git.
fn parts_of(text: &str) -> impl Iterator<Item = &str> {
    let (before, address) = text.split_once(':').unwrap_or((text, text));
    let is_file = before.eq_ignore_ascii_case("file");
    let of_file = is_file.then(|| address.strip_prefix("//").unwrap_or(address));
    let in_revision = text.rsplit_once(':').map(|(_, path)| path);
    let sent = text.rsplit_once('@').map(|(_, path)| path.split(';').next().unwrap_or(path));
    let value = text.split_once('=').map(|(_, value)| value);
    let attached = text.strip_prefix('-').and_then(|rest| {
        let at = rest.char_indices().nth(1).map(|(at, _)| at)?;
        rest.get(at..).filter(|_| !rest.starts_with('-'))
    });
    let is_path = |part: &&str| {
        !part.contains(['\n', ' ']) && !part.contains("://") && !part.starts_with("//")
    };
    let of_address = [of_file, in_revision.filter(|_| !is_file), sent];
    [Some(text), value, attached].into_iter().chain(of_address).flatten().filter(is_path)
}

/// Whether a piece is written as a path that leads out: an absolute one, or one that goes up.
fn leads_out(part: &str) -> bool {
    part.starts_with('/') || part.split('/').any(|name| name == "..")
}
