//! `bash -c '…'` and its like: which argument is the line that another shell runs.

use crow_core::tool::CommandWord;

use super::line::UnclearReason;

/// Option letters that do not change the meaning of a line. `+` switches them off.
const FLAGS: &str = "abefhklmnuvxBCEHP";
/// Long options without a value.
const LONG: [&str; 5] = ["--login", "--norc", "--noprofile", "--noediting", "--posix"];
/// Long options with which nothing is run.
const QUERIES: [&str; 2] = ["--version", "--help"];
/// The options accepted with `-o`.
const NAMES: [&str; 8] =
    ["errexit", "noclobber", "noglob", "nounset", "pipefail", "posix", "verbose", "xtrace"];
/// Files that are the input of the shell itself.
const INPUTS: [&str; 4] = ["/dev/stdin", "/dev/fd/", "/proc/self/fd/", "/dev/tty"];

/// The script that a started shell runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellScript<'words> {
    /// None: it only prints its version or help.
    Nothing,
    /// A file.
    File,
    /// A line, as one word.
    Line(&'words CommandWord),
}

/// Reads the arguments of a shell as bash and dash do: options with `-` or `+` up to `-`, `--` or an operand; with
/// `-c` the first operand is the line. An option that is not listed may change what it runs, and is refused.
pub(super) fn shell_script(arguments: &[CommandWord]) -> Result<ShellScript<'_>, UnclearReason> {
    let mut words = arguments.iter();
    let mut takes_line = false;
    let operand = loop {
        let Some(word) = words.next() else { break None };
        let unknown = if takes_line {
            "a shell line that is built at run time"
        } else {
            "options of a shell that are not literal"
        };
        let text = word.as_literal().ok_or(unknown)?;
        if text == "-" || text == "--" {
            break words.next();
        }
        if QUERIES.contains(&text) {
            return Ok(ShellScript::Nothing);
        }
        if LONG.contains(&text) {
            continue;
        }
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|rest| !rest.is_empty()) else {
            break Some(word);
        };
        for letter in letters.chars() {
            match letter {
                'c' if text.starts_with('-') => takes_line = true,
                // Its value is the next word, even if other letters follow.
                'o' => match words.next().and_then(CommandWord::as_literal) {
                    Some(name) if NAMES.contains(&name) => {}
                    Some(_) | None => return Err(not_understood()),
                },
                letter if FLAGS.contains(letter) => {}
                _ => return Err(not_understood()),
            }
        }
    };
    match (takes_line, operand) {
        (true, Some(line)) => Ok(ShellScript::Line(line)),
        (false, Some(script)) => file(script),
        (_, None) => Err("a shell that reads commands from standard input".into()),
    }
}

/// Checks the file that `source` reads.
pub(super) fn check_sourced_file(arguments: &[CommandWord]) -> Result<(), UnclearReason> {
    let name = match arguments {
        [CommandWord::Literal(dashes), name, ..] if dashes == "--" => name,
        [name, ..] => name,
        [] => return Ok(()),
    };
    file(name).map(drop)
}

/// Accepts a script by its name. The content of a script is not analysed; but an input of the shell may come from the
/// line itself.
fn file(script: &CommandWord) -> Result<ShellScript<'_>, UnclearReason> {
    let name = script.as_literal().ok_or("a script that is chosen at run time")?;
    if INPUTS.iter().any(|input| name.starts_with(input)) {
        return Err("a shell that reads commands from standard input".into());
    }
    Ok(ShellScript::File)
}

fn not_understood() -> UnclearReason {
    "unsupported options of a shell".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_shell_is_found_behind_its_options() {
        for (text, wanted) in [
            ("-c L", Some("line")),
            ("+x -c L", Some("line")),
            ("-c +x L", Some("line")),
            ("-c -- L", Some("line")),
            ("-c - L", Some("line")),
            ("-lc L name", Some("line")),
            ("-euo pipefail -c L", Some("line")),
            ("-o errexit -xc L", Some("line")),
            ("--norc -c L", Some("line")),
            ("--posix +e -c L", Some("line")),
            ("script.sh -c L", Some("file")),
            ("-x script.sh", Some("file")),
            ("-- script.sh", Some("file")),
            ("--version", Some("nothing")),
            ("-o", None),
            ("-o vi -c L", None),
            ("-O extglob -c L", None),
            ("-i -c L", None),
            ("-s", None),
            ("--rcfile x -c L", None),
            ("--init-file x", None),
            ("/dev/stdin", None),
            ("/dev/fd/3", None),
            ("-c", None),
            ("-", None),
            ("", None),
        ] {
            let words: Vec<CommandWord> =
                text.split_whitespace().map(|word| CommandWord::Literal(word.to_owned())).collect();
            let found = shell_script(&words).ok().map(|script| match script {
                ShellScript::Nothing => "nothing",
                ShellScript::File => "file",
                ShellScript::Line(word) => {
                    assert_eq!(word.as_literal(), Some("L"), "{text}");
                    "line"
                }
            });
            assert_eq!(found, wanted, "{text}");
        }
    }
}
