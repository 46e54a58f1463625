//! Tasks in folders with a `task.toml`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use crow_core::config::{ConfigError, SourceText};
use serde::Deserialize;
use toml::Spanned;

use super::{EvalTask, TaskError, TaskHash, TaskLimits};
use crate::folder_copy::FileSet;

/// Name of the file that makes a folder a task.
pub const TASK_FILE: &str = "task.toml";

/// Most seconds of a limit: a week.
const MOST_SECONDS: u64 = 7 * 24 * 3600;

/// The file as people write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    prompt: Option<Spanned<String>>,
    prompt_file: Option<Spanned<PathBuf>>,
    files: Option<Spanned<PathBuf>>,
    setup: Option<String>,
    check: Spanned<String>,
    check_files: Option<Spanned<PathBuf>>,
    timeout_s: Option<Spanned<u64>>,
    setup_timeout_s: Option<Spanned<u64>>,
    check_timeout_s: Option<Spanned<u64>>,
    max_steps: Option<Spanned<u32>>,
    #[serde(default)]
    tags: Vec<String>,
}

/// Reads the task in a folder. Blocks.
pub(super) fn read(folder: &Path, name: String) -> Result<EvalTask, TaskError> {
    let path = folder.join(TASK_FILE);
    let text = fs::read_to_string(&path).map_err(TaskError::read(&path))?;
    let source = SourceText { path: &path, text: &text };
    let raw: RawTask = toml::from_str(&text)
        .map_err(|error| source.syntax_error(error.span(), error.message()))?;
    let task = EvalTask {
        name,
        prompt: prompt(&raw, folder, source)?,
        tags: raw.tags.clone(),
        limits: limits(&raw, source)?,
        origin: path.display().to_string(),
        files: listed(raw.files.as_ref(), folder, "files", source)?,
        setup: raw.setup.clone(),
        check_files: listed(raw.check_files.as_ref(), folder, "check_files", source)?,
        check: check(&raw, source)?,
        variables: BTreeMap::new(),
        folder: folder.to_owned(),
        hidden: folder.to_owned(),
        hash: TaskHash::unset(),
    };
    // A set-up line may use further files of the folder; the folder of a task is small.
    let others = FileSet::of_folder(folder, |path| path.starts_with(TASK_FILE))
        .and_then(|set| {
            let mut hasher = blake3::Hasher::new();
            set.hash(&mut hasher)?;
            Ok(*hasher.finalize().as_bytes())
        })
        .map_err(TaskError::read(folder))?;
    task.with_hash(&others).map_err(TaskError::read(folder))
}

fn prompt(raw: &RawTask, folder: &Path, source: SourceText<'_>) -> Result<String, TaskError> {
    let (text, span) = match (&raw.prompt, &raw.prompt_file) {
        (Some(prompt), None) => (prompt.get_ref().clone(), prompt.span()),
        (None, Some(file)) => {
            let path = inside(file, folder, source)?;
            let text = fs::read_to_string(&path).map_err(|error| {
                source.error(&file.span(), format!("cannot read {}: {error}", path.display()))
            })?;
            (text, file.span())
        }
        (Some(_), Some(file)) => {
            return Err(source.error(&file.span(), "there is a prompt as well: keep one").into());
        }
        (None, None) => {
            let message = "it has no prompt: add `prompt` or `prompt_file`";
            return Err(ConfigError::of_file(source.path, message).into());
        }
    };
    if text.trim().is_empty() {
        return Err(source.error(&span, "the prompt is empty").into());
    }
    Ok(text)
}

fn check(raw: &RawTask, source: SourceText<'_>) -> Result<String, TaskError> {
    let line = raw.check.get_ref();
    if line.trim().is_empty() {
        return Err(source.error(&raw.check.span(), "the check is empty: it would pass").into());
    }
    Ok(line.clone())
}

fn limits(raw: &RawTask, source: SourceText<'_>) -> Result<TaskLimits, TaskError> {
    let defaults = TaskLimits::default();
    let time = |given: &Option<Spanned<u64>>, default: Duration| match given {
        None => Ok(default),
        Some(seconds) if (1..=MOST_SECONDS).contains(seconds.get_ref()) => {
            Ok(Duration::from_secs(*seconds.get_ref()))
        }
        Some(seconds) => {
            Err(source.error(&seconds.span(), format!("not between 1 and {MOST_SECONDS} seconds")))
        }
    };
    let max_steps = match &raw.max_steps {
        Some(steps) if *steps.get_ref() == 0 => {
            return Err(source.error(&steps.span(), "0 steps solve nothing").into());
        }
        steps => steps.as_ref().map(|steps| *steps.get_ref()),
    };
    Ok(TaskLimits {
        program: time(&raw.timeout_s, defaults.program)?,
        setup: time(&raw.setup_timeout_s, defaults.setup)?,
        check: time(&raw.check_timeout_s, defaults.check)?,
        max_steps,
    })
}

