//! Lines of many parts, which a reader with nested loops would take minutes for. The deadline is far above what is
//! needed, so that a busy machine does not fail the test.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crow_core::workspace::Workspace;

use super::plan_command_line;

const DEADLINE: Duration = Duration::from_secs(10);
/// Length of a line, below that of the longest that is read.
const LONG: usize = 30_000;

/// Repeats a piece up to a length, with `#` replaced by the number of the copy.
fn numbered(piece: &str, length: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() + piece.len() >= length {
            break;
        }
        text.push_str(&piece.replace('#', &number.to_string()));
    }
    text
}

#[test]
fn a_long_line_of_any_text_is_planned_in_bounded_time() {
    let root = Path::new("/p");
    let workspace = Workspace::new(root);
    let pieces = [
        "a=$a$a;",
        "a=1\n",
        "A#=1;",
        "A#=1 ",
        "a#=$((a#+1));",
        "a=1;((a));",
        "((a));",
        "export A#\n",
        "ls;",
        "ls|",
        "|grep x",
        "ls && ",
        "ls || ",
        ">a ",
        "2>&1 ",
        "$a",
        "${a}",
        "${a:-${a}}",
        "${a:-b ",
        "$(ls) ",
        "`ls` ",
        "\"$a\" ",
        "'a' ",
        "a ",
        "\\\n",
        "[ ",
        "[ -n a ];",
        "[[ a ]];",
        "{ ",
        "( ",
        "{a,b} ",
        "* ",
        "a{1..9}",
        "for i in a; do ls $i; done;",
        "for i in $(ls); do cat $i; done;",
        "if ls; then a=1; fi;",
        "a=1;else ",
        "while read -r f; do cat $f; done;",
        "case a in a) ls;; esac;",
        "cat <<a\nb\na\n",
        "cat <<a ",
        "<<<a ",
        "cd a;",
        "cd ..;",
        "a() { ls; };",
        "f=$a;",
        "! ",
        "time ",
        "env ",
        "xargs ",
        "find . -exec ls {} \\; ",
        "bash -c 'ls';",
        "\"",
        "'",
        "`",
        "$(",
        "${",
        "((",
        "é ",
        "<(ls) ",
        "a[1]=2;",
        "unset a;",
        "a#() {",
        "ls &\n",
    ];
    let mut lines: Vec<(String, String)> =
        pieces.iter().map(|piece| ((*piece).to_owned(), numbered(piece, LONG))).collect();
    lines.extend([
        ("comments".to_owned(), format!("ls\n{}", "# a\n".repeat(LONG / 4))),
        ("variables for commands".to_owned(), numbered("A#=1;", LONG / 2) + &"ls;".repeat(900)),
        ("a branch".to_owned(), format!("if ls; then {} fi", numbered("a#=1;", LONG))),
        ("filters".to_owned(), format!("ls {}", "|grep x".repeat(900))),
        ("words".to_owned(), format!("for i in {}; do cat $i $i $i; done", numbered("w# ", LONG))),
        (
            "files of loops".to_owned(),
            format!(
                "for f in $(git ls-files); do cat {}; done; {}",
                "$f ".repeat(9000),
                "ls;".repeat(900)
            ),
        ),
    ]);
    for (name, line) in lines {
        let before = Instant::now();
        let _planned = plan_command_line(&line, root, &workspace, None);
        let took = before.elapsed();
        assert!(took < DEADLINE, "{name}: {took:?}");
    }
}
