//! Notebooks as text: cell by cell, with their outputs.

use std::fmt::Write as _;

use serde_json::Value;

/// Most characters of one output.
const OUTPUT_CHARS: usize = 2000;

/// Writes a Jupyter notebook as text. Returns `None` if it is not one.
pub(super) fn flatten(bytes: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    notebook.get("nbformat")?.as_u64()?;
    let mut text = String::new();
    for (index, cell) in notebook.get("cells")?.as_array()?.iter().enumerate() {
        let word = |key: &str| cell.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = if word("id").is_empty() { String::new() } else { format!(" {}", word("id")) };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "=== cell {} {}{id}", index + 1, word("cell_type"));
        push_lines(&joined(cell.get("source")), &mut text);
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            text.push_str("--- output\n");
            push_lines(&shown(output), &mut text);
        }
    }
    Some(text)
}

/// Returns a text of a notebook, which is one string or a list of them.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            String::new()
        }
    }
}

/// Returns the text of an output: its stream, its plain data or its error; without these, the kinds of its data.
fn shown(output: &Value) -> String {
    let data = output.get("data");
    let plain = joined(data.and_then(|data| data.get("text/plain")));
    let stream = joined(output.get("text"));
    let error = output.get("evalue").and_then(Value::as_str);
    let text = match (stream.is_empty(), plain.is_empty(), error) {
        (false, _, _) => stream,
        (true, false, _) => plain,
        (true, true, Some(value)) => {
            format!("{}: {value}", output.get("ename").and_then(Value::as_str).unwrap_or("error"))
        }
        (true, true, None) => {
            let kinds = data
                .and_then(Value::as_object)
                .map(|data| data.keys().cloned().collect::<Vec<_>>());
            format!("[{}]", kinds.unwrap_or_default().join(", "))
        }
    };
    match text.char_indices().nth(OUTPUT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn push_lines(lines: &str, text: &mut String) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_and_outputs_are_written_in_order() {
        let notebook = json!({"nbformat": 4, "cells": [
            {"cell_type": "markdown", "id": "m1", "source": ["# Title\n", "words"]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [
                {"output_type": "stream", "text": ["printed\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "2"}},
                {"output_type": "display_data", "data": {"image/png": "…"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no"}
            ]},
        ]});
        let expected = "=== cell 1 markdown m1\n# Title\nwords\n=== cell 2 code\n1 + 1\n--- output\nprinted\n--- output\n2\n\
                        --- output\n[image/png]\n--- output\nValueError: no\n";
        assert_eq!(flatten(notebook.to_string().as_bytes()).as_deref(), Some(expected));
    }

    #[test]
    fn other_files_are_not_taken_for_notebooks() {
        for text in ["", "{}", "[1]", "{\"cells\": []}", "{\"nbformat\": 4}", "not json"] {
            assert_eq!(flatten(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_long_output_is_cut() {
        let notebook = json!({"nbformat": 4, "cells": [{"cell_type": "code", "source": "x", "outputs": [{"text": "ü".repeat(9000)}]}]});
        assert!(flatten(notebook.to_string().as_bytes()).unwrap().chars().count() < 2100);
    }
}