/// Lists the files of a folder of the task: the named one, or the default one if it exists.
fn listed(
    given: Option<&Spanned<PathBuf>>,
    task: &Path,
    default: &str,
    source: SourceText<'_>,
) -> Result<FileSet, TaskError> {
    let (folder, span) = match given {
        Some(given) => (inside(given, task, source)?, given.span()),
        None => (task.join(default), 0..0),
    };
    match FileSet::of_folder(&folder, |_| false) {
        Ok(set) => Ok(set),
        Err(error) if error.kind() == io::ErrorKind::NotFound && given.is_none() => {
            Ok(FileSet::default())
        }
        Err(error) => {
            let message = format!("cannot read {}: {error}", folder.display());
            Err(source.error(&span, message).into())
        }
    }
}

/// Returns a path of the task, which must be relative and lie inside its folder.
fn inside(
    path: &Spanned<PathBuf>,
    folder: &Path,
    source: SourceText<'_>,
) -> Result<PathBuf, ConfigError> {
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.get_ref().components().all(is_inside) || path.get_ref().as_os_str().is_empty() {
        return Err(source.error(&path.span(), "the path must lie in the folder of the task"));
    }
    Ok(folder.join(path.get_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(files: &[(&str, &str)]) -> Result<EvalTask, String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        read(folder.path(), "t".to_owned()).map_err(|error| {
            error.to_string().replace(&format!("{}/", folder.path().display()), "")
        })
    }

    #[test]
    fn a_task_is_read_with_its_defaults() {
        let read = task(&[(
            TASK_FILE,
            "prompt = \"Add.\"\ncheck = \"sh check.sh\"\ntimeout_s = 5\nmax_steps = 3\ntags = [\"x\"]\n",
        )])
        .unwrap();
        assert_eq!((read.prompt.as_str(), read.check.as_str()), ("Add.", "sh check.sh"));
        let expected = TaskLimits {
            program: Duration::from_secs(5),
            max_steps: Some(3),
            ..TaskLimits::default()
        };
        assert_eq!(read.limits, expected);
        assert_eq!(read.tags, ["x"]);
        assert!(read.files.is_empty() && read.check_files.is_empty());
    }

    #[test]
    fn every_part_of_a_task_changes_its_hash() {
        let base = [
            (TASK_FILE, "prompt_file = \"p.md\"\ncheck = \"c\"\nsetup = \"s\"\n"),
            ("p.md", "do it"),
            ("files/a", "1"),
            ("check_files/b", "2"),
            ("make.py", "3"),
        ];
        let hash = |files: &[(&str, &str)]| task(files).unwrap().hash;
        let original = hash(&base);
        assert_eq!(original, hash(&base));
        for index in 0..base.len() {
            let mut changed = base;
            let text = format!("{}\n#", base[index].1);
            changed[index].1 = &text;
            if index == 0 {
                changed[0].1 = "prompt_file = \"p.md\"\ncheck = \"other\"\nsetup = \"s\"\n";
            }
            assert_ne!(original, hash(&changed), "{}", base[index].0);
        }
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        for (text, expected) in [
            ("prompt = \"a\"\n", "task.toml:1:1: the key \"check\" is missing"),
            ("check = \"c\"\n", "task.toml: it has no prompt"),
            ("prompt = \"a\"\ncheck = \" \"\n", "task.toml:2:9: the check is empty"),
            ("prompt = \"\"\ncheck = \"c\"\n", "task.toml:1:10: the prompt is empty"),
            ("prompt = \"a\"\ncheck = \"c\"\ntimout_s = 3\n", "task.toml:3:1: unknown"),
            ("prompt = \"a\"\ncheck = \"c\"\ntimeout_s = 0\n", "task.toml:3:13: not between"),
            ("prompt = \"a\"\ncheck = \"c\"\nmax_steps = 0\n", "task.toml:3:13: 0 steps"),
            ("prompt = \"a\"\ncheck = \"c\"\nmax_steps = \"x\"\n", "task.toml:3:13: "),
            ("prompt = \"a\"\nprompt_file = \"p\"\ncheck = \"c\"\n", "task.toml:2:15: there is"),
            ("prompt_file = \"p\"\ncheck = \"c\"\n", "task.toml:1:15: cannot read p"),
            ("prompt = \"a\"\ncheck = \"c\"\nfiles = \"no\"\n", "task.toml:3:9: cannot read no"),
            ("prompt = \"a\"\ncheck = \"c\"\nfiles = \"../x\"\n", "task.toml:3:9: the path must"),
            ("prompt = \"a\"\ncheck = \n", "task.toml:2:"),
        ] {
            let error = task(&[(TASK_FILE, text)]).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
