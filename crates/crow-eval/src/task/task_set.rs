//! A set of tasks, read from paths in any of the supported forms.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::capability::Processes;

use super::{
    EvalTask, TaskError, TaskSelection,
    exercism::{self, CONFIG},
    harness_bench::{self, is_folder},
    human_eval,
    task_file::{self, TASK_FILE},
};

/// Tasks with different names, sorted by path and name.
#[derive(Debug, Clone, Default)]
pub struct TaskSet(Vec<EvalTask>);

impl TaskSet {
    /// Reads the chosen tasks at the paths: folders of a task, folders of such folders, files with JSON lines, or the
    /// package harness-bench, which `processes` lists.
    ///
    /// # Errors
    /// Fails if a path has no tasks, a task has a mistake, or two tasks have the same name.
    pub async fn read(
        paths: &[PathBuf],
        selection: &TaskSelection,
        processes: &dyn Processes,
    ) -> Result<Self, TaskError> {
        let mut tasks = Vec::new();
        for path in paths {
            let path = path.canonicalize().map_err(TaskError::read(path))?;
            let found = match harness_bench::package_at(&path) {
                Some(package) => harness_bench::read(&package, selection, processes).await?,
                None => at_path(&path)?,
            };
            tasks.extend(found.into_iter().filter(|task| selection.contains(&task.name)));
        }
        let mut origins: BTreeMap<&str, &str> = BTreeMap::new();
        for task in &tasks {
            if let Some(first) = origins.insert(&task.name, &task.origin) {
                return Err(TaskError::SameName {
                    name: task.name.clone(),
                    first: first.to_owned(),
                    second: task.origin.clone(),
                });
            }
        }
        Ok(Self(tasks))
    }

    /// Ends trials after this time, if their tasks give them more.
    pub fn limit_time(&mut self, time: Duration) {
        for task in &mut self.0 {
            task.limits.program = task.limits.program.min(time);
        }
    }

    /// Keeps the first tasks only.
    pub fn truncate(&mut self, limit: usize) {
        self.0.truncate(limit);
    }

    /// Returns the tasks.
    pub fn tasks(&self) -> &[EvalTask] {
        &self.0
    }

    /// Returns the tasks.
    pub fn into_tasks(self) -> Vec<EvalTask> {
        self.0
    }
}

/// Reads the tasks at a path that is not a package. Blocks.
fn at_path(path: &Path) -> Result<Vec<EvalTask>, TaskError> {
    if !is_folder(path) {
        return human_eval::read(path);
    }
    if let Some(task) = in_folder(path)? {
        return Ok(vec![task]);
    }
    let entries = fs::read_dir(path).map_err(TaskError::read(path))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(TaskError::read(path))?.path());
    }
    paths.sort();
    let mut tasks = Vec::new();
    for inner in paths {
        let is_lines = inner.extension().is_some_and(|kind| kind == "jsonl");
        if is_folder(&inner) {
            tasks.extend(in_folder(&inner)?);
        } else if is_lines {
            tasks.extend(human_eval::read(&inner)?);
        }
    }
    if tasks.is_empty() {
        return Err(TaskError::NoTasks { path: path.to_owned() });
    }
    Ok(tasks)
}

/// Reads the task of a folder, if it is one.
fn in_folder(folder: &Path) -> Result<Option<EvalTask>, TaskError> {
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    if folder.join(TASK_FILE).is_file() {
        return task_file::read(folder, name).map(Some);
    }
    if folder.join(CONFIG).is_file() {
        return exercism::read(folder, name).map(Some);
    }
    Ok(None)
}
