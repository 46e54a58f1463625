//! Code blocks that are commands: shell and Python, for models that write what they want to run as a fenced block.

use std::collections::HashMap;

use crow_core::message::CallArguments;
use serde_json::json;

use super::{
    envelope::OfferedTools,
    reading::PlaceContent,
    scanner::{is_fence_end, language_of, line_of},
};

/// Name of the tool that runs commands.
pub(in super::super) const SHELL_TOOL: &str = "bash";
/// Beginning of the word that ends a Python script in a command.
const SCRIPT_END: &str = "END_OF_SCRIPT";

/// The language of a code block that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptLanguage {
    Shell,
    /// A shell session: commands begin with `$`, other lines are output.
    ShellSession,
    Python,
}

impl ScriptLanguage {
    fn find(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "bash" | "sh" | "shell" | "zsh" => Some(Self::Shell),
            "console" | "shell-session" | "shellsession" => Some(Self::ShellSession),
            "python" | "python3" | "py" => Some(Self::Python),
            _ => None,
        }
    }
}

/// Returns true if the line opens a code block that can be run.
pub(super) fn is_script_fence(line: &str) -> bool {
    ScriptLanguage::find(language_of(line)).is_some()
}

/// Reads the block at the beginning of a text as a call of the shell tool. The block of a reply that breaks off reaches
/// to its end, see [`PlaceContent::is_open`].
pub(super) fn read_script(text: &str, tools: OfferedTools<'_>) -> PlaceContent {
    let line = line_of(text);
    let Some(language) = ScriptLanguage::find(language_of(line)) else {
        return PlaceContent::default();
    };
    if tools.exact(SHELL_TOOL).is_none() {
        return PlaceContent::default();
    }
    let indent = line.len() - line.trim_start().len();
    let mark = line.trim_start().chars().next().unwrap_or('`');
    let run = line.trim_start().chars().take_while(|c| *c == mark).count();
    let fence = &line[indent..indent + run];
    let (body, length) = split_script(&text[line.len()..], fence);
    let code = dedented(body, indent);
    let command = match language {
        ScriptLanguage::Shell => code.trim_end().to_owned(),
        ScriptLanguage::ShellSession => commands_of_session(&code),
        ScriptLanguage::Python => python_command(&code),
    };
    let mut parsed = PlaceContent { length: line.len() + length, ..PlaceContent::default() };
    parsed.is_open = body.len() == length;
    if !code.trim().is_empty() && !command.trim().is_empty() {
        parsed.push_call(SHELL_TOOL, CallArguments::Json(json!({ "command": command })));
    }
    parsed
}

/// Returns a call of the shell tool as the block that a model would write; `None` for calls with other arguments.
pub(in super::super) fn script_text(name: &str, arguments: &CallArguments) -> Option<String> {
    let CallArguments::Json(arguments) = arguments else { return None };
    let fields = arguments.as_object().filter(|fields| fields.len() == 1 && name == SHELL_TOOL)?;
    let command = fields.get("command")?.as_str()?;
    let (language, code) = match python_of(command) {
        Some(code) => ("python", code),
        None => ("bash", command),
    };
    // A fence that the code cannot end.
    let longest =
        code.lines().map(|line| line.trim_start().bytes().take_while(|b| *b == b'`').count());
    let fence = "`".repeat(longest.max().unwrap_or(0).max(2) + 1);
    Some(format!("{fence}{language}\n{}\n{fence}", code.trim_end_matches('\n')))
}

/// Returns the content of a block, and the length of it with the line that ends it. Fences inside a here-document are
/// content: a model writes Markdown files in that way.
fn split_script<'a>(text: &'a str, fence: &str) -> (&'a str, usize) {
    // The last line that consists of each word.
    let mut last_lines: HashMap<&str, usize> = HashMap::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        last_lines.insert(line.trim(), start);
        start += line.len();
    }
    start = 0;
    let mut document_end: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        match document_end {
            Some(word) => {
                if line.trim() == word {
                    document_end = None;
                }
            }
            None if is_fence_end(line, fence) => return (&text[..start], end),
            None => {
                let ends_later = |word: &&str| text[end..].lines().any(|line| line.trim() == *word);
                document_end = here_document(line).filter(ends_later);
            }
        }
        start = end;
    }
    (text, text.len())
}

