//! Exercises in the layout of Exercism: `.docs/instructions.md` and `.meta/config.json`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::config::{ConfigError, SourceText};
use serde::Deserialize;

use super::{EvalTask, TaskError, TaskHash, TaskLimits, task_folder::TaskFolder};

/// File that makes a folder an exercise.
pub(super) const CONFIG: &str = ".meta/config.json";
const INSTRUCTIONS: &str = ".docs/instructions.md";
/// Further instructions of a track, if any.
const APPENDIX: &str = ".docs/instructions.append.md";
/// Folders that the program does not find: instructions, solutions and their discussion.
const LEFT_OUT: &[&str] = &[".docs", ".meta", ".approaches", ".articles", ".exercism"];

/// Checks by the extension of the solution.
const CHECKS: &[(&str, &str)] = &[
    (
        "py",
        "if python3 -c 'import pytest' 2>/dev/null; then PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -q -p no:cacheprovider; else PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -p '*_test.py'; fi",
    ),
    ("rs", "cargo test --offline --quiet -- --include-ignored"),
    ("go", "go test ./..."),
    ("js", "npm test"),
    ("sh", "BATS_RUN_SKIPPED=true bats *.bats"),
];

#[derive(Debug, Deserialize)]
struct RawExercise {
    files: RawExerciseFiles,
}

#[derive(Debug, Deserialize)]
struct RawExerciseFiles {
    solution: Vec<PathBuf>,
    test: Vec<PathBuf>,
}

/// Reads the exercise in a folder. Blocks.
pub(super) fn read(folder: &TaskFolder, name: String) -> Result<EvalTask, TaskError> {
    let path = folder.path().join(CONFIG);
    let text = read_text(folder, CONFIG)?;
    let source = SourceText { path: &path, text: &text };
    let raw: RawExercise = serde_json::from_str(&text).map_err(|error| {
        let line_start =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        source.error(&(line_start..line_start), error.to_string())
    })?;
    let RawExerciseFiles { solution, test } = raw.files;
    let extension = solution.first().and_then(|file| file.extension()?.to_str());
    let check = CHECKS.iter().find(|(known, _)| Some(*known) == extension);
    let Some((_, check)) = check else {
        let known = CHECKS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
        let message = format!(
            "there is no check for its language: files.solution must begin with a file that ends with one of {known}"
        );
        return Err(ConfigError::of_file(&path, message).into());
    };
    if test.is_empty() {
        return Err(ConfigError::of_file(&path, "files.test names no tests").into());
    }
    let is_left_out = |path: &Path| {
        LEFT_OUT.iter().any(|name| path.starts_with(name)) || path.starts_with("target")
    };
    let files = folder.files(".", is_left_out).map_err(TaskError::read(folder.path()))?;
    let check_files = files.below(&test);
    if check_files.is_empty() {
        return Err(ConfigError::of_file(&path, "the files in files.test do not exist").into());
    }
    let task = EvalTask {
        name,
        prompt: prompt(folder, &solution)?,
        tags: extension.into_iter().map(str::to_owned).collect(),
        limits: TaskLimits::default(),
        origin: folder.path().display().to_string(),
        files,
        setup: None,
        check_files,
        check: (*check).to_owned(),
        variables: BTreeMap::new(),
        folder: folder.path().to_owned(),
        hidden: folder.path().to_owned(),
        hash: TaskHash::unset(),
    };
    task.with_hash(&[]).map_err(TaskError::read(folder.path()))
}

fn read_text(folder: &TaskFolder, path: &str) -> Result<String, TaskError> {
    folder.read_text(path).map_err(TaskError::read(folder.path().join(path)))
}

