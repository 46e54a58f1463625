//! The words of a command line that name code whatever their names end in: the script of an interpreter, the files that the text
//! of `sh -c` reads, and the folder that a package runner installs.

use super::server::{pieces, program, runs_first_operand};

/// Shells, whose scripts are often not named like code.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"];
/// Programs that install and run a package, which a folder of the project may be.
const PACKAGE_RUNNERS: [&str; 10] =
    ["uvx", "uv", "pipx", "npx", "pnpx", "bunx", "npm", "pnpm", "yarn", "bun"];
/// Their subcommands before the name of a package.
const PACKAGE_COMMANDS: [&str; 7] = ["run", "tool", "exec", "x", "dlx", "install", "--"];
/// Their options whose values are packages, without hyphens.
const PACKAGE_OPTIONS: [&str; 9] =
    ["from", "with", "with-editable", "package", "p", "spec", "pip-args", "project", "directory"];

/// Returns the words that name the scripts of the shells and interpreters in a command line, also of those in the text of
/// `sh -c`: operands up to the first one that cannot be the value of an option.
pub(super) fn script_words(argv: &[String]) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, word) in argv.iter().enumerate() {
        let is_shell = is_shell(word);
        if !is_shell && !runs_first_operand(word) {
            continue;
        }
        let arguments = &argv[at + 1..];
        let has_text = is_shell && arguments.first().is_some_and(|first| takes_text(first));
        let mut follows_option = false;
        for argument in arguments {
            if argument.starts_with('-') {
                follows_option = true;
            } else if has_text {
                words.extend(read_words(argument));
                break;
            } else {
                words.push(argument);
                if !std::mem::take(&mut follows_option) {
                    break;
                }
            }
        }
    }
    words
}

/// Returns the words that name the packages of the package runners in a command line.
pub(super) fn package_words(argv: &[String]) -> Vec<&str> {
    let is_runner = |word: &String| PACKAGE_RUNNERS.contains(&program(word));
    let Some(at) = argv.iter().position(is_runner) else { return Vec::new() };
    let mut words = Vec::new();
    let mut is_value = false;
    for argument in &argv[at + 1..] {
        let option = argument.trim_start_matches('-');
        if option.len() < argument.len() && !option.is_empty() {
            match option.split_once('=') {
                Some((name, value)) if PACKAGE_OPTIONS.contains(&name) => words.push(value),
                Some(_) => {}
                None => is_value = PACKAGE_OPTIONS.contains(&option),
            }
        } else if std::mem::take(&mut is_value) {
            words.push(argument);
        } else if !PACKAGE_COMMANDS.contains(&argument.as_str()) {
            // The package itself; the words behind it are its own.
            words.push(argument);
            break;
        }
    }
    words
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&program(word))
}

/// Returns true for options with which a shell runs a text: `-c`, `-lc`.
fn takes_text(option: &str) -> bool {
    option.starts_with('-') && !option.starts_with("--") && option.contains('c')
}

/// Returns the words of a shell's text that may name files which it reads: not those behind `>`.
fn read_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (index, part) in text.split('>').enumerate() {
        let part = if index == 0 {
            part
        } else {
            let target = part.trim_start_matches([' ', '\t', '|']);
            let end = target.find(|char: char| char.is_whitespace() || ";|&<()".contains(char));
            end.map_or("", |end| &target[end..])
        };
        words.extend(pieces(part));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &[&str]) -> Vec<String> {
        line.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_script_is_the_first_operand_of_an_interpreter() {
        for (words, expected) in [
            (vec!["sh", "a.txt", "b.txt"], vec!["a.txt"]),
            (vec!["/bin/bash", "-e", "a.txt", "b.txt"], vec!["a.txt", "b.txt"]),
            (vec!["env", "A=b", "python3", "a.csv", "b.csv"], vec!["a.csv"]),
            (vec!["program", "a.txt"], vec![]),
            (vec!["sh", "-c", "sh <a.txt >b.log"], vec!["sh <a.txt ", "sh", "a.txt"]),
        ] {
            assert_eq!(script_words(&line(&words)), expected, "{words:?}");
        }
    }

    #[test]
    fn a_package_is_the_first_operand_or_the_value_of_an_option() {
        for (words, expected) in [
            (vec!["uvx", "--from", "./srv", "s", "."], vec!["./srv", "s"]),
            (vec!["uvx", "--with=./srv", "s"], vec!["./srv", "s"]),
            (vec!["npx", "-y", "server-filesystem", "src"], vec!["server-filesystem"]),
            (vec!["npx", "-p", "./srv", "s"], vec!["./srv", "s"]),
            (vec!["pnpm", "dlx", "./srv"], vec!["./srv"]),
            (vec!["python3", "./srv"], vec![]),
        ] {
            assert_eq!(package_words(&line(&words)), expected, "{words:?}");
        }
    }
}