/// Returns the word that ends the here-document that begins in a line.
fn here_document(line: &str) -> Option<&str> {
    let (_, after) = line.split_once("<<")?;
    if after.starts_with('<') {
        return None;
    }
    let word = after.trim_start_matches('-').trim_start().trim_start_matches(['"', '\'', '\\']);
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
    (end > 0).then_some(&word[..end])
}

/// Removes the indentation of the fence from every line.
fn dedented(body: &str, indent: usize) -> String {
    if indent == 0 {
        return body.to_owned();
    }
    let lines = body.split_inclusive('\n').map(|line| {
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        &line[blank.min(indent)..]
    });
    lines.collect()
}

/// Returns the commands of a shell session; the whole text if no line is marked as a command.
fn commands_of_session(text: &str) -> String {
    let commands: Vec<&str> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("$ ")).collect();
    if commands.is_empty() { text.trim_end().to_owned() } else { commands.join("\n") }
}

/// Returns the command that runs a Python script.
fn python_command(code: &str) -> String {
    let mut end = SCRIPT_END.to_owned();
    while code.lines().any(|line| line == end) {
        end.push('_');
    }
    format!("python3 - <<'{end}'\n{}\n{end}", code.trim_end())
}

/// Returns the script that a command of [`python_command`] runs.
fn python_of(command: &str) -> Option<&str> {
    let (end, rest) = command.strip_prefix("python3 - <<'")?.split_once("'\n")?;
    let code = rest.strip_suffix(end)?;
    end.starts_with(SCRIPT_END).then_some(code)
}

#[cfg(test)]
mod tests {
    use crow_core::model::ToolDefinition;

    use super::*;
    use crate::text_calls::read::ReadingPart;

    fn tools() -> Vec<ToolDefinition> {
        let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
        vec![ToolDefinition { name: "bash".to_owned(), description: String::new(), parameters }]
    }

    fn command(text: &str) -> Option<String> {
        let tools = tools();
        match read_script(text, OfferedTools(&tools)).parts.first()? {
            ReadingPart::Call(call) => match &call.arguments {
                CallArguments::Json(value) => value["command"].as_str().map(str::to_owned),
                CallArguments::Malformed(_) => None,
            },
            ReadingPart::Text(_) | ReadingPart::Thinking(_) => None,
        }
    }

    #[test]
    fn a_block_of_shell_or_python_is_a_command() {
        for (text, expected) in [
            ("```bash\nls -l\n```\nmore", Some("ls -l")),
            ("```sh\nls\n", Some("ls")),
            ("~~~shell\nls\n~~~", Some("ls")),
            ("  ```bash\n  ls\n    cat a\n  ```", Some("ls\n  cat a")),
            ("```console\n$ ls\na.txt\n$ cat a.txt\n```", Some("ls\ncat a.txt")),
            (
                "```python\nprint(1)\n```",
                Some("python3 - <<'END_OF_SCRIPT'\nprint(1)\nEND_OF_SCRIPT"),
            ),
            ("```json\n{}\n```", None),
            ("```\nls\n```", None),
            ("```bash\n\n```", None),
        ] {
            assert_eq!(command(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_fence_inside_of_a_here_document_does_not_end_the_block() {
        let text = "```bash\ncat > README.md <<'EOF'\n```\ncode\n```\nEOF\nls\n```\nafter";
        let expected = "cat > README.md <<'EOF'\n```\ncode\n```\nEOF\nls";
        assert_eq!(command(text).as_deref(), Some(expected));
        // One that never ends is none.
        assert_eq!(command("```bash\ncat <<EOF\nx\n```\n").as_deref(), Some("cat <<EOF\nx"));
    }

    #[test]
    fn a_command_is_written_as_the_block_that_it_was_read_from() {
        for block in [
            "```bash\nls -l\n```",
            "```python\nprint('''```''')\nprint(1)\n```",
            "````bash\ncat > a.md <<'EOF'\n```\nx\n```\nEOF\n````",
            "```python\nEND_OF_SCRIPT\n```",
        ] {
            let command = command(block).unwrap();
            let arguments = CallArguments::Json(json!({ "command": command }));
            assert_eq!(script_text("bash", &arguments).as_deref(), Some(block));
        }
        let other = CallArguments::Json(json!({"command": "ls", "timeout": 5}));
        assert_eq!(script_text("bash", &other), None);
    }
}
