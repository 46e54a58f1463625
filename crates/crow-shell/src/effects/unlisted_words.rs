//! Words with unknown effects, of programs without a table of options.
//!
//! A permission for the first words of a command does not cover options that follow: `scp` copies, and `scp -S x`
//! starts `x`. Where the harmless options are not listed, each one must be named in the permission itself.

use std::path::Path;

use crow_core::tool::CommandWord;

use super::{
    command_context::CommandContext,
    permitted_options::{git_subcommand, is_operand},
};

/// Programs that run the script that is their first operand; words after it belong to the script.
pub(super) const INTERPRETERS: [&str; 21] = [
    "Rscript", "bash", "bun", "dash", "elixir", "julia", "ksh", "lua", "node", "perl", "php",
    "python", "python2", "python3", "ruby", "sh", "tclsh", "ts-node", "tsx", "uvx", "zsh",
];

/// Database clients, whose words may be SQL and commands of their own.
const DATABASE_CLIENTS: [&str; 3] = ["mariadb", "mysql", "psql"];

/// Returns the positions in a command of the words that may have any effect. `words` are those after the program's
/// name.
pub(super) fn unlisted_positions(
    program: &str,
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Vec<usize> {
    if is_own_program(program, context) {
        return Vec::new();
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let start = match name {
        // The options before git's subcommand were checked when the line was parsed.
        "git" => git_subcommand(words).map_or(0, |(at, _)| at + 1),
        _ => 0,
    };
    // After the script of an interpreter, words belong to the script; before it, only operands and code are harmless.
    let is_interpreter = INTERPRETERS.contains(&name);
    let is_client = DATABASE_CLIENTS.contains(&name);
    let (mut has_script, mut is_code_next) = (false, false);
    let mut positions = Vec::new();
    for (at, word) in words.iter().enumerate().skip(start) {
        // The word after `-e` is code; more options may follow.
        if std::mem::replace(&mut is_code_next, is_interpreter && takes_code(word)) {
            continue;
        }
        if is_client && reaches_out(word) {
            positions.push(at + 1);
            continue;
        }
        // Some programs read more options from `@file`.
        let is_file = word.as_literal().is_some_and(|text| text.starts_with('@'));
        let is_code = is_interpreter && is_input(word);
        if is_file && name != "git" || is_code || !is_operand(word, context) {
            positions.push(at + 1);
        } else if is_interpreter {
            has_script = true;
            break;
        }
    }
    // Without a script it runs its standard input, which no word shows.
    if is_interpreter && !has_script {
        positions.push(words.len() + 1);
    }
    positions
}

/// Returns whether the next word is code, by a cluster of letters that ends in the option for it: `-ne`.
pub(super) fn takes_code(word: &CommandWord) -> bool {
    word.as_literal().and_then(|text| text.strip_prefix('-')).is_some_and(|letters| {
        letters.chars().all(|letter| letter.is_ascii_alphanumeric())
            && letters.ends_with(['c', 'e', 'E', 'p', 'r'])
    })
}

/// Returns whether a word of a database client names another server, or holds a command that may start a program or
/// access a file.
fn reaches_out(word: &CommandWord) -> bool {
    let Some(text) = word.as_literal() else { return true };
    let text = text.trim().to_ascii_lowercase();
    let is_address = text.contains("://")
        || ["host=", "hostaddr=", "service=", "port="].iter().any(|it| text.contains(it));
    let is_of_client = text.contains('\\')
        || ["system ", "source ", "tee ", "pager "].iter().any(|it| text.starts_with(it));
    let is_of_server = ["program", "outfile", "dumpfile", "load_file", "load data"]
        .iter()
        .any(|it| text.contains(it));
    is_address || is_of_client || is_of_server
}

/// Returns whether an interpreter's operand is its input, and not a script of the project.
fn is_input(word: &CommandWord) -> bool {
    match word {
        CommandWord::Literal(text) => {
            text == "-"
                || ["/dev/fd/", "/dev/stdin", "/dev/tty", "/proc/"]
                    .iter()
                    .any(|start| text.starts_with(start))
        }
        CommandWord::Computed(text) => text.starts_with("<("),
    }
}

/// Returns whether a program belongs to the project, so that its options are part of what the project does:
/// `./configure --with-x`. Programs installed by a package manager do not.
pub(super) fn is_own_program(program: &str, context: &CommandContext<'_>) -> bool {
    let is_installed = |name: &str| matches!(name, "node_modules" | ".venv" | "venv" | "vendor");
    let path = Path::new(program);
    program.contains('/')
        && !path.components().any(|part| part.as_os_str().to_str().is_some_and(is_installed))
        && (path.is_relative() || context.workspace.contains(path))
}

/// Returns whether a word is written as an address that is fetched over the web: `http://`, `https://`, or a bare
/// host. Other schemes read files, or use the user's keys.
pub(super) fn is_web_address(text: &str) -> bool {
    let scheme = |scheme: &str| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if scheme("http://") || scheme("https://") {
        return true;
    }
    let (host, rest) = text.split_at(text.find(['/', ':', '?', '#']).unwrap_or(text.len()));
    let is_host = !host.is_empty()
        && host.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-'));
    let port =
        rest.strip_prefix(':').map(|rest| rest.split_once('/').map_or(rest, |(port, _)| port));
    is_host
        && port
            .is_none_or(|port| !port.is_empty() && port.chars().all(|char| char.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_are_web_addresses() {
        for text in ["https://x.org/a?b=c", "HTTP://x", "localhost:8080/x", "x.org", "127.0.0.1:80"]
        {
            assert!(is_web_address(text), "{text}");
        }
        for text in [
            "file:///etc/passwd",
            "FILE:/x",
            "scp://h/x",
            "{file,x}:///x",
            "h:8x/",
            "",
            "@x",
            "[::1]",
        ] {
            assert!(!is_web_address(text), "{text}");
        }
    }
}
