mod construct_ends;
mod differential;
mod nested_expansions;
mod properties;
mod shells;

use std::fmt::Write as _;

use crow_core::tool::{Access, CommandMeaning, Word};

use super::read_command_line;

fn word(word: &Word) -> String {
    match word {
        Word::Literal(text)
            if text.is_empty() || text.contains([' ', '\n', '<', '>', ';', '|']) =>
        {
            format!("'{text}'")
        }
        Word::Literal(text) => text.clone(),
        Word::Computed(text) => format!("<{text}>"),
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

/// Real lines and attacks, one a line; `⏎` is the end of a line inside of one, `⇐` a carriage return.
#[test]
fn lines_are_read_as_recorded() {
    let mut read = String::new();
    for line in include_str!("lines.txt").lines() {
        let shown = shown(&line.replace('⏎', "\n").replace('⇐', "\r"));
        let _ = writeln!(read, "{line}\n    {}", shown.replace('\n', "⏎"));
    }
    insta::assert_snapshot!(read);
}

#[test]
fn what_is_behind_a_command_is_read_too() {
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

#[test]
fn a_line_with_a_character_that_cannot_be_seen_is_not_understood() {
    let reason = "unclear: characters that cannot be seen, or that turn the text around";
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
