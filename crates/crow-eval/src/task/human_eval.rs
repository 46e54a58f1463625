//! Tasks in JSON lines with the keys of `HumanEval`: `task_id`, `prompt`, `entry_point` and `test`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::config::{ConfigError, TextPosition};
use serde::Deserialize;

use super::{EvalTask, TaskError, TaskHash, TaskLimits, task_folder::read_text};
use crate::folder_copy::FileSet;

/// File that the program completes.
const SOLUTION: &str = "solution.py";
/// File of the check, which the program does not see.
const CHECK: &str = "check_solution.py";
/// Last line of a check that ran to its end: a solution that ends the process early does not print it.
const PASSED: &str = "every assertion holds";

/// Maximum length of a file in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A line. Other keys, such as the canonical solution, are ignored.
#[derive(Debug, Deserialize)]
struct RawProblem {
    task_id: String,
    prompt: String,
    entry_point: String,
    test: String,
}

/// Reads the tasks of a file by its path without links. Blocks.
pub(super) fn read(path: &Path) -> Result<Vec<EvalTask>, TaskError> {
    let opened = crow_fs::open_file(path);
    let text = opened.and_then(|file| read_text(file, LARGEST)).map_err(TaskError::read(path))?;
    let mut tasks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let error_at = |column: usize, message: String| ConfigError {
            path: path.to_owned(),
            position: Some(TextPosition { line: index + 1, column }),
            message,
        };
        let problem: RawProblem = serde_json::from_str(line).map_err(|error| {
            let text = error.to_string();
            // The position that serde adds counts from the beginning of this line.
            let message = text.split(" at line ").next().unwrap_or(&text);
            error_at(error.column().max(1), message.to_owned())
        })?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if problem.entry_point.is_empty() || !problem.entry_point.chars().all(is_name) {
            return Err(error_at(1, "entry_point is not the name of a function".to_owned()).into());
        }
        if problem.task_id.trim().is_empty() {
            return Err(error_at(1, "task_id is empty".to_owned()).into());
        }
        let origin = format!("{}:{}", path.display(), index + 1);
        tasks.push(task(problem, origin, path).map_err(TaskError::read(path))?);
    }
    Ok(tasks)
}

fn task(problem: RawProblem, origin: String, path: &Path) -> std::io::Result<EvalTask> {
    let RawProblem { task_id, prompt, entry_point, test } = problem;
    let (mut files, mut check_files) = (FileSet::default(), FileSet::default());
    files.add_text(SOLUTION, prompt);
    check_files.add_text(
        CHECK,
        format!(
            "import solution\nfrom solution import *\n\n{test}\n\ncheck(solution.{entry_point})\nprint(\"{PASSED}\")\n"
        ),
    );
    let check = format!(
        "out=$(PYTHONDONTWRITEBYTECODE=1 python3 {CHECK} 2>&1); printf '%s\\n' \"$out\"; case $out in *\"{PASSED}\") ;; *) exit 1 ;; esac"
    );
    let task = EvalTask {
        name: task_id,
        prompt: format!(
            "The file `{SOLUTION}` has the signature of the Python function `{entry_point}` and a docstring that says what it returns. Write its body. Keep the name and the parameters."
        ),
        tags: vec!["py".to_owned()],
        limits: TaskLimits::default(),
        origin,
        files,
        setup: None,
        check_files,
        check,
        variables: BTreeMap::new(),
        folder: path.parent().map_or_else(PathBuf::new, Path::to_owned),
        hidden: path.to_owned(),
        hash: TaskHash::unset(),
    };
    task.with_hash(&[])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tasks(text: &str) -> Result<Vec<EvalTask>, String> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("p.jsonl");
        fs::write(&path, text).unwrap();
        read(&path).map_err(|error| error.to_string().replace(&format!("{}/", root.display()), ""))
    }

    #[test]
    fn each_line_is_a_task() {
        let line = r#"{"task_id": "Own/0", "prompt": "def f(x):\n    \"\"\"Returns x.\"\"\"\n", "entry_point": "f", "test": "def check(f):\n    assert f(1) == 1\n", "canonical_solution": "    return x\n"}"#;
        let tasks = tasks(&format!("{line}\n\n{}\n", line.replace("Own/0", "Own/1"))).unwrap();
        assert_eq!(
            tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(),
            ["Own/0", "Own/1"]
        );
        assert_eq!(tasks[0].hash, tasks[1].hash, "the name does not decide the result");
        assert!(tasks[0].check_files.below(&[CHECK.into()]) == tasks[0].check_files);
        assert!(tasks[1].origin.ends_with("p.jsonl:3"));
    }

    #[test]
    fn a_bad_line_is_named_with_its_number() {
        let good = r#"{"task_id": "a", "prompt": "p", "entry_point": "f", "test": "t"}"#;
        for (line, expected) in [
            ("{", "p.jsonl:2:1: EOF while parsing an object"),
            (r#"{"task_id": "a"}"#, "p.jsonl:2:16: missing field `prompt`"),
            (
                r#"{"task_id": "a", "prompt": "p", "entry_point": "f; x", "test": "t"}"#,
                "p.jsonl:2:1: entry_point is not",
            ),
            (
                r#"{"task_id": " ", "prompt": "p", "entry_point": "f", "test": "t"}"#,
                "p.jsonl:2:1: task_id is empty",
            ),
        ] {
            let error = tasks(&format!("{good}\n{line}\n")).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
