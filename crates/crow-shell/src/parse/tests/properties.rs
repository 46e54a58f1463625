//! Properties of any line.

use crow_core::tool::{CommandMeaning, CommandWord};
use proptest::prelude::*;

use super::super::read_command_line;

fn simple() -> impl Strategy<Value = Vec<String>> {
    let program = prop::sample::select(&["git", "cargo", "ls", "p", "make"][..]);
    let arguments = prop::collection::vec(
        "[a-z0-9_./:@%+,-][a-z0-9_./:@%+,=-]{0,5}|[ ;|&<>()#a-z$`*]{1,6}",
        0..4,
    );
    (program, arguments).prop_map(|(program, arguments)| {
        let mut words = vec![program.to_owned()];
        // An option before git's subcommand is checked separately.
        words.extend(arguments.into_iter().map(|argument| format!("a{argument}")));
        words
    })
}

/// Programs that start others, with options that lack their value, and the end of a line anywhere.
const STARTING: [&str; 44] = [
    "xargs",
    "sudo",
    "ssh",
    "find",
    "fd",
    "env",
    "nice",
    "timeout",
    "sh",
    "bash",
    "eval",
    "trap",
    "source",
    "git",
    "set",
    "test",
    "[",
    "]",
    "export",
    "read",
    "printf",
    "wait",
    "-exec",
    "-execdir",
    "\\;",
    "+",
    "-u",
    "-n",
    "-d",
    "-0",
    "-I",
    "-I{}",
    "-x",
    "-p",
    "-c",
    "-C",
    "--",
    "-",
    "--=",
    "a=b",
    "$x",
    "|",
    "&&",
    "'sudo -u'",
];

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "\\PC{0,60}|[a-z$(){}<>|&;`'\" \\\\\n#=*!\\[\\]-]{0,60}") {
        prop_assert_eq!(read_command_line(&text).text, text);
    }

    #[test]
    fn any_words_after_programs_that_start_others_are_read_without_panic(
        line in prop::collection::vec(prop::sample::select(&STARTING[..]), 1..10)
    ) {
        let line = line.join(" ");
        prop_assert_eq!(read_command_line(&line).text, line);
    }

    #[test]
    fn simple_commands_come_out_as_they_were_joined(
        commands in prop::collection::vec((simple(), prop::sample::select(&["; ", " && ", " || ", " | ", " & ", "\n"][..])), 1..6)
    ) {
        let mut line = String::new();
        for (at, (words, operator)) in commands.iter().enumerate() {
            if at > 0 {
                line.push_str(operator);
            }
            line.push_str(&words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "));
        }
        let CommandMeaning::Commands(read) = read_command_line(&line).meaning else {
            // The grammar reads some pipelines over a line end as one command; those are refused.
            prop_assert!(line.contains('\n') && line.contains('|'), "not understood: {line}");
            return Ok(());
        };
        let read: Vec<Vec<String>> = read
            .iter()
            .map(|command| command.words.iter().filter_map(CommandWord::as_literal).map(str::to_owned).collect())
            .collect();
        let written: Vec<Vec<String>> = commands.into_iter().map(|(words, _)| words).collect();
        prop_assert_eq!(read, written);
    }
}

#[test]
fn hostile_lines_end_soon_and_unclear() {
    for line in [
        "$(".repeat(100_000),
        "$(".repeat(30_000),
        format!("echo {}a{}", "$(echo ".repeat(5_000), ")".repeat(5_000)),
        format!("{}a{}", "(".repeat(30_000), ")".repeat(30_000)),
        format!("echo {}", "\"$(".repeat(15_000)),
        "a ".repeat(500_000),
        "a;".repeat(30_000),
        "`".repeat(60_000),
        "<<A ".repeat(15_000),
        "{ ".repeat(30_000),
        "if a; then ".repeat(5_000),
        "env ".repeat(10_000) + "sh -c \\'",
        "sudo ".repeat(10_000) + "x",
        "\0".repeat(100),
    ] {
        let start: String = line.chars().take(20).collect();
        let meaning = read_command_line(&line).meaning;
        assert!(matches!(meaning, CommandMeaning::Unclear(_)), "{start}");
    }
}
