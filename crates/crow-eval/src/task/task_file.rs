//! Tasks in folders with a `task.toml`.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use crow_core::config::{ConfigError, SourceText};
use serde::Deserialize;
use toml::Spanned;

use super::{EvalTask, TaskError, TaskHash, TaskLimits, task_folder::TaskFolder};
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
pub(super) fn read(folder: &TaskFolder, name: String) -> Result<EvalTask, TaskError> {
    let path = folder.path().join(TASK_FILE);
    let text = folder.read_text(TASK_FILE).map_err(TaskError::read(&path))?;
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
        folder: folder.path().to_owned(),
        hidden: folder.path().to_owned(),
        hash: TaskHash::unset(),
    };
    // A set-up line may use further files of the folder; the folder of a task is small.
    let others = folder
        .files(".", |path| path.starts_with(TASK_FILE))
        .and_then(|set| {
            let mut hasher = blake3::Hasher::new();
            set.hash(&mut hasher)?;
            Ok(*hasher.finalize().as_bytes())
        })
        .map_err(TaskError::read(folder.path()))?;
    task.with_hash(&others).map_err(TaskError::read(folder.path()))
}

fn prompt(raw: &RawTask, folder: &TaskFolder, source: SourceText<'_>) -> Result<String, TaskError> {
    let (text, span) = match (&raw.prompt, &raw.prompt_file) {
        (Some(prompt), None) => (prompt.get_ref().clone(), prompt.span()),
        (None, Some(file)) => {
            let path = inside(file, source)?;
            let text = folder.read_text(path).map_err(|error| {
                let path = folder.path().join(path);
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
    task: &TaskFolder,
    default: &str,
    source: SourceText<'_>,
) -> Result<FileSet, TaskError> {
    let (path, span) = match given {
        Some(given) => (inside(given, source)?, given.span()),
        None if task.contains(default) => (Path::new(default), 0..0),
        None => return Ok(FileSet::default()),
    };
    let listed = task.files(path, |_| false).map_err(|error| {
        let path = task.path().join(path);
        source.error(&span, format!("cannot read {}: {error}", path.display()))
    });
    Ok(listed?)
}

/// Returns a path of the task, which must be relative and lie inside its folder.
fn inside<'a>(path: &'a Spanned<PathBuf>, source: SourceText<'_>) -> Result<&'a Path, ConfigError> {
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.get_ref().components().all(is_inside) || path.get_ref().as_os_str().is_empty() {
        return Err(source.error(&path.span(), "the path must lie in the folder of the task"));
    }
    Ok(path.get_ref())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn task(files: &[(&str, &str)]) -> Result<EvalTask, String> {
        task_with_link(files, None)
    }

    /// Reads a task that may have a link, given as its path and its target.
    fn task_with_link(
        files: &[(&str, &str)],
        link: Option<(&str, &Path)>,
    ) -> Result<EvalTask, String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        if let Some((path, target)) = link {
            symlink(target, folder.path().join(path)).unwrap();
        }
        let opened = TaskFolder::open(folder.path()).unwrap();
        read(&opened, "t".to_owned()).map_err(|error| {
            error.to_string().replace(&format!("{}/", opened.path().display()), "")
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
    #[test]
    fn links_to_hidden_files_are_refused_wherever_a_task_has_them() {
        let keys = tempfile::tempdir().unwrap();
        fs::write(keys.path().join("id_rsa"), "prompt = 'x'\ncheck = 'x'\n").unwrap();
        fs::create_dir(keys.path().join("sub")).unwrap();
        let (key, sub) = (keys.path().join("id_rsa"), keys.path().join("sub"));
        let in_text = "prompt = 'x'\ncheck = 'x'\n";
        for (text, link, target, expected) in [
            ("prompt_file = 'k'\ncheck = 'x'\n", "k", &*key, "task.toml:1:15: cannot read k: "),
            (
                "prompt_file = 'd/id_rsa'\ncheck = 'x'\n",
                "d",
                keys.path(),
                "task.toml:1:15: cannot read d/id_rsa: ",
            ),
            (in_text, "files", keys.path(), "task.toml:1:1: cannot read files: "),
            (in_text, "check_files", keys.path(), "task.toml:1:1: cannot read check_files: "),
            (
                "prompt = 'x'\ncheck = 'x'\nfiles = 'd'\n",
                "d",
                &*sub,
                "task.toml:3:9: cannot read d: ",
            ),
            (
                "prompt = 'x'\ncheck = 'x'\nfiles = 'd/sub'\n",
                "d",
                keys.path(),
                "task.toml:3:9: cannot read d/sub: ",
            ),
            (
                "prompt = 'x'\ncheck = 'x'\ncheck_files = 'd/sub'\n",
                "d",
                keys.path(),
                "task.toml:3:15: cannot read d/sub: ",
            ),
        ] {
            let error = task_with_link(&[(TASK_FILE, text)], Some((link, target))).unwrap_err();
            let expected = format!("{expected}a link leads out of ");
            assert!(error.starts_with(&expected), "{text:?}: {error}");
        }
        let error = task_with_link(&[], Some((TASK_FILE, &key))).unwrap_err();
        assert!(error.starts_with("cannot read task.toml: a link leads out of "), "{error}");
    }

    #[test]
    fn links_to_other_files_of_the_task_are_followed() {
        let text = "prompt_file = 'p'\ncheck = 'c'\n";
        let files = [(TASK_FILE, text), ("texts/p.md", "do it"), ("texts/q", "")];
        let read = task_with_link(&files, Some(("p", Path::new("texts/p.md")))).unwrap();
        assert_eq!(read.prompt, "do it");
        let files = [(TASK_FILE, "prompt = 'x'\ncheck = 'c'\n"), files[1], files[2]];
        let read = task_with_link(&files, Some(("files", Path::new("texts")))).unwrap();
        assert_eq!(read.files.paths().collect::<Vec<_>>(), ["p.md", "q"].map(Path::new));
    }

    #[test]
    fn a_default_folder_that_leads_nowhere_is_not_taken_for_a_missing_one() {
        let files = [(TASK_FILE, "prompt = 'x'\ncheck = 'c'\n")];
        let error = task_with_link(&files, Some(("files", Path::new("nowhere")))).unwrap_err();
        assert!(error.starts_with("task.toml:1:1: cannot read files: No such file"), "{error}");
    }
}
