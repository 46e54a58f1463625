//! A set of tasks, read from paths in any of the supported forms.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::capability::Processes;

use super::{
    EvalTask, TaskError, TaskSelection,
    exercism::{self, CONFIG},
    harness_bench, human_eval,
    task_file::{self, TASK_FILE},
    task_folder::TaskFolder,
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
            let found = match harness_bench::package_at(&path)? {
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

/// Reads the tasks at a path without links that is not a package. Blocks.
fn at_path(path: &Path) -> Result<Vec<EvalTask>, TaskError> {
    if !path.is_dir() {
        return human_eval::read(path);
    }
    if let Some(form) = TaskForm::of_folder(path) {
        let folder = TaskFolder::open(path).map_err(TaskError::read(path))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        return Ok(vec![form.read(&folder, name)?]);
    }
    let set = TaskFolder::open(path).map_err(TaskError::read(path))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(TaskError::read(path))? {
        names.push(entry.map_err(TaskError::read(path))?.file_name());
    }
    names.sort();
    let mut tasks = Vec::new();
    for name in names {
        // Links to other tasks of the set are followed; what is no task may be anywhere.
        let inner = path.join(&name);
        let error = || TaskError::read(&inner);
        if inner.is_dir() {
            let Some(form) = TaskForm::of_folder(&inner) else { continue };
            let folder = set.resolve(&name).and_then(|real| TaskFolder::open(&real));
            tasks.push(form.read(&folder.map_err(error())?, &name)?);
        } else if inner.extension().is_some_and(|kind| kind == "jsonl") {
            tasks.extend(human_eval::read(&set.resolve(&name).map_err(error())?)?);
        }
    }
    if tasks.is_empty() {
        return Err(TaskError::NoTasks { path: path.to_owned() });
    }
    Ok(tasks)
}

/// The form of a task in a folder.
#[derive(Debug, Clone, Copy)]
enum TaskForm {
    TaskFile,
    Exercise,
}

impl TaskForm {
    /// Returns the form of the task that a folder is, by the file that makes it one. Nothing is read of it yet: it may
    /// be a named pipe, or a link that leads elsewhere.
    fn of_folder(folder: &Path) -> Option<Self> {
        let forms = [(TASK_FILE, Self::TaskFile), (CONFIG, Self::Exercise)];
        let found =
            forms.into_iter().find(|(file, _)| folder.join(file).symlink_metadata().is_ok());
        found.map(|(_, form)| form)
    }

    fn read(self, folder: &TaskFolder, name: &OsStr) -> Result<EvalTask, TaskError> {
        let name = name.to_string_lossy().into_owned();
        match self {
            Self::TaskFile => task_file::read(folder, name),
            Self::Exercise => exercism::read(folder, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes a set with a task, beside a folder that the set must not read.
    fn set_beside_others() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for task in ["set/one", "other"] {
            fs::create_dir_all(root.join(task)).unwrap();
            fs::write(root.join(task).join(TASK_FILE), "prompt = 'x'\ncheck = 'c'\n").unwrap();
        }
        fs::write(root.join("lines"), "").unwrap();
        let set = root.join("set");
        (folder, set)
    }

    fn names(set: &Path) -> Result<Vec<String>, String> {
        let tasks = at_path(set).map_err(|error| error.to_string())?;
        Ok(tasks.into_iter().map(|task| task.name).collect())
    }

    #[test]
    fn links_of_a_set_are_followed_to_its_own_tasks_only() {
        let (_folder, set) = set_beside_others();
        symlink("one", set.join("two")).unwrap();
        symlink("/usr", set.join("no-task")).unwrap();
        assert_eq!(names(&set).unwrap(), ["one", "two"]);
        for (target, link) in [("../other", "task"), ("../lines", "x.jsonl")] {
            let path = set.join(link);
            symlink(target, &path).unwrap();
            let error = names(&set).unwrap_err();
            let expected = format!("cannot read {}: a link leads out of ", path.display());
            assert!(error.starts_with(&expected), "{error}");
            fs::remove_file(path).unwrap();
        }
        let package = set.parent().unwrap().join("package").join(harness_bench::HARNESS_BENCH);
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("tasks.py"), "").unwrap();
        symlink(&package, set.join(harness_bench::HARNESS_BENCH)).unwrap();
        let error = harness_bench::package_at(&set).unwrap_err().to_string();
        assert!(error.contains(": a link leads out of "), "{error}");
    }

    #[test]
    fn a_named_pipe_in_place_of_a_file_of_tasks_is_refused() {
        for name in ["bad/task.toml", "bad/.meta/config.json", "bad.jsonl"] {
            let (_folder, set) = set_beside_others();
            let (path, mode) = (set.join(name), rustix::fs::Mode::from_raw_mode(0o600));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
            let expected = format!("cannot read {}: is not a regular file", path.display());
            assert_eq!(names(&set).unwrap_err(), expected);
        }
    }
}
