//! Checks for projects that configure none: the command that runs the project's own tests is found from its files, the
//! user is asked about it once, and the answer is kept for the project.
//!
//! The commands are fixed texts of this module. They run the project's code, as the agent's own commands do, in the same
//! sandbox.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crow_text::approval_line;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    dialog::UserDialog,
    environment::ProcessEnvironment,
    error::AppError,
    private_file::{self, Privacy, PrivateFileError},
    trust::project_root,
};

/// Version of the file format.
const VERSION: u32 = 1;
/// File name, relative to the data folder.
const FILE: &str = "project-checks.json";
/// Most bytes that are read of a file of the project.
const MOST_READ: u64 = 256 * 1024;

/// Files that tell how the tests of a project are run.
const BY_FILE: [(&str, &str); 11] = [
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("pytest.ini", "python3 -m pytest"),
    ("conftest.py", "python3 -m pytest"),
    ("mix.exs", "mix test"),
    ("deno.json", "deno test"),
    ("pom.xml", "mvn -q test"),
    ("gradlew", "./gradlew test"),
    ("Package.swift", "swift test"),
    ("build.zig", "zig build test"),
    (".rspec", "bundle exec rspec"),
];
/// Lock files of the package managers of Node.js, and how they run the tests.
const NODE: [(&str, &str); 4] = [
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("bun.lock", "bun run test"),
    ("bun.lockb", "bun run test"),
];
/// The test that `npm init` writes, which always fails.
const NPM_PLACEHOLDER: &str = "no test specified";

/// The answers of the user, by project.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswersFile {
    version: u32,
    projects: BTreeMap<String, ProjectAnswer>,
}

/// The answer for one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectAnswer {
    /// The command that was proposed.
    command: String,
    accepted: bool,
}

/// Returns the command that runs the tests of the project in a directory, judged by its files. Blocks.
pub fn found_check(root: &Path) -> Option<String> {
    let exists =
        |name: &str| crow_fs::metadata(&root.join(name)).is_ok_and(|found| found.is_file());
    let by_file = BY_FILE.iter().find(|(name, _)| exists(name)).map(|(_, command)| *command);
    let command = by_file.map(str::to_owned);
    command
        .or_else(|| node_check(root, &exists))
        .or_else(|| python_check(root))
        .or_else(|| make_check(root))
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(crow_fs::read_bounded(path, MOST_READ).ok()?).ok()
}

fn node_check(root: &Path, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    let package: Value = serde_json::from_str(&read(&root.join("package.json"))?).ok()?;
    let test = package.get("scripts")?.get("test")?.as_str()?;
    if test.trim().is_empty() || test.contains(NPM_PLACEHOLDER) {
        return None;
    }
    let command = NODE.iter().find(|(lock, _)| exists(lock)).map_or("npm test", |(_, run)| *run);
    Some(command.to_owned())
}

fn python_check(root: &Path) -> Option<String> {
    let settings = read(&root.join("pyproject.toml"))?;
    settings.contains("pytest").then(|| "python3 -m pytest".to_owned())
}

fn make_check(root: &Path) -> Option<String> {
    let rules = read(&root.join("Makefile"))?;
    let has_rule = |name: &str| {
        rules.lines().any(|line| {
            line.strip_prefix(name).is_some_and(|rest| {
                let rest = rest.trim_start();
                rest.starts_with(':') && !rest.starts_with(":=") && !rest.starts_with("::=")
            })
        })
    };
    let rule = ["test", "check"].into_iter().find(|name| has_rule(name))?;
    Some(format!("make {rule}"))
}

/// Returns the check that the user accepted for the project of a directory. Blocks.
///
/// # Errors
/// Fails if the file of answers cannot be used.
pub fn accepted_check(
    environment: &ProcessEnvironment,
    cwd: &Path,
) -> Result<Option<String>, AppError> {
    let Some((path, key)) = place(environment, cwd) else { return Ok(None) };
    let answer = load(&path)?.projects.remove(&key);
    Ok(answer.filter(|answer| answer.accepted).map(|answer| answer.command))
}

/// Asks the user once whether the found check must pass before work in the project of a directory counts as done, and
/// returns true if the user accepts it now. Does nothing if none is found, or the question was answered before. Blocks.
///
/// # Errors
/// Fails if the file of answers cannot be used or the question cannot be shown.
///
/// # Panics
/// Never: answers are plain data.
pub fn propose_check(
    environment: &ProcessEnvironment,
    cwd: &Path,
    dialog: &dyn UserDialog,
) -> Result<bool, AppError> {
    let Some((path, key)) = place(environment, cwd) else { return Ok(false) };
    if load(&path)?.projects.contains_key(&key) {
        return Ok(false);
    }
    let Some(command) = found_check(&project_root(cwd)) else { return Ok(false) };
    let question = format!(
        "This project configures no checks. Let `{}` decide whether work on it is done? It runs in the sandbox when the agent says that a task is complete. `[checks]` in .crow-agent/config.toml sets others.",
        approval_line(&command)
    );
    let accepted = dialog.confirm(&question)?;
    let _lock = private_file::lock(&path).map_err(|error| file_error(&error))?;
    // The file is read again under the lock: another process may have added an answer.
    let mut answers = load(&path)?;
    answers.projects.insert(key, ProjectAnswer { command, accepted });
    let answers = AnswersFile { version: VERSION, ..answers };
    let text = serde_json::to_string_pretty(&answers).expect("invariant: answers are plain data");
    private_file::replace(&path, &text).map_err(|error| file_error(&error))?;
    Ok(accepted)
}

