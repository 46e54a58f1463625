mod construct_ends;
mod differential;
mod nested_expansions;
mod properties;
mod shells;

use std::fmt::Write as _;

use crow_core::tool::{Access, CommandMeaning, CommandWord};

use super::read_command_line;

fn word(word: &CommandWord) -> String {
    match word {
        CommandWord::Literal(text)
            if text.is_empty() || text.contains([' ', '\n', '<', '>', ';', '|']) =>
        {
            format!("'{text}'")
        }
        CommandWord::Literal(text) => text.clone(),
        CommandWord::Computed(text) => format!("<{text}>"),
    }
}

fn shown(line: &str) -> String {
    match read_command_line(line).meaning {
        CommandMeaning::Unclear(reason) => format!("unclear: {reason}"),
        CommandMeaning::Commands(commands) => {
            let mut shown = Vec::new();
            for command in commands {
                let mut text = String::new();
                for name in &command.assignments {
                    let _ = write!(text, "{name}= ");
                }
                text.push_str(&command.words.iter().map(word).collect::<Vec<_>>().join(" "));
                for redirect in &command.redirects {
                    let sign = match redirect.access {
                        Access::Read => '<',
                        Access::Write => '>',
                    };
                    let _ = write!(text, " {sign}{}", word(&redirect.target));
                }
                shown.push(text);
            }
            shown.join(" ; ")
        }
    }
}

/// Real lines and attacks, one per line; `
/// ` is a line feed inside one, `⇐` a carriage return.
#[test]
fn parsed_lines_match_the_snapshot() {
    let mut read = String::new();
    for line in include_str!("lines.txt").lines() {
        let shown = shown(&line.replace('⏎', "\n").replace('⇐', "\r"));
        let _ = writeln!(read, "{line}\n    {}", shown.replace('\n', "⏎"));
    }
    insta::assert_snapshot!(read);
}

#[test]
fn nested_commands_are_read_too() {
    for (line, read) in [
        ("git log; rm -rf x", "git log ; rm -rf x"),
        ("git log && $(rm x)", "git log ; <$(rm x)> ; rm x"),
        ("echo \"$(rm x)\"", "echo <\"$(rm x)\"> ; rm x"),
        ("git log `rm x`", "git log <`rm x`> ; rm x"),
        ("git diff > ~/.bashrc", "git diff ><~/.bashrc>"),
        ("env FOO=1 sudo -u root rm -rf /", "FOO= sudo -u root rm -rf / ; FOO= rm -rf /"),
        ("find . -name x -exec rm {} \\;", "find . -name x -exec rm {} ';' ; rm <{}>"),
        ("xargs -n1 rm", "xargs -n1 rm ; rm <{}>"),
        ("bash -c 'a; b'", "bash -c 'a; b' ; a ; b"),
        ("a | b |& c", "a ; b ; c"),
        ("export FOO=bar; git log", "FOO= git log"),
    ] {
        assert_eq!(shown(line), read, "{line}");
    }
}

/// The scanner of the grammar looks up the character after a brace in a table of 384 entries.
#[test]
fn no_character_after_a_brace_makes_the_parser_panic() {
    let chars = (0x80..=u32::from(char::MAX)).step_by(61).filter_map(char::from_u32);
    for char in chars {
        for line in [
            format!("echo {{{char}"),
            format!("echo {{12{char}}}"),
            format!("echo {{1..{char}}}"),
            format!("echo {{1..2{char},a}}"),
        ] {
            assert!(!shown(&line).is_empty());
        }
    }
    assert!(shown("echo 'é {ü}' ✓ {a,b}").contains("echo"), "other lines are read");
}

#[test]
fn arithmetic_on_variables_that_hold_numbers_is_read() {
    for line in [
        "n=4; echo $((n * 2 + 1))",
        "i=0; for j in 1 2; do echo $i; i=$((i + 1)); done",
        "for n in 1 2 3; do echo $((n * n)) $(( $n + 1 )); done",
        "a=1; b=$((a + 1)); echo $((a + b))",
    ] {
        assert!(!shown(line).starts_with("unclear"), "{line}: {}", shown(line));
    }
    for line in [
        "echo $((n))",
        "echo $((PWD))",
        "PWD=4; bash -c 'echo $((PWD))'",
        "n=4; bash -c 'echo $((n))'",
        "bash -c 'n=4'; echo $((n))",
        "n='a[$(id)]'; echo $((n))",
        "n=4; n='a[$(id)]'; echo $((n))",
        "for i in 1 2; do echo $((n)); n='a[$(id)]'; done",
        "n=4; for n in 1 'a[$(id)]'; do echo $((n)); done",
        "n=4; for n; do echo $((n)); done",
        "n=4; read n; echo $((n))",
        "n=4; while read n; do echo $((n)); done < list",
        "n=4; printf -v n %s 'a[0]'; echo $((n))",
        "n=4; mapfile n; echo $((n))",
        "n=4; getopts x n; echo $((n))",
        "n=4; select n in a; do echo $((n)); done",
        "n=4; local n; echo $((n))",
        "n=4; declare n=$x; echo $((n))",
        "n=4; n+=x; echo $((n))",
        "n=4; echo ${n:=x} $((n))",
        "n=4; n=$x echo $((n))",
        "n=(4 5); echo $((n))",
        "n=4; export n=$x; echo $((n))",
        "n=4; env n=$x bash -c 'echo $((n))'",
        "n=4; coproc n { cat; }; echo $((n))",
        "n=4; unset n; echo $((n))",
        "n=4; eval n=x; echo $((n))",
        "n=4; f() { n=$1; }; f 'a[$(id)]'; echo $((n))",
    ] {
        assert!(shown(line).starts_with("unclear"), "{line}: {}", shown(line));
    }
}

#[test]
fn a_line_with_a_character_that_cannot_be_seen_is_not_understood() {
    let reason = "unclear: invisible characters, or ones that change the text direction";
    for char in [
        '\u{ad}',
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{200b}',
        '\u{202e}',
        '\u{2066}',
        '\u{2800}',
        '\u{3164}',
        '\u{e0041}',
    ] {
        assert_eq!(shown(&format!("ls a{char}b")), reason, "{char:?}");
    }
    for line in ["echo 👩\u{200d}💻", "echo ⚠\u{fe0f}", "echo می\u{200c}خواهم"] {
        assert_eq!(shown(line), line);
    }
}
