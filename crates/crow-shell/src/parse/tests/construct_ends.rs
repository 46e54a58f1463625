//! Constructs whose end the grammar and the shells may see in different places: ANSI-C quotes, arithmetic,
//! here-documents, patterns, comments and tests.

use super::shells::{Numbers, check_generated};

/// The number of generated lines, unless `CROW_EXPANSION_LINES` sets another.
const LINES: usize = 4_000;

/// Constructs. `S` is replaced by random pieces, `P` by a program.
const CONSTRUCTS: [&str; 58] = [
    "echo $'S'",
    "echo $\"S\"",
    "P $'a\\'S'",
    "echo $((S))",
    "echo $((1+1))S",
    "echo $( (S) )",
    "echo $((P) | P)",
    "echo $[S]",
    "((S))",
    "((1)) && P",
    "cat <<E\nS\nE\n",
    "cat <<'E'\nS\nE\n",
    "cat <<\"E\"\nS\nE\n",
    "cat <<\\E\nS\nE\n",
    "cat <<-E\n\tS\n\tE\n",
    "cat <<E'F'\nS\nEF\n",
    "cat <<E; P\nS\nE\n",
    "cat <<E | P\nS\nE\n",
    "cat <<A <<B\nS\nA\nS\nB\n",
    "case x in S) P;; esac",
    "case x in (S) P;; *) P; esac",
    "case S in x) P;; esac",
    "case x in a|S) P;& b) P;; esac",
    "echo a# S",
    "P # S\nP",
    "echo a #S\nP",
    "echo S# P",
    "echo !(S)",
    "echo @(S|a)",
    "echo +(a)S",
    "[[ a == S ]] && P",
    "[[ a =~ S ]] && P",
    "[[ a =~ (S) ]] || P",
    "[[ S ]] && P",
    "[ S ] && P",
    "[ a = S ]; P",
    "cat <(S)",
    "echo <(P S)",
    "P > f S",
    "{ S; }",
    "{ P; }S",
    "(S)",
    "( P )S",
    "! P S",
    "P S & wait",
    "echo `S`",
    "echo \"`S`\"",
    "echo `P` S",
    "echo \"$(S)\"",
    "echo \"S\"",
    "echo 'S'",
    "x=S",
    "x=(S)",
    "x[S]=1",
    "for i in S; do P; done",
    "if S; then P; fi",
    "while false; do S; done",
    "P <<< S",
];

const PIECES: [&str; 64] = [
    "a", "x", "1", " ", " ", " ", "\\", "\\'", "\\\"", "\\\n", "'", "\"", "`", "$", "$'", "$\"",
    "$x", "$(", "$((", "${", "${x}", "${x:-a}", "$[", ")", "))", "}", "]", "]]", "(", "((", "{",
    "[", "[[", "#", " #", "!", "*", "?", "@(a)", "!(a)", "+(", "|", "||", "&&", ";", ";;", "\n",
    "<<E", "\nE\n", "<<<", "<", ">", "> f ", "=", "=~", "==", "-n ", "p1", "; p2 ", "&& p3 ",
    "| p4 ", "$(p1)", "`p2`", "\np3 ",
];

const PROGRAMS: [&str; 5] = ["p1", "p2 a", "p3", "p4 'b'", "echo"];
const GLUE: [&str; 6] = ["; ", " && ", "\n", " | ", " || ", " "];

fn constructs(numbers: &mut Numbers) -> String {
    let mut line = String::new();
    for at in 0..=numbers.below(3) {
        if at > 0 {
            line.push_str(numbers.pick(&GLUE));
        }
        let construct = numbers.pick(&CONSTRUCTS);
        for char in construct.chars() {
            match char {
                'S' => {
                    for _ in 0..numbers.below(5) {
                        line.push_str(numbers.pick(&PIECES));
                    }
                }
                'P' => line.push_str(numbers.pick(&PROGRAMS)),
                char => line.push(char),
            }
        }
    }
    line
}

#[test]
fn a_construct_ends_where_bash_and_dash_end_it() {
    check_generated(LINES, constructs);
}
