//! Programs of which little is known: the words that lead out of the workspace, and those that make a program start
//! another one than the one that was allowed.

use crow_core::tool::{Access, Depth, Touch};

use super::{
    arguments::Argument,
    line::Known,
    scene::{Follow, Scene},
};

/// Options that name programs, settings or code, by the programs that have them and no [table](super::option_table) of
/// those that are harmless.
const SWITCHES: [(&[&str], &[&str]); 4] = [
    (
        &["npx", "bunx"],
        &[
            "--script-shell",
            "--node-options",
            "--shell",
            "-c",
            "--call",
            "--userconfig",
            "--globalconfig",
            "--node-arg",
        ],
    ),
    (
        &["git"],
        &[
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--ext-diff",
            "--open-files-in-pager",
            "-O",
            "--output",
            "--exec-path",
            "--template",
            "--config",
            "-c",
            "--contents",
            "--no-index",
            "--smtp-server",
            "-x",
        ],
    ),
    (
        &["node", "deno"],
        &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-e",
            "--eval",
            "-p",
            "--print",
        ],
    ),
    (&["rsync"], &["-e", "--rsh", "--rsync-path"]),
];

/// Programs of which all words after the options are names of others, or text.
const TEXTS: [&str; 6] = ["awk", "gawk", "mawk", "jq", "sed", "perl"];

/// What is known of any command: what its words name outside of the workspace.
pub(super) fn unknown(name: &str, arguments: &[Argument], scene: &Scene<'_>) -> Known {
    if starts_another(name, arguments) || follows_out(name, arguments, scene) {
        return Known::hidden();
    }
    let mut touches: Vec<Touch> = Vec::new();
    for text in arguments.iter().filter_map(Argument::as_known) {
        for part in parts_of(text) {
            let named = scene.touch(part, Access::Read, Depth::Itself, Follow::Yes);
            let may_lead_out = leads_out(part) && !TEXTS.contains(&name);
            // A name of the workspace may be a link.
            let is_meant = |touch: &Touch| {
                !scene.workspace.contains(&touch.path) && (may_lead_out || touch.path.exists())
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
    Known::changes(touches)
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

fn starts_another(name: &str, arguments: &[Argument]) -> bool {
    let switches =
        SWITCHES.iter().filter(|(names, _)| names.contains(&name)).flat_map(|(_, it)| *it);
    let words: Vec<&str> = arguments.iter().filter_map(Argument::as_known).collect();
    // What follows is for the program that is run.
    let own = words.iter().take_while(|word| **word != "--");
    let mut own: Vec<&str> = own.copied().collect();
    if matches!(name, "npx" | "bunx") {
        let at = own.iter().position(|word| !word.starts_with('-'));
        own.truncate(at.unwrap_or(own.len()));
    }
    if name == "git" {
        // Settings before the command were judged when the line was read, and `-c` after it means other things.
        let at = own.iter().position(|word| {
            !word.starts_with('-') && word.chars().all(|it| it.is_ascii_lowercase() || it == '-')
        });
        own = own.split_off(at.unwrap_or_default());
        if own.iter().any(|word| word.contains("::")) {
            return true;
        }
        let is_clone = own.first() == Some(&"clone");
        own.retain(|word| is_clone || !matches!(*word, "-c" | "-x"));
    }
    if matches!(name, "make" | "gmake") && own.iter().any(|word| sets_program(word)) {
        return true;
    }
    let mut switches = switches;
    switches.any(|switch| own.iter().any(|word| is_switch(word, switch)))
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

fn is_switch(word: &str, switch: &str) -> bool {
    if switch.starts_with("--") {
        let name = word.split('=').next().unwrap_or_default();
        // Programs take names that are cut short.
        name == switch || word.starts_with("--") && name.len() > 4 && switch.starts_with(name)
    } else if switch.len() == 2 {
        word.starts_with(switch) && !word.starts_with("--")
    } else {
        word == switch || word.strip_prefix(switch).is_some_and(|rest| rest.starts_with('='))
    }
}

/// The pieces of a word that may be paths: itself, the value of an option, what is attached to a letter.
fn parts_of(text: &str) -> impl Iterator<Item = &str> {
    let value = text.split_once('=').map(|(_, value)| value);
    let attached = text.strip_prefix('-').and_then(|rest| {
        let at = rest.char_indices().nth(1).map(|(at, _)| at)?;
        rest.get(at..).filter(|_| !rest.starts_with('-'))
    });
    let is_path = |part: &&str| {
        !part.contains(['\n', ' ']) && !part.contains("://") && !part.starts_with("//")
    };
    [Some(text), value, attached].into_iter().flatten().filter(is_path)
}

/// Whether a piece is written as a path that leads out: an absolute one, or one that goes up.
fn leads_out(part: &str) -> bool {
    part.starts_with('/') || part.split('/').any(|name| name == "..")
}
