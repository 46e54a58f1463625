//! Builtins and commands whose arguments change the meaning of other commands, or start some.

use crow_core::tool::CommandWord;

use super::{
    line::UnclearReason,
    variables::{VariableEffect, variable_effect},
};

/// Checks the global options and subcommand of git. Settings on the command line can name programs; the harmless ones
/// are listed here.
pub(super) fn git(words: &[CommandWord]) -> Result<(), UnclearReason> {
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
    let literal = |at: usize| words.get(at).and_then(CommandWord::as_literal);
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
            "-C" if literal(at + 1).is_some() => 2,
            "--no-pager" | "-P" | "--version" | "--help" | "--no-optional-locks" | "--bare" => 1,
            _ => return Err("an option of git that may start a program".into()),
        };
    }
    // Subcommands that start a command given as an argument. Without a subcommand there are no arguments.
    let rest = words.get(at + 1..).unwrap_or_default();
    let is_literal = |text: &str| rest.iter().any(|word| word.as_literal() == Some(text));
    let is_exec = |word: &CommandWord| {
        word.as_literal().is_some_and(|word| {
            let is_cluster = word.starts_with('-') && !word.starts_with("--");
            is_cluster && word.contains('x') || word.starts_with("--ex")
        })
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

/// Checks that `set` does not change the meaning of commands.
pub(super) fn set(words: &[CommandWord]) -> Result<(), UnclearReason> {
    const NAMES: [&str; 6] = ["pipefail", "errexit", "nounset", "xtrace", "noclobber", "verbose"];
    let mut names_option = false;
    for word in &words[1..] {
        let Some(word) = word.as_literal() else {
            return Err("unsupported arguments of set".into());
        };
        if names_option {
            names_option = false;
            if !NAMES.contains(&word) {
                return Err("unsupported arguments of set".into());
            }
        } else if word == "--" {
            return Ok(());
        } else {
            // A cluster of flags; `o` takes the next word as a name, so it must be last.
            let letters = word.strip_prefix(['-', '+']).ok_or("unsupported arguments of set")?;
            if letters.is_empty() || !letters.chars().all(|letter| "euxfCvo".contains(letter)) {
                return Err("unsupported arguments of set".into());
            }
            names_option = letters.ends_with('o');
            if letters.trim_end_matches('o').contains('o') {
                return Err("unsupported arguments of set".into());
            }
        }
    }
    Ok(())
}

/// Checks that `read` and the like set only variables that no program looks at.
pub(super) fn sets_variables(words: &[CommandWord]) -> Result<(), UnclearReason> {
    let is_harmless = |word: &CommandWord| {
        word.as_literal().is_some_and(|word| {
            variable_effect(word) == VariableEffect::Shell
                || matches!(word, "-r" | "-t" | "-ra" | "-s" | "-d" | "")
                || word.chars().all(|char| char.is_ascii_digit())
        })
    };
    if words.iter().skip(1).all(is_harmless) {
        Ok(())
    } else {
        Err("an unsupported way to set a variable".into())
    }
}

/// Checks `printf`: `-v` and `%n` take the name of a variable, whose index may run commands.
pub(super) fn printf(words: &[CommandWord]) -> Result<(), UnclearReason> {
    let is_after_dashes = words.get(1).and_then(CommandWord::as_literal) == Some("--");
    let Some(format) = words.get(if is_after_dashes { 2 } else { 1 }) else { return Ok(()) };
    match format.as_literal() {
        Some(format) if is_after_dashes || !format.starts_with('-') => {
            let is_between = |char: char| char.is_ascii_digit() || "#0-+ '.*hlLjzt".contains(char);
            let counts = |piece: &str| piece.trim_start_matches(is_between).starts_with('n');
            if format.split('%').skip(1).any(counts) { Err(names_a_variable()) } else { Ok(()) }
        }
        Some(_) | None => Err(names_a_variable()),
    }
}

/// Checks `wait`: `-p` takes the name of a variable.
pub(super) fn wait(words: &[CommandWord]) -> Result<(), UnclearReason> {
    let is_harmless =
        |word: &str| !word.strip_prefix('-').is_some_and(|letters| letters.contains('p'));
    if words.iter().all(|word| word.as_literal().is_some_and(is_harmless)) {
        Ok(())
    } else {
        Err(names_a_variable())
    }
}

/// Checks the words of a test: `-v` takes the name of a variable, whose index may run commands. A word that is known
/// only when the line runs may be that option, unless its position excludes it. Returns the unquoted variables, which
/// must hold numbers: `[ $i -le 3 ]`.
pub(super) fn test(words: &[CommandWord]) -> Result<Vec<&str>, UnclearReason> {
    const COMPARISONS: [&str; 9] = ["=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let literal = |word: &CommandWord| word.as_literal().map(str::to_owned);
    let is_one = |word: &CommandWord| match word {
        CommandWord::Literal(_) => true,
        CommandWord::Computed(text) => is_one_word(text),
    };
    let rest = match words {
        [first, rest @ ..] if literal(first).as_deref() == Some("!") => rest,
        words => words,
    };
    let mut numbers = Vec::new();
    let mut is_side = |word| {
        let number = bare_variable(word);
        numbers.extend(number);
        number.is_some() || is_one(word)
    };
    // With up to three words the position shows which one is an operator; with more, all must be literal.
    let is_understood = match rest {
        rest if rest.iter().all(|word| word.as_literal().is_some()) => true,
        [word] => is_one(word),
        [operator, word] => {
            literal(operator).is_some_and(|operator| operator.starts_with('-')) && is_one(word)
        }
        [left, operator, right] => {
            literal(operator).is_some_and(|operator| COMPARISONS.contains(&operator.as_str()))
                && is_side(left)
                && is_side(right)
        }
        _ => false,
    };
    let names = |word: &CommandWord| matches!(word.as_literal(), Some("-v" | "-R"));
    if is_understood && !words.iter().any(names) { Ok(numbers) } else { Err(names_a_variable()) }
}

/// Returns the name of a variable that is a whole unquoted word.
fn bare_variable(word: &CommandWord) -> Option<&str> {
    let CommandWord::Computed(text) = word else { return None };
    let name = text.strip_prefix('$')?;
    let is_name =
        !name.is_empty() && name.chars().all(|char| char.is_ascii_lowercase() || char == '_');
    is_name.then_some(name)
}

/// Returns whether a computed word is completely quoted, so that it stays one word.
fn is_one_word(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.contains(['"', '@']))
}

fn names_a_variable() -> UnclearReason {
    "a variable name that is not literal".into()
}
