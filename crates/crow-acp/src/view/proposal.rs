//! Text of a file after a call, computed from the call's arguments: a preview leaves out lines of a long change.

use serde_json::Value;

const OLD: [&str; 6] = ["old_string", "old_str", "oldStr", "old_text", "oldText", "oldString"];
const NEW: [&str; 6] = ["new_string", "new_str", "newStr", "new_text", "newText", "newString"];
const CONTENT: [&str; 5] = ["content", "contents", "text", "file_text", "code"];
const ALL: [&str; 3] = ["replace_all", "replaceAll", "allow_multiple"];

/// Returns the new text of a file that has the text `old`; `None` if the arguments do not determine it. Only exact
/// matches count, while the tools also find similar ones: the caller compares the result with the preview.
pub(super) fn proposed(tool: &str, arguments: &Value, old: &str) -> Option<String> {
    match tool {
        "write_file" => text(arguments, &CONTENT).map(str::to_owned),
        "edit_file" => match arguments.get("edits").and_then(Value::as_array) {
            Some(edits) if !edits.is_empty() => {
                edits.iter().try_fold(old.to_owned(), |text, edit| replaced(edit, &text))
            }
            Some(_) | None => replaced(arguments, old),
        },
        _ => None,
    }
}

fn replaced(edit: &Value, old: &str) -> Option<String> {
    let (from, to) = (text(edit, &OLD)?, text(edit, &NEW)?);
    let is_all = ALL.iter().any(|name| edit.get(name).and_then(Value::as_bool) == Some(true));
    let count = if from.is_empty() { 0 } else { old.matches(from).take(2).count() };
    (count == 1 || (count > 1 && is_all)).then(|| old.replace(from, to))
}

fn text<'a>(arguments: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| arguments.get(name)?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_arguments_of_a_call_determine_the_new_text() {
        let edits = json!({"edits": [
            {"old_string": "a", "new_string": "x"},
            {"old_string": "b", "new_string": "y"},
        ]});
        let table = [
            ("write_file", json!({"content": "new"}), Some("new")),
            ("edit_file", json!({"old_string": "b", "new_string": "c"}), Some("a c a")),
            ("edit_file", json!({"old_string": "a", "new_string": "c"}), None),
            (
                "edit_file",
                json!({"old_string": "a", "new_string": "c", "replace_all": true}),
                Some("c b c"),
            ),
            ("edit_file", json!({"old_string": "", "new_string": "c"}), None),
            ("edit_file", json!({"old_string": "z", "new_string": "c"}), None),
            ("edit_file", edits, None),
            ("bash", json!({"content": "new"}), None),
        ];
        for (tool, arguments, expected) in table {
            let new = proposed(tool, &arguments, "a b a");
            assert_eq!(new.as_deref(), expected, "{tool} {arguments}");
        }
    }
}
