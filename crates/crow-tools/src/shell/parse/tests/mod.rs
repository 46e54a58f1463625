mod differential;

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

pub(super) fn shown(line: &str) -> String {
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

#[test]
fn explore() {
    let lines = std::fs::read_to_string("/tmp/h/lines.txt").unwrap();
    for line in lines.lines() {
        let line = line.replace("⏎", "\n").replace("⇐", "\r");
        println!("{}\n    {}", line.replace('\n', "⏎"), shown(&line).replace('\n', "⏎"));
    }
}
#[test]
fn sexp() {
    for line in [
        "python3 - <<'EOF'\nimport os\nprint(\"a; b\")\nEOF",
        "cat <<-EOF\n\ta\n\tEOF\nls",
        "cat <<EOF\n$HOME ${USER}\nEOF",
        "cat <<'EOF'\na  b\n  c\nEOF\n",
        "cat <<EOF\na $HOME\nb\nEOF\n",
    ] {
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&tree_sitter_bash::LANGUAGE.into()).unwrap();
        let tree = parser.parse(line, None).unwrap();
        println!("{line:?}\n  {}", tree.root_node().to_sexp());
        let mut stack = vec![tree.root_node()];
        while let Some(node) = stack.pop() {
            if node.child_count() == 0 {
                println!("     {} {:?}", node.kind(), line.get(node.byte_range()));
            }
            let mut c: Vec<_> = node.children(&mut node.walk()).collect();
            c.reverse();
            stack.extend(c);
        }
    }
}