fn prompt(folder: &TaskFolder, solution: &[PathBuf]) -> Result<String, TaskError> {
    let mut text = read_text(folder, INSTRUCTIONS)?;
    if folder.contains(APPENDIX) {
        text.push_str("\n\n");
        text.push_str(&read_text(folder, APPENDIX)?);
    }
    let files = solution.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>();
    let (files, are) = match files.as_slice() {
        [file] => (format!("the file {file}"), "is"),
        _ => (format!("the files {}", files.join(", ")), "are"),
    };
    Ok(format!(
        "{}\n\nComplete {files}, which {are} in the working directory. The tests beside it must pass; do not change them.",
        text.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::folder_copy::FileSet;

    fn exercise(config: &str, files: &[(&str, &str)]) -> Result<EvalTask, String> {
        exercise_with_link(config, files, None)
    }

    /// Reads an exercise that may have a link, given as its path and its target.
    fn exercise_with_link(
        config: &str,
        files: &[(&str, &str)],
        link: Option<(&str, &Path)>,
    ) -> Result<EvalTask, String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain(&[(CONFIG, config)]) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        if let Some((path, target)) = link {
            drop(fs::remove_file(folder.path().join(path)));
            symlink(target, folder.path().join(path)).unwrap();
        }
        let opened = TaskFolder::open(folder.path()).unwrap();
        read(&opened, "leap".to_owned()).map_err(|error| {
            error.to_string().replace(&format!("{}/", opened.path().display()), "")
        })
    }

    const FILES: &[(&str, &str)] = &[
        (".docs/instructions.md", "# Leap\n\nSay whether a year is a leap year.\n"),
        (".meta/example.py", "the solution"),
        ("leap.py", "def leap_year(year):\n    pass\n"),
        ("leap_test.py", "test"),
    ];

    #[test]
    fn an_exercise_hides_its_solution_and_restores_its_tests() {
        let config = r#"{"files": {"solution": ["leap.py"], "test": ["leap_test.py"]}}"#;
        let task = exercise(config, FILES).unwrap();
        let listed = |set: &FileSet| {
            ["leap.py", "leap_test.py", ".meta/example.py", ".docs/instructions.md"]
                .map(|path| !set.below(&[path.into()]).is_empty())
        };
        assert_eq!(listed(&task.files), [true, true, false, false]);
        assert_eq!(listed(&task.check_files), [false, true, false, false]);
        assert!(task.prompt.starts_with("# Leap") && task.prompt.contains("the file `leap.py`"));
        assert!(task.check.contains("pytest"));
    }

    #[test]
    fn links_out_of_an_exercise_are_refused() {
        let keys = tempfile::tempdir().unwrap();
        let config = r#"{"files": {"solution": ["leap.py"], "test": ["leap_test.py"]}}"#;
        for (name, text) in [("instructions.md", "secret"), ("config.json", config)] {
            fs::write(keys.path().join(name), text).unwrap();
        }
        let instructions = keys.path().join("instructions.md");
        for (path, target) in [
            (INSTRUCTIONS, instructions.clone()),
            (APPENDIX, instructions),
            (CONFIG, keys.path().join("config.json")),
        ] {
            let error = exercise_with_link(config, FILES, Some((path, &target))).unwrap_err();
            let expected = format!("cannot read {path}: a link leads out of ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = exercise_with_link(config, &FILES[1..], Some((".docs", keys.path())));
        assert!(error.unwrap_err().contains(": a link leads out of "));
    }

    #[test]
    fn mistakes_of_an_exercise_are_named() {
        for (config, expected) in [
            ("{\n\"files\": 3}", ".meta/config.json:2:1: invalid type"),
            ("{}", ".meta/config.json:1:1: missing field `files`"),
            (
                r#"{"files": {"solution": ["leap.zz"], "test": ["leap_test.py"]}}"#,
                ".meta/config.json: there is no check",
            ),
            (
                r#"{"files": {"solution": ["leap.py"], "test": []}}"#,
                ".meta/config.json: files.test names no tests",
            ),
            (
                r#"{"files": {"solution": ["leap.py"], "test": ["no.py"]}}"#,
                ".meta/config.json: the files in files.test do not exist",
            ),
        ] {
            let error = exercise(config, FILES).unwrap_err();
            assert!(error.starts_with(expected), "{config}: {error}");
        }
        let config = r#"{"files": {"solution": ["leap.py"], "test": ["leap_test.py"]}}"#;
        let error = exercise(config, &FILES[1..]).unwrap_err();
        assert!(error.starts_with("cannot read .docs/instructions.md"), "{error}");
    }
}
