//! Commands whose arguments change what other commands mean, or start some.

use crow_core::tool::Word;

use super::{
    line::Unclear,
    variables::{Reach, reach},
};

/// Settings on the command line can name programs; those that cannot are listed here.
pub(super) fn git(words: &[Word]) -> Result<(), Unclear> {
    const HARMLESS: [&str; 8] = [
        "user.name=",
        "user.email=",
        "color.",
        "core.quotepath=",
        "commit.gpgsign=",
        "advice.",
        "init.defaultbranch=",
        "core.autocrlf=",
    ];
    let literal = |at: usize| words.get(at).and_then(Word::as_literal);
    let mut at = 1;
    while let Some(option) = literal(at).filter(|word| word.starts_with('-')) {
        at += match option {
            "-c" => {
                let setting = literal(at + 1).unwrap_or_default().to_ascii_lowercase();
                if !HARMLESS.iter().any(|known| setting.starts_with(known)) {
                    return Err("a setting of git that may start a program".into());
                }
                2
            }
            "-C" => 2,
            "--no-pager" | "-P" | "--version" | "--help" | "--no-optional-locks" | "--bare" => 1,
            _ => return Err("an option of git that may start a program".into()),
        };
    }
    let rest = words.get(at + 1..).unwrap_or_default();
    let is_literal = |text: &str| rest.iter().any(|word| word.as_literal() == Some(text));
    let is_exec = |word: &Word| {
        word.as_literal().is_some_and(|word| word.starts_with("-x") || word.starts_with("--exec"))
    };
    match literal(at) {
        Some("rebase" | "difftool") if rest.iter().any(is_exec) => {
            Err("git starts a command".into())
        }
        Some("bisect") if is_literal("run") => Err("git starts a command".into()),
        Some("submodule") if is_literal("foreach") => Err("git starts a command".into()),
        Some("filter-branch") => Err("git starts a command".into()),
        Some(_) | None => Ok(()),
    }
}

/// `set`, as far as it leaves the meaning of commands alone.
pub(super) fn set(words: &[Word]) -> Result<(), Unclear> {
    const NAMES: [&str; 6] = ["pipefail", "errexit", "nounset", "xtrace", "noclobber", "verbose"];
    let mut names_option = false;
    for word in words.get(1..).unwrap_or_default() {
        let Some(word) = word.as_literal() else { return Err("set is not understood".into()) };
        if names_option {
            names_option = false;
            if !NAMES.contains(&word) {
                return Err("set is not understood".into());
            }
        } else if word == "--" {
            return Ok(());
        } else {
            let letters = word.strip_prefix(['-', '+']).ok_or("set is not understood")?;
            if letters.is_empty() || !letters.chars().all(|letter| "euxfCvo".contains(letter)) {
                return Err("set is not understood".into());
            }
            names_option = letters.ends_with('o');
            if letters.trim_end_matches('o').contains('o') {
                return Err("set is not understood".into());
            }
        }
    }
    Ok(())
}

/// `read` and the like: the variables must be those of the shell alone.
pub(super) fn sets_variables(words: &[Word]) -> Result<(), Unclear> {
    let is_harmless = |word: &Word| {
        word.as_literal().is_some_and(|word| {
            reach(word) == Reach::Shell
                || matches!(word, "-r" | "-t" | "-ra" | "-s" | "-d" | "")
                || word.chars().all(|char| char.is_ascii_digit())
        })
    };
    if words.iter().skip(1).all(is_harmless) {
        Ok(())
    } else {
        Err("a variable is set in an unknown way".into())
    }
}

/// `printf -v` and `test -v` take the name of a variable, whose index may run commands.
pub(super) fn names_a_variable(words: &[Word]) -> Result<(), Unclear> {
    let is_name = |word: &Word| matches!(word.as_literal(), Some("-v" | "-R" | "-p"));
    if words.iter().any(is_name) {
        Err("a variable is named in an unknown way".into())
    } else {
        Ok(())
    }
}