/// Returns the file of answers and the key of the project of a directory; `None` without a data folder, or if the
/// path of the project is not UTF-8.
fn place(environment: &ProcessEnvironment, cwd: &Path) -> Option<(PathBuf, String)> {
    let folder = environment.data_dir().ok()?;
    let key = project_root(cwd).to_str()?.to_owned();
    Some((folder.join(FILE), key))
}

fn load(path: &Path) -> Result<AnswersFile, AppError> {
    let text = match private_file::read(path, Privacy::Own) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(AnswersFile::default()),
        // Whoever needs the folder says what is wrong with it.
        Err(PrivateFileError::Read { source, .. })
            if source.kind() == io::ErrorKind::NotADirectory =>
        {
            return Ok(AnswersFile::default());
        }
        Err(error) => return Err(file_error(&error)),
    };
    let broken = |reason: String| {
        let hint = "remove the file to be asked again";
        AppError::failed(format!("{}: {reason}", path.display())).hint(hint)
    };
    let answers: AnswersFile =
        serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    if answers.version != VERSION {
        let found = answers.version;
        return Err(broken(format!("version {found} is not supported, only {VERSION} is")));
    }
    Ok(answers)
}

fn file_error(error: &PrivateFileError) -> AppError {
    AppError::failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Mutex};

    use super::*;

    /// Names and texts of files.
    type Files<'a> = &'a [(&'a str, &'a str)];

    fn found(files: Files<'_>) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(root.path().join(name), text).unwrap();
        }
        found_check(&root.path().canonicalize().unwrap())
    }

    #[test]
    fn the_tests_of_a_project_are_found_by_its_files() {
        let script = |text: &str| format!("{{\"scripts\": {{\"test\": \"{text}\"}}}}");
        let vitest = script("vitest run");
        let placeholder = script("echo \\\"Error: no test specified\\\" && exit 1");
        let table: [(Files<'_>, Option<&str>); 14] = [
            (&[("Cargo.toml", "")], Some("cargo test")),
            (&[("go.mod", ""), ("Makefile", "test:\n")], Some("go test ./...")),
            (&[("package.json", &vitest)], Some("npm test")),
            (&[("package.json", &vitest), ("pnpm-lock.yaml", "")], Some("pnpm test")),
            (&[("package.json", &vitest), ("yarn.lock", "")], Some("yarn test")),
            (&[("package.json", &placeholder)], None),
            (&[("package.json", "{")], None),
            (&[("pyproject.toml", "[tool.pytest.ini_options]\n")], Some("python3 -m pytest")),
            (&[("pyproject.toml", "[project]\n")], None),
            (&[("Makefile", "all:\n\ntest: all\n\tsh t.sh\n")], Some("make test")),
            (&[("Makefile", "check :\n\tsh t.sh\n")], Some("make check")),
            (&[("Makefile", "test := 1\ntests:\n")], None),
            (&[("README.md", "")], None),
            (&[], None),
        ];
        for (files, expected) in table {
            assert_eq!(found(files).as_deref(), expected, "{files:?}");
        }
    }

    fn environment(home: &Path) -> ProcessEnvironment {
        ProcessEnvironment::with([("HOME", home.to_str().unwrap())])
    }

    /// Answers each question in the same way, and counts them.
    struct Dialog(bool, Mutex<usize>);

    impl UserDialog for Dialog {
        fn show_message(&self, _text: &str) {}

        fn confirm(&self, _question: &str) -> Result<bool, AppError> {
            *self.1.lock().unwrap() += 1;
            Ok(self.0)
        }
    }

    #[test]
    fn each_project_is_asked_about_once_and_the_answer_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        for (answer, accepted) in [(true, Some("cargo test")), (false, None)] {
            let project = tempfile::tempdir().unwrap();
            fs::write(project.path().join("Cargo.toml"), "").unwrap();
            let dialog = Dialog(answer, Mutex::new(0));
            for _ in 0..2 {
                propose_check(&environment, project.path(), &dialog).unwrap();
                let kept = accepted_check(&environment, project.path()).unwrap();
                assert_eq!(kept.as_deref(), accepted);
            }
            assert_eq!(*dialog.1.lock().unwrap(), 1);
        }
    }

    #[test]
    fn an_unreadable_file_of_answers_is_named() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        let folder = environment.data_dir().unwrap();
        fs::create_dir_all(&folder).unwrap();
        for text in ["{", "{\"version\": 9, \"projects\": {}}"] {
            fs::write(folder.join(FILE), text).unwrap();
            let error = accepted_check(&environment, home.path()).unwrap_err();
            assert!(error.message.contains(FILE), "{}", error.message);
            assert_eq!(error.hint.as_deref(), Some("remove the file to be asked again"));
        }
    }
}
