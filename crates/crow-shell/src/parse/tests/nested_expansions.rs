//! `${…}` nested in each other and in other constructs: the end of each decides what runs after it.

use super::shells::{Numbers, check_generated};

/// The number of generated lines, unless `CROW_EXPANSION_LINES` sets another.
const LINES: usize = 20_000;
const PARAMETERS: [&str; 18] = [
    "x", "x", "x", "y", "HOME", "1", "@", "*", "#", "?", "x[0]", "x[@]", "!x", "#x", "#", "",
    "x[1+1]", "$",
];

const OPERATORS: [&str; 32] = [
    "#", "##", "%", "%%", "/", "//", "/#", "/%", "^", "^^", ",", ",,", ":?", "?", ":-", "-", ":=",
    "=", ":+", "+", "@", ":", ":1:", "@Q", "@P", "~", "", "#", "##", "%", "//", ":-",
];

/// Pieces of operands. Those in the second half start something if they are outside of the operand.
const OPERANDS: [&str; 64] = [
    "a",
    "a",
    "b c",
    " ",
    "*",
    "?",
    "/",
    "#",
    ":",
    "-",
    "[",
    "]",
    "[a]",
    "(",
    ")",
    "(a)",
    "!",
    "~",
    "=",
    ",",
    ".",
    "\\",
    "\\}",
    "\\{",
    "\\\\",
    "\\'",
    "\\\"",
    "\\$",
    "'",
    "\"",
    "'a'",
    "'}'",
    "\"}\"",
    "\"a\"",
    "{",
    "}",
    "{a}",
    "{a,b}",
    "}}",
    "{}",
    "$",
    "$x",
    "$#",
    "$$",
    "$'",
    "$\"",
    "$[",
    "`",
    "`p1`",
    "$(p2)",
    "$(",
    "$((1+1))",
    "<(p3)",
    "<",
    " && p1 ",
    "; p2 ",
    " | p3 ",
    "\np4 ",
    " > f ",
    "; p1 #",
    " && p2 #}",
    "} && p3 ",
    "\\\n",
    "<<E",
];

/// Contexts of an expansion, which replaces `E`.
const CONTEXTS: [&str; 34] = [
    "echo E",
    "echo \"E\"",
    "p1 E",
    "p2 \"E\" a",
    "z=E",
    "z=\"E\" p1",
    "cat <<X\nE\nX\n",
    "cat <<'X'\nE\nX\n",
    "cat <<-X\n\tE\n\tX\n",
    "[[ E = a ]] && p1",
    "[[ a =~ E ]] && p2",
    "case E in a) p1;; esac",
    "case a in E) p2;; esac",
    "for i in E; do p3; done",
    "E && p1",
    ": E",
    "echo $(echo E)",
    "echo `echo E`",
    "echo $((E))",
    "cat <<< E",
    "if [ -n E ]; then p1; fi",
    "[ \"E\" = a ] || p2",
    "(echo E)",
    "{ echo E; }",
    "echo aEb",
    "echo \"aEb\"",
    "echo 'E'",
    "echo $(echo \"E\")",
    "echo \"$(echo E)\"",
    "echo E > f",
    "p1 < E",
    "! echo E | p4",
    "echo \\E",
    "# E",
];

/// Text after the construct.
const TAILS: [&str; 22] = [
    "",
    "",
    "",
    "; p1",
    " && p2",
    " && p1 #}",
    "; p2 }",
    " | p3 #)",
    "\np4 #\"",
    " }",
    "'",
    "\"",
    ")",
    "}; p1",
    "} && p2",
    "' && p3",
    "\" ; p4",
    " ' ; p1 #'",
    "`",
    " }\" && p2 #\"",
    " > f",
    "\nX\np3",
];

fn expansion(numbers: &mut Numbers, depth: usize) -> String {
    let mut text = format!("${{{}{}", numbers.pick(&PARAMETERS), numbers.pick(&OPERATORS));
    for _ in 0..numbers.below(4) {
        if depth < 3 && numbers.below(6) == 0 {
            let inner = expansion(numbers, depth + 1);
            let quote = ["", "", "\""][numbers.below(3)];
            text.extend([quote, &inner, quote]);
        } else {
            text.push_str(numbers.pick(&OPERANDS));
        }
    }
    if numbers.below(12) > 0 {
        text.push('}');
    }
    text
}

fn nested_expansions(numbers: &mut Numbers) -> String {
    let inner = expansion(numbers, 0);
    let mut line = numbers.pick(&CONTEXTS).replacen('E', &inner, 1);
    line.push_str(numbers.pick(&TAILS));
    line
}

#[test]
fn a_nested_expansion_ends_where_bash_and_dash_end_it() {
    check_generated(LINES, nested_expansions);
}
