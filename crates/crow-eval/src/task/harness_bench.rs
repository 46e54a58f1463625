//! Tasks of the Python package harness-bench: objects with `setup(folder)` and `verify(folder)`.
//!
//! The package is asked for its tasks by `python3` in the `PATH`; nothing of it is copied. A task that needs a Python
//! package which is missing fails in its set-up, and is not counted.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::{
    capability::{OutputLimits, ProcessEnd, ProcessSpec, Processes},
    tool::Progress,
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{EvalTask, TaskError, TaskHash, TaskLimits, TaskSelection, task_folder::TaskFolder};
use crate::folder_copy::FileSet;

/// Name of the package, which is the name of its folder.
pub const HARNESS_BENCH: &str = "harness_bench";

/// Prints each task as a line of JSON.
const LIST: &str = "import json\nfrom harness_bench.tasks import ALL_TASKS\nfor t in ALL_TASKS:\n    print(json.dumps({'id': t.id, 'prompt': t.prompt, 'tags': list(t.tags)}))\n";
const SETUP: &str = "PYTHONDONTWRITEBYTECODE=1 python3 -c 'import os, pathlib\nfrom harness_bench.tasks import get_task\nget_task(os.environ[\"TASK_ID\"]).setup(pathlib.Path.cwd())'";
const CHECK: &str = "PYTHONDONTWRITEBYTECODE=1 python3 -c 'import os, pathlib, sys\nfrom harness_bench.tasks import get_task\nresult = get_task(os.environ[\"TASK_ID\"]).verify(pathlib.Path.cwd())\nprint(result.message)\nsys.exit(0 if result.passed else 1)'";
/// Time for listing the tasks.
const LIST_TIME: Duration = Duration::from_mins(1);
/// Maximum size of the list in bytes.
const LONGEST_LIST: usize = 16 * 1024 * 1024;

#[derive(Debug, Deserialize)]
struct RawHarnessTask {
    id: String,
    prompt: String,
    #[serde(default)]
    tags: Vec<String>,
}

/// Returns the folder of the package if the path, in which there are no links, is it or contains it.
pub(super) fn package_at(path: &Path) -> Result<Option<PathBuf>, TaskError> {
    let is_package = |path: &Path| path.join("tasks.py").is_file() && path.ends_with(HARNESS_BENCH);
    if is_package(path) {
        return Ok(Some(path.to_owned()));
    }
    let inner = path.join(HARNESS_BENCH);
    if !is_package(&inner) {
        return Ok(None);
    }
    let found = TaskFolder::open(path).and_then(|folder| folder.resolve(HARNESS_BENCH));
    found.map(Some).map_err(TaskError::read(inner))
}

/// Reads the chosen tasks of the package.
pub(super) async fn read(
    package: &Path,
    selection: &TaskSelection,
    processes: &dyn Processes,
) -> Result<Vec<EvalTask>, TaskError> {
    let search_path = package.parent().unwrap_or(Path::new("/")).to_owned();
    let variables = BTreeMap::from([
        ("PYTHONPATH".to_owned(), search_path.display().to_string()),
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ]);
    let spec = ProcessSpec {
        argv: ["python3", "-c", LIST].map(str::to_owned).to_vec(),
        cwd: search_path.clone(),
        env: variables.clone(),
        timeout: LIST_TIME,
        output: OutputLimits { head: LONGEST_LIST, tail: 0, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: true,
    };
    let outcome = processes
        .run(spec, CancellationToken::new())
        .await
        .map_err(|source| TaskError::Start { package: package.to_owned(), source })?;
    let failed = |reason: String| TaskError::Package { package: package.to_owned(), reason };
    let printed = String::from_utf8_lossy(&outcome.output.head).into_owned();
    if outcome.end != ProcessEnd::Exited(0) || outcome.output.omitted() > 0 {
        let last = printed.lines().last().unwrap_or("no output").to_owned();
        return Err(failed(last));
    }
    let sources = FileSet::of_folder(package, |path| {
        path.starts_with("__pycache__") || path.extension().is_some_and(|kind| kind == "pyc")
    });
    let package_hash = sources
        .and_then(|sources| {
            let mut hasher = blake3::Hasher::new();
            sources.hash(&mut hasher)?;
            Ok(*hasher.finalize().as_bytes())
        })
        .map_err(TaskError::read(package))?;
    let mut tasks = Vec::new();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let raw: RawHarnessTask =
            serde_json::from_str(line).map_err(|error| failed(error.to_string()))?;
        if !selection.contains(&raw.id) {
            continue;
        }
        let mut variables = variables.clone();
        variables.insert("TASK_ID".to_owned(), raw.id.clone());
        let others = [&package_hash[..], raw.id.as_bytes()].concat();
        let task = EvalTask {
            origin: format!("{} ({})", package.display(), raw.id),
            name: raw.id,
            prompt: raw.prompt,
            tags: raw.tags,
            limits: TaskLimits::default(),
            files: FileSet::default(),
            setup: Some(SETUP.to_owned()),
            check_files: FileSet::default(),
            check: CHECK.to_owned(),
            variables,
            folder: package.to_owned(),
            hidden: package.to_owned(),
            hash: TaskHash::unset(),
        };
        tasks.push(task.with_hash(&others).map_err(TaskError::read(package))?);
    }
    Ok(tasks)
}
